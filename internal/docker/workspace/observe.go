package workspace

import (
	"context"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/moby/moby/api/types/container"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/diff"
	"github.com/steadyfleet/steady/internal/core/replace"
	"github.com/steadyfleet/steady/internal/core/spec"
	"github.com/steadyfleet/steady/internal/docker/convert"
	"github.com/steadyfleet/steady/internal/docker/dockerapi"
	"github.com/steadyfleet/steady/reconcile/engine"
)

// Observe reads the containers of one workspace.
func (m *Reconciler) Observe(ctx context.Context, r engine.Resource[Desired]) (Observed, error) {
	o, found, err := m.observeAlone(ctx, &r)
	if err != nil {
		return Observed{}, dockerapi.ErrorOf(ctx, err)
	}
	m.syncUpstream(&r, found, &o)
	o.Queued = m.queued(&r, &o)
	m.mu.Lock()
	defer m.mu.Unlock()
	if r.Delete && len(o.Seen.Containers) == 0 {
		delete(m.known, r.Ref)
		delete(m.upstreams, r.Ref.ID)
		delete(m.stops, r.Ref)
		delete(m.stays, r.Ref)
	} else {
		m.known[r.Ref] = &r
	}
	return o, nil
}

// Preview observes a workspace as if it were desired like this. Unlike Observe it
// does not take it as what is desired from now on.
func (m *Reconciler) Preview(ctx context.Context, r engine.Resource[Desired]) (Observed, error) {
	o, _, err := m.observeAlone(ctx, &r)
	return o, dockerapi.ErrorOf(ctx, err)
}

func (m *Reconciler) observeAlone(ctx context.Context, r *engine.Resource[Desired]) (o Observed, found []*container.InspectResponse, err error) {
	listed, err := m.o.Engine.ContainerList(ctx, true, m.labels(r.Ref.ID)...)
	if err != nil {
		return o, nil, err
	}
	return m.inspect(ctx, r, listed, false)
}

// ObserveAll checks every workspace that was checked before, with one
// listing of the engine's containers. Those that wait are left out: what they
// wait for may have come since, and each is checked alone.
func (m *Reconciler) ObserveAll(ctx context.Context) (map[engine.Ref]Observed, error) {
	listed, err := m.o.Engine.ContainerList(ctx, true)
	if err != nil {
		return nil, dockerapi.ErrorOf(ctx, err)
	}
	ids, byName := map[string]bool{}, map[string][]container.Summary{}
	for _, s := range listed {
		ids[s.ID] = true
		if s.Labels[convert.LabelOwner] == m.o.Owner.ID() && s.Labels[convert.LabelKind] == spec.KindWorkspace {
			name := s.Labels[convert.LabelName]
			byName[name] = append(byName[name], s)
		}
	}
	m.forget(ids)
	m.mu.Lock()
	rows := slices.Collect(maps.Values(m.known))
	m.mu.Unlock()
	var ours []*container.Summary
	for i := range rows {
		for j := range byName[rows[i].Ref.ID] {
			ours = append(ours, &byName[rows[i].Ref.ID][j])
		}
	}
	m.cache.Refresh(ctx, ours)
	out := make(map[engine.Ref]Observed, len(rows))
	for i := range rows {
		o, found, err := m.inspect(ctx, rows[i], byName[rows[i].Ref.ID], true)
		switch {
		case dockerapi.Unavailable(err):
			return nil, dockerapi.ErrorOf(ctx, err)
		case err != nil:
			continue // it is checked alone, and its error is its own
		}
		m.syncUpstream(rows[i], found, &o)
		v := engine.View[Desired, Observed]{Resource: *rows[i], Observed: o, Now: m.o.Now()}
		if m.Decide(v).Name() == "wait" {
			continue
		}
		out[rows[i].Ref] = o
	}
	return out, nil
}

// Orphans lists workspaces of this host that are on the engine and not declared.
func (m *Reconciler) Orphans(ctx context.Context) ([]engine.Ref, error) {
	list := func(labels ...string) ([]container.Summary, error) {
		listed, err := m.o.Engine.ContainerList(ctx, true, labels...)
		return listed, dockerapi.ErrorOf(ctx, err)
	}
	return convert.Orphans(ctx, m.o.Owner, spec.KindWorkspace, m.o.Declared, list, func(s *container.Summary) (map[string]string, bool) {
		title := s.Labels[convert.LabelTitle]
		return s.Labels, slices.ContainsFunc(s.Names, func(n string) bool {
			return title != "" && m.o.Owner.HasPrefix(n) && (n == "/"+title || strings.HasPrefix(n, "/"+title+"."))
		})
	})
}

// forget drops what is remembered of containers that are gone.
func (m *Reconciler) forget(ids map[string]bool) {
	m.cache.Keep(ids)
	m.mu.Lock()
	defer m.mu.Unlock()
	maps.DeleteFunc(m.firstSeen, func(id string, _ ran) bool { return !ids[id] })
	maps.DeleteFunc(m.comparisons, func(id string, _ comparison) bool { return !ids[id] })
	maps.DeleteFunc(m.tails, func(id string, _ tail) bool { return !ids[id] })
	maps.DeleteFunc(m.checks, func(id string, _ check) bool { return !ids[id] })
	maps.DeleteFunc(m.ends, func(id string, _ ending) bool { return !ids[id] })
	maps.DeleteFunc(m.counters, func(id string, _ record) bool { return !ids[id] })
	maps.DeleteFunc(m.copies, func(ref engine.Ref, _ copyState) bool {
		_, ok := m.known[ref]
		return !ok
	})
	maps.DeleteFunc(m.needs, func(ref engine.Ref, _ *needs) bool {
		_, ok := m.known[ref]
		return !ok
	})
}

// labels select the containers of a workspace.
func (m *Reconciler) labels(name string) []string {
	return []string{convert.LabelOwner + "=" + m.o.Owner.ID(), convert.LabelKind + "=" + spec.KindWorkspace, convert.LabelName + "=" + name}
}

// inspect reads the listed containers; trust means that what is remembered will do
// where the listing agrees.
func (m *Reconciler) inspect(ctx context.Context, r *engine.Resource[Desired], listed []container.Summary, trust bool) (o Observed, found []*container.InspectResponse, err error) {
	o = Observed{Halted: m.o.Halted != nil && m.o.Halted(),
		Captured: m.o.Snapshotting != nil && m.o.Snapshotting(r.Ref.ID)}
	title := m.title(&r.Desired)
	for i := range listed {
		var s *container.Summary
		if trust {
			s = &listed[i]
		}
		c, err := m.cache.Container(ctx, listed[i].ID, s)
		switch {
		case dockerapi.NotFound(err):
			continue
		case err != nil:
			return o, found, err
		}
		found = append(found, c)
	}
	main := false
	for _, c := range found {
		one, ours, err := m.container(ctx, c, r)
		if err != nil {
			return o, found, err
		}
		if ours {
			o.Seen.Containers = append(o.Seen.Containers, one)
			main = main || one.Role == replace.Main
		}
	}
	slices.SortFunc(o.Seen.Containers, func(a, b replace.Container) int { return strings.Compare(a.ID, b.ID) })
	o.Seen.Stays, o.Seen.StaysUntil = m.staysOf(r)
	if o.Seen.Done, err = m.isDone(ctx, r); err != nil || r.Delete || r.Desired.Suspended {
		return o, found, err
	}
	if !main {
		if err := m.findForeign(ctx, r.Ref.ID, title, &o); err != nil {
			return o, found, err
		}
	}
	err = m.compare(ctx, r, found, &o)
	return o, found, err
}

// findForeign finds a container of somebody else under the workspace's name.
func (m *Reconciler) findForeign(ctx context.Context, name, title string, o *Observed) error {
	c, err := m.o.Engine.ContainerInspect(ctx, title)
	switch {
	case dockerapi.NotFound(err):
		return nil
	case err != nil:
		return err
	}
	if role, ours, err := m.role(ctx, &c, name, title); err != nil || ours && role == replace.Main || strings.TrimPrefix(c.Name, "/") != title {
		return err // it came this moment, or the name is the beginning of an ID
	}
	o.Seen.Foreign = c.ID
	return nil
}

// compare adds how the containers differ, and what one needs that is not there.
func (m *Reconciler) compare(ctx context.Context, r *engine.Resource[Desired], found []*container.InspectResponse, o *Observed) error {
	fallback := ""
	for _, c := range o.Seen.Containers {
		if c.Role == replace.Main {
			fallback = c.Image
		}
	}
	in, missing, err := m.inputs(ctx, r, fallback)
	if err != nil {
		return err
	}
	o.Seen.Missing, o.Seen.MissingToStart = missing.make, missing.start
	if o.Seen.Written, err = m.changedCopies(r); err != nil {
		return err
	}
	m.mu.Lock()
	o.Seen.PreStop = m.stops[r.Ref]
	m.mu.Unlock()
	if in == nil {
		o.Seen.Uncompared, o.StopFirst = true, "what it needs is not there"
		return nil
	}
	o.StartFirst, o.StopFirst, o.HealthWait, o.Seen.Refused = in.startFirst, in.stopFirst, in.healthWait, slices.Clone(in.refused)
	for i := range o.Seen.Containers {
		c := &o.Seen.Containers[i]
		if c.Role == replace.Old {
			continue
		}
		for _, f := range found {
			if f.ID == c.ID {
				if c.Differences, err = m.differences(ctx, r, f, in); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// fieldFile, with a target, is the file of the host that a content is mounted from.
const fieldFile = "file"

// misplacedFiles lists contents that are mounted from another file than this agent's own
// one, and those whose file is not there: the engine could not start the container
// again. The state folder was moved, restored or made anew. What differs in its
// content is reported as that.
func (m *Reconciler) misplacedFiles(r *engine.Resource[Desired], c *container.InspectResponse, in *needs, known []diff.Difference) ([]diff.Difference, error) {
	from := map[string]string{}
	if c.HostConfig != nil {
		for _, x := range c.HostConfig.Mounts {
			from[path.Clean(x.Target)] = x.Source
		}
	}
	var out []diff.Difference
	for _, x := range r.Desired.Spec.Workspace.Contents {
		target := path.Clean(x.Target)
		if slices.ContainsFunc(known, func(d diff.Difference) bool { return d.Field == convert.FieldContent+"/"+target }) {
			continue
		}
		d := diff.Difference{Field: fieldFile + target, Class: diff.Replace, Cause: diff.Declared, Observed: from[target],
			Desired: m.files.Path(r.Ref.ID, x, in.Secrets), Why: "it is mounted from a folder that is not this agent's: the container is made again from its own"}
		if d.Observed == d.Desired {
			lacks, err := m.files.Missing(d.Desired)
			if err != nil {
				return nil, err
			}
			if !lacks {
				continue
			}
			d.Class, d.Cause, d.Observed = diff.InPlace, diff.Unknown, "removed from the state folder"
			d.Why = "the file is written again, so that the container can be started again"
		}
		if x.Writable {
			d.Why += "; what the container wrote stays where the folder it was made in is now"
		}
		out = append(out, d)
	}
	return out, nil
}

// comparison is a comparison that was made.
type comparison struct {
	container  *container.InspectResponse
	needs      *needs
	generation int64
	ref        engine.Ref
	found      []diff.Difference
}

// differences compares a container, and the files that it mounts, with what is
// desired.
func (m *Reconciler) differences(ctx context.Context, r *engine.Resource[Desired], c *container.InspectResponse, in *needs) ([]diff.Difference, error) {
	ds, err := m.compared(ctx, r, c, in)
	if err != nil {
		return nil, err
	}
	files, err := m.misplacedFiles(r, c, in, ds)
	if len(ds) == 0 {
		files = append(files, m.staleFiles(r, c)...)
	}
	return append(ds, files...), err
}

// compared compares a container with what is desired.
func (m *Reconciler) compared(ctx context.Context, r *engine.Resource[Desired], c *container.InspectResponse, in *needs) ([]diff.Difference, error) {
	m.mu.Lock()
	have := m.comparisons[c.ID]
	m.mu.Unlock()
	if have.container == c && have.needs == in && have.generation == r.Generation && have.ref == r.Ref {
		return slices.Clone(have.found), nil
	}
	rec, err := m.loadRecord(ctx, c.ID)
	if err != nil {
		return nil, err
	}
	found, unread := convert.Compare(&r.Desired.Spec, in.Inputs, c, rec.Form, in.facts.Rules)
	if unread != nil {
		m.o.Log.Warn("a container is compared without its record", "workspace", r.Ref.ID, "container", c.ID, "error", unread)
	}
	// The name of one that is made beside another is right as it is, and one that does not run
	// has its restart policy when it is started.
	up := convert.Run(c).Up()
	found = slices.DeleteFunc(found, func(d diff.Difference) bool { return d.Field == "name" || d.Field == "restart" && !up })
	m.mu.Lock()
	defer m.mu.Unlock()
	m.comparisons[c.ID] = comparison{c, in, r.Generation, r.Ref, found}
	return slices.Clone(found), nil
}

// ran is since when a container is known to run.
type ran struct {
	started time.Time // by the engine's clock
	first   time.Time // by ours, with its monotonic part
}

// running is how long a container has run: by the engine's clock, or by ours
// since it was first seen if that is longer, for clocks that go back.
func (m *Reconciler) running(c *container.InspectResponse, run convert.RunInfo) clock.Duration {
	now := m.o.Now()
	m.mu.Lock()
	defer m.mu.Unlock()
	have := m.firstSeen[c.ID]
	if !have.started.Equal(run.StartedAt) || have.first.IsZero() {
		have = ran{run.StartedAt, now}
		m.firstSeen[c.ID] = have
	}
	return clock.FromStd(max(now.Sub(have.first), now.Sub(run.StartedAt), 0))
}
