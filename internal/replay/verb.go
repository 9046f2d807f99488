package replay

import (
	"bytes"
	"errors"
	"slices"
	"strings"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/override"
	"github.com/steadyfleet/steady/internal/core/plan"
)

// asks are the types of the first event that an operator's verb leaves.
var asks = func() []string {
	var names []string
	for _, ev := range []event.Event{event.RolloutPaused{}, event.RolloutResumed{}, event.RolloutCancelled{}, event.RolloutMoved{}, event.WaveForced{},
		event.QuarantineAdded{}, event.QuarantineCleared{}, event.HostFrozen{}, event.HostUnfrozen{}, event.HostRevoked{}, event.HostDecommissioned{},
		event.OverrideAccepted{}} {
		names = append(names, ev.EventType())
	}
	return names
}()

// ask has the server decide what an operator asked for, known by the first event
// that it left, with the functions that the server calls for it. It returns false
// for an event that no verb begins with; a *plan.VerbError refuses.
func ask(s *plan.State, name string, ev event.Event, now clock.Instant) ([]event.Entry, bool, error) {
	verb := func(entries []event.Entry, err error) ([]event.Entry, bool, error) { return entries, true, err }
	switch ev := ev.(type) {
	case event.RolloutPaused:
		return verb(plan.Operate(s, plan.Pause, rolloutID(ev.Manifest, ev.Rollout), ev.Reason, ev.Actor, now))
	case event.RolloutResumed:
		return verb(plan.Operate(s, plan.Resume, rolloutID(ev.Manifest, ev.Rollout), ev.Reason, ev.Actor, now))
	case event.RolloutCancelled:
		return verb(plan.Operate(s, plan.Cancel, rolloutID(ev.Manifest, ev.Rollout), ev.Reason, ev.Actor, now))
	case event.RolloutMoved:
		if !ev.Final || ev.Actor == "" {
			return nil, false, nil
		}
		return verb(plan.Operate(s, plan.Cancel, rolloutID(ev.Manifest, ev.Rollout), strings.TrimPrefix(ev.Reason, "cancelled: "), ev.Actor, now))
	case event.WaveForced:
		return verb(plan.Promote(s, rolloutID(ev.Manifest, ev.Rollout), waveName(s, ev), ev.Reason, ev.Actor, now))
	case event.QuarantineAdded:
		return verb(plan.AddQuarantine(s, ev.Channel, string(ev.Digest), ev.Reason, ev.Actor, now))
	case event.QuarantineCleared:
		return verb(plan.ClearQuarantine(s, ev.Channel, string(ev.Digest), ev.Reason, ev.Actor, now))
	case event.HostFrozen:
		return verb(plan.Freeze(s, name, ev.Until, ev.Reason, ev.Actor, now))
	case event.HostUnfrozen:
		return verb(plan.Unfreeze(s, name, ev.Reason, ev.Actor, now))
	case event.HostRevoked:
		return verb(plan.Revoke(s, name, ev.Reason, ev.Actor, now))
	case event.HostDecommissioned:
		return verb(plan.Decommission(s, name, ev.Reason, ev.Actor, now))
	case event.OverrideAccepted:
		return verb(plan.Override(s, override.Taken{Override: ev.Override, Digest: ev.Digest, Envelope: ev.Envelope}, ev.Actor, now))
	}
	return nil, false, nil
}

func rolloutID(d digest.Digest, name string) string {
	if d != "" {
		return string(d)
	}
	return name
}

// waveName is empty for a wave that there is not, which no rollout is at.
func waveName(s *plan.State, ev event.WaveForced) string {
	r := s.Find(rolloutID(ev.Manifest, ev.Rollout))
	if r == nil || r.Plan == nil || ev.Wave < 0 || ev.Wave >= len(r.Plan.Header.Waves) {
		return ""
	}
	return r.Plan.Header.Waves[ev.Wave].Name
}

// asked folds the log from a record on, if an operator's verb left it, and returns
// how many records the verb decided; 0 when it did not, and then the state is as
// it was.
func (v *survey) asked(docs plan.Documents, records []event.Record, seq uint64) (int, error) {
	first := &records[seq-1]
	if !slices.Contains(asks, first.Type) {
		return 0, nil
	}
	ev, err := event.Decode(first.Entry)
	if err != nil {
		return 0, err
	}
	entries, is, err := ask(v.state, first.Host, ev, first.At)
	if refused := (*plan.VerbError)(nil); !is || errors.As(err, &refused) {
		return 0, nil // a release revokes, too, and what an older version decided stays as it is
	} else if err != nil {
		return 0, err
	}
	n := 0
	for n < len(entries) && int(seq)-1+n < len(records) {
		e, r := &entries[n], &records[int(seq)-1+n].Entry
		if e.Type != r.Type || e.At != r.At || e.Host != r.Host || !bytes.Equal(e.Body, r.Body) {
			break
		}
		n++
	}
	if n > 0 && n == len(entries) {
		return n, nil
	}
	v.state = plan.New(docs)
	for i := range records[:seq-1] {
		if err := v.state.Apply(records[i].Entry); err != nil {
			return 0, err
		}
	}
	return 0, nil
}

// verb has an operator ask for the same; it may be refused, or do something else.
func (x *rerun) verb(u *unit) {
	r := &u.records[0]
	ev, err := event.Decode(r.Entry)
	if err != nil {
		x.fail(err)
		return
	}
	entries, _, err := ask(x.w.State, r.Host, ev, x.w.Now)
	if refused := (*plan.VerbError)(nil); errors.As(err, &refused) {
		x.unfit(r.Seq, "%s does not apply: %v", r.Type, err)
		return
	}
	x.w.Commit(entries, err)
	x.compare(u.records, entries)
}
