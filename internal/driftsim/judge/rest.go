package judge

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"

	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/nodeconfig"
)

// same compares two configs but for what is ignored.
func (j *Judge) same(p Place, name string, a, b string) bool {
	return j.plain(p, name, a, true) == j.plain(p, name, b, true)
}

// plain is a config without what is ignored, in the device's spelling or its own.
func (j *Judge) plain(p Place, name, config string, normal bool) string {
	v, err := nodeconfig.Decode([]byte(config))
	m, is := v.(map[string]any)
	if err != nil || !is {
		return config
	}
	delete(m, "hits")
	for _, r := range j.rules { // order-free: each by itself
		if covers(r, p, name) && r.Field != "" {
			delete(m, r.Field)
		}
	}
	raw, _ := json.Marshal(m)
	out, _ := nodeconfig.Canonical(raw)
	if !normal {
		return string(out)
	}
	return string(j.normal(out))
}

// asObserved reports whether a device has what is wanted, and of what nobody asked for nothing
// that it did not have right after it was pushed.
func (j *Judge) asObserved(p Place, o *object, l *nodeconfig.Leg, has, observed string) bool {
	asked := members(string(o.def.Config(l)))
	want, now, then := members(j.plain(p, o.name, string(o.def.Config(l)), true)), members(j.plain(p, o.name, has, true)), members(j.plain(p, o.name, observed, true))
	for f, v := range now { // order-free: all of them count
		if v != then[f] && (v != want[f] || asked[f] == "") && (observed != "" || asked[f] != "") {
			return false
		}
	}
	for f := range then { // order-free: all of them count
		if now[f] == "" {
			return false
		}
	}
	return true
}

// members are the values of a config by name, and of a set by its elements, as text.
func members(config string) map[string]string {
	var m map[string]json.RawMessage
	_ = json.Unmarshal([]byte(config), &m)
	out := map[string]string{}
	for f, v := range m { // order-free: each by itself
		var set []struct {
			ID json.Number `json:"id"`
		}
		var elements []json.RawMessage
		if v[0] == '[' && json.Unmarshal(v, &set) == nil && json.Unmarshal(v, &elements) == nil { // null would be a list too
			for i, e := range elements {
				out[f+"/"+string(set[i].ID)] = string(e)
			}
			continue
		}
		out[f] = string(v)
	}
	return out
}

func covers(r event.DriftIgnored, p Place, name string) bool {
	return (r.Node == "" || r.Node == p.Node) && (r.Kind == "" || r.Kind == p.Kind) && (r.Name == "" || r.Name == name)
}

func (j *Judge) ignored(p Place, name string) bool {
	for _, r := range j.rules { // order-free: any of them does
		if r.Field == "" && covers(r, p, name) {
			return true
		}
	}
	return false
}

// Forgotten is what Rest is told of an object that the server does not know.
const Forgotten = "there is no such object"

// Rest judges when nothing happens any more: devices is what each has, waits says in the
// server's words why a leg is not pushed, deletes whether the server is to delete what no object
// names any more. In the end nothing waits for an operator.
func (j *Judge) Rest(devices map[Place]string, waits func(object, role string) string, deletes func(Place) bool, end bool) {
	for _, key := range slices.Sorted(maps.Keys(j.objects)) {
		o := j.objects[key]
		for role := range o.maybe { // order-free: each by itself
			if slices.Contains([]string{"", Forgotten}, waits(key, role)) {
				o.gone[role] = true
			}
		}
		for i := range o.def.Legs {
			l := &o.def.Legs[i]
			if o.gone[l.Role] {
				continue
			}
			if code := waits(key, l.Role); o.removed {
				j.restOfTombstone(devices, o, l, code, end)
			} else {
				j.restOfLeg(devices, o, l, code, end)
			}
		}
	}
	for _, p := range slices.SortedFunc(maps.Keys(devices), order) {
		n := j.node(p.Node)
		o := j.owner(p)
		if o == nil && j.owed[p] && n.registered && !n.retired && !deletes(p) {
			j.Violate("S50", "%v was to be deleted, is there, and the server has forgotten it", p)
		}
		switch {
		case !n.registered || n.retired || !n.online || n.paused != "" || n.adoption[p] && !end || n.episodes[p] != "" && !end:
		case o == nil && (n.episodes[p] == "" || end) && !j.ignored(p, p.ID):
			j.Violate("S46", "%v is there, and nobody knows it: episode %q", p, n.episodes[p])
		}
	}
	for _, name := range slices.Sorted(maps.Keys(j.nodes)) {
		n := j.nodes[name]
		for _, p := range slices.SortedFunc(maps.Keys(n.episodes), order) {
			if _, there := devices[p]; !there && j.owner(p) == nil && n.online && n.paused == "" {
				j.Violate("S46", "episode %s of %v is open, and nothing is there", n.episodes[p], p)
			}
		}
		if end && n.online && n.paused != "" {
			j.Violate("S45", "node %s is paused in the end: %s", name, n.paused)
		}
	}
}

func order(a, b Place) int {
	return cmp.Or(cmp.Compare(a.Node, b.Node), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.ID, b.ID))
}

// lasting are codes of what a leg may wait for when nothing happens any more.
func lasting(code string, end bool) bool {
	if end {
		return slices.Contains([]string{"not-registered", "offline", "order", "in-bin"}, code)
	}
	return slices.Contains([]string{"not-registered", "offline", "paused", "conflict", "order", "in-bin"}, code)
}

func (j *Judge) restOfLeg(devices map[Place]string, o *object, l *nodeconfig.Leg, code string, end bool) {
	p := o.place(l)
	n, k := j.node(p.Node), j.acked[p]
	has, there := devices[p]
	if !n.registered || n.retired || n.paused != "" || !n.online {
		if code == "" && k == nil {
			j.Violate("S45", "%v is of a node that is not there, and does not say so", p)
		}
		return
	}
	exact := there && k != nil && !k.guessed && k.version == o.version && j.same(p, o.name, has, k.observed)
	landed := there && (j.same(p, o.name, has, string(o.def.Config(l))) || k != nil && k.version == o.version && j.asObserved(p, o, l, has, k.observed))
	switch {
	case code != "" && !lasting(code, end):
		j.Violate("S45", "leg %s of %s waits at rest: %s", l.Role, o.name, code)
	case code != "":
	case !landed && (n.episodes[p] == "" || end) && !j.ignored(p, o.name):
		j.Violate("S45", "leg %s of %s is not on its node as wanted, and nothing says so: there is %s, wanted %s, episode %q", l.Role, o.name, has, o.def.Config(l), n.episodes[p])
	case (exact || landed && k == nil) && n.episodes[p] != "":
		j.Violate("S46", "episode %s of %v is open, and it is as wanted", n.episodes[p], p)
	}
}

func (j *Judge) restOfTombstone(devices map[Place]string, o *object, l *nodeconfig.Leg, code string, end bool) {
	p := o.place(l)
	n := j.node(p.Node)
	if !n.registered || n.retired || n.paused != "" || !n.online {
		return
	}
	_, there := devices[p]
	switch {
	case code == Forgotten && there:
		j.Violate("S50", "leg %s of %s was removed, is on its node, and the server has forgotten it", l.Role, o.name)
	case code == Forgotten:
	case code != "" && !lasting(code, end):
		j.Violate("S45", "leg %s of %s, which is removed, waits at rest: %s", l.Role, o.name, code)
	case code == "" && there:
		j.Violate("S50", "leg %s of %s was removed, is on its node, and waits for nothing", l.Role, o.name)
	}
}
