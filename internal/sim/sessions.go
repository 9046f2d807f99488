package sim

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/plan"
	"github.com/steadyfleet/steady/internal/core/spec"
)

// Sessions that have something on hosts: entries of managed layers that they own.

const (
	tidies   = 20 * clock.Second // how often the server looks for what is over
	neglects = 20 * clock.Minute // how long what is over stays in the layer where nobody removes it
)

// sitting is an entry of a session, as it is planned.
type sitting struct {
	host, session, entry string
	over                 clock.Instant // on the world's clock; zero before it was set
}

// sessions has sessions use hosts in some schedules. The draw is its own, so that other schedules
// stay as they are.
func (p *planning) sessions() {
	w, q := p.w, &planning{w: p.w, r: rand.New(rand.NewPCG(p.w.cfg.Seed, 0x5e551045))}
	r := q.r
	if r.IntN(4) != 0 {
		return
	}
	for i := range 1 + r.IntN(4) {
		b := sitting{host: w.agents[r.IntN(len(w.agents))].name, session: fmt.Sprintf("s%d", r.IntN(2)), entry: fmt.Sprintf("desk-%d", i)}
		last, ends, neglected := q.between(5*clock.Second, 10*clock.Minute), r.IntN(3) > 0, r.IntN(3) == 0
		words := "until it removes that"
		if ends {
			words = "to end after it"
			if neglected {
				words += " and be left in the layer"
			}
		}
		q.add(q.some(0), func() { w.sit(b, last, ends, neglected) }, "session %s has %s on %s for %s, %s", b.session, b.entry, b.host, last, words)
		if ends && r.IntN(3) == 0 {
			q.add(q.some(0.5), func() { w.extend(b, last) }, "session %s extends %s on %s to %s from then on", b.session, b.entry, b.host, last)
		}
	}
	w.after(tidies, w.tidy)
}

// sit sets an entry, with a notAfter on the server's clock if it ends by itself. One that is to
// end and is neglected stays in the layer for long.
func (w *World) sit(b sitting, last clock.Duration, ends, neglected bool) {
	s := w.server
	if s.away() {
		w.after(10*clock.Second, func() { w.sit(b, last, ends, neglected) })
		return
	}
	ev := event.ManagedSet{Kind: spec.KindWorkspace, Name: b.entry, Spec: []byte("{}"), Owner: spec.SessionOwner(b.session), Actor: "server", Reason: "drill"}
	b.over = w.now.Add(last)
	if ends {
		ev.NotAfter = s.now().Add(last)
		if neglected {
			b.over = b.over.Add(neglects)
		}
	}
	w.sittings = slices.DeleteFunc(w.sittings, func(o sitting) bool { return o.host == b.host && o.entry == b.entry })
	w.sittings = append(w.sittings, b)
	s.commit(plan.Record(s.state, b.host, s.now(), ev))
}

// extend sets an entry that is still there to end later.
func (w *World) extend(b sitting, by clock.Duration) {
	if h := w.server.state.Hosts[b.host]; h != nil && h.Occupied[entryID(b.entry)].Session != "" {
		w.sit(b, by, true, false)
	}
}

func entryID(entry string) string { return spec.KindWorkspace + "/" + entry }

// tidy removes what is over, also what a restored log has again, until nothing is left.
func (w *World) tidy() {
	w.after(tidies, w.tidy)
	s := w.server
	for _, a := range w.agents {
		h := s.state.Hosts[a.name]
		if h == nil {
			continue
		}
		for _, id := range slices.Sorted(maps.Keys(h.Occupied)) {
			if s.away() || w.keeps(a.name, id) {
				continue
			}
			until := h.Occupied[id].Until
			s.commit(plan.Record(s.state, a.name, s.now(), event.ManagedRemoved{Kind: spec.KindWorkspace, Name: strings.TrimPrefix(id, entryID("")),
				Actor: "server", Reason: "drill", Expired: until.Reached(s.now())}))
		}
	}
}

// keeps reports whether a session still wants an entry, or neglects it.
func (w *World) keeps(host, id string) bool {
	return slices.ContainsFunc(w.sittings, func(b sitting) bool { return b.host == host && entryID(b.entry) == id && b.over > w.now })
}

// occupied reports whether the judge knows of a session on a host by what the log has of it.
func (s *server) occupied(name string) bool {
	h := s.state.Hosts[name]
	if h == nil {
		return false
	}
	for _, o := range h.Occupied { // order-free: any one will do
		if !o.Until.Reached(s.now()) {
			return true
		}
	}
	return false
}
