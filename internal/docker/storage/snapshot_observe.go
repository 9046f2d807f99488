package storage

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/steadyfleet/steady/internal/core/spec"
	"github.com/steadyfleet/steady/internal/docker/dockerapi"
	"github.com/steadyfleet/steady/internal/docker/image"
	"github.com/steadyfleet/steady/reconcile/engine"
)

// Codes of snapshots.
const (
	CodeNotCaptured    engine.Code = "snapshot-not-taken"
	CodeSettling       engine.Code = "workspace-not-settled"
	CodeNotRunning     engine.Code = "workspace-not-running"
	CodeUnfinished     engine.Code = "snapshot-unfinished"
	CodeLost           engine.Code = "snapshot-lost"
	CodeRetagged       engine.Code = "snapshot-tag-moved"
	CodeUnrecorded     engine.Code = "snapshot-not-recorded"
	CodeImageNameInUse engine.Code = "snapshot-name-taken"
	CodeDiskPressure   engine.Code = "disk-pressure"
	CodeSecretFile     engine.Code = "snapshot-holds-secret-file"
	CodeSecrets        engine.Code = "workspace-secrets-unknown"
	CodeLeftovers      engine.Code = "snapshot-not-scrubbed"
	CodeLeft           engine.Code = "image-left-to-collection"
)

// Take captures a container. Tag gives the snapshot its name again; Record writes
// down one that is there; Sweep removes what a take left that was cut off.
type (
	Capture struct {
		Container string `json:"container"`
		Take      int64  `json:"take"`
	}
	Tag struct {
		ID string `json:"id"`
	}
	Record struct {
		ID string `json:"id"`
	}
	Sweep struct{}
)

// ActionName names the actions.
func (Capture) ActionName() string { return "take" }
func (Tag) ActionName() string     { return "tag" }
func (Record) ActionName() string  { return "record" }
func (Sweep) ActionName() string   { return "sweep" }

// SnapshotObserved is what is known of a snapshot.
type SnapshotObserved struct {
	Ref  string
	ID   string // what the engine names so; empty: nothing
	Ours bool   // it is this snapshot of this host
	Take int64  // of ID, if it is ours
	// Taken is the newest take that the ledger knows; TakenThere means that the
	// engine still has its image.
	Known       bool
	Newest      image.Image
	NewestThere bool
	Unfinished  bool // a take was cut off and left images
	Deployed    bool
	Container   string // the running one of the workspace; empty: none
	Short       string // why there is no room
}

// Observe searches for the image and for the workspace's running container.
func (m *Snapshots) Observe(ctx context.Context, r engine.Resource[DesiredSnapshot]) (SnapshotObserved, error) {
	n := &r.Desired.Spec
	o := SnapshotObserved{Ref: n.EngineRef(m.o.Owner.Title)}
	left, err := m.unfinished(ctx, n)
	if err != nil {
		return o, dockerapi.ErrorOf(ctx, err)
	}
	if o.Unfinished = len(left) > 0; o.Unfinished || r.Delete {
		return o, nil
	}
	if o.Newest, o.Known, err = m.o.Ledger.Newest(ctx, spec.KindSnapshot, n.Name, o.Ref); err != nil {
		return o, err
	}
	seen, err := m.o.Engine.ImageInspect(ctx, o.Ref)
	switch {
	case err == nil:
		o.ID = seen.ID
		if seen.Config != nil {
			o.Ours = m.ours(seen.Config.Labels, n)
			o.Take, _ = strconv.ParseInt(seen.Config.Labels[labelTake], 10, 64) // none is no take of ours
		}
	case !dockerapi.NotFound(err):
		return o, dockerapi.ErrorOf(ctx, err)
	}
	if o.Known {
		_, err := m.o.Engine.ImageInspect(ctx, o.Newest.ID)
		if err != nil && !dockerapi.NotFound(err) {
			return o, dockerapi.ErrorOf(ctx, err)
		}
		o.NewestThere = err == nil
	}
	if o.done(n) {
		return o, nil
	}
	o.Deployed = m.o.Deployed(n.Workspace)
	if o.Container, err = m.o.Running(ctx, n.Workspace); err != nil {
		return o, dockerapi.ErrorOf(ctx, err)
	}
	if m.o.Space != nil {
		o.Short, err = m.o.Space.Short(ctx)
	}
	return o, dockerapi.ErrorOf(ctx, err)
}

func (o *SnapshotObserved) done(n *spec.Snapshot) bool {
	return o.Known && o.NewestThere && o.Newest.Take == n.Take && o.ID == o.Newest.ID
}

func (m *Snapshots) ours(labels map[string]string, n *spec.Snapshot) bool {
	return labels[labelOwner] == m.o.Owner.ID() && labels[labelName] == n.Name && labels[labelWorkspace] == n.Workspace
}

// soon is when something is checked again that is on its way.
const soon = 5 * time.Second

// Decide takes the snapshot once for each take. One that was removed from outside
// is not taken again: it would hold something else under the same name.
func (m *Snapshots) Decide(v engine.View[DesiredSnapshot, SnapshotObserved]) engine.Decision {
	o, n := &v.Observed, &v.Resource.Desired.Spec
	wait := func(code engine.Code, format string, args ...any) engine.Decision {
		return engine.WaitUntil(v.Now.Add(soon), engine.NewReason(code, fmt.Sprintf(format, args...)))
	}
	switch taken := o.Known && o.Newest.Take == n.Take; {
	case o.Unfinished:
		return engine.Do(Sweep{}, engine.NewReason(CodeUnfinished, "images of a take that was cut off may hold secrets"))
	case v.Resource.Delete:
		return engine.IsConverged(engine.NewReason(CodeLeft, ""))
	case v.Resource.Desired.Suspended, o.done(n):
		return engine.IsConverged(engine.Reason{})
	case taken && o.NewestThere:
		return engine.Do(Tag{o.Newest.ID}, engine.NewReason(CodeRetagged, o.Ref))
	case taken:
		return engine.Wait(engine.NewReason(CodeLost, fmt.Sprintf("take %d of %s was removed from outside and cannot be made again: ask for another take", n.Take, n.Name)))
	case !o.Known && o.ID != "" && o.Ours && o.Take == n.Take:
		return engine.Do(Record{o.ID}, engine.NewReason(CodeUnrecorded, ""))
	case o.ID != "" && !o.Ours && !(o.Known && o.Newest.ID == o.ID):
		return wait(CodeImageNameInUse, "%s names an image that is not this snapshot: remove it, or give the snapshot another ref", o.Ref)
	case !o.Deployed:
		return wait(CodeSettling, "workspace %s is being deployed", n.Workspace)
	case o.Container == "":
		return wait(CodeNotRunning, "workspace %s does not run", n.Workspace)
	case o.Short != "":
		return wait(CodeDiskPressure, "%s", o.Short)
	}
	return engine.Do(Capture{o.Container, n.Take}, engine.NewReason(CodeNotCaptured, fmt.Sprintf("take %d", n.Take)))
}
