package driftsim

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/drift"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/nodeconfig"
)

// names are those that operators give to objects of a kind.
func names(kind string) []string {
	switch kind {
	case nodeconfig.Flow:
		return []string{"f1", "f2", "f3"}
	case nodeconfig.Tunnel:
		return []string{"t1", "t2"}
	}
	return []string{"d1"}
}

// kinds are those that every fleet has, and one that drivers have a word of their own for.
var kinds = append(nodeconfig.KindNames(), "camera")

// id draws what a device may call an object.
func (w *World) id(kind string) string {
	list := names(kind)
	roles := nodeconfig.KindOf(kind).Roles
	return nodeconfig.DefaultID(kind, list[w.rng.IntN(len(list))], roles[w.rng.IntN(len(roles))])
}

// edit has an operator change something. A refusal says why in words.
func (w *World) edit(e drift.Edit) error {
	events, err := w.state.Edit(e, drift.By{Actor: "ann", Reason: "a test"}, w.now)
	w.trace("an operator: %T %+v: %v", e, e, err)
	if err != nil && (!refused(err) || len(events) > 0) {
		panic(err)
	}
	w.commit(events)
	return err
}

// operate has an operator do one thing.
func (w *World) operate() {
	n := w.nodes[w.rng.IntN(len(w.nodes))]
	switch p := w.rng.IntN(100); {
	case p < 45:
		_ = w.edit(w.set())
	case p < 53:
		kind := kinds[w.rng.IntN(len(kinds))]
		_ = w.edit(drift.Remove{Kind: kind, Name: names(kind)[w.rng.IntN(len(names(kind)))]})
	case p < 75:
		w.resolveOne()
	case p < 79:
		if all := w.state.Resolutions; len(all) > 0 {
			_ = w.edit(drift.Undo{Resolution: all[w.rng.IntN(len(all))].Resolution})
		}
	case p < 84:
		_ = w.edit(drift.Resume{Node: n.name, Push: w.chance(50)})
	case p < 88:
		w.adopt(n)
	case p < 89:
		_ = w.edit(drift.Reconcile{Node: n.name})
	case p < 90:
		_ = w.edit(drift.PushNow{Node: n.name})
	case p < 93:
		w.ignore()
	case p < 94:
		_ = w.edit(drift.Retire{Node: n.name})
		if st := w.state.Nodes[n.name]; st != nil && st.RetiredAt != 0 && n.conn != nil {
			n.late, n.conn = append(n.late[max(0, len(n.late)-1):], n.conn), nil
		}
	case p < 96:
		if n.conn != nil && n.next == nil {
			n.next = []byte(n.name + " next " + strconv.Itoa(w.name()))
			w.must(w.step(drift.NextKey{Node: n.name, Session: n.conn.session, Key: n.next}))
		}
	default:
		w.unbin()
	}
}

func (w *World) name() int {
	w.made++
	return w.made
}

func (w *World) unbin() {
	for _, key := range slices.Sorted(maps.Keys(w.state.Objects)) {
		o := w.state.Objects[key]
		for _, l := range o.Legs {
			if l.BinnedUntil != 0 {
				_ = w.edit(drift.Unbin{Kind: o.Kind, Name: o.Name})
				return
			}
		}
	}
}

func (w *World) ignore() {
	if ids := slices.Sorted(maps.Keys(w.state.Rules)); len(ids) > 0 && w.chance(50) {
		_ = w.edit(drift.Unignore{Rule: ids[w.rng.IntN(len(ids))]})
		return
	}
	in := event.DriftIgnored{Rule: "r" + strconv.Itoa(w.name()), Field: "note", Until: w.now.Add(clock.Duration(1+w.rng.IntN(900)) * clock.Second)}
	switch w.rng.IntN(3) {
	case 0:
		in.Kind, in.Name, in.Field = nodeconfig.Flow, w.id(nodeconfig.Flow), ""
	case 1:
		in.Node, in.Until = w.nodes[0].name, 0
	}
	_ = w.edit(drift.Ignore{DriftIgnored: in})
}

func (w *World) adopt(n *node) {
	if w.chance(30) {
		_ = w.edit(drift.Dismiss{Node: n.name})
		return
	}
	in := drift.Adopt{Node: n.name, Resolution: "a" + strconv.Itoa(w.name())}
	if st := w.state.Nodes[n.name]; st != nil && st.Adoption != nil && len(st.Adoption.Objects) > 0 && w.chance(40) {
		x := st.Adoption.Objects[0]
		in.Objects = []drift.ObjectRef{{Kind: x.Kind, ID: x.ID}}
	}
	_ = w.edit(in)
}

// set draws a definition: on the nodes where it is, mostly.
func (w *World) set() drift.Set {
	kind := kinds[[]int{0, 0, 1, 1, 2, 3}[w.rng.IntN(6)]]
	in := drift.Set{Kind: kind, Name: names(kind)[w.rng.IntN(len(names(kind)))], AllowPorts: w.chance(90)}
	k := nodeconfig.KindOf(kind)
	m := k.Modes[w.rng.IntN(len(k.Modes))]
	in.Definition.Mode = m.Name
	if w.chance(25) {
		in.Definition.Shared = json.RawMessage(`{"note":"shared","host":"localhost"}`)
	}
	old := w.state.Objects[drift.Key(kind, in.Name)]
	if old != nil && w.chance(70) {
		in.Definition.Mode, m = old.Definition.Mode, mode(k, old.Definition.Mode)
	}
	for _, role := range m.Roles {
		l := nodeconfig.Leg{Role: role, Node: w.nodes[w.rng.IntN(len(w.nodes))].name, Config: w.config()}
		if w.chance(8) {
			l.ID = w.id(kind)
		}
		if w.chance(3) {
			l.Node = "nowhere"
		}
		if old != nil && w.chance(75) {
			if was := old.Definition.Leg(role); was != nil {
				l.Node, l.ID = was.Node, was.ID
				if w.chance(40) {
					l.Config = was.Config
				}
			}
		}
		in.Definition.Legs = append(in.Definition.Legs, l)
	}
	return in
}

func mode(k *nodeconfig.Kind, name string) nodeconfig.Mode {
	for _, m := range k.Modes {
		if m.Name == name {
			return m
		}
	}
	return k.Modes[0]
}

// episodes lists those that are open.
func (w *World) episodes() (out []*drift.Episode) {
	for _, name := range slices.Sorted(maps.Keys(w.state.Nodes)) {
		n := w.state.Nodes[name]
		for _, key := range slices.Sorted(maps.Keys(n.Episodes)) {
			out = append(out, n.Episodes[key])
		}
	}
	return out
}

func (w *World) resolveOne() {
	if open := w.episodes(); len(open) > 0 {
		_ = w.resolve(open[w.rng.IntN(len(open))])
	}
}

func (w *World) resolve(e *drift.Episode) error {
	actions := drift.ActionsFor(e.Drift)
	in := drift.Resolve{Episode: e.Episode, Action: actions[w.rng.IntN(len(actions))], Resolution: "s" + strconv.Itoa(w.name()), ETag: e.ETag}
	if in.Action == drift.ActionRepush && w.chance(30) {
		for _, d := range e.Differences {
			if w.chance(50) {
				in.Fields = append(in.Fields, d.Field)
			}
		}
	}
	if in.Action == drift.ActionIngest && e.Name == "" && w.chance(30) {
		in.As = fmt.Sprintf("g%d", w.name())
	}
	return w.edit(in)
}
