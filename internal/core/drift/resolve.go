package drift

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/nodeconfig"
)

// Actions on drift (seed 000).
const (
	ActionRepush       = "repush"
	ActionIngest       = "ingest"
	ActionDeleteNode   = "delete-node"
	ActionDeleteServer = "delete-server"
)

// Actions lists them.
func Actions() []string {
	return []string{ActionRepush, ActionIngest, ActionDeleteNode, ActionDeleteServer}
}

// actionsFor are those that make sense of a kind of drift.
var actionsFor = map[string][]string{
	Extraneous: {ActionIngest, ActionDeleteNode},
	Missing:    {ActionRepush, ActionDeleteServer},
	Mismatched: {ActionRepush, ActionIngest, ActionDeleteNode, ActionDeleteServer},
}

// ActionsFor lists the actions that make sense of a kind of drift.
func ActionsFor(drift string) []string { return actionsFor[drift] }

// Resolve decides about an episode. Fields are those that a repush leaves as they are on the
// node. As names an object that an ingest makes; empty is the device's name for it. ETag is
// what the operator has seen; empty is whatever the episode has. Resolution is unique.
type Resolve struct {
	Episode, Action, Resolution string
	Fields                      []string
	As, ETag                    string
}

func (in Resolve) decide(s *State, by By, _ clock.Instant) ([]event.OfNodes, error) {
	e := s.Episode(in.Episode)
	switch {
	case e == nil:
		return nil, refuse(CodeUnknown, "there is no open episode %q; steady drift list shows those that are open", in.Episode)
	case in.ETag != "" && in.ETag != e.ETag:
		return nil, refuse(CodeConflict, "the node changed the object again since you looked: steady drift show %s", in.Episode)
	case !slices.Contains(actionsFor[e.Drift], in.Action):
		return nil, refuse(CodeInvalid, "%s is no way to resolve drift of kind %s: expected one of %s", in.Action, e.Drift, strings.Join(actionsFor[e.Drift], ", "))
	case len(in.Fields) > 0 && in.Action != ActionRepush:
		return nil, refuse(CodeInvalid, "single fields are chosen for a repush alone")
	}
	ref := s.legs[e.Node][place{e.Kind, e.ID}]
	o, _, l := s.leg(ref)
	if e.Decided && (l == nil || l.Match == nil || l.Status == Pushing) {
		return nil, refuse(CodeConflict, "that was decided, and is done as soon as node %s has answered and was compared", e.Node)
	}
	if o != nil && o.Anonymous {
		o = nil
	}
	if (o == nil) != (e.Name == "") || o != nil && (o.Name != e.Name || ref.role != e.Role) {
		return nil, refuse(CodeConflict, "the definition of the object changed since; node %s is being compared again", e.Node)
	}
	r := resolving{s: s, in: in, o: o, by: by, kind: e.Kind, role: e.Role, ev: event.DriftResolved{SyncOf: event.Sync(e.Node, e.Kind, cmp.Or(e.Name, e.ID), e.Role), Episode: e.Episode, Resolution: in.Resolution,
		Action: in.Action, Drift: e.Drift, ID: e.ID, Name: e.Name, Fields: in.Fields, ETag: e.ETag, Actual: e.Actual, Actor: by.Actor, Reason: by.Reason}}
	return r.decide()
}

// resolving is one decision about an object of a node.
type resolving struct {
	s    *State
	in   Resolve
	by   By
	kind string
	role string
	o    *Object // nil if the server does not know it
	ev   event.DriftResolved
	used map[string]bool // names that are given in the same decision
}

func (r *resolving) decide() ([]event.OfNodes, error) {
	if r.o != nil {
		d := r.o.Definition
		r.ev.Before = &d
	}
	switch r.in.Action {
	case ActionIngest:
		return r.ingest()
	case ActionRepush:
		return r.repush()
	case ActionDeleteServer:
		return []event.OfNodes{r.removed(true), r.ev}, nil
	}
	if r.o == nil || r.o.Removed {
		return []event.OfNodes{r.ev}, nil
	}
	return []event.OfNodes{r.removed(false), r.ev}, nil
}

func (r *resolving) removed(keep bool) event.ConfigRemoved {
	return event.ConfigRemoved{Object: event.Object{Kind: r.o.Kind, Name: r.o.Name}, Keep: keep, Actor: r.by.Actor, Reason: r.by.Reason}
}

// repush has the node be as the server has it, but for the fields that were chosen.
func (r *resolving) repush() ([]event.OfNodes, error) {
	if r.o.Removed {
		return []event.OfNodes{r.ev}, nil // the tombstone deletes what is there now
	}
	if len(r.in.Fields) == 0 {
		return []event.OfNodes{r.ev}, nil
	}
	rules := r.s.RulesOf(r.ev.Node, r.kind, r.o.Name)
	config, err := rules.Mix(r.o.Definition.Config(r.o.Definition.Leg(r.role)), r.ev.Actual, r.in.Fields)
	if err != nil {
		return nil, refuse(CodeInvalid, "%v", err)
	}
	set, err := r.set(config)
	if err != nil {
		return nil, err
	}
	return []event.OfNodes{set, r.ev}, nil
}

// ingest has the server want what the node has.
func (r *resolving) ingest() ([]event.OfNodes, error) {
	if r.o == nil {
		d, name, err := r.adopted()
		if err != nil {
			return nil, err
		}
		r.ev.Name = name
		return []event.OfNodes{event.ConfigSet{Object: event.Object{Kind: r.kind, Name: name}, Version: r.s.nextVersion(r.kind, name), Definition: d, Origin: event.OriginIngest, Base: event.BaseDefined,
			Actor: r.by.Actor, Reason: r.by.Reason}, r.ev}, nil
	}
	set, err := r.set(r.ev.Actual)
	if err != nil {
		return nil, err
	}
	set.Origin, set.Base = event.OriginIngest, event.BaseDefined
	return []event.OfNodes{set, r.ev}, nil
}

// adopted is the definition of an object that the server did not know, and a name for it.
func (r *resolving) adopted() (nodeconfig.Definition, string, error) {
	k := nodeconfig.KindOf(r.kind)
	mode := k.Modes[len(k.Modes)-1]
	d := nodeconfig.Definition{Mode: mode.Name, Legs: []nodeconfig.Leg{{Role: mode.Roles[0], Node: r.ev.Node, ID: r.ev.ID, Config: r.ev.Actual}}}
	name := cmp.Or(r.in.As, NameFor(r.ev.ID))
	used := func() bool {
		o := r.s.Objects[Key(r.kind, name)]
		return !o.freesName() || o != nil && o.Removed || r.used[Key(r.kind, name)]
	}
	if r.in.As == "" && used() {
		name = NameFor(name + "." + r.ev.Node)
	}
	if used() {
		return d, "", refuse(CodeConflict, "there is a %s %s already; choose another name with --as", r.kind, name)
	}
	d, err := nodeconfig.Normal(r.kind, name, d)
	if err != nil {
		return d, "", refuse(CodeInvalid, "%v; choose another name with --as", err)
	}
	return d, name, r.s.free(r.kind, name, &d)
}

// NameFor makes a name of what a device calls an object.
func NameFor(id string) string {
	var b strings.Builder
	for _, c := range strings.ToLower(id) {
		switch {
		case c >= 'a' && c <= 'z', c >= '0' && c <= '9', (c == '.' || c == '_' || c == '-') && b.Len() > 0:
			b.WriteRune(c)
		case b.Len() > 0:
			b.WriteByte('-')
		}
	}
	name := b.String()
	if name == "" {
		return "object"
	}
	return name[:min(len(name), 63)]
}

// set is the object with one leg's config as given. What its legs share is written out where
// the leg has it otherwise.
func (r *resolving) set(config json.RawMessage) (event.ConfigSet, error) {
	d := r.o.Definition
	d.Legs = slices.Clone(d.Legs)
	for i := range d.Legs {
		if d.Legs[i].Role == r.role {
			d.Legs[i].Config = config
		}
	}
	if l := d.Leg(r.role); l == nil {
		return event.ConfigSet{}, refuse(CodeConflict, "%s %s has no leg %s any more", r.kind, r.o.Name, r.role)
	} else if string(d.Config(l)) != string(config) {
		for i := range d.Legs {
			if d.Legs[i].Role != r.role {
				d.Legs[i].Config = d.Config(&d.Legs[i])
			}
		}
		d.Shared = nil
	}
	d, err := nodeconfig.Normal(r.kind, r.o.Name, d)
	if err != nil {
		return event.ConfigSet{}, refuse(CodeInvalid, "%v", err)
	}
	return event.ConfigSet{Object: event.Object{Kind: r.kind, Name: r.o.Name}, Version: r.o.Version + 1, Definition: d, Origin: event.OriginOperator, Actor: r.by.Actor, Reason: r.by.Reason}, r.s.free(r.kind, r.o.Name, &d)
}

// Adopt decides about objects of a node that an adoption asks about: they are ingested, all
// where none is named. Resolution is unique, and gets a number for each.
type Adopt struct {
	Node       string
	Objects    []ObjectRef
	Resolution string
}

// ObjectRef names an object of a node.
type ObjectRef struct {
	Kind string `json:"kind"`
	ID   string `json:"id"`
}

func (in Adopt) decide(s *State, by By, _ clock.Instant) ([]event.OfNodes, error) {
	n, err := s.known(in.Node)
	if err != nil {
		return nil, err
	}
	if n.Adoption == nil {
		return nil, refuse(CodeConflict, "no objects of node %s wait to be adopted", in.Node)
	}
	for _, p := range in.Objects {
		if !slices.ContainsFunc(n.Adoption.Objects, func(x event.NodeObject) bool { return x.Kind == p.Kind && x.ID == p.ID }) {
			return nil, refuse(CodeUnknown, "no %s %q of node %s waits to be adopted", p.Kind, p.ID, in.Node)
		}
	}
	var out []event.OfNodes
	used := map[string]bool{}
	for i, x := range n.Adoption.Objects {
		if len(in.Objects) > 0 && !slices.Contains(in.Objects, ObjectRef{x.Kind, x.ID}) {
			continue
		}
		r := resolving{s: s, in: Resolve{Action: ActionIngest}, by: by, kind: x.Kind, used: used, ev: event.DriftResolved{SyncOf: event.Sync(in.Node, x.Kind, x.ID, ""), Resolution: fmt.Sprintf("%s-%d", in.Resolution, i+1),
			Action: ActionIngest, Drift: Extraneous, ID: x.ID, ETag: x.ETag, Actual: x.Config, Actor: by.Actor, Reason: by.Reason}}
		events, err := r.decide()
		if err != nil {
			return nil, err
		}
		used[Key(x.Kind, r.ev.Name)] = true
		out = append(out, events...)
	}
	return out, nil
}

// Dismiss ends an adoption: each of its objects becomes an episode of drift.
type Dismiss struct{ Node string }

func (in Dismiss) decide(s *State, by By, _ clock.Instant) ([]event.OfNodes, error) {
	n, err := s.known(in.Node)
	if err != nil {
		return nil, err
	}
	if n.Adoption == nil {
		return nil, refuse(CodeConflict, "no objects of node %s wait to be adopted", in.Node)
	}
	return []event.OfNodes{event.AdoptionClosed{OnNode: event.OnNode{Node: in.Node}, Reason: cmp.Or(by.Reason, "each is decided about by itself"), Actor: by.Actor}}, nil
}

// newest is the newest decision like that which was not undone, or nil.
func (s *State) newest(like func(*Resolution) bool) *Resolution {
	for i := range slices.Backward(s.Resolutions) {
		if r := &s.Resolutions[i]; !r.Undone && like(r) {
			return r
		}
	}
	return nil
}

// deletes reports whether the decision had an object be deleted.
func (r *Resolution) deletes(kind, name string) bool {
	of, _ := r.Object()
	return (r.Action == ActionDeleteServer || r.Action == ActionDeleteNode) && of == kind && (r.Name == name || r.ID == name)
}

// Undo takes a decision back.
type Undo struct{ Resolution string }

func (in Undo) decide(s *State, by By, _ clock.Instant) ([]event.OfNodes, error) {
	i := slices.IndexFunc(s.Resolutions, func(r Resolution) bool { return r.Resolution == in.Resolution })
	if i < 0 {
		about := s.newest(func(r *Resolution) bool { return slices.Contains([]string{r.ID, r.Name, r.Episode}, in.Resolution) })
		if about != nil {
			return nil, refuse(CodeUnknown, "%q is what a decision was about, and not its name; the newest about it is %s: steady drift undo %s", in.Resolution, about.Resolution, about.Resolution)
		}
		return nil, refuse(CodeUnknown, "there is no decision %q, or it is too long ago; steady drift decisions lists them (resolution, in JSON)", in.Resolution)
	}
	was := s.Resolutions[i]
	if was.Undone {
		return nil, refuse(CodeConflict, "decision %s was undone already", in.Resolution)
	}
	kind, _ := was.Object()
	name := cmp.Or(was.Name, NameFor(was.ID))
	o := s.Objects[Key(kind, name)]
	if was.Before == nil && (o == nil || o.place(&nodeconfig.Leg{Node: was.Node, ID: was.ID}) == nil) {
		o = nil // another one of that name
	}
	undone := event.ResolutionUndone{SyncOf: was.SyncOf, Resolution: in.Resolution, Actor: by.Actor, Reason: by.Reason}
	set := event.ConfigSet{Object: event.Object{Kind: kind, Name: name}, Version: s.nextVersion(kind, name), Origin: event.OriginUndo, Actor: by.Actor, Reason: by.Reason}
	r := resolving{s: s, by: by, kind: kind, role: was.Leg, o: o, ev: was.DriftResolved}
	if r.role == "" {
		r.role = nodeconfig.KindOf(kind).Roles[0]
	}
	switch {
	case was.Action == ActionIngest && was.Before == nil && o != nil: // it is extraneous again
		return []event.OfNodes{r.removed(true), undone}, nil
	case (was.Action == ActionIngest || was.Action == ActionDeleteServer) && was.Before != nil: // what the node has is drift again
		set.Definition, set.Base = *was.Before, event.BaseUnknown
		if was.Drift == Missing { // else it would be created again
			set.Base = event.BaseDefined
		}
		return []event.OfNodes{set, undone}, s.free(kind, name, &set.Definition)
	case was.Action == ActionRepush && o != nil && len(was.Actual) > 0:
		back, err := r.set(was.Actual)
		back.Origin = event.OriginUndo
		return []event.OfNodes{back, undone}, err
	case was.Action == ActionDeleteNode && len(was.Actual) > 0:
		return r.recreate(was, set, undone)
	}
	return nil, refuse(CodeConflict, "decision %s cannot be undone: what it was about is not there any more", in.Resolution)
}

// recreate gives a node back what was deleted there, as it was.
func (r *resolving) recreate(was Resolution, set event.ConfigSet, undone event.ResolutionUndone) ([]event.OfNodes, error) {
	if was.Before != nil {
		r.o = &Object{Kind: set.Kind, Name: set.Name, Definition: *was.Before}
		back, err := r.set(was.Actual)
		if err != nil {
			return nil, err
		}
		set.Definition = back.Definition
		return []event.OfNodes{set, undone}, nil
	}
	d, name, err := r.adopted()
	if err != nil {
		return nil, err
	}
	set.Name, set.Version, set.Definition = name, r.s.nextVersion(set.Kind, name), d
	return []event.OfNodes{set, undone}, nil
}
