package sessions

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/health"
	"github.com/steadyfleet/steady/internal/core/managed"
	"github.com/steadyfleet/steady/internal/core/place"
	"github.com/steadyfleet/steady/internal/core/prose"
	"github.com/steadyfleet/steady/internal/core/server"
	"github.com/steadyfleet/steady/internal/core/session"
	"github.com/steadyfleet/steady/internal/core/spec"
	"github.com/steadyfleet/steady/reconcile"
	"github.com/steadyfleet/steady/reconcile/engine"
)

// actor is who sets what sessions place.
const actor = "sessions"

// pods carries out what is decided on pods.
type pods struct{ *Runner }

// Decide implements reconcile.Reconciler.
func (pods) Decide(v engine.View[session.PodSpec, session.PodSeen]) engine.Decision {
	return session.DecidePod(v)
}

// Observe implements reconcile.Reconciler.
func (p pods) Observe(ctx context.Context, r engine.Resource[session.PodSpec]) (o session.PodSeen, err error) {
	if err := p.learn(ctx); err != nil {
		return o, err
	}
	if err := p.srv.ViewState(ctx, func(s *server.State) { o = p.see(s, r) }); err != nil {
		return o, err
	}
	if r.Delete || o.Booking != nil && o.Booking.State != session.StateLeaving {
		p.searches.gone(r.Ref)
		return o, nil
	}
	in, err := p.scene(ctx)
	if err == nil {
		request := r.Desired.Request(r.Ref)
		request.OutOfBounds, _ = p.outOfBounds(session.Of(r.Ref), &r.Desired.Pod)
		p.searches.choose(in, o.Booking != nil, r.Ref, request, p.now(), &o)
	}
	return o, err
}

func (p pods) see(s *server.State, r engine.Resource[session.PodSpec]) (o session.PodSeen) {
	if b, booked := s.Booked.Of(r.Ref); booked {
		o.Booking = &b
		p.seeHost(s, r, &o)
	}
	return o
}

// seeHost observes a pod on the host that it has.
func (p pods) seeHost(s *server.State, r engine.Resource[session.PodSpec], o *session.PodSeen) {
	name := o.Booking.Host
	h := p.host(s, name)
	o.Offline = h == nil || !h.Present
	if known := s.Plan.Hosts[name]; known != nil && o.Offline {
		if o.Since = known.LastSeen.Time(); o.Since.Before(p.began) {
			o.Since = p.began
		}
	}
	o.Frozen = h != nil && h.Frozen
	switch {
	case h == nil:
		o.Lost = "host " + name + " is no longer in the fleet"
	case h.Disabled:
		o.Lost = "host " + name + " is disabled"
	case !h.AllowsSessions:
		o.Lost = "host " + name + " no longer takes sessions"
	case !r.Delete:
		want := *o.Booking
		want.Slot = o.Booking.SlotOf(&r.Desired)
		if !s.Booked.Fits(r.Ref, &want, h.Capacity()) {
			o.Unfit = fmt.Sprintf("host %s is booked by others before %s", name, want.Slot.To.Time().Format("2006-01-02T15:04:05Z"))
		}
	}
	layer := s.Managed.Hosts[name]
	owner := spec.SessionOwner(session.Of(r.Ref))
	workloads := p.workloads(h, r, o.Booking)
	for i := range workloads {
		w := &workloads[i]
		entry, set := entryOf(layer, w.ID())
		set = set && entry.Owner == owner
		if set {
			o.Set = append(o.Set, w.ID())
		}
		if !r.Delete && (!set || !sameSpec(entry.Spec, w.Spec) || entry.NotAfter != o.Booking.Lease) {
			o.Differ = append(o.Differ, w.ID())
		}
	}
	seeReports(s.Health.Hosts[name], r, o)
}

// workloads are those of a pod on its host. Where its GPUs are not there any more, they are those that cannot be set.
func (p pods) workloads(h *place.Host, r engine.Resource[session.PodSpec], b *session.PodReport) []session.Workload {
	if h == nil {
		return r.Desired.Pod.Workloads
	}
	on, err := r.Desired.Pod.On(h.Facts, b.GPUs)
	if err != nil {
		return r.Desired.Pod.Workloads
	}
	return on
}

func entryOf(layer *managed.Host, id string) (e managed.Entry, ok bool) {
	if layer != nil {
		e, ok = layer.Entries[id]
	}
	return e, ok
}

// seeReports observes what the host reports of a pod's workloads.
func seeReports(reported *health.Host, r engine.Resource[session.PodSpec], o *session.PodSeen) {
	for i := range r.Desired.Pod.Workloads {
		id := r.Desired.Pod.Workloads[i].ID()
		var status health.Resource
		known := false
		if reported != nil {
			status, known = reported.Resources[id]
		}
		if leaves := r.Delete || o.Booking.State == session.StateLeaving; leaves {
			if known || o.Offline && o.Booking.Lease != 0 {
				o.Left = append(o.Left, id)
			}
			// What uses others is what keeps them, and the last of the workloads.
			if why := prose.Format("%s[ is %s][: %s]", id, status.State, status.Message); known && status.Message != "" {
				o.Kept = why
			}
			continue
		}
		switch {
		case slices.Contains(o.Differ, id):
		case !known:
			o.Pending = append(o.Pending, id+" is not reported yet")
		case status.Phase == engine.Failed:
			o.Failed = append(o.Failed, prose.Format("%s %s[: %s]", id, status.State, status.Message+olderAgent(status.Message)))
		case status.Phase != engine.Converged:
			o.Pending = append(o.Pending, id+" is "+status.State)
		}
	}
}

// sameSpec compares two specs by what they say: the layer keeps them in canonical form.
func sameSpec(a, b json.RawMessage) bool {
	if bytes.Equal(a, b) {
		return true
	}
	var x, y any
	if json.Unmarshal(a, &x) != nil || json.Unmarshal(b, &y) != nil {
		return false
	}
	ra, errA := json.Marshal(x)
	rb, errB := json.Marshal(y)
	return errA == nil && errB == nil && bytes.Equal(ra, rb)
}

// Act implements reconcile.Reconciler.
func (p pods) Act(ctx context.Context, r engine.Resource[session.PodSpec], a engine.Action) error {
	switch a := a.(type) {
	case session.SetWorkloads:
		return p.set(ctx, r, a)
	case session.RemoveWorkloads:
		return p.remove(ctx, r, a.Host, a.Remove)
	}
	return fmt.Errorf("unknown action %s", a.ActionName())
}

func (p pods) set(ctx context.Context, r engine.Resource[session.PodSpec], a session.SetWorkloads) error {
	return p.change(ctx, r, a.Host, func(st *server.State, t *managed.Target, ch managed.Change) (out []event.Event, err error) {
		b, _ := st.Booked.Of(r.Ref)
		s, facts := st.Managed, (*place.Facts)(nil)
		if h := p.host(st, a.Host); h != nil {
			facts = h.Facts
		}
		workloads, err := r.Desired.Pod.On(facts, b.GPUs)
		if err != nil {
			return nil, err
		}
		for i := range workloads {
			w := &workloads[i]
			events, err := managed.Set(s, t, managed.Input{Kind: w.Kind, Name: w.Name, Spec: w.Spec, NotAfter: a.Lease, StopFrom: r.Desired.StopFrom(a.Lease)}, ch)
			if err != nil {
				return nil, err
			}
			out = append(out, events...)
		}
		return out, nil
	})
}

func (p pods) remove(ctx context.Context, r engine.Resource[session.PodSpec], host string, ids []string) error {
	return p.change(ctx, r, host, func(st *server.State, t *managed.Target, ch managed.Change) (out []event.Event, err error) {
		s := st.Managed
		for i := len(r.Desired.Pod.Workloads) - 1; i >= 0; i-- { // what uses others goes first
			w := &r.Desired.Pod.Workloads[i]
			if !slices.Contains(ids, w.ID()) {
				continue
			}
			events, err := managed.Remove(s, t, w.Kind, w.Name, true, ch)
			if err != nil {
				return nil, err
			}
			out = append(out, events...)
		}
		return out, nil
	})
}

// change decides on a host's layer for a pod's session. A refusal is no matter of trying again.
func (p pods) change(ctx context.Context, r engine.Resource[session.PodSpec], host string, decide func(*server.State, *managed.Target, managed.Change) ([]event.Event, error)) error {
	target, err := p.srv.Target(ctx, host)
	if err != nil {
		return err
	}
	var refused error
	err = p.srv.Record(ctx, host, func(s *server.State, now clock.Instant) (out []event.Event, err error) {
		out, refused = decide(s, target, managed.Change{Actor: actor, Reason: "pod " + r.Ref.ID, Now: now, Owner: spec.SessionOwner(session.Of(r.Ref))})
		return out, nil
	})
	if err == nil && refused != nil {
		return reconcile.Terminal("refused", refused)
	}
	return err
}
