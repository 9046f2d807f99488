package driftsim

import (
	"encoding/json"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/drift"
	"github.com/steadyfleet/steady/internal/core/nodeconfig"
)

// fault has something go wrong.
func (w *World) fault(n *node) {
	until := w.now.Add(clock.Duration(1+w.rng.IntN(900)) * clock.Second)
	switch w.rng.IntN(17) {
	case 0:
		n.incomplete = until
	case 1:
		n.blank = until
	case 2, 3:
		n.flaky = until
	case 4, 5:
		for _, kind := range n.kinds {
			for _, name := range names(kind) {
				if w.chance(40) {
					n.refuses[place{kind, nodeconfig.DefaultID(kind, name, nodeconfig.KindOf(kind).Roles[0])}] = until
				}
			}
		}
	case 6:
		w.cut(n, w.chance(50)) // the node's program is started again
		w.connect(n)
	case 7:
		n.forget()
	case 8:
		n.rebuild()
	case 9, 10:
		w.crash()
	case 11:
		if w.chance(50) {
			w.restore()
		}
	case 12, 13, 14, 15:
		n.quirk(until)
	default:
		n.own()
	}
}

// forget is a device that keeps nothing when it is started again.
func (n *node) forget() {
	n.w.trace("%s forgets its objects", n.name)
	clear(n.objects)
	n.gen++
	n.tell()
}

// rebuild sets a device up anew: it is another instance, and its program knows of no
// operation.
func (n *node) rebuild() {
	n.instance++
	clear(n.objects)
	if n.w.chance(40) {
		n.edit(n.somewhere())
	}
	n.w.trace("%s is set up anew", n.name)
	if n.w.chance(30) { // below its program
		n.gen++
		n.tell()
		return
	}
	n.w.cut(n, n.w.chance(50))
	n.op, n.gen = 0, 0
	clear(n.records)
	if n.w.chance(50) {
		n.identify()
	}
}

// own has a device change a field that is its own.
func (n *node) own() {
	for _, p := range n.places() {
		v, _ := nodeconfig.Decode(n.objects[p].config)
		m, is := v.(map[string]any)
		if !is {
			continue
		}
		m["hits"] = n.w.rng.IntN(1000)
		n.put(p, encode(m))
	}
	if c := n.conn; c != nil && n.w.chance(50) {
		for _, p := range n.places() {
			c.toServer = append(c.toServer, reply{effect: &drift.Effect{Node: n.name, Session: c.session, Kind: p.kind, ID: p.id, Effect: []string{"in effect", "not in effect"}[n.w.rng.IntN(2)]}})
		}
	}
}

// tell has the node say that somebody else changed something.
func (n *node) tell() {
	if n.conn != nil {
		n.conn.toServer = append(n.conn.toServer, reply{})
	}
}

// byHand is a change on the device by somebody else.
func (n *node) byHand() {
	have := n.places()
	switch {
	case len(have) == 0 || n.w.chance(25):
		n.edit(n.somewhere())
	case n.w.chance(35):
		p := have[n.w.rng.IntN(len(have))]
		n.w.trace("a hand deletes %s %s of %s", p.kind, p.id, n.name)
		n.remove(p)
	default:
		n.edit(have[n.w.rng.IntN(len(have))])
	}
	n.tell()
}

// edit has an object be another one, or one field of it.
func (n *node) edit(p place) {
	config := n.w.config()
	if was := n.objects[p]; was != nil && n.w.chance(70) {
		v, _ := nodeconfig.Decode(was.config)
		m, _ := v.(map[string]any)
		to, _ := nodeconfig.Decode(config)
		for _, f := range []string{"port", "note", "rate", "outputs", "mode"} {
			if n.w.chance(30) {
				if v, there := to.(map[string]any)[f]; there {
					m[f] = v
				} else {
					delete(m, f)
				}
			}
		}
		config = encode(m)
	}
	n.put(p, normal(config))
	n.w.trace("a hand has %s %s of %s be %s", p.kind, p.id, n.name, n.objects[p].config)
}

// somewhere is a place that the server may use as well, or one of the device's own.
func (n *node) somewhere() place {
	kind := n.kinds[n.w.rng.IntN(len(n.kinds))]
	if n.w.chance(30) {
		return place{kind, []string{"local", "Über Alles", "x/y"}[n.w.rng.IntN(3)]}
	}
	return place{kind, n.w.id(kind)}
}

// config draws one. Secrets are digests, texts such that JSON escapes them.
func (w *World) config() json.RawMessage {
	m := map[string]any{"port": json.Number([]string{"5000", "5001", "5.002e3", "5003.0", "5004"}[w.rng.IntN(5)])}
	if w.chance(50) {
		m["host"] = []string{"localhost", "127.0.0.1", "example.org"}[w.rng.IntN(3)]
	}
	if w.chance(50) {
		m["note"] = []any{"<a> & b", "plain", "5", json.Number("5"), "", nil}[w.rng.IntN(6)]
	}
	if w.chance(30) {
		m["rate"] = json.Number([]string{"1.0", "1", "1.5"}[w.rng.IntN(3)])
	}
	if w.chance(20) {
		m["key"] = nodeconfig.KeyedPrefix + string(rune('a'+w.rng.IntN(2)))
	}
	if w.chance(30) {
		list := []any{}
		for i, id := range w.rng.Perm(3) {
			if i == 0 || w.chance(50) {
				list = append(list, map[string]any{"id": id, "to": w.rng.IntN(3)})
			}
		}
		m["outputs"] = list
	}
	return encode(m)
}
