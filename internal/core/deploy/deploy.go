// Package deploy decides in which order the container resources of one owner are
// set: each as soon as what it needs has converged, independent ones at once, and
// what is no longer declared stopped or removed without waiting for the rest.
//
// It is computed anew from the children as they stand, so that a crash, a repair
// or a newer declaration needs no memory of what was begun.
package deploy

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/spec"
	"github.com/steadyfleet/steady/reconcile/engine"
)

// Want is what an owner wants of its container resources.
type Want struct {
	Set *spec.Set // declared; nil for nothing
	// Keep is the set of the generation that may come back: what it alone has is
	// stopped and not removed.
	Keep  *spec.Set
	Run   string
	Title spec.NameMapper
	// Requests are verbs for single resources; Until ends resources at an instant.
	Requests map[spec.ID]Request
	Until    map[spec.ID]clock.Instant
	// Versions are those of the managed layer which set the resources.
	Versions map[spec.ID]uint64
}

// Request is a verb, what tells this asking from the next, and the version of the
// managed layer that asked.
type Request struct {
	Verb, Nonce string
	Version     uint64
}

// toManager is the verb as the kind's reconciler takes it.
func (a Request) toManager(k *spec.Kind) Request {
	v, _ := k.Verb(a.Verb)
	a.Verb = v.Action
	return a
}

// run is the workspace with its state as last asked.
func (w *Want) run(x spec.Workspace) spec.Workspace {
	switch w.Requests[spec.ID{Kind: spec.KindWorkspace, Name: x.Name}].Verb {
	case spec.VerbStop:
		x.State = spec.Stopped
	case spec.VerbStart, spec.VerbRedeploy, spec.VerbRestart:
		if x.State == spec.Stopped {
			x.State = spec.Running
		}
	}
	return x
}

// Wait is a resource that is not set yet, and the first thing that it waits for.
type Wait struct {
	ID  spec.ID
	For spec.Need
}

// Plan is what to set now and how far the whole is.
type Plan struct {
	Intents []engine.Intent
	Waiting []Wait
	Pending []engine.Ref   // set, and on its way
	Failed  []engine.Child // of what is declared
	Broken  []engine.Child // before this run, which does not change them: no failure of it
}

// Done reports whether everything declared has converged.
func (p *Plan) Done() bool {
	return len(p.Intents)+len(p.Waiting)+len(p.Pending)+len(p.Failed) == 0
}

// Message say what the plan waits for, for people.
func (p *Plan) Message() string {
	var parts []string
	for _, in := range p.Intents {
		parts = append(parts, in.Ref.String())
	}
	for _, r := range p.Pending {
		parts = append(parts, r.String())
	}
	if len(parts) == 0 && len(p.Waiting) > 0 {
		w := p.Waiting[0]
		return fmt.Sprintf("%s waits for %s", w.ID, w.For.ID)
	}
	const most = 4
	if len(parts) > most {
		parts = append(parts[:most], fmt.Sprintf("and %d more", len(parts)-most))
	}
	return strings.Join(parts, ", ")
}

// Refs of container resources are kind and name.
func refOf(id spec.ID) engine.Ref { return engine.Ref{Kind: id.Kind, ID: id.Name} }

// item is one declared resource with what sets it.
type item struct {
	id        spec.ID
	intent    engine.Intent
	needs     []spec.Need
	work      *spec.Workspace // nil for other kinds
	fetched   bool
	suspended bool
	before    before
}

type planner struct {
	want      Want
	children  map[engine.Ref]engine.Child
	items     map[spec.ID]*item
	suspended []*item
	asks      map[spec.ID]Request // beside those of the owner
	plan      Plan
}

// Next plans over the owner's children.
func Next(w Want, children []engine.Child) Plan {
	p := &planner{want: w, children: map[engine.Ref]engine.Child{}, items: map[spec.ID]*item{}, asks: map[spec.ID]Request{}}
	for _, c := range children {
		p.children[c.Ref] = c
	}
	order := p.declare(w.Set)
	p.suspend(children, order)
	for _, it := range order {
		p.settle(it)
	}
	p.remove(children)
	return p.plan
}

// orderOf is the order class of a kind: an owner that retires takes away from
// the last down. It is 0 of what is no kind of the table.
func (p *planner) orderOf(kind string) int {
	if i := spec.Known.Position(kind); i >= 0 {
		return 1000 + 10*i
	}
	return 0
}

// declare makes an item of every declared resource, in order of kinds.
func (p *planner) declare(s *spec.Set) []*item {
	var out []*item
	for id, r := range s.All() {
		it := &item{id: id}
		if w, ok := r.(*spec.Workspace); ok {
			asked := p.want.run(*w)
			p.restarts(s, &asked)
			it.work, r = &asked, &asked
		}
		k := spec.Known.Kind(id.Kind)
		it.needs, it.fetched = r.Needs(), k.Fetched
		value := k.DesiredOf(s, r, p.want.Title)
		it.before = p.before(id, value)
		it.intent = p.intent(id, k, value, it.before.broken)
		p.items[id] = it
		out = append(out, it)
	}
	return out
}

// restarts has a workspace started again when one that it depends on in this way
// is another one than before. What an operator asked for goes first.
func (p *planner) restarts(s *spec.Set, w *spec.Workspace) {
	id := spec.ID{Kind: spec.KindWorkspace, Name: w.Name}
	if p.want.Requests[id].Verb != "" {
		return
	}
	var of []byte
	for _, d := range w.DependsOn {
		on := s.Workspace(d.Workspace)
		if !d.Restart || on == nil {
			continue
		}
		raw, err := json.Marshal(spec.Deployment{Workspace: *on, Uses: s.Uses(on, p.want.Title)})
		if err != nil {
			panic("deploy: a workspace of strings and numbers did not encode: " + err.Error())
		}
		of = append(of, raw...)
	}
	if len(of) > 0 {
		p.asks[id] = Request{Verb: spec.VerbRestart, Nonce: "dependency " + digest.Of(of).Short()}
	}
}

func (p *planner) intent(id spec.ID, k *spec.Kind, value any, broken bool) engine.Intent {
	ask, asked := p.want.Requests[id]
	if !asked {
		ask = p.asks[id]
	}
	ask = ask.toManager(k)
	in := engine.Upsert(refOf(id), spec.Desired[any]{Spec: value, Run: p.want.Run, Verb: ask.Verb, Nonce: ask.Nonce,
		Version: max(ask.Version, p.want.Versions[id]), BrokenBefore: broken}).WithOrder(p.orderOf(id.Kind))
	if t := p.want.Until[id]; t != 0 {
		in = in.WithNotAfter(t.Time())
	}
	return in
}

// suspend stops the workspaces of the generation that was left, once the images of
// the new one are there.
func (p *planner) suspend(children []engine.Child, order []*item) {
	if p.want.Keep == nil {
		return
	}
	ready := true
	for _, c := range children {
		if c.Ref.Kind != spec.KindWorkspace || c.Delete && c.Phase != engine.Deleted {
			continue
		}
		id := spec.ID{Kind: c.Ref.Kind, Name: c.Ref.ID}
		if p.items[id] != nil || c.Phase.Terminal() {
			continue
		}
		w := p.want.Keep.Workspace(id.Name)
		if w == nil {
			continue
		}
		it := &item{id: id, work: w, suspended: true, intent: engine.Upsert(c.Ref, spec.Desired[spec.Deployment]{
			Spec: spec.Deployment{Workspace: *w, Uses: p.want.Keep.Uses(w, p.want.Title)}, Run: p.want.Run, Suspended: true,
		}).WithOrder(p.orderOf(c.Ref.Kind))}
		p.suspended = append(p.suspended, it)
	}
	for _, it := range order {
		ready = ready && (!it.fetched || p.is(it, engine.Converged))
	}
	for _, it := range p.suspended {
		if ready || p.set(it) {
			p.settle(it)
		}
	}
}

// set reports whether the child is set as the item wants it.
func (p *planner) set(it *item) bool {
	c, ok := p.children[it.intent.Ref]
	return ok && !c.Delete && !c.Phase.Terminal() && c.Order == it.intent.Order &&
		c.NotAfter.Equal(it.intent.NotAfter) && bytes.Equal(c.Desired, it.intent.Desired)
}

func (p *planner) is(it *item, phase engine.Phase) bool {
	return p.set(it) && p.children[it.intent.Ref].Phase == phase
}

// settle looks at one item: set it if it may be, note it if it is on its way or
// has failed.
func (p *planner) settle(it *item) {
	if !p.set(it) {
		if n, blocked := p.blocked(it); blocked {
			if on := p.items[n.ID]; on != nil && on.before.broken && p.set(on) {
				p.plan.Failed = append(p.plan.Failed, p.children[on.intent.Ref])
			}
			p.plan.Waiting = append(p.plan.Waiting, Wait{it.id, n})
			return
		}
		p.plan.Intents = append(p.plan.Intents, it.intent)
		return
	}
	switch c := p.children[it.intent.Ref]; {
	case c.Phase == engine.Converged:
	case it.before.broken:
		p.plan.Broken = append(p.plan.Broken, c)
	case c.Phase == engine.Failed:
		p.plan.Failed = append(p.plan.Failed, c)
	default:
		p.plan.Pending = append(p.plan.Pending, c.Ref)
	}
}

// blocked finds the first need that is not met.
func (p *planner) blocked(it *item) (spec.Need, bool) {
	for _, n := range it.needs {
		on := p.items[n.ID]
		if on == nil {
			continue // not of this set: its manager says what is missing
		}
		if !p.met(on, n) && !(on.before.broken && it.before.same) {
			return n, true
		}
	}
	for _, old := range p.suspended {
		if it.work != nil && !it.suspended && !p.is(old, engine.Converged) && clash(it.work, old.work) {
			return spec.Need{ID: old.id}, true
		}
	}
	return spec.Need{}, false
}

func (p *planner) met(on *item, n spec.Need) bool {
	if !p.set(on) {
		return false
	}
	c := p.children[on.intent.Ref]
	switch {
	case c.Phase == engine.Converged:
		return true
	case c.Phase == engine.Failed:
		return !n.Required
	case n.Condition == spec.Started:
		return c.Reason.Code == spec.CodeStarting || c.Reason.Code == spec.CodeRunsToEnd
	}
	return false
}

// clash reports whether two workspaces cannot run at once: a fixed port, a name,
// or a volume that one of them writes.
func clash(a, b *spec.Workspace) bool {
	if a.Title != "" && a.Title == b.Title {
		return true
	}
	for _, x := range a.Ports {
		for _, y := range b.Ports {
			if x.Fixed() && y.Fixed() && x.HostPort == y.HostPort && x.Protocol == y.Protocol {
				return true
			}
		}
	}
	for _, x := range a.Mounts {
		for _, y := range b.Mounts {
			if x.Source != "" && x.Type == y.Type && x.Source == y.Source && !(x.ReadOnly && y.ReadOnly) {
				return true
			}
		}
	}
	return false
}

// remove retires what neither set declares: what runs first, then what it used.
func (p *planner) remove(children []engine.Child) {
	var stopping, used []engine.Child
	var users []engine.Intent
	for _, c := range children {
		id, k := spec.ID{Kind: c.Ref.Kind, Name: c.Ref.ID}, spec.Known.Kind(c.Ref.Kind)
		if k == nil || p.items[id] != nil || c.Phase.Terminal() || k.Removal != spec.AtOnce && p.want.Keep.Has(id) {
			continue
		}
		if k.Removal == spec.StopsFirst && c.Phase != engine.Failed {
			stopping = append(stopping, c)
		}
		switch {
		case c.Delete:
		case k.Removal == spec.AfterUsers:
			used = append(used, c)
		default:
			users = append(users, engine.Delete(c.Ref))
		}
	}
	p.plan.Intents = append(p.plan.Intents, users...)
	for _, c := range used {
		if !slices.ContainsFunc(stopping, func(by engine.Child) bool { return uses(&by, c.Ref) }) {
			p.plan.Intents = append(p.plan.Intents, engine.Delete(c.Ref))
		}
	}
}

// uses reports whether a resource that stops first was set to use another one. What cannot be read, as what another
// version wrote, may use anything.
func uses(by *engine.Child, what engine.Ref) bool {
	var d spec.Desired[struct {
		Workspace *spec.Workspace `json:"workspace"`
	}]
	if json.Unmarshal(by.Desired, &d) != nil || d.Spec.Workspace == nil {
		return true
	}
	return slices.ContainsFunc(d.Spec.Workspace.Needs(), func(n spec.Need) bool { return refOf(n.ID) == what })
}
