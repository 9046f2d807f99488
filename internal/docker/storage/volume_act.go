package storage

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/moby/moby/api/types/volume"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/diff"
	"github.com/steadyfleet/steady/internal/core/spec"
	"github.com/steadyfleet/steady/internal/docker/convert"
	"github.com/steadyfleet/steady/internal/docker/dockerapi"
	"github.com/steadyfleet/steady/reconcile"
	"github.com/steadyfleet/steady/reconcile/engine"
)

// Codes of volumes.
const (
	CodeMissing         engine.Code = "volume-missing"
	CodeRecreated       engine.Code = "volume-recreated" // what was in it is lost
	CodeExternalMissing engine.Code = "external-volume-missing"
	CodeNameInUse       engine.Code = "volume-name-taken"
	CodeDiffers         engine.Code = "volume-differs"
	CodeLabels          engine.Code = "volume-labels-differ"
	CodeKept            engine.Code = "volume-kept"
	CodeUsed            engine.Code = "volume-in-use"
	CodeRemoving        engine.Code = "volume-removed-with-data"
)

// labelAsked holds the declaration that a volume was made from.
const labelAsked = convert.Prefix + "asked"

// Create makes the volume; Lost means that there was one before, with data.
// Remove takes it away with its data.
type (
	Create struct {
		Lost bool `json:"lost,omitempty"`
	}
	Remove struct{}
)

// ActionName names the actions.
func (Create) ActionName() string { return "create" }
func (Remove) ActionName() string { return "remove" }

// VolumeObserved is what the engine has under a volume's name.
type VolumeObserved struct {
	Title  string
	Exists bool
	Owned  bool
	Driver string
	// Differences are those to the declaration, of a volume of this host.
	Differences []diff.Difference
	Users       []string // containers that mount it, when it is to go
	// AllowDelete means that the signed declaration lets volumes, or this one of a session, go.
	AllowDelete bool
	// Session means that it was made for the session that owns it. Binned is until when it is in
	// the bin, and Former are volumes of earlier sessions of that name.
	Session bool
	Binned  clock.Instant
	Former  []string
}

// Observe reads the volume, and who uses it when it is to go.
func (m *Volumes) Observe(ctx context.Context, r engine.Resource[DesiredVolume]) (VolumeObserved, error) {
	n := r.Desired.Spec
	o := VolumeObserved{Title: n.EngineName(m.o.Owner.Title), AllowDelete: m.o.AllowDelete()}
	v, err := m.o.Engine.VolumeInspect(ctx, o.Title)
	if dockerapi.NotFound(err) {
		return o, nil
	}
	if err != nil {
		return o, dockerapi.ErrorOf(ctx, err)
	}
	o.Exists, o.Driver, o.Owned = true, v.Driver, m.owns(&v, n.Name)
	if o.Owned && !r.Delete {
		o.Differences = m.compare(&n, &v)
	}
	if o.Owned {
		if err := m.observeSession(ctx, &r, &v, &o); err != nil {
			return o, dockerapi.ErrorOf(ctx, err)
		}
	}
	if r.Delete && o.Owned && o.AllowDelete {
		o.Users, err = m.users(ctx, o.Title)
	}
	return o, dockerapi.ErrorOf(ctx, err)
}

func (m *Volumes) owns(v *volume.Volume, name string) bool {
	return m.o.Owner.Owns(v.Labels, spec.KindVolume, name) && m.o.Owner.HasPrefix(v.Name) && v.Labels[convert.LabelTitle] == v.Name
}

// users lists the containers, running or not, that mount a volume.
func (m *Volumes) users(ctx context.Context, title string) ([]string, error) {
	all, err := m.o.Engine.ContainerList(ctx, true)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, c := range all {
		for _, x := range c.Mounts {
			if x.Name == title {
				out = append(out, strings.TrimPrefix(cmp.Or(slices.MinFunc(append(c.Names, c.ID), byLength), c.ID), "/"))
				break
			}
		}
	}
	slices.Sort(out)
	return out, nil
}

func byLength(a, b string) int { return cmp.Compare(len(a), len(b)) }

// again is when a volume is checked again that waits for people.
const again = 30 * time.Second

// Decide makes what is missing and never changes what is there.
func (m *Volumes) Decide(v engine.View[DesiredVolume, VolumeObserved]) engine.Decision {
	o, n := v.Observed, &v.Resource.Desired.Spec
	wait := func(code engine.Code, format string, args ...any) engine.Decision {
		return engine.WaitUntil(v.Now.Add(again), engine.NewReason(code, fmt.Sprintf(format, args...)))
	}
	converged := engine.IsConverged(engine.Reason{})
	switch {
	case v.Resource.Delete:
		return retire(o, n, wait)
	case v.Resource.Desired.Suspended:
		return converged
	case n.External != "" && !o.Exists:
		return wait(CodeExternalMissing, "volume %s is declared external and is not there: create it (docker volume create %s)", o.Title, o.Title)
	case n.External != "":
		return converged
	case !o.Exists && v.Resource.Status.ConvergedGeneration > 0:
		return engine.Do(Create{Lost: true}, engine.NewReason(CodeRecreated, "volume "+o.Title+" was removed from outside: it is made again, and the data that was in it is lost"))
	case !o.Exists:
		return engine.Do(Create{}, engine.NewReason(CodeMissing, ""))
	case !o.Owned:
		return wait(CodeNameInUse, "the name %s belongs to a volume that is not this host's: declare it external, or give the declared one another title", o.Title)
	}
	switch {
	case o.Binned != 0:
		return engine.Do(Reclaim{}, engine.NewReason(CodeWanted, "the session has volume "+o.Title+" again"))
	case len(o.Former) > 0:
		return engine.Do(RetireFormer{o.Former}, engine.NewReason(CodeFormer, "an earlier session of this name left "+strings.Join(o.Former, ", ")))
	case len(o.Differences) == 0:
		return converged
	}
	if labelsOnly(o.Differences) {
		return engine.IsConverged(engine.NewReason(CodeLabels, "volume "+o.Title+" keeps its labels: "+diff.Summary(o.Differences)))
	}
	return wait(CodeDiffers, "volume %s is not as declared and keeps its data: %s", o.Title, diff.Summary(o.Differences))
}

// retire leaves the data unless the declaration allows to remove it.
func retire(o VolumeObserved, n *spec.Volume, wait func(engine.Code, string, ...any) engine.Decision) engine.Decision {
	switch {
	case n.External != "" || !o.Exists || !o.Owned:
		return engine.IsConverged(engine.Reason{})
	case o.Session && n.Keep > 0 && o.Binned == 0:
		return engine.Do(Keep{}, engine.NewReason(CodeKeeping, fmt.Sprintf("volume %s is kept for %s", o.Title, n.Keep)))
	case o.Session && n.Keep > 0:
		return engine.IsConverged(engine.NewReason(CodeBinned, "volume "+o.Title+" stays with its data until "+o.Binned.String()+"; steady session bin lists it"))
	case !o.AllowDelete:
		return engine.IsConverged(engine.NewReason(CodeKept, "volume "+o.Title+" stays with its data: allowVolumeDelete would remove it"))
	case len(o.Users) > 0:
		return wait(CodeUsed, "volume %s is used by %s; it goes after them", o.Title, strings.Join(o.Users, ", "))
	}
	return engine.Do(Remove{}, engine.NewReason(CodeRemoving, ""))
}

// compare lists how a volume differs from the declaration.
func (m *Volumes) compare(want *spec.Volume, v *volume.Volume) []diff.Difference {
	in := convert.Inputs{Digest: m.o.Digest}
	form := func(n *spec.Volume) diff.Form { return convert.Volume(n, n.EngineName(m.o.Owner.Title), in) }
	return convert.CompareMade(want, form, convert.ObservedVolume(v, in), v.Labels[labelAsked], rules{})
}

// rules are those of volumes, with one more: this host owns labels and options.
type rules struct{ diff.VolumeRules }

// OwnsExtra implements diff.Rules.
func (rules) OwnsExtra(field string) bool { return strings.Contains(field, "/") }

func labelsOnly(ds []diff.Difference) bool {
	for _, d := range ds {
		if !strings.HasPrefix(d.Field, "label/") {
			return false
		}
	}
	return true
}

// Act makes the volume, or removes it after another check at whose it is.
func (m *Volumes) Act(ctx context.Context, r engine.Resource[DesiredVolume], a engine.Action) error {
	n := r.Desired.Spec
	title := n.EngineName(m.o.Owner.Title)
	switch a := a.(type) {
	case Keep:
		return m.o.Bin.put(binned(&n, title, m.o.Wall()))
	case Reclaim:
		m.binning.Lock()
		defer m.binning.Unlock()
		return m.o.Bin.take(title)
	case RetireFormer:
		return dockerapi.ErrorOf(ctx, m.retireFormer(ctx, &n, a.Titles))
	case Create:
		return dockerapi.ErrorOf(ctx, m.create(ctx, &n, title))
	case Remove:
		return dockerapi.ErrorOf(ctx, m.remove(ctx, &n, title))
	}
	return reconcile.Terminal(engine.CodeBadIntent, fmt.Errorf("a volume has no action %s", a.ActionName()))
}

// create asks for the volume. An engine gives back one that is there already,
// whatever is in it: the next check says whose it is.
func (m *Volumes) create(ctx context.Context, n *spec.Volume, title string) error {
	made, err := json.Marshal(n)
	if err != nil {
		return err
	}
	own := m.o.Owner.Labels(spec.KindVolume, n.Name, title)
	own[labelAsked] = string(made)
	if n.Owner != spec.Operators {
		own[convert.LabelSession] = string(n.Owner)
	}
	// The answer is waited for: what is no longer wanted is not gone before that.
	_, err = m.o.Engine.VolumeCreate(context.WithoutCancel(ctx), convert.CreateVolume(n, title, own))
	return err
}

func (m *Volumes) remove(ctx context.Context, n *spec.Volume, title string) error {
	v, err := m.o.Engine.VolumeInspect(ctx, title)
	switch {
	case dockerapi.NotFound(err):
		return nil
	case err != nil:
		return err
	case !m.owns(&v, n.Name):
		return fmt.Errorf("volume %s is no longer this host's", title)
	case !m.o.AllowDelete() && !(m.o.AllowSessions() && n.Owner != spec.Operators && v.Labels[convert.LabelSession] == string(n.Owner)):
		return reconcile.Blocked(engine.NewReason(CodeKept, "volumes may not be removed any more"))
	}
	if err := m.o.Engine.VolumeRemove(ctx, title); !dockerapi.NotFound(err) {
		return err
	}
	return nil
}

// Orphans lists this host's volumes that no row declares; those that were kept
// for their data are among them.
func (m *Volumes) Orphans(ctx context.Context) ([]engine.Ref, error) {
	list := func(labels ...string) ([]volume.Volume, error) { return m.o.Engine.VolumeList(ctx, labels...) }
	return convert.Orphans(ctx, m.o.Owner, spec.KindVolume, m.o.Declared, list, func(v *volume.Volume) (map[string]string, bool) {
		_, kept := m.o.Bin.Find(v.Name)
		return v.Labels, !kept && m.owns(v, v.Labels[convert.LabelName])
	})
}
