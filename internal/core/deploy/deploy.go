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
	"strings"

	"github.com/steadyfleet/steady/internal/core/container"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/reconcile/engine"
)

// Want is what an owner wants of its container resources.
type Want struct {
	Set *container.Set // declared; nil for nothing
	// Keep is the set of the generation that may come back: what it alone has is
	// stopped and not removed.
	Keep  *container.Set
	Run   string
	Title container.Titled
	// Asks are verbs for single resources; Until ends resources at an instant.
	Asks  map[container.ID]Ask
	Until map[container.ID]engine.Instant
	// Versions are those of the managed layer which set the resources.
	Versions map[container.ID]uint64
}

// Ask is a verb, what tells this asking from the next, and the version of the
// managed layer that asked.
type Ask struct {
	Verb, Nonce string
	Version     uint64
}

// Verbs of resources. Start and stop set what is desired of a workspace until
// another verb comes; each asking with a new nonce makes what failed try again.
const (
	Start    = "start"
	Stop     = "stop"
	Retry    = "retry"
	Redeploy = "redeploy"
	Restart  = "restart"
	Build    = "build"
	Cancel   = "cancel"
)

// Verbs lists what may be asked of a resource of each kind.
var Verbs = map[string][]string{
	container.KindWorkspace: {Redeploy, Restart, Retry, Start, Stop},
	container.KindImage:     {Build, Cancel, Retry},
	container.KindNetwork:   {Retry},
	container.KindVolume:    {Retry},
	container.KindSnapshot:  {Retry},
	container.KindRoute:     {Retry},
}

// toManager is the verb as the kind's manager takes it.
func (a Ask) toManager(kind string) Ask {
	switch {
	case kind == container.KindImage && a.Verb == Build:
		a.Verb = "rebuild"
	case kind == container.KindImage && (a.Verb == Cancel || a.Verb == Retry):
	case kind == container.KindWorkspace && (a.Verb == Redeploy || a.Verb == Restart):
	default:
		a.Verb = "" // said by the spec, or by the nonce alone
	}
	return a
}

// run is the workspace with its state as last asked.
func (w *Want) run(x container.Workspace) container.Workspace {
	switch w.Asks[container.ID{Kind: container.KindWorkspace, Name: x.Name}].Verb {
	case Stop:
		x.State = container.Stopped
	case Start, Redeploy, Restart:
		if x.State == container.Stopped {
			x.State = container.Running
		}
	}
	return x
}

// Wait is a resource that is not set yet, and the first thing that it waits for.
type Wait struct {
	ID  container.ID
	For container.Need
}

// Plan is what to set now and how far the whole is.
type Plan struct {
	Intents []engine.Intent
	Waiting []Wait
	Pending []engine.Ref   // set, and on its way
	Failed  []engine.Child // of what is declared
}

// Done reports whether everything declared has converged.
func (p *Plan) Done() bool {
	return len(p.Intents)+len(p.Waiting)+len(p.Pending)+len(p.Failed) == 0
}

// Words say what the plan waits for, for people.
func (p *Plan) Words() string {
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
func refOf(id container.ID) engine.Ref { return engine.Ref{Kind: id.Kind, ID: id.Name} }

// item is one declared resource with what sets it.
type item struct {
	id     container.ID
	intent engine.Intent
	needs  []container.Need
	work   *container.Workspace // nil for other kinds
	parked bool
}

type planner struct {
	want     Want
	children map[engine.Ref]engine.Child
	items    map[container.ID]*item
	parked   []*item
	asks     map[container.ID]Ask // beside those of the owner
	plan     Plan
}

// Next plans over the owner's children.
func Next(w Want, children []engine.Child) Plan {
	p := &planner{want: w, children: map[engine.Ref]engine.Child{}, items: map[container.ID]*item{}, asks: map[container.ID]Ask{}}
	for _, c := range children {
		p.children[c.Ref] = c
	}
	order := p.declare(w.Set)
	p.park(children, order)
	for _, it := range order {
		p.settle(it)
	}
	p.remove(children)
	return p.plan
}

// orderOf is the order class of a kind: an owner that retires takes away from
// the last down.
func orderOf(kind string) int {
	for i, k := range container.Kinds {
		if k == kind {
			return 1000 + 10*i
		}
	}
	return 0
}

// declare makes an item of every declared resource, in order of kinds.
func (p *planner) declare(s *container.Set) []*item {
	if s == nil {
		return nil
	}
	var out []*item
	for i := range s.Networks {
		out = append(out, declared(p, container.KindNetwork, s.Networks[i].Name, s.Networks[i], nil))
	}
	for i := range s.Volumes {
		out = append(out, declared(p, container.KindVolume, s.Volumes[i].Name, s.Volumes[i], nil))
	}
	for i := range s.Images {
		out = append(out, declared(p, container.KindImage, s.Images[i].Name, s.Images[i], nil))
	}
	for i := range s.Workspaces {
		w := p.want.run(s.Workspaces[i])
		p.restarts(s, &w)
		it := declared(p, container.KindWorkspace, w.Name, container.Deployment{Workspace: w, Uses: s.Uses(&w, p.want.Title)}, w.Needs())
		it.work = &w
		out = append(out, it)
	}
	for i := range s.Snapshots {
		out = append(out, declared(p, container.KindSnapshot, s.Snapshots[i].Name, s.Snapshots[i], s.Snapshots[i].Needs()))
	}
	for i := range s.Routes {
		out = append(out, declared(p, container.KindRoute, s.Routes[i].Name, s.Routes[i], s.Routes[i].Needs()))
	}
	return out
}

// restarts has a workspace started again when one that it depends on in this way
// is another one than before. What an operator asked for goes first.
func (p *planner) restarts(s *container.Set, w *container.Workspace) {
	id := container.ID{Kind: container.KindWorkspace, Name: w.Name}
	if p.want.Asks[id].Verb != "" {
		return
	}
	var of []byte
	for _, d := range w.DependsOn {
		on := s.Workspace(d.Workspace)
		if !d.Restart || on == nil {
			continue
		}
		raw, err := json.Marshal(container.Deployment{Workspace: *on, Uses: s.Uses(on, p.want.Title)})
		if err != nil {
			panic("deploy: a workspace of strings and numbers did not encode: " + err.Error())
		}
		of = append(of, raw...)
	}
	if len(of) > 0 {
		p.asks[id] = Ask{Verb: Restart, Nonce: "dependency " + digest.Of(of).Short()}
	}
}

func declared[S any](p *planner, kind, name string, spec S, needs []container.Need) *item {
	id := container.ID{Kind: kind, Name: name}
	ask, asked := p.want.Asks[id]
	if !asked {
		ask = p.asks[id]
	}
	ask = ask.toManager(kind)
	in := engine.Upsert(refOf(id), container.Desired[S]{Spec: spec, Run: p.want.Run, Verb: ask.Verb, Nonce: ask.Nonce,
		Version: max(ask.Version, p.want.Versions[id])}).InOrder(orderOf(kind))
	if t := p.want.Until[id]; t != 0 {
		in = in.Until(t)
	}
	it := &item{id: id, intent: in, needs: needs}
	p.items[id] = it
	return it
}

// park stops the workspaces of the generation that was left, once the images of
// the new one are there.
func (p *planner) park(children []engine.Child, order []*item) {
	if p.want.Keep == nil {
		return
	}
	ready := true
	for _, c := range children {
		if c.Ref.Kind != container.KindWorkspace || c.Retire && c.Phase != engine.Retired {
			continue
		}
		id := container.ID{Kind: c.Ref.Kind, Name: c.Ref.ID}
		if p.items[id] != nil || c.Phase.Terminal() {
			continue
		}
		w := p.want.Keep.Workspace(id.Name)
		if w == nil {
			continue
		}
		it := &item{id: id, work: w, parked: true, intent: engine.Upsert(c.Ref, container.Desired[container.Deployment]{
			Spec: container.Deployment{Workspace: *w, Uses: p.want.Keep.Uses(w, p.want.Title)}, Run: p.want.Run, Parked: true,
		}).InOrder(orderOf(c.Ref.Kind))}
		p.parked = append(p.parked, it)
	}
	for _, it := range order {
		ready = ready && (it.id.Kind != container.KindImage || p.is(it, engine.Converged))
	}
	for _, it := range p.parked {
		if ready || p.set(it) {
			p.settle(it)
		}
	}
}

// set reports whether the child is set as the item wants it.
func (p *planner) set(it *item) bool {
	c, ok := p.children[it.intent.Ref]
	return ok && !c.Retire && !c.Phase.Terminal() && c.Order == it.intent.Order &&
		c.NotAfter == it.intent.NotAfter && bytes.Equal(c.Desired, it.intent.Desired)
}

func (p *planner) is(it *item, phase engine.Phase) bool {
	return p.set(it) && p.children[it.intent.Ref].Phase == phase
}

// settle looks at one item: set it if it may be, note it if it is on its way or
// has failed.
func (p *planner) settle(it *item) {
	if !p.set(it) {
		if n, blocked := p.blocked(it); blocked {
			p.plan.Waiting = append(p.plan.Waiting, Wait{it.id, n})
			return
		}
		p.plan.Intents = append(p.plan.Intents, it.intent)
		return
	}
	switch c := p.children[it.intent.Ref]; c.Phase {
	case engine.Converged:
	case engine.Failed:
		p.plan.Failed = append(p.plan.Failed, c)
	default:
		p.plan.Pending = append(p.plan.Pending, c.Ref)
	}
}

// blocked finds the first need that is not met.
func (p *planner) blocked(it *item) (container.Need, bool) {
	for _, n := range it.needs {
		on := p.items[n.ID]
		if on == nil {
			continue // not of this set: its manager says what is missing
		}
		if !p.met(on, n) {
			return n, true
		}
	}
	for _, old := range p.parked {
		if it.work != nil && !it.parked && !p.is(old, engine.Converged) && clash(it.work, old.work) {
			return container.Need{ID: old.id}, true
		}
	}
	return container.Need{}, false
}

func (p *planner) met(on *item, n container.Need) bool {
	if !p.set(on) {
		return false
	}
	c := p.children[on.intent.Ref]
	switch {
	case c.Phase == engine.Converged:
		return true
	case c.Phase == engine.Failed:
		return !n.Required
	case n.Condition == container.Started:
		return c.Reason.Code == container.CodeStarting || c.Reason.Code == container.CodeRunsToEnd
	}
	return false
}

// clash reports whether two workspaces cannot run at once: a fixed port, a name,
// or a volume that one of them writes.
func clash(a, b *container.Workspace) bool {
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
	busy := false
	var users, used []engine.Intent
	for _, c := range children {
		id := container.ID{Kind: c.Ref.Kind, Name: c.Ref.ID}
		if orderOf(id.Kind) == 0 || p.items[id] != nil || c.Phase.Terminal() {
			continue
		}
		if id.Kind != container.KindRoute && p.want.Keep.Has(id) {
			continue
		}
		switch {
		case id.Kind == container.KindWorkspace || id.Kind == container.KindRoute:
			busy = busy || id.Kind == container.KindWorkspace && c.Phase != engine.Failed
			if !c.Retire {
				users = append(users, engine.Retire(c.Ref))
			}
		case !c.Retire:
			used = append(used, engine.Retire(c.Ref))
		}
	}
	p.plan.Intents = append(p.plan.Intents, users...)
	if !busy {
		p.plan.Intents = append(p.plan.Intents, used...)
	}
}
