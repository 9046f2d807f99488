package drift

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/nodeconfig"
)

// By is who changes something, and why.
type By struct{ Actor, Reason string }

// Edit is a change by an operator.
type Edit interface {
	decide(s *State, by By, now clock.Instant) ([]event.OfNodes, error)
}

// Edit decides about a change and what is to be pushed after it, and folds that. The events
// are to be committed together.
func (s *State) Edit(e Edit, by By, now clock.Instant) ([]event.OfNodes, error) {
	out, err := e.decide(s, by, now)
	if err != nil {
		return nil, err
	}
	for _, ev := range out {
		s.fold(now, ev)
	}
	return append(out, s.flush(now)...), nil
}

// Set has an object be as defined.
type Set struct {
	Kind, Name string
	Definition nodeconfig.Definition
	// Version is the one that the change was made on; zero is whichever there is.
	Version uint64
	// Create refuses an object that is there already.
	Create bool
	// AllowPorts lets an object use a port that another one of the same node has.
	AllowPorts bool
}

// MaxObjects bounds the objects of all nodes.
const MaxObjects = 200_000

// decide sets the definition. One that is there already changes nothing, and what of it failed is
// pushed again.
func (in Set) decide(s *State, by By, now clock.Instant) ([]event.OfNodes, error) {
	d, err := s.Check(in)
	if err != nil {
		return nil, err
	}
	old := s.Objects[Key(in.Kind, in.Name)]
	if old != nil && !old.Removed && equal(d, old.Definition) && !old.binned() {
		return s.requests(s.legsOfObject(old), by, now), nil
	}
	return []event.OfNodes{event.ConfigSet{Object: event.Object{Kind: in.Kind, Name: in.Name}, Version: s.nextVersion(in.Kind, in.Name), Definition: d, Origin: event.OriginOperator, Actor: by.Actor, Reason: by.Reason}}, nil
}

// nextVersion is the one that an object is set to next.
func (s *State) nextVersion(kind, name string) uint64 {
	if o := s.Objects[Key(kind, name)]; o != nil {
		return o.Version + 1
	}
	return 1
}

// binned reports whether a leg is in the bin.
func (o *Object) binned() bool { return o.legsInBin() > 0 }

func (o *Object) legsInBin() (count int) {
	for _, l := range o.Legs { // order-free: it only counts
		if l.BinnedUntil != 0 {
			count++
		}
	}
	return count
}

// freesName reports whether another object may have the name: nothing has it, or what is being
// deleted, or what is in the bin with all of its legs.
func (o *Object) freesName() bool { return o == nil || o.Removed || o.legsInBin() == len(o.Legs) }

func equal(a, b nodeconfig.Definition) bool {
	x, _ := json.Marshal(a)
	y, _ := json.Marshal(b)
	return string(x) == string(y)
}

// Check refuses what an object cannot be, and returns its definition in normal form. It
// decides nothing.
func (s *State) Check(in Set) (nodeconfig.Definition, error) {
	d, err := nodeconfig.Normal(in.Kind, in.Name, in.Definition)
	if err != nil {
		return d, refuse(CodeInvalid, "%v", err)
	}
	old := s.Objects[Key(in.Kind, in.Name)]
	switch {
	case in.Create && !old.freesName():
		return d, refuse(CodeConflict, "there is a %s %s already; steady %s edit %s changes it", in.Kind, in.Name, nodeconfig.Command(in.Kind), in.Name)
	case in.Version != 0 && (old == nil || old.Version != in.Version):
		return d, refuse(CodeConflict, "%s %s was changed meanwhile; load it again, and repeat the change", in.Kind, in.Name)
	case old == nil && len(s.Objects) >= MaxObjects:
		return d, refuse(CodeConflict, "there are %d objects already", len(s.Objects))
	}
	for i := range d.Legs {
		l := &d.Legs[i]
		if n := s.Nodes[l.Node]; n != nil && len(n.Collections) > 0 && !slices.ContainsFunc(n.Collections, func(c event.NodeCollection) bool { return c.Kind == in.Kind }) {
			return d, refuse(CodeInvalid, "node %s has no objects of kind %s: its driver %s has %s", l.Node, in.Kind, n.Driver, strings.Join(n.kinds(), ", "))
		}
		config := d.Config(l)
		if len(config) > nodeconfig.MaxConfig {
			return d, refuse(CodeInvalid, "leg %s: %d bytes of config, at most %d are allowed", l.Role, len(config), nodeconfig.MaxConfig)
		}
		if err := s.RulesOf(l.Node, in.Kind, in.Name).CheckSecrets(config); err != nil {
			return d, refuse(CodeInvalid, "leg %s: %v", l.Role, err)
		}
	}
	if err := s.free(in.Kind, in.Name, &d); err != nil {
		return d, err
	}
	if !in.AllowPorts {
		if used, _ := s.PortConflicts(in.Kind, in.Name, d, old); len(used) > 0 {
			return d, refuse(CodePort, "%s; choose another port, or set it all the same with --allow-port-conflict", strings.Join(used, "; "))
		}
	}
	return d, nil
}

// free refuses a definition with a leg where another object has one.
func (s *State) free(kind, name string, d *nodeconfig.Definition) error {
	for i := range d.Legs {
		l := &d.Legs[i]
		if r, used := s.legs[l.Node][place{kind, l.ID}]; used && r.object != Key(kind, name) && !s.Objects[r.object].Removed {
			return refuse(CodeConflict, "node %s has the %s %q of %s already; choose another id", l.Node, kind, l.ID, strings.Replace(r.object, "/", " ", 1))
		}
	}
	return nil
}

func (n *Node) kinds() (out []string) {
	for _, c := range n.Collections {
		out = append(out, c.Kind)
	}
	return out
}

// PortConflicts lists the ports of a definition that something else listens on: used are those on the same node, or on one that
// an operator placed on the same machine; claimed are those of a node that says itself that it is there, which nothing
// proves. What old, unless it is nil, has at the same place is not judged again.
func (s *State) PortConflicts(kind, name string, d nodeconfig.Definition, old *Object) (used, claimed []string) {
	for i := range d.Legs {
		l := &d.Legs[i]
		rules := s.RulesOf(l.Node, kind, name)
		var had []nodeconfig.Port
		if was := old.place(l); was != nil && !old.Removed && !old.binned() {
			had = rules.Listens(old.Definition.Config(was))
		}
		for _, p := range rules.Listens(d.Config(l)) {
			if slices.Contains(had, p) {
				continue
			}
			for _, node := range s.neighbours(l.Node) {
				for _, user := range s.listeners(node, p, place{kind, l.ID}, node == l.Node) {
					text := fmt.Sprintf("port %s of node %s is used by %s", p, l.Node, user)
					switch {
					case node == l.Node:
						used = append(used, text)
					case s.together(node, l.Node):
						used = append(used, text+fmt.Sprintf(", and node %s is on the same machine", node))
					default:
						claimed = append(claimed, text+fmt.Sprintf(", as node %s claims, which says that it is on the same machine", node))
					}
				}
			}
		}
	}
	return slices.Compact(used), slices.Compact(claimed)
}

// together reports whether an operator placed two nodes on one machine.
func (s *State) together(a, b string) bool {
	x, y := s.Nodes[a], s.Nodes[b]
	return x != nil && y != nil && x.Placed != "" && x.Placed == y.Placed
}

// neighbours are the nodes that share the ports of one, as somebody says; itself included.
func (s *State) neighbours(node string) []string {
	out := []string{node}
	n := s.Nodes[node]
	if n == nil {
		return out
	}
	for name, other := range s.Nodes { // order-free: sorted below
		if name != node && other.RetiredAt == 0 && (n.Machine != "" && other.Machine == n.Machine || s.together(name, node)) {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

// listeners names what listens on a port of a node, but for one place.
func (s *State) listeners(node string, p nodeconfig.Port, but place, same bool) (out []string) {
	overlaps := func(kind, name string, config json.RawMessage) bool {
		return slices.ContainsFunc(s.RulesOf(node, kind, name).Listens(config), p.Overlaps)
	}
	for _, r := range s.legsOf(node) {
		o, d, l := s.leg(r)
		if o.Removed || l.BinnedUntil != 0 || same && (place{o.Kind, d.ID}) == but || !overlaps(o.Kind, o.Name, o.Definition.Config(d)) {
			continue
		}
		out = append(out, o.Kind+" "+o.Name)
	}
	n := s.Nodes[node]
	if n == nil {
		return out
	}
	for _, key := range slices.Sorted(maps.Keys(n.Episodes)) {
		if e := n.Episodes[key]; e.Drift == Extraneous && (!same || place{e.Kind, e.ID} != but) && overlaps(e.Kind, e.ID, e.Actual) {
			out = append(out, fmt.Sprintf("the %s %q of node %s", e.Kind, e.ID, node))
		}
	}
	return out
}

// Remove has every node delete an object.
type Remove struct{ Kind, Name string }

func (in Remove) decide(s *State, by By, _ clock.Instant) ([]event.OfNodes, error) {
	o, err := s.object(in.Kind, in.Name)
	if err != nil {
		return nil, err
	}
	if o.Removed {
		return nil, nil
	}
	return []event.OfNodes{event.ConfigRemoved{Object: event.Object{Kind: in.Kind, Name: in.Name}, Actor: by.Actor, Reason: by.Reason}}, nil
}

func (s *State) object(kind, name string) (*Object, error) {
	o := s.Objects[Key(kind, name)]
	if o == nil || o.Anonymous {
		if err := s.CheckKind(kind); err != nil {
			return nil, err
		}
		if e := s.localEpisode(kind, name); e != nil {
			return nil, refuse(CodeUnknown, "the server does not know a %s %q, and node %s has one: steady drift show %s", kind, name, e.Node, e.Episode)
		}
		return nil, refuse(CodeUnknown, "there is no %s %q; steady %s list shows those that are there", kind, name, nodeconfig.Command(kind))
	}
	return o, nil
}

// Unbin takes an object out of the bin, to be pushed again.
type Unbin struct{ Kind, Name string }

func (in Unbin) decide(s *State, by By, _ clock.Instant) ([]event.OfNodes, error) {
	o, err := s.object(in.Kind, in.Name)
	if err != nil || !o.binned() {
		if r := s.newest(func(r *Resolution) bool { return r.deletes(in.Kind, in.Name) }); r != nil {
			return nil, refuse(CodeConflict, "%s %s is not in the bin: it was deleted by decision %s; steady drift undo %s takes that back", in.Kind, in.Name, r.Resolution, r.Resolution)
		}
		return nil, cmp.Or(err, refuse(CodeConflict, "%s %s is not in the bin", in.Kind, in.Name))
	}
	back := o.Definition
	back.Legs = slices.DeleteFunc(slices.Clone(back.Legs), func(l nodeconfig.Leg) bool { return o.Legs[l.Role].BinnedUntil == 0 })
	if err := s.free(in.Kind, in.Name, &back); err != nil {
		return nil, err
	}
	if used, _ := s.PortConflicts(in.Kind, in.Name, back, nil); len(used) > 0 {
		return nil, refuse(CodePort, "%s; change one of the two: steady %s edit %s takes this one out of the bin as well", strings.Join(used, "; "), nodeconfig.Command(in.Kind), in.Name)
	}
	return []event.OfNodes{event.ConfigRestored{Object: event.Object{Kind: in.Kind, Name: in.Name}, Actor: by.Actor, Reason: by.Reason}}, nil
}

// Reconcile has a node be read and compared now.
type Reconcile struct{ Node string }

func (in Reconcile) decide(s *State, by By, _ clock.Instant) ([]event.OfNodes, error) {
	n, err := s.known(in.Node)
	if err != nil {
		return nil, err
	}
	if !n.Online {
		return nil, refuse(CodeConflict, "node %s is offline, and is compared as soon as it connects: %s", in.Node, n.Why)
	}
	return []event.OfNodes{event.SyncRequested{OnNode: event.OnNode{Node: in.Node}, Actor: by.Actor}}, nil
}

func (s *State) known(node string) (*Node, error) {
	n := s.Nodes[node]
	if n == nil || n.RegisteredAt == 0 {
		return nil, refuse(CodeUnknown, "no node %q has registered; steady node list shows those that have", node)
	}
	return n, nil
}

// Resume has a paused node go on; Push pushes again what it lost.
type Resume struct {
	Node string
	Push bool
}

func (in Resume) decide(s *State, by By, _ clock.Instant) ([]event.OfNodes, error) {
	n, err := s.known(in.Node)
	if err != nil {
		return nil, err
	}
	if n.Paused == nil {
		return nil, refuse(CodeConflict, "node %s is not paused", in.Node)
	}
	return []event.OfNodes{event.NodeResumed{OnNode: event.OnNode{Node: in.Node}, Push: in.Push, Actor: by.Actor, Reason: by.Reason}}, nil
}

// Retire ends a node's identity for good.
type Retire struct{ Node string }

func (in Retire) decide(s *State, by By, now clock.Instant) ([]event.OfNodes, error) {
	n, err := s.known(in.Node)
	if err != nil {
		return nil, err
	}
	if n.RetiredAt != 0 {
		return nil, nil
	}
	return []event.OfNodes{event.NodeRetired{OnNode: event.OnNode{Node: in.Node}, NotBefore: now, Actor: by.Actor, Reason: by.Reason}}, nil
}

// Place says on which machine a node is; empty is that nothing is known.
type Place struct{ Node, Machine string }

func (in Place) decide(s *State, by By, _ clock.Instant) ([]event.OfNodes, error) {
	n, err := s.known(in.Node)
	switch {
	case err != nil:
		return nil, err
	case in.Machine != "" && fleet.CheckName(in.Machine) != nil:
		return nil, refuse(CodeInvalid, "%q is no name of a machine: %v", in.Machine, fleet.CheckName(in.Machine))
	case n.Placed == in.Machine:
		return nil, nil
	}
	return []event.OfNodes{event.NodePlaced{OnNode: event.OnNode{Node: in.Node}, Machine: in.Machine, Actor: by.Actor, Reason: by.Reason}}, nil
}

// Query notes that a device is asked about an object. One that is not connected is not.
type Query struct{ Node, Kind, Name string }

func (in Query) decide(s *State, by By, _ clock.Instant) ([]event.OfNodes, error) {
	if n := s.Nodes[in.Node]; n == nil || !n.Online {
		return nil, nil
	}
	return []event.OfNodes{event.NodeQueried{OnNode: event.OnNode{Node: in.Node}, Kind: in.Kind, Name: in.Name, Actor: by.Actor}}, nil
}

// Ignore has fields be no drift; Rule is unique.
type Ignore struct{ event.DriftIgnored }

// MaxIgnore bounds the rules of Ignore.
const MaxIgnore = 500

func (in Ignore) decide(s *State, by By, now clock.Instant) ([]event.OfNodes, error) {
	ev := in.DriftIgnored
	ev.Actor, ev.Reason = by.Actor, by.Reason
	if err := s.CheckKind(ev.Kind); err != nil {
		return nil, err
	}
	switch {
	case ev.Node == "" && ev.Name == "" && ev.Field == "":
		return nil, refuse(CodeInvalid, "a rule that ignores everything is refused; name a node, an object or a field")
	case ev.Until != 0 && ev.Until.Reached(now):
		return nil, refuse(CodeInvalid, "the end of the rule, %s, is over", ev.Until)
	case len(s.Rules) >= MaxIgnore:
		return nil, refuse(CodeConflict, "there are %d rules already", len(s.Rules))
	case ev.Reason == "":
		return nil, refuse(CodeInvalid, "a rule needs a reason")
	}
	return []event.OfNodes{ev}, nil
}

// Unignore ends a rule.
type Unignore struct{ Rule string }

func (in Unignore) decide(s *State, by By, _ clock.Instant) ([]event.OfNodes, error) {
	if s.Rules[in.Rule] == nil {
		return nil, refuse(CodeUnknown, "there is no rule %q", in.Rule)
	}
	return []event.OfNodes{event.DriftUnignored{Rule: in.Rule, Actor: by.Actor}}, nil
}
