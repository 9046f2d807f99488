package driftsim

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strconv"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/drift"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/nodeconfig"
)

// place is an object of a device.
type place struct{ kind, id string }

// thing is one as the device has it, and what the node remembers of its operations.
type thing struct {
	config json.RawMessage
	etag   string
}

// record is what a node remembers of the newest operation that it applied to a place.
type record struct {
	op   uint64
	hash string
	etag string // right after it
}

// node is a model of a device with the program beside it, as package nodesdk documents it:
// one operation after the other, each only on what it names.
type node struct {
	w        *World
	name     string
	key      []byte
	next     []byte // announced key
	token    int    // counts registrations
	instance int
	machine  string
	kinds    []string

	objects map[place]*thing
	records map[place]record
	op      uint64
	gen     uint64

	conn *conn
	late []*conn // that the server may still read from

	refuses    map[place]clock.Instant // what the device finds invalid, until then
	incomplete clock.Instant           // what it cannot read as a whole, until then
	blank      clock.Instant           // what it reads as empty, until then
	flaky      clock.Instant           // it applies in part and reports an error, until then
	quirks     quirks
}

func newNode(w *World, name string) *node {
	n := &node{w: w, name: name, machine: "m" + strconv.Itoa(w.rng.IntN(2)), objects: map[place]*thing{}, records: map[place]record{}, refuses: map[place]clock.Instant{}}
	n.kinds = kinds
	n.identify()
	return n
}

// identify makes the node a new one to the server.
func (n *node) identify() {
	n.token++
	n.key, n.next = []byte(n.name+" key "+strconv.Itoa(n.token)), nil
}

func (n *node) collections() []event.NodeCollection {
	var out []event.NodeCollection
	for _, k := range n.kinds {
		out = append(out, event.NodeCollection{Kind: k, Rules: deviceRules()})
	}
	return out
}

// deviceRules are what the model's driver says of its objects.
func deviceRules() nodeconfig.Rules {
	return nodeconfig.Rules{Sets: map[string]string{"outputs": "id"}, Secrets: []string{"key"}, Ignored: []string{"hits"}, Ports: []string{"port"}}
}

// normal is a config as the device makes it: defaults, spellings and order are its own.
func normal(config json.RawMessage) json.RawMessage {
	folded, err := nodeconfig.Fold{Numbers: true}.Config(config)
	if err != nil {
		return config
	}
	v, err := nodeconfig.Decode(folded)
	m, is := v.(map[string]any)
	if err != nil || !is {
		return config
	}
	if m["mode"] == nil {
		m["mode"] = "auto"
	}
	if m["host"] == "localhost" {
		m["host"] = "127.0.0.1"
	}
	if list, is := m["outputs"].([]any); is {
		slices.SortFunc(list, func(a, b any) int { return compareText(fmt.Sprint(a), fmt.Sprint(b)) })
	}
	return encode(m)
}

func compareText(a, b string) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

func encode(v any) json.RawMessage {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	out, err := nodeconfig.Canonical(raw)
	if err != nil {
		panic(err)
	}
	return out
}

// etagOf names a content but for what the device changes by itself.
func etagOf(p place, config json.RawMessage) string {
	h := fnv.New64a()
	_, _ = fmt.Fprintf(h, "%s\x00%s\x00%s", p.kind, p.id, without(config, "hits"))
	return strconv.FormatUint(h.Sum64(), 36)
}

// without is a config without some of its fields.
func without(config json.RawMessage, fields ...string) json.RawMessage {
	v, err := nodeconfig.Decode(config)
	m, is := v.(map[string]any)
	if err != nil || !is {
		return config
	}
	for _, f := range fields {
		delete(m, f)
	}
	return encode(m)
}

func (n *node) put(p place, config json.RawMessage) {
	n.objects[p] = &thing{config, etagOf(p, config)}
	n.gen++
}

func (n *node) remove(p place) {
	delete(n.objects, p)
	n.gen++
}

func (n *node) actual(p place) *drift.Actual {
	o := n.objects[p]
	if o == nil {
		return nil
	}
	r := n.records[p]
	return &drift.Actual{Kind: p.kind, ID: p.id, ETag: o.etag, Op: r.op, OpETag: r.etag, Config: slices.Clone(o.config)}
}

// snapshot reads the whole configuration.
func (n *node) snapshot() drift.Snapshot {
	s := drift.Snapshot{Node: n.name, Generation: n.gen, Op: n.reported(), Complete: true, Instance: n.instanceName()}
	if n.incomplete > n.w.now {
		s.Complete, s.Error = false, "a part cannot be read"
	}
	if n.blank > n.w.now {
		return s
	}
	for _, p := range n.places() {
		if s.Complete || n.w.chance(50) {
			s.Objects = append(s.Objects, *n.actual(p))
		}
	}
	return s
}

func (n *node) instanceName() string { return n.name + "/" + strconv.Itoa(n.instance) }

func (n *node) places() []place {
	return slices.SortedFunc(maps.Keys(n.objects), func(a, b place) int { return compareText(a.kind+"/"+a.id, b.kind+"/"+b.id) })
}

func (n *node) etag(p place) string {
	if o := n.objects[p]; o != nil {
		return o.etag
	}
	return ""
}

// apply does an operation, and judges by what the device has then.
func (n *node) apply(a *drift.Push) drift.Answer {
	p := place{a.Kind, a.ID}
	if n.quirks.lies > n.w.now {
		return n.lie(a, p)
	}
	out := drift.Answer{Node: n.name, Op: a.Op}
	hash := fmt.Sprint(a.Delete, string(a.Config))
	r, was := n.records[p], n.objects[p]
	finish := func(o drift.Outcome, code, text string) drift.Answer {
		out.Outcome, out.Code, out.Error, out.Object = o, code, text, n.actual(p)
		return out
	}
	want, wantTag := n.wanted(a, p, was)
	record := func() {
		n.records[p] = record{a.Op, hash, n.etag(p)}
		n.op = max(n.op, a.Op)
	}
	done := func(o drift.Outcome) drift.Answer {
		record()
		out.Want = want
		return finish(o, "", "")
	}
	again := a.Op == r.op && hash == r.hash
	switch {
	case !slices.Contains(n.kinds, a.Kind):
		return finish(drift.Invalid, "unknown-kind", "the node has no objects of that kind")
	case a.Op <= r.op && !again:
		return finish(drift.Conflict, "stale-operation", "")
	case n.etag(p) == wantTag:
		return done(drift.Already)
	case n.etag(p) != a.IfMatch || again:
		return finish(drift.Conflict, "", "")
	case n.refuses[p] > n.w.now && !a.Delete:
		return finish(drift.Invalid, "port-in-use", "the port is busy")
	case n.refuses[p] > n.w.now:
		return finish(drift.NotApplied, "device", "the device is busy")
	}
	n.w.judge.Applied(n.name, p.kind, p.id, n.etag(p), a.Op)
	if n.flaky > n.w.now && n.w.chance(50) && !a.Delete {
		n.put(p, n.w.mixed(was, normal(want)))
		return finish(drift.MaybeApplied, "device", "the device answered 500")
	}
	n.make(a, p, want)
	switch is := n.etag(p) == wantTag; {
	case n.flaky > n.w.now:
		if is {
			record()
		}
		return finish(drift.MaybeApplied, "device", "the device did not answer")
	case !is:
		return finish(drift.NotApplied, "other-values", "the device accepted the change, and has something else")
	}
	return done(drift.Applied)
}

// mixed is what is left of an operation that was done in part.
func (w *World) mixed(was *thing, want json.RawMessage) json.RawMessage {
	if was == nil {
		return without(want, "note", "rate")
	}
	v, _ := nodeconfig.Decode(was.config)
	to, _ := nodeconfig.Decode(want)
	m, goal := v.(map[string]any), to.(map[string]any)
	for _, f := range []string{"port", "host"} {
		if goal[f] != nil {
			m[f] = goal[f]
		}
	}
	return normal(encode(m))
}
