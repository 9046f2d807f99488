package driftsim

import (
	"encoding/json"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/drift"
	"github.com/steadyfleet/steady/internal/core/nodeconfig"
)

// quirks are how a device and its program fail to do what they acknowledge, each until an
// instant.
type quirks struct {
	forgets clock.Instant // the device accepts changes and has what it had before
	meddled clock.Instant // somebody edits between a change and what is read after it
	plain   clock.Instant // the driver has no Normalize, and the device spells as it likes
	lies    clock.Instant // the program answers what is not so
	over    uint64        // and says that it applied so many operations more
}

// quirk has one of them begin.
func (n *node) quirk(until clock.Instant) {
	q := &n.quirks
	switch n.w.rng.IntN(5) {
	case 0:
		q.forgets = until
	case 1, 2:
		q.meddled = until
	case 3:
		q.plain = until
	default:
		q.lies, q.over = until, uint64(n.w.rng.IntN(3))
	}
	n.w.trace("%s has quirks: %+v", n.name, *q)
}

// reported is the newest operation that the node says it applied.
func (n *node) reported() uint64 {
	if n.quirks.lies > n.w.now {
		return n.op + n.quirks.over
	}
	return n.op
}

// wanted is what the device is to have, as the driver spells it, with its ETag: none for
// nothing.
func (n *node) wanted(a *drift.Push, p place, was *thing) (json.RawMessage, string) {
	if a.Delete {
		return nil, ""
	}
	want, rules := a.Config, deviceRules()
	if was != nil {
		want = rules.Pushed(want, was.config)
	}
	made := normal(want)
	if n.quirks.plain <= n.w.now || len(rules.Compare(want, made, nil)) == 0 {
		return made, etagOf(p, made)
	}
	return want, etagOf(p, want)
}

// make has the device do what it makes of an operation.
func (n *node) make(a *drift.Push, p place, want json.RawMessage) {
	switch {
	case n.quirks.forgets > n.w.now:
		n.w.trace("%s forgets operation %d", n.name, a.Op)
	case a.Delete:
		n.remove(p)
	default:
		n.put(p, normal(want))
	}
	if n.quirks.meddled <= n.w.now || n.w.chance(30) {
		return
	}
	if n.objects[p] != nil && n.w.chance(20) {
		n.w.trace("a hand deletes %s %s of %s right after", p.kind, p.id, n.name)
		n.remove(p)
	} else {
		n.edit(p)
	}
	n.tell()
}

// lie answers an operation that is not done.
func (n *node) lie(a *drift.Push, p place) drift.Answer {
	out := drift.Answer{Node: n.name, Op: a.Op, Outcome: drift.Applied}
	if n.w.chance(30) {
		out.Outcome = drift.Already
	}
	of := func(config json.RawMessage) *drift.Actual {
		return &drift.Actual{Kind: p.kind, ID: p.id, ETag: etagOf(p, config), Op: a.Op, OpETag: etagOf(p, config), Config: config}
	}
	invented := func() json.RawMessage {
		v, err := nodeconfig.Decode(a.Config)
		m, is := v.(map[string]any)
		if err != nil || !is {
			return json.RawMessage("{}")
		}
		m["port"], m["invented"] = json.Number("1"), nil
		return encode(m)
	}
	switch n.w.rng.IntN(6) {
	case 0: // with what it has, and a true word of how it spells what was asked
		out.Object = n.actual(p)
		if !a.Delete {
			out.Want = normal(a.Config)
		}
	case 1: // with what was asked
		if !a.Delete {
			out.Object = of(a.Config)
		}
	case 2: // with other values
		out.Object = of(invented())
	case 3: // which it calls its own spelling
		out.Object = of(invented())
		out.Want = out.Object.Config
	case 4: // with nothing
		out.Want = a.Config
	default:
		out.Outcome, out.Code, out.Error = drift.NotApplied, "device", "no"
	}
	return out
}
