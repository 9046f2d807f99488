package control

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/steadyfleet/steady/internal/control/documents"
	"github.com/steadyfleet/steady/internal/core/audit"
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/plan"
	"github.com/steadyfleet/steady/internal/store"
)

const (
	// auditShare bounds the audit to one part in so many of a processor: it falls behind in
	// a large change, says how far, and catches up.
	auditShare = 10
	// auditShown is how many findings a status shows.
	auditShown = 3
	// auditActor is who pauses a rollout that broke an invariant.
	auditActor = "audit"
	// auditPause is the least time that the audit rests for.
	auditPause = 20 * time.Millisecond
)

// auditor holds every committed event against the specification (package audit), beside
// the reducer and off its path. It is folded from what the log begins with: what the
// specification knows is no part of the state that it judges, nor of its snapshots.
type auditor struct {
	inventory *documents.Inventory

	logMu  sync.Mutex
	log    *audit.Log
	wanted *wanted // by somebody who waits for it
	ended  bool    // it goes no further

	// since is where the log ended as the process began. What breaks up to there is left to
	// steady doctor: an operator has decided on it since, or nobody can.
	since uint64

	mu             sync.Mutex
	seq            uint64   // of the last event that was read
	hash           [32]byte // of that record
	at             clock.Instant
	broken         string            // why it reads no further, for good
	findings       []string          // since the process began, the first ones
	more           int               // beyond those
	contradictions map[string]string // the newest, by whose it is
	found          *prometheus.CounterVec
}

func newAuditor(ctx context.Context, c *Control) *auditor {
	library := documents.New(c.cfg.Store)
	a := &auditor{inventory: documents.NewInventory(library), since: c.head.Seq, contradictions: map[string]string{},
		found: prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "steady", Name: "audit_findings_total",
			Help: "Invariants that committed events broke since the server began, by invariant and by whether a host reported it against itself."}, []string{"invariant", "of"})}
	if err := a.begin(ctx, c.cfg.Store, library); err != nil {
		c.cfg.Log.Error("the log is not audited; nothing is pruned or collected", "err", err)
		a.log, a.ended = audit.NewLog(library), true
		a.fail(err)
	}
	c.pruned.Store(a.seq)
	a.log = a.log.Forget()
	c.cfg.Metrics.MustRegister(a.found, prometheus.NewGaugeFunc(prometheus.GaugeOpts{Namespace: "steady", Name: "audit_sequence",
		Help: "Sequence of the last entry of the log that the running audit has read."}, func() float64 { return float64(a.read()) }))
	return a
}

// begin has the inventory begin with what the log begins with, and the audit at the newest
// checkpoint: those before it were checked by the process that wrote it, and steady doctor
// checks the whole log.
func (a *auditor) begin(ctx context.Context, s store.Store, library *documents.Library) error {
	oldest, err := documents.Begin(ctx, s)
	if err == nil {
		_, _, err = oldest.Fold(library)
	}
	if err != nil {
		return err
	}
	a.inventory.Begin(ctx, &oldest)
	a.seq = oldest.Through.Seq
	newest, err := documents.Newest(ctx, s)
	if err == nil && newest.Through.Seq > oldest.Through.Seq {
		_, _, err = newest.Fold(library)
	}
	if err == nil {
		a.log, err = newest.Auditor(library)
	}
	return err
}

// watchLog audits the log while the reducer runs.
func (c *Control) watchLog(ctx context.Context) {
	defer c.audit.end()
	if c.audit.ended {
		return
	}
	var rest time.Duration // that is owed
	err := c.Follow(ctx, c.audit.read(), func(records []event.Record) error {
		for i := range records {
			start := time.Now()
			if err := c.auditRecord(ctx, &records[i]); err != nil {
				return err
			}
			if rest += (auditShare - 1) * time.Since(start); rest < auditPause {
				continue
			}
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(rest):
				rest = 0
			}
		}
		return nil
	})
	if err != nil && ctx.Err() == nil && c.stopping.Err() == nil {
		c.audit.fail(err)
		c.cfg.Log.Error("the log is not audited any more until the server starts again; steady doctor checks it", "err", err)
	}
}

// auditRecord checks one event, and stops the rollout that it breaks an invariant in.
func (c *Control) auditRecord(ctx context.Context, r *event.Record) error {
	a := c.audit
	ev, err := event.Decode(r.Entry)
	if err != nil {
		return err
	}
	a.inventory.Observe(ctx, r.Seq, ev)
	var found []audit.Violation
	a.logMu.Lock()
	if r.Seq > a.log.Seq() { // what it begins with goes no further
		found = a.log.ObserveEvent(r.Seq, r.Entry, ev)
		a.encode()
	}
	a.logMu.Unlock()
	a.note(r, c.now(), found)
	if r.Seq <= a.since {
		return nil
	}
	for i := range found {
		v := &found[i]
		if whose := v.Whose(); whose != "" {
			c.cfg.Log.Warn(whose+" contradicts itself", "invariant", v.Invariant, "finding", v.Message)
			continue
		}
		c.cfg.Log.Error("an invariant does not hold", "invariant", v.Invariant, "finding", v.Message)
		manifest := a.log.Stops(r.Entry, ev)
		if manifest == "" {
			continue
		}
		reason := "it broke " + v.String() + "; check steady doctor and steady events, then resume or cancel it"
		err := c.Operate(ctx, func(s *plan.State, now clock.Instant) ([]event.Entry, error) {
			return plan.Operate(s, plan.Pause, string(manifest), reason, auditActor, now)
		})
		if err != nil { // it is over, paused already, or nothing can be committed
			c.cfg.Log.Warn("the rollout that broke an invariant was not paused", "manifest", manifest, "err", err)
		}
	}
	return nil
}

// read is the sequence of the last event that was read: the inventory knows what all up to
// it name, and the audit has found in them what it will.
func (a *auditor) read() uint64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.seq
}

// reach waits until an event was read. The audit has a tenth of a processor: on a busy server
// it is behind the end of the log at any moment.
func (a *auditor) reach(ctx context.Context, seq uint64) error {
	for a.read() < seq {
		if a.isEnded() {
			return fmt.Errorf("%w: the log is not audited, and read up to %d of %d", errPutOff, a.read(), seq)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(auditPause):
		}
	}
	return nil
}

// note keeps what was found for status and metrics.
func (a *auditor) note(r *event.Record, now clock.Instant, found []audit.Violation) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.seq, a.hash, a.at = r.Seq, r.Hash, now
	if r.Seq <= a.since {
		return
	}
	for i := range found {
		v := &found[i]
		switch {
		case v.Whose() != "":
			of, _, _ := strings.Cut(v.Whose(), " ")
			a.found.WithLabelValues(v.Invariant, of).Inc()
			a.contradictions[v.Whose()] = v.String()
		case len(a.findings) < auditShown:
			a.findings = append(a.findings, v.String())
			a.found.WithLabelValues(v.Invariant, "server").Inc()
		default:
			a.more++
			a.found.WithLabelValues(v.Invariant, "server").Inc()
		}
	}
}

// AuditWarnings say what the running audit has found since the server began.
func (c *Control) AuditWarnings() []string {
	a := c.audit
	a.mu.Lock()
	defer a.mu.Unlock()
	var out []string
	if a.isEnded() {
		out = append(out, "the log is not audited, and neither pruned nor are its blobs collected: the server's log says why; steady doctor --data DATA checks it")
	}
	for i, f := range a.findings {
		text := "an invariant does not hold: " + f
		if i == len(a.findings)-1 && a.more > 0 {
			text += fmt.Sprintf(" (and %d more)", a.more)
		}
		out = append(out, text+"; steady doctor --data DATA checks the whole log")
	}
	for _, whose := range slices.Sorted(maps.Keys(a.contradictions)) {
		if len(out) == 2*auditShown {
			break
		}
		verb := "revoke"
		if strings.HasPrefix(whose, "node ") {
			verb = "retire"
		}
		out = append(out, whose+" reports what contradicts itself: "+a.contradictions[whose]+"; nothing else waits for it; check the device, and "+verb+" it if it lies: steady "+strings.Replace(whose, " ", " "+verb+" ", 1))
	}
	return out
}
