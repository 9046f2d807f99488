package sim

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"github.com/steadyfleet/steady/internal/core/audit"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/oracle"
	"github.com/steadyfleet/steady/internal/core/plan"
)

// store is what every server of a schedule writes to, with a head
// {sequence, term} that each append is held against, as the real stores do.
type store struct {
	w       *World
	entries []event.Entry
	events  []event.Event // of each
	terms   []uint64      // under which each was committed
	audit   *audit.Log
	second  *plan.State // is folded beside the leader's; nil while it has to be made
	term    uint64
	batches []int  // where each ends: a backup holds whole ones
	whole   int    // how much of it a backup has at least
	cut     bool   // it was put back to a backup
	bases   []base // what it was pruned to, the newest last; backups have their own
	labs    labsBase
	// processes counts those that ever led, also under a log that was put back.
	processes int
	// acknowledged is how long the log was when an append was last answered: its anchor.
	acknowledged int
}

func newStore(w *World) *store {
	const many = 256 // events, of most schedules
	return &store{w: w, audit: audit.NewLog(w.docs), entries: make([]event.Entry, 0, many), events: make([]event.Event, 0, many), terms: make([]uint64, 0, many)}
}

var errFenced = errors.New("the head has moved on")

// folded is an entry with the event that a server folded for it.
type folded struct {
	entry event.Entry
	event event.Event
}

// append makes entries durable and has every checker look at them. made is what the
// server folded as it decided them.
func (l *store) append(seq int, term uint64, entries []event.Entry, made []folded) error {
	if term != l.term || seq != len(l.entries) {
		return errFenced
	}
	if err := l.closed(entries); err != nil {
		l.w.violate("S33", "%v", err)
	}
	l.batches = append(l.batches, len(l.entries)+len(entries))
	for _, e := range entries {
		var ev event.Event
		var err error
		if ev, made, err = l.read(e, made); err != nil {
			return err
		}
		l.entries, l.events, l.terms = append(l.entries, e), append(l.events, ev), append(l.terms, term)
		if l.w.cfg.Trace != nil {
			l.w.trace("log %d %s %s %s", len(l.entries), e.Host(), e.Type, e.Body)
		}
		if _, is := ev.(event.LogRestored); is {
			l.w.checks.setBack(l.w, e.Host())
		}
		l.w.found = append(l.w.found, l.w.againstOthers(l.audit.ObserveEvent(uint64(len(l.entries)), e, ev))...)
	}
	l.acknowledged = len(l.entries)
	return nil
}

// read returns the event of an entry, and what is left of those that were made. In
// one schedule of eight it is decoded from the bytes, and has to be what they were
// made of; in the others it is decoded only where the server folded something else.
func (l *store) read(e event.Entry, made []folded) (event.Event, []folded, error) {
	var ev event.Event
	for len(made) > 0 && ev == nil {
		if m := &made[0]; m.entry.Type == e.Type && &m.entry.Body[0] == &e.Body[0] {
			ev = m.event
		}
		made = made[1:]
	}
	if ev != nil && !l.fromBytes() {
		return ev, made, nil
	}
	read, err := ev, error(nil)
	if ev == nil || !event.FromHost(e.Type) { // the server decoded those of hosts: see ingest
		read, err = event.Decode(e)
	}
	if err != nil || ev == nil {
		return read, made, err
	}
	if e.HostSeq != 0 && l.w.lied[e.Host()] {
		return read, made, nil // what it signed is kept, and what is read of it is clean
	}
	if again, err := event.NewEntry(e.At, e.Subject, read); err != nil || !bytes.Equal(again.Body, e.Body) {
		return nil, nil, fmt.Errorf("%s %s reads back as %s (%v)", e.Type, e.Body, again.Body, err)
	}
	return read, made, nil
}

// fromBytes reports whether this schedule reads all of the log as it is stored.
func (l *store) fromBytes() bool { return l.w.cfg.Seed%8 == 0 }

// fold builds the state that the log stands for.
func (l *store) fold() (*plan.State, error) {
	return l.foldFrom(l.base())
}

func (l *store) foldFrom(b base) (*plan.State, error) {
	s := plan.New(l.w.docs)
	if b.state != nil {
		var err error
		if s, err = plan.Restore(b.state, l.w.docs); err != nil {
			return nil, err
		}
	}
	for i := b.n; i < len(l.entries); i++ {
		if err := s.ApplyEvent(l.entries[i], l.events[i]); err != nil {
			return nil, fmt.Errorf("entry %d: %w", i+1, err)
		}
	}
	return s, nil
}

// facts reads the first n entries.
func (l *store) facts(n int) (*oracle.Facts, error) {
	b := l.base()
	if n < b.n { // of a server that was replaced before
		b = base{}
	}
	log, err := l.auditFrom(b)
	if err != nil {
		return nil, err
	}
	for i := b.n; i < n; i++ {
		if err := log.Apply(l.entries[i], l.events[i]); err != nil {
			return nil, fmt.Errorf("event %d: %w", i+1, err)
		}
	}
	return log.Facts, nil
}

// truncate throws away all after the batch that the nth entry is in, with the anchor.
func (l *store) truncate(n int) {
	i, _ := slices.BinarySearch(l.batches, n)
	l.batches = l.batches[:i+1]
	n = l.batches[i]
	l.entries, l.events, l.terms = l.entries[:n:n], l.events[:n:n], l.terms[:n:n]
	l.cut, l.second = true, nil
	if l.labs.n > n {
		l.labs = labsBase{}
	}
	l.acknowledged = n
	l.bases = slices.DeleteFunc(l.bases, func(b base) bool { return b.made > n })
	l.auditAgain()
}
