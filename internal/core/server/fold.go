// Package server is the server as a pure reducer: a list of folds of the log, and
// what is decided beside them of presence, restored logs, pace and dispatch. Time and
// what hosts sent come in as arguments; entries for the log and effects go out as
// data. A State and a Server are changed in place by one writer: who cannot commit
// what a call returned throws the State away and folds the log again.
package server

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/drift"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/health"
	"github.com/steadyfleet/steady/internal/core/managed"
	"github.com/steadyfleet/steady/internal/core/plan"
	"github.com/steadyfleet/steady/internal/core/session"
	"github.com/steadyfleet/steady/internal/core/status"
	"github.com/steadyfleet/steady/reconcile/engine"
)

// Fold is one part of what is folded from the log. Its state before Restore is the one
// before the first event.
type Fold interface {
	// Name names its part of a snapshot.
	Name() string
	// Apply folds an entry; one that does not concern it changes nothing.
	Apply(e event.Entry) error
	// Next decides what is due, folds that into itself alone, and returns it.
	Next(now clock.Instant) ([]event.Entry, error)
	// Due is when Next must be called although nothing was folded; zero: never.
	Due() clock.Instant
	// Snapshot and Restore write and read the state.
	Snapshot() (json.RawMessage, error)
	Restore(raw json.RawMessage) error
}

// State is all that a server folds from the log.
type State struct {
	Plan    *plan.State
	Managed *managed.State
	Health  *health.State
	Nodes   *drift.State
	Rows    *engine.Table // of sessions, and of what is below them
	Booked  *session.Bookings
	// Troubles are the rows of sessions that a person may be needed for.
	Troubles session.Troubles
	Inbox    *status.Inbox // nil where the plan is folded alone
	folds    []Fold        // in the order in which they read an entry and decide
	planner  Fold          // of folds
	inbox    *inboxFold    // of folds
}

// NewState returns the state before the first event. The folds of first come before
// all others: the plan reads the documents that they find.
func NewState(docs plan.Documents, first ...Fold) *State {
	s := &State{Plan: plan.New(docs), Managed: managed.New(), Health: health.New(), Nodes: drift.New(), Rows: engine.NewTable(), Booked: new(session.Bookings), Inbox: status.NewInbox()}
	s.planner, s.inbox = &planFold{State: s, docs: docs}, &inboxFold{State: s}
	s.folds = append(first, healthFold{s}, managedFold{s}, nodesFold{s}, rowsFold{s}, s.planner, s.inbox)
	return s
}

// NewPlanState is NewState for a fleet whose hosts report no resources and have no
// managed layer: it folds the plan alone.
func NewPlanState(p *plan.State, docs plan.Documents) *State {
	s := &State{Plan: p}
	s.planner = &planFold{State: s, docs: docs}
	s.folds = []Fold{s.planner}
	return s
}

// NewStateWith is NewState with a plan that has folded the log: what follows parts, of SnapshotParts, is
// folded into all else, events being what log decodes to.
func NewStateWith(p *plan.State, docs plan.Documents, parts map[string]json.RawMessage, log []event.Entry, events []event.Event) (*State, error) {
	s := NewState(docs)
	s.Plan = p
	rest := s.besidePlan()
	for _, f := range rest {
		if part, ok := parts[f.Name()]; ok {
			if err := f.Restore(part); err != nil {
				return nil, fmt.Errorf("%s: %w", f.Name(), err)
			}
		}
	}
	for i := range log {
		for _, f := range rest {
			if _, of := f.(nodesFold); of {
				continue
			}
			if err := apply(f, log[i], &events[i]); err != nil {
				return nil, fmt.Errorf("entry %d: %w", i+1, err)
			}
		}
	}
	return s, nil
}

// SnapshotParts encodes all but the plan, by the names of the folds.
func (s *State) SnapshotParts() (map[string]json.RawMessage, error) {
	parts := map[string]json.RawMessage{}
	for _, f := range s.besidePlan() {
		raw, err := f.Snapshot()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.Name(), err)
		}
		parts[f.Name()] = raw
	}
	return parts, nil
}

// besidePlan lists the folds but that of the plan.
func (s *State) besidePlan() []Fold {
	return slices.DeleteFunc(slices.Clone(s.folds), func(f Fold) bool { return f == s.planner })
}

// Apply folds one entry of the log.
func (s *State) Apply(e event.Entry) error { return s.share(nil, []event.Entry{e}) }

// Next decides what is due in every fold and folds it into all. The entries are to be
// committed together.
func (s *State) Next(now clock.Instant) ([]event.Entry, error) {
	var all []event.Entry
	for _, f := range s.folds {
		entries, err := f.Next(now)
		if err == nil {
			err = s.share(f, entries)
		}
		if err != nil {
			return nil, err
		}
		all = append(all, entries...)
	}
	return all, nil
}

// Planned folds what a decide function of the plan returned, and folded there, into
// all other folds.
func (s *State) Planned(entries []event.Entry, err error) ([]event.Entry, error) {
	if err != nil {
		return nil, err
	}
	return entries, s.share(s.planner, entries)
}

// Record folds events that were decided elsewhere from verified input.
func (s *State) Record(host string, now clock.Instant, events ...event.Event) ([]event.Entry, error) {
	entries := make([]event.Entry, 0, len(events))
	for _, ev := range events {
		subject := event.HostSubject(host)
		if on, ok := ev.(interface{ Subject() event.Subject }); ok {
			subject = on.Subject()
		}
		e, err := event.NewEntry(now, subject, ev)
		if err == nil {
			err = s.Apply(e)
		}
		if err != nil {
			return nil, err
		}
		entries = append(entries, e)
	}
	return entries, nil
}

// share folds entries into every fold but the one that decided them.
func (s *State) share(from Fold, entries []event.Entry) error {
	for i := range entries {
		var ev event.Event
		for _, f := range s.folds {
			if f == from || !reads(f, entries[i].Type) {
				continue
			}
			if err := apply(f, entries[i], &ev); err != nil {
				return err
			}
		}
	}
	return nil
}

// reads reports whether a fold reads events of a type: those of nodes are their fold's and the inbox's
// alone.
func reads(f Fold, eventType string) bool {
	if _, all := f.(*inboxFold); all {
		return true
	}
	_, ofNodes := f.(nodesFold)
	return event.IsOfNodes(eventType) == ofNodes
}

// decodedFold is a fold that reads most entries: one is decoded once for all of them.
type decodedFold interface {
	applyDecoded(e event.Entry, ev event.Event) error
}

// apply folds an entry, whose event is decoded into ev where that is needed and nil.
func apply(f Fold, e event.Entry, ev *event.Event) (err error) {
	d, ok := f.(decodedFold)
	if !ok {
		return f.Apply(e)
	}
	if *ev == nil {
		if *ev, err = event.Decode(e); err != nil {
			return err
		}
	}
	return d.applyDecoded(e, *ev)
}

// Live lists what hosts may still be given, and what they report to run: manifests, and
// bundles beside theirs.
func (s *State) Live() (manifests, bundles []digest.Digest) {
	manifests, bundles = s.Plan.Live()
	return manifests, append(bundles, s.Managed.Digests()...)
}

// Due is when Next must be called although nothing was folded; zero: never.
func (s *State) Due() clock.Instant {
	var due clock.Instant
	for _, f := range s.folds {
		due = clock.Earliest(due, f.Due())
	}
	return due
}

// Snapshot encodes the state: an object with one member for each fold.
func (s *State) Snapshot() ([]byte, error) {
	parts := make(map[string]json.RawMessage, len(s.folds))
	for _, f := range s.folds {
		raw, err := f.Snapshot()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.Name(), err)
		}
		parts[f.Name()] = raw
	}
	return json.Marshal(parts)
}

// ErrOtherFolds says that a snapshot lacks a fold: the log has to be folded from its
// start.
var ErrOtherFolds = errors.New("the snapshot is of other folds")

// Restore sets a state before its first event to a snapshot. After an error the state
// must be thrown away.
func (s *State) Restore(raw []byte) error {
	parts, err := members(raw)
	if err != nil {
		return err
	}
	for _, f := range s.folds {
		part, ok := parts[f.Name()]
		if _, young := f.(interface{ young() }); !ok && !young {
			return fmt.Errorf("%w: it has no %s", ErrOtherFolds, f.Name())
		}
		if err := f.Restore(part); err != nil {
			return fmt.Errorf("%s: %w", f.Name(), err)
		}
	}
	return nil
}
