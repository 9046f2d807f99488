package control

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/server"
	"github.com/steadyfleet/steady/internal/core/session"
	"github.com/steadyfleet/steady/reconcile"
	"github.com/steadyfleet/steady/reconcile/engine"
)

// sessionCounts counts the sessions by state. When counts are published it describes those again that something was
// recorded of since, or whose timeslot reached its next instant: at every change that would keep the reducer.
type sessionCounts struct {
	of     *engine.Table // what was counted; another one is counted anew
	states map[string]counted
	marked map[string]struct{}
	next   time.Time // when time alone next changes a state
}

type counted struct {
	state session.State
	next  time.Time
	due   time.Time // its provisionAt
}

// note marks the sessions that entries are about.
func (n *sessionCounts) note(entries []event.Entry) {
	for i := range entries {
		if s := entries[i].Subject; s.Kind == event.KindSession {
			if n.marked == nil {
				n.marked = map[string]struct{}{}
			}
			n.marked[s.Name] = struct{}{}
		}
	}
}

// outdated reports whether time alone changes a state by now.
func (n *sessionCounts) outdated(now time.Time) bool { return !n.next.IsZero() && !now.Before(n.next) }

// count describes sessions again.
func (n *sessionCounts) count(s *server.State, now time.Time) {
	names := slices.Collect(maps.Keys(n.marked))
	n.marked = nil
	if n.of != s.Rows {
		n.of, n.states = s.Rows, map[string]counted{}
		names = session.Names(s.Rows.List(engine.Filter{Kind: session.KindSession}))
	}
	if n.outdated(now) {
		for name, c := range n.states { // order-free: each is described by itself
			if !c.next.IsZero() && !now.Before(c.next) {
				names = append(names, name)
			}
		}
	}
	for _, name := range names {
		st, err := session.Describe(s.Rows, name, now)
		if err != nil { // it was purged
			delete(n.states, name)
			continue
		}
		n.states[name] = counted{st.State, st.Timeslot.Turns(now), st.Timeslot.ProvisionAt}
	}
	if len(names) == 0 {
		return
	}
	n.next = time.Time{}
	for c := range maps.Values(n.states) { // order-free: it finds the first
		if !c.next.IsZero() && (n.next.IsZero() || c.next.Before(n.next)) {
			n.next = c.next
		}
	}
}

func (n *sessionCounts) totals() map[string]int {
	out := map[string]int{}
	for _, state := range session.States {
		out[string(state)] = 0
	}
	for c := range maps.Values(n.states) { // order-free: it only counts
		out[string(c.state)]++
	}
	return out
}

// due is the earliest provisionAt of the sessions that have no host, or come up, by state.
func (n *sessionCounts) due() map[string]clock.Instant {
	out := map[string]clock.Instant{}
	for c := range maps.Values(n.states) { // order-free: it finds the first
		if c.state != session.Pending && c.state != session.Provisioning {
			continue
		}
		if at, seen := out[string(c.state)]; !seen || clock.FromTime(c.due) < at {
			out[string(c.state)] = clock.FromTime(c.due)
		}
	}
	return out
}

// loopMetrics counts what the controller of sessions does.
type loopMetrics struct {
	turns            *prometheus.CounterVec
	acts, moves      *prometheus.CounterVec
	turn, took       *prometheus.HistogramVec
	waiting, running prometheus.Gauge
	failures         prometheus.Counter
}

var _ reconcile.Metrics = (*loopMetrics)(nil)

func newLoopMetrics(reg prometheus.Registerer) *loopMetrics {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "steady", Subsystem: "session", Name: name, Help: help}, labels)
	}
	gauge := func(name, help string) prometheus.Gauge {
		return prometheus.NewGauge(prometheus.GaugeOpts{Namespace: "steady", Subsystem: "session", Name: name, Help: help})
	}
	times := func(name, help string) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{Namespace: "steady", Subsystem: "session", Name: name, Help: help,
			Buckets: prometheus.ExponentialBuckets(0.001, 4, 9)}, []string{"kind"})
	}
	m := &loopMetrics{
		turns:    counter("turns_total", "Turns of the loop that brings sessions about, by kind and what was decided.", "kind", "decision"),
		acts:     counter("acts_total", "Acts of that loop, by kind, action and whether it did what it was to.", "kind", "action", "outcome"),
		moves:    counter("moves_total", "Sessions, parts, pods and phases that moved, by the phase of their row that they came to.", "kind", "to"),
		turn:     times("turn_seconds", "Time of one turn, with its act."),
		took:     times("act_seconds", "Time of one act."),
		waiting:  gauge("turns_waiting", "Turns that wait, when the last one began."),
		running:  gauge("turns_running", "Turns that ran, when the last one began."),
		failures: prometheus.NewCounter(prometheus.CounterOpts{Namespace: "steady", Subsystem: "session", Name: "store_failures_total", Help: "Turns that could not be recorded, and are tried again."}),
	}
	for _, kind := range []string{session.KindSession, session.KindPart, session.KindPod, session.KindPhase} {
		m.turns.WithLabelValues(kind, noDecision)
		m.turn.WithLabelValues(kind)
		m.took.WithLabelValues(kind)
		for _, to := range []engine.Phase{engine.Converged, engine.Retrying, engine.Failed, engine.Orphaned} {
			m.moves.WithLabelValues(kind, string(to))
		}
	}
	for _, outcome := range []string{actDone, actFailed} {
		m.acts.WithLabelValues(session.KindPod, session.SetWorkloads{}.ActionName(), outcome)
		m.acts.WithLabelValues(session.KindPod, session.RemoveWorkloads{}.ActionName(), outcome)
		m.acts.WithLabelValues(session.KindPhase, session.MakeCall{}.ActionName(), outcome)
		m.acts.WithLabelValues(session.KindPhase, session.RunCommand{}.ActionName(), outcome)
	}
	reg.MustRegister(m.turns, m.acts, m.moves, m.turn, m.took, m.waiting, m.running, m.failures)
	return m
}

// Values of labels.
const (
	noDecision = "nothing"
	actDone    = "done"
	actFailed  = "failed"
)

// Turn implements reconcile.Metrics.
func (m *loopMetrics) Turn(kind, decision string, took time.Duration) {
	m.turns.WithLabelValues(kind, cmp.Or(decision, noDecision)).Inc()
	m.turn.WithLabelValues(kind).Observe(took.Seconds())
}

// Act implements reconcile.Metrics.
func (m *loopMetrics) Act(kind, action string, took time.Duration, err error) {
	outcome := actDone
	if err != nil {
		outcome = actFailed
	}
	m.acts.WithLabelValues(kind, action, outcome).Inc()
	m.took.WithLabelValues(kind).Observe(took.Seconds())
}

// Move implements reconcile.Metrics.
func (m *loopMetrics) Move(kind string, _, to engine.Phase) {
	m.moves.WithLabelValues(kind, string(to)).Inc()
}

// Queue implements reconcile.Metrics.
func (m *loopMetrics) Queue(waiting, running int) {
	m.waiting.Set(float64(waiting))
	m.running.Set(float64(running))
}

// StoreFailed implements reconcile.Metrics.
func (m *loopMetrics) StoreFailed(error) { m.failures.Inc() }
