package shellsim

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/steadyfleet/steady/internal/agent/state"
	"github.com/steadyfleet/steady/internal/core/audit"
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/host"
	"github.com/steadyfleet/steady/internal/core/plan"
	"github.com/steadyfleet/steady/internal/logverify"
	"github.com/steadyfleet/steady/internal/replay"
	"github.com/steadyfleet/steady/internal/store"
	"github.com/steadyfleet/steady/internal/store/embedded"
	"github.com/steadyfleet/steady/internal/trust"
)

// watchEvery is how often hosts are held against the log while all goes on.
const watchEvery = 4 * time.Second

// watch holds what hosts do and believe against what is durable.
func (w *world) watch(ctx context.Context) {
	for ctx.Err() == nil && !w.failed() {
		w.ledger.mu.Lock()
		bad := slices.Clone(w.ledger.bad)
		w.ledger.mu.Unlock()
		for _, b := range bad {
			invariant, words, _ := strings.Cut(b, ": ")
			w.violate(invariant, "%s", words)
		}
		w.checkPace()
		for _, h := range w.hosts {
			w.checkHost(h)
		}
		pause(ctx, watchEvery)
	}
}

// quick is how long a grant may lie and an event may wait where nothing fails and
// everybody is there: who waits for more than the network was not woken.
const quick = 15 * time.Second

// checkPace holds what is under way against the time that it takes.
func (w *world) checkPace() {
	w.ledger.mu.Lock()
	defer w.ledger.mu.Unlock()
	for id, since := range w.ledger.open { // order-free: each is asked
		if since.Sub(w.begun) > w.quietAt() && time.Since(since) > quick {
			w.violate("L5", "grant %s lies for %s, and nobody claims it", id, time.Since(since))
		}
	}
}

// quietAt is when everybody is back after the faults.
func (w *world) quietAt() time.Duration { return faultyTime + backTime }

func (w *world) checkHost(h *hostProcess) {
	version := h.onDisk()
	s := h.status()
	w.ledger.mu.Lock()
	defer w.ledger.mu.Unlock()
	switch {
	case s == nil || s.AckedSeq >= s.LastSeq:
		h.waiting = time.Time{}
	case h.waiting.IsZero():
		h.waiting = time.Now()
	case h.waiting.Sub(w.begun) > w.quietAt() && time.Since(h.waiting) > quick && !w.stopping.Load():
		w.violate("L5", "%s has events up to %d, and brought those up to %d for %s", h.name, s.LastSeq, s.AckedSeq, time.Since(h.waiting))
	}
	if estranged := w.ledger.restores > 0 && time.Since(w.begun) < w.quietAt(); s != nil && !estranged {
		if held := w.ledger.reported[chainOf(h.name, s.Incarnation)]; s.AckedSeq > held {
			w.violate("S33", "%s was told that its event %d is kept, and the log has %d", h.name, s.AckedSeq, held)
		}
	}
	if version != "" && !w.ledger.claimed[h.name]["stable@"+version] {
		w.violate("S2", "%s has the files of %s, and no grant of it was claimed", h.name, version)
	}
}

// checkRunning asks the server as it runs at rest.
func (w *world) checkRunning(ctx context.Context) {
	running := w.server.running()
	op := w.server.client()
	if running == nil || op == nil {
		w.violate("L3", "the server is down at the end")
		return
	}
	c := running.Control()
	err := c.View(ctx, func(s *plan.State) {
		for _, v := range audit.Check(s, c.Now()) {
			w.violate(v.Invariant, "%s", v.Message)
		}
	})
	if err != nil {
		w.violate("L3", "the server did not answer: %v", err)
	}
	err = op.History(ctx, func(r io.Reader) error {
		h, err := replay.ReadHistory(r, nil)
		if err != nil {
			return err
		}
		report, err := logverify.Verify(h, logverify.Anchor{})
		if err != nil {
			return err
		}
		for _, f := range slices.Concat(report.Findings, report.Contradictions) {
			if strings.HasPrefix(f.Check, "S") && w.ledger.restored() > 0 {
				continue // nothing is known of what a restored log forgot
			}
			w.violate(f.Check, "record %d: %s %s", f.Seq, f.Message, f.Host)
		}
		return nil
	})
	if err != nil {
		w.violate("L3", "the log could not be exported and checked: %v", err)
	}
	w.checkRestart(ctx)
	w.restartHosts(ctx)
}

// restartHosts stops every agent cleanly and starts it again: it is where it was.
func (w *world) restartHosts(ctx context.Context) {
	for _, h := range w.hosts {
		h.restart(0)
	}
	pause(ctx, time.Minute)
	for _, h := range w.hosts {
		if s := h.status(); s == nil || s.Machine.Phase != host.Converged || s.AckedSeq != s.LastSeq || s.LastContact == 0 {
			w.violate("L3", "%s is not well again after it was restarted: %+v", h.name, s)
		}
	}
}

// checkRestart stops the server cleanly and starts it again: it shows the same.
func (w *world) checkRestart(ctx context.Context) {
	before, err := w.server.status(ctx)
	if err != nil {
		w.violate("L3", "the server did not answer: %v", err)
		return
	}
	w.stopping.Store(true)
	old := w.server.running()
	w.server.restart(0)
	for range 60 {
		pause(ctx, time.Second)
		if now := w.server.running(); now != nil && now != old {
			break
		}
	}
	after, err := w.server.status(ctx)
	if err != nil || after != before {
		w.violate("S25", "before the restart the server showed\n%safter it\n%s%v", before, after, err)
	}
}

// checkDisks reads what is on the disks after every process ended.
func (w *world) checkDisks() {
	ctx := context.Background()
	st, err := embedded.Open(ctx, filepath.Join(w.server.dir, "store"), embedded.Options{})
	if err != nil {
		w.violate("S33", "the log cannot be opened: %v", err)
		return
	}
	var records []event.Record
	base, err := st.Base(ctx)
	if err != nil {
		w.violate("S33", "the log cannot be read: %v", err)
	}
	_, err = store.Replay(ctx, st, base, func(page []event.Record) error {
		records = append(records, page...)
		return nil
	})
	if err != nil {
		w.violate("S33", "the log cannot be read: %v", err)
	}
	if err := st.Close(); err != nil {
		w.violate("S33", "the log: %v", err)
	}
	if base.Seq > uint64(len(w.ledger.entries)) || len(records) != len(w.ledger.entries)-int(base.Seq) {
		w.violate("S33", "the log has %d entries behind %d, and %d were durable", len(records), base.Seq, len(w.ledger.entries))
		return
	}
	chains := map[string][]event.Entry{}
	for i, e := range w.ledger.entries {
		if i >= int(base.Seq) && hashOf(records[i-int(base.Seq)].Entry) != hashOf(e) {
			w.violate("S33", "entry %d of the log is not the one that was durable", i+1)
		} else if e.HostSeq > 0 {
			k := chainOf(subject(&e), e.Incarnation)
			chains[k] = append(chains[k], e)
		}
	}
	for _, h := range w.hosts {
		w.checkJournal(ctx, h, chains[chainOf(h.name, h.enrolled)])
	}
}

func hashOf(e event.Entry) [32]byte { return store.Hash([32]byte{}, 0, 0, e) }

// checkJournal holds a host's own journal against what the log has of it: all of
// it, once, in order, and nothing else. Of each grant it acted once.
func (w *world) checkJournal(ctx context.Context, h *hostProcess, logged []event.Entry) {
	db, err := sql.Open(state.Driver, "file:"+filepath.Join(h.disk.dir, "agent.db"))
	if err != nil {
		w.violate("S33", "%v", err)
		return
	}
	defer func() { _ = db.Close() }() // it was only read
	var raw []byte
	var trusted trust.State
	if err := errors.Join(db.QueryRowContext(ctx, "SELECT value FROM kv WHERE key = 'trust'").Scan(&raw), json.Unmarshal(raw, &trusted)); err != nil {
		w.violate("S20", "what %s trusts: %v", h.name, err)
	} else if v := trusted.Marks[fleet.TypeTimestamp].Version; v < uint64(len(w.refs)) {
		w.violate("S20", "%s acted by release %d, and remembers to have seen %d: it would take an older one", h.name, uint64(len(w.refs)), v)
	}
	rows, err := db.QueryContext(ctx, "SELECT seq, at, type, body FROM outbox ORDER BY seq")
	if err != nil {
		w.violate("S33", "the journal of %s: %v", h.name, err)
		return
	}
	defer func() { _ = rows.Close() }() // Err says
	n, before := 0, clock.Instant(0)
	for ; rows.Next(); n++ {
		var seq uint64
		var at clock.Instant
		var kind string
		var body []byte
		if err := rows.Scan(&seq, &at, &kind, &body); err != nil {
			w.violate("S33", "the journal of %s: %v", h.name, err)
			return
		}
		if at < before {
			w.violate("S9", "the time of %s goes back from %s to %s at its event %d", h.name, before, at, seq)
		}
		before = at
		if n >= len(logged) {
			w.violate("S33", "the journal of %s has event %d (%s), and the log ends at %d", h.name, seq, kind, len(logged))
			return
		}
		if e := &logged[n]; e.HostSeq != seq || e.Type != kind || string(e.Body) != string(body) || e.At != at {
			w.violate("S33", "event %d (%s) of %s is %d (%s) in the log", seq, kind, h.name, e.HostSeq, e.Type)
			return
		}
	}
	if err := rows.Err(); err != nil || n != len(logged) {
		w.violate("S33", "the journal of %s has %d events, the log %d (%v)", h.name, n, len(logged), err)
	}
	acted := map[string]int{}
	for i := range logged {
		ev, err := event.Decode(logged[i])
		if err != nil {
			w.violate("S25", "%v", err)
			continue
		}
		if e, ok := ev.(event.HostStepped); ok {
			if in, err := e.HostInput(); err != nil {
				w.violate("S25", "%v", err)
			} else if c, ok := in.(host.Claimed); ok {
				acted[c.Grant]++
			}
		}
	}
	for g, n := range acted { // order-free: each is asked
		if n > 1 {
			w.violate("S23", "%s acted %d times on grant %s", h.name, n, g)
		}
	}
}
