package volume

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/moby/moby/api/types/volume"

	"github.com/steadyfleet/steady/internal/core/clock"
	spec "github.com/steadyfleet/steady/internal/core/container"
	"github.com/steadyfleet/steady/internal/core/diff"
	"github.com/steadyfleet/steady/internal/docker/daemon"
	"github.com/steadyfleet/steady/internal/docker/fault"
	"github.com/steadyfleet/steady/internal/docker/form"
	"github.com/steadyfleet/steady/internal/docker/ownership"
	"github.com/steadyfleet/steady/reconcile"
	"github.com/steadyfleet/steady/reconcile/engine"
)

// Codes of volumes.
const (
	CodeMissing         engine.Code = "volume_missing"
	CodeRecreated       engine.Code = "volume_recreated" // what was in it is lost
	CodeExternalMissing engine.Code = "external_volume_missing"
	CodeNameTaken       engine.Code = "volume_name_taken"
	CodeDiffers         engine.Code = "volume_differs"
	CodeLabels          engine.Code = "volume_labels_differ"
	CodeKept            engine.Code = "volume_kept"
	CodeUsed            engine.Code = "volume_in_use"
	CodeRemoving        engine.Code = "volume_removed_with_data"
)

// labelAsked holds the declaration that a volume was made from.
const labelAsked = ownership.Prefix + "asked"

// Create makes the volume; Lost says that there was one before, with data.
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

// Observed is what the engine has under a volume's name.
type Observed struct {
	Title  string
	Exists bool
	Owned  bool
	Driver string
	// Differences are those to the declaration, of a volume of this host.
	Differences []diff.Difference
	Users       []string // containers that mount it, when it is to go
	// AllowDelete says that the signed declaration lets volumes go.
	AllowDelete bool
}

// Observe reads the volume, and who uses it when it is to go.
func (m *Manager) Observe(ctx context.Context, r engine.Resource[Desired]) (Observed, error) {
	n := r.Desired.Spec
	o := Observed{Title: n.EngineName(m.owner.Title), AllowDelete: m.allow()}
	v, err := m.engine.VolumeInspect(ctx, o.Title)
	if daemon.NotFound(err) {
		return o, nil
	}
	if err != nil {
		return o, fault.Of(ctx, err)
	}
	o.Exists, o.Driver, o.Owned = true, v.Driver, m.owns(&v, n.Name)
	if o.Owned && !r.Retire {
		o.Differences = m.compare(&n, &v)
	}
	if r.Retire && o.Owned && o.AllowDelete {
		o.Users, err = m.users(ctx, o.Title)
	}
	return o, fault.Of(ctx, err)
}

func (m *Manager) owns(v *volume.Volume, name string) bool {
	return m.owner.Owns(v.Labels, spec.KindVolume, name) && m.owner.Gave(v.Name) && v.Labels[ownership.LabelTitle] == v.Name
}

// users lists the containers, running or not, that mount a volume.
func (m *Manager) users(ctx context.Context, title string) ([]string, error) {
	all, err := m.engine.ContainerList(ctx, true)
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

// again is when a volume is looked at again that waits for people.
const again = 30 * clock.Second

// Decide makes what is missing and never changes what is there.
func (m *Manager) Decide(v engine.View[Desired, Observed]) engine.Decision {
	o, n := v.Observed, &v.Resource.Desired.Spec
	wait := func(code engine.Code, format string, args ...any) engine.Decision {
		return engine.Wait(v.Now.Add(again), engine.Because(code, fmt.Sprintf(format, args...)))
	}
	converged := engine.IsConverged(engine.Reason{})
	switch {
	case v.Resource.Retire:
		return retire(o, n, wait)
	case v.Resource.Desired.Parked:
		return converged
	case n.External != "" && !o.Exists:
		return wait(CodeExternalMissing, "volume %s is declared external and is not there: create it (docker volume create %s)", o.Title, o.Title)
	case n.External != "":
		return converged
	case !o.Exists && v.Resource.Status.ConvergedGeneration > 0:
		return engine.Do(Create{Lost: true}, engine.Because(CodeRecreated, "volume "+o.Title+" was removed from outside: it is made again, and the data that was in it is lost"))
	case !o.Exists:
		return engine.Do(Create{}, engine.Because(CodeMissing, ""))
	case !o.Owned:
		return wait(CodeNameTaken, "the name %s belongs to a volume that is not this host's: declare it external, or give the declared one another title", o.Title)
	}
	if len(o.Differences) == 0 {
		return converged
	}
	if labelsOnly(o.Differences) {
		return engine.IsConverged(engine.Because(CodeLabels, "volume "+o.Title+" keeps its labels: "+words(o.Differences)))
	}
	return wait(CodeDiffers, "volume %s is not as declared and keeps its data: %s", o.Title, words(o.Differences))
}

// retire leaves the data unless the declaration allows to remove it.
func retire(o Observed, n *spec.Volume, wait func(engine.Code, string, ...any) engine.Decision) engine.Decision {
	switch {
	case n.External != "" || !o.Exists || !o.Owned:
		return engine.IsConverged(engine.Reason{})
	case !o.AllowDelete:
		return engine.IsConverged(engine.Because(CodeKept, "volume "+o.Title+" stays with its data: allowVolumeDelete would remove it"))
	case len(o.Users) > 0:
		return wait(CodeUsed, "volume %s is used by %s; it goes after them", o.Title, strings.Join(o.Users, ", "))
	}
	return engine.Do(Remove{}, engine.Because(CodeRemoving, ""))
}

// compare says how a volume differs from the declaration. A volume never
// changes: one whose label tells what it was made from is compared by that.
func (m *Manager) compare(want *spec.Volume, v *volume.Volume) []diff.Difference {
	in := form.Inputs{Digest: m.digest}
	seen := form.ObservedVolume(v, in)
	var base *diff.Baseline
	var asked spec.Volume
	if json.Unmarshal([]byte(v.Labels[labelAsked]), &asked) == nil {
		base = &diff.Baseline{Desired: form.Volume(&asked, asked.EngineName(m.owner.Title), in), Observed: seen}
	}
	return diff.Compare(form.Volume(want, want.EngineName(m.owner.Title), in), seen, base, rules{})
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

func words(ds []diff.Difference) string {
	var out []string
	for _, d := range ds {
		out = append(out, d.Show())
	}
	return strings.Join(out, ", ")
}

// Act makes the volume, or removes it after another look at whose it is.
func (m *Manager) Act(ctx context.Context, r engine.Resource[Desired], a engine.Action) error {
	n := r.Desired.Spec
	title := n.EngineName(m.owner.Title)
	switch a.(type) {
	case Create:
		return fault.Of(ctx, m.create(ctx, &n, title))
	case Remove:
		return fault.Of(ctx, m.remove(ctx, &n, title))
	}
	return reconcile.Terminal(engine.CodeBadIntent, fmt.Errorf("a volume has no action %s", a.ActionName()))
}

// create asks for the volume. An engine gives back one that is there already,
// whatever is in it: the next look says whose it is.
func (m *Manager) create(ctx context.Context, n *spec.Volume, title string) error {
	asked, err := json.Marshal(n)
	if err != nil {
		return err
	}
	own := m.owner.Labels(spec.KindVolume, n.Name, title)
	own[labelAsked] = string(asked)
	// The answer is waited for: what is no longer wanted is not gone before that.
	_, err = m.engine.VolumeCreate(context.WithoutCancel(ctx), form.CreateVolume(n, title, own))
	return err
}

func (m *Manager) remove(ctx context.Context, n *spec.Volume, title string) error {
	if !m.allow() {
		return reconcile.Blocked(0, engine.Because(CodeKept, "volumes may not be removed any more"))
	}
	v, err := m.engine.VolumeInspect(ctx, title)
	switch {
	case daemon.NotFound(err):
		return nil
	case err != nil:
		return err
	case !m.owns(&v, n.Name):
		return fmt.Errorf("volume %s is no longer this host's", title)
	}
	if err := m.engine.VolumeRemove(ctx, title); !daemon.NotFound(err) {
		return err
	}
	return nil
}

// Orphans lists this host's volumes that no row declares; those that were kept
// for their data are among them.
func (m *Manager) Orphans(ctx context.Context) ([]engine.Ref, error) {
	if m.declared == nil {
		return nil, nil
	}
	declared, err := m.declared(ctx)
	if err != nil {
		return nil, err
	}
	list, err := m.engine.VolumeList(ctx, ownership.LabelOwner+"="+m.owner.ID(), ownership.LabelKind+"="+spec.KindVolume)
	var out []engine.Ref
	for i := range list {
		name := list[i].Labels[ownership.LabelName]
		if name != "" && m.owns(&list[i], name) && !declared[name] {
			out = append(out, engine.Ref{Kind: spec.KindVolume, ID: name})
		}
	}
	slices.SortFunc(out, engine.Ref.Compare)
	return slices.Compact(out), err
}
