package snapshot

import (
	"context"
	"fmt"
	"strconv"

	"github.com/steadyfleet/steady/internal/core/clock"
	spec "github.com/steadyfleet/steady/internal/core/container"
	"github.com/steadyfleet/steady/internal/docker/daemon"
	"github.com/steadyfleet/steady/internal/docker/fault"
	"github.com/steadyfleet/steady/internal/docker/ledger"
	"github.com/steadyfleet/steady/reconcile/engine"
)

// Codes of snapshots.
const (
	CodeTake         engine.Code = "snapshot_not_taken"
	CodeSettling     engine.Code = "workspace_not_settled"
	CodeNotRunning   engine.Code = "workspace_not_running"
	CodeUnfinished   engine.Code = "snapshot_unfinished"
	CodeLost         engine.Code = "snapshot_lost"
	CodeRetagged     engine.Code = "snapshot_tag_moved"
	CodeUnrecorded   engine.Code = "snapshot_not_recorded"
	CodeNameTaken    engine.Code = "snapshot_name_taken"
	CodeDiskPressure engine.Code = "disk_pressure"
	CodeSecretFile   engine.Code = "snapshot_holds_secret_file"
	CodeSecrets      engine.Code = "workspace_secrets_unknown"
	CodeLeftovers    engine.Code = "snapshot_not_scrubbed"
	CodeLeft         engine.Code = "image_left_to_collection"
)

// Take captures a container. Tag gives the snapshot its name again; Record writes
// down one that is there; Sweep removes what a take left that was cut off.
type (
	Take struct {
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
func (Take) ActionName() string   { return "take" }
func (Tag) ActionName() string    { return "tag" }
func (Record) ActionName() string { return "record" }
func (Sweep) ActionName() string  { return "sweep" }

// Observed is what is known of a snapshot.
type Observed struct {
	Ref  string
	ID   string // what the engine names so; empty: nothing
	Ours bool   // it is this snapshot of this host
	Take int64  // of ID, if it is ours
	// Taken is the newest take that the ledger knows; TakenThere says that the
	// engine still has its image.
	Known      bool
	Taken      ledger.Image
	TakenThere bool
	Unfinished bool // a take was cut off and left images
	Settled    bool
	Container  string // the running one of the workspace; empty: none
	Short      string // why there is no room
}

// Observe looks for the image and for the workspace's running container.
func (m *Manager) Observe(ctx context.Context, r engine.Resource[Desired]) (Observed, error) {
	n := &r.Desired.Spec
	o := Observed{Ref: n.EngineRef(m.o.Owner.Title)}
	left, err := m.unfinished(ctx, n)
	if err != nil {
		return o, fault.Of(ctx, err)
	}
	if o.Unfinished = len(left) > 0; o.Unfinished || r.Retire {
		return o, nil
	}
	if o.Taken, o.Known, err = m.o.Ledger.Newest(ctx, spec.KindSnapshot, n.Name, o.Ref); err != nil {
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
	case !daemon.NotFound(err):
		return o, fault.Of(ctx, err)
	}
	if o.Known {
		_, err := m.o.Engine.ImageInspect(ctx, o.Taken.ID)
		if err != nil && !daemon.NotFound(err) {
			return o, fault.Of(ctx, err)
		}
		o.TakenThere = err == nil
	}
	if o.done(n) {
		return o, nil
	}
	o.Settled = m.o.Settled(n.Workspace)
	if o.Container, err = m.o.Running(ctx, n.Workspace); err != nil {
		return o, fault.Of(ctx, err)
	}
	if m.o.Space != nil {
		o.Short, err = m.o.Space.Short(ctx)
	}
	return o, fault.Of(ctx, err)
}

func (o *Observed) done(n *spec.Snapshot) bool {
	return o.Known && o.TakenThere && o.Taken.Take == n.Take && o.ID == o.Taken.ID
}

func (m *Manager) ours(labels map[string]string, n *spec.Snapshot) bool {
	return labels[labelOwner] == m.o.Owner.ID() && labels[labelName] == n.Name && labels[labelWorkspace] == n.Workspace
}

// soon is when something is looked at again that is on its way.
const soon = 5 * clock.Second

// Decide takes the snapshot once for each take. One that was removed from outside
// is not taken again: it would hold something else under the same name.
func (m *Manager) Decide(v engine.View[Desired, Observed]) engine.Decision {
	o, n := &v.Observed, &v.Resource.Desired.Spec
	wait := func(code engine.Code, format string, args ...any) engine.Decision {
		return engine.Wait(v.Now.Add(soon), engine.Because(code, fmt.Sprintf(format, args...)))
	}
	switch taken := o.Known && o.Taken.Take == n.Take; {
	case o.Unfinished:
		return engine.Do(Sweep{}, engine.Because(CodeUnfinished, "images of a take that was cut off may hold secrets"))
	case v.Resource.Retire:
		return engine.IsConverged(engine.Because(CodeLeft, ""))
	case v.Resource.Desired.Parked, o.done(n):
		return engine.IsConverged(engine.Reason{})
	case taken && o.TakenThere:
		return engine.Do(Tag{o.Taken.ID}, engine.Because(CodeRetagged, o.Ref))
	case taken:
		return engine.Wait(0, engine.Because(CodeLost, fmt.Sprintf("take %d of %s was removed from outside and cannot be made again: ask for another take", n.Take, n.Name)))
	case !o.Known && o.ID != "" && o.Ours && o.Take == n.Take:
		return engine.Do(Record{o.ID}, engine.Because(CodeUnrecorded, ""))
	case o.ID != "" && !o.Ours && !(o.Known && o.Taken.ID == o.ID):
		return wait(CodeNameTaken, "%s names an image that is not this snapshot: remove it, or give the snapshot another ref", o.Ref)
	case !o.Settled:
		return wait(CodeSettling, "workspace %s is being deployed", n.Workspace)
	case o.Container == "":
		return wait(CodeNotRunning, "workspace %s does not run", n.Workspace)
	case o.Short != "":
		return wait(CodeDiskPressure, "%s", o.Short)
	}
	return engine.Do(Take{o.Container, n.Take}, engine.Because(CodeTake, fmt.Sprintf("take %d", n.Take)))
}
