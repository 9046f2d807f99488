package e2e

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/steadyfleet/steady/internal/control/documents"
	"github.com/steadyfleet/steady/internal/core/audit"
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/plan"
	"github.com/steadyfleet/steady/internal/identity"
	"github.com/steadyfleet/steady/internal/store"
	"github.com/steadyfleet/steady/internal/store/embedded"
	"github.com/steadyfleet/steady/internal/testkit"
)

// hostEvent is one event as its host keeps it.
type hostEvent struct {
	seq  uint64
	at   clock.Instant
	kind string
	body []byte
	hash []byte
}

// outbox is what a host knows of its own events.
type outbox struct {
	host        string
	incarnation uint64
	acked       uint64
	events      []hostEvent // from 1, without gaps
}

// readOutbox reads an agent's database, which the agent may have open.
func readOutbox(t testing.TB, host, stateDir string) outbox {
	t.Helper()
	db := testkit.Value(sql.Open("sqlite", "file:"+filepath.Join(stateDir, "agent.db")+"?mode=ro&_pragma=busy_timeout(10000)"))(t)
	defer db.Close()
	db.SetMaxOpenConns(1)
	tx := testkit.Value(db.Begin())(t) // one view of all of it
	defer tx.Rollback()                //nolint:errcheck // it only read
	o := outbox{host: host}
	var id struct {
		Incarnation uint64 `json:"incarnation"`
	}
	for key, into := range map[string]any{"identity": &id, "acked": &o.acked} {
		var raw []byte
		testkit.Must(t, tx.QueryRow("SELECT value FROM kv WHERE key = ?", key).Scan(&raw))
		testkit.Must(t, json.Unmarshal(raw, into))
	}
	o.incarnation = id.Incarnation
	rows := testkit.Value(tx.Query("SELECT seq, at, type, body, hash FROM outbox ORDER BY seq"))(t)
	defer rows.Close()
	for rows.Next() {
		var e hostEvent
		testkit.Must(t, rows.Scan(&e.seq, &e.at, &e.kind, &e.body, &e.hash))
		o.events = append(o.events, e)
	}
	testkit.Must(t, rows.Err())
	return o
}

// ledger is the server's log, checked link by link.
type ledger struct {
	records []event.Record
	state   *plan.State
	// hosts holds, by host, incarnation and sequence, the events of hosts.
	hosts map[string]event.Record
	// heads counts verified heads by host.
	heads map[string]int
}

func place(host string, incarnation, seq uint64) string {
	return fmt.Sprintf("%s/%d/%d", host, incarnation, seq)
}

// copyLog copies a log that nobody writes to: its write-ahead part too, so that
// reading the copy does not help whoever opens the original.
func copyLog(t testing.TB, from, to string) {
	t.Helper()
	testkit.Must(t, os.MkdirAll(to, 0o700))
	for _, name := range []string{"log.db", "log.db-wal"} {
		raw, err := os.ReadFile(filepath.Join(from, name))
		if errors.Is(err, fs.ErrNotExist) && name != "log.db" {
			continue
		}
		testkit.Must(t, err)
		testkit.Must(t, os.WriteFile(filepath.Join(to, name), raw, 0o600))
	}
	for _, name := range []string{"blobs", "snapshots"} {
		testkit.Must(t, os.Symlink(filepath.Join(from, name), filepath.Join(to, name)))
	}
}

// readLedger opens a log and verifies the whole of it: the hash chain, every
// host's own chain, every signed head, the fold, and the audit's invariants.
func readLedger(t testing.TB, dir string) *ledger {
	t.Helper()
	ctx := context.Background()
	s := testkit.Value(embedded.Open(ctx, dir, embedded.Options{}))(t)
	defer func() { testkit.Must(t, s.Close()) }()
	library := documents.New(s)
	l := &ledger{state: plan.New(library), hosts: map[string]event.Record{}, heads: map[string]int{}}
	auditor := audit.NewLog(library)
	chains := map[string]identity.Chain{}
	end, err := store.Replay(ctx, s, store.Head{}, func(records []event.Record) error {
		for i := range records {
			r := &records[i]
			ev, err := event.Decode(r.Entry)
			if err != nil {
				return err
			}
			if accepted, ok := ev.(event.ReleaseAccepted); ok {
				library.Learn(accepted)
			}
			if err := l.state.Apply(r.Entry); err != nil {
				return fmt.Errorf("event %d: %w", r.Seq, err)
			}
			for _, v := range auditor.Observe(r.Seq, r.Entry) {
				t.Errorf("the log violates %s", v)
			}
			l.link(t, r, ev, chains)
			l.records = append(l.records, *r)
		}
		return nil
	})
	testkit.Must(t, err)
	if head := testkit.Value(s.Head(ctx))(t); head.Seq != end.Seq || head.Hash != end.Hash {
		t.Errorf("the log verifies up to %d and its head says %d", end.Seq, head.Seq)
	}
	return l
}

// link checks a record against the chain of its host.
func (l *ledger) link(t testing.TB, r *event.Record, ev event.Event, chains map[string]identity.Chain) {
	t.Helper()
	switch ev := ev.(type) {
	case event.HostEnrolled:
		chains[r.Host()] = identity.Genesis(fleetName, r.Host(), ev.Incarnation)
	case event.HostHead:
		h, c := l.state.Hosts[r.Host()], chains[r.Host()]
		if ev.Seq != c.Seq || !bytes.Equal(ev.Hash, c.Hash[:]) {
			t.Errorf("event %d: the head of host %s is at %d, its chain at %d", r.Seq, r.Host(), ev.Seq, c.Seq)
		}
		if err := identity.VerifyHead(h.EventKey, fleetName, r.Host(), ev.Incarnation, c, ev.Signature); err != nil {
			t.Errorf("event %d: host %s: %v", r.Seq, r.Host(), err)
		}
		l.heads[r.Host()]++
	}
	if r.HostSeq == 0 {
		return
	}
	key := place(r.Host(), r.Incarnation, r.HostSeq)
	if old, twice := l.hosts[key]; twice {
		t.Errorf("event %s is in the log twice, at %d and %d", key, old.Seq, r.Seq)
	}
	l.hosts[key] = *r
	chains[r.Host()] = chains[r.Host()].Next(r.At, r.Type, r.Body)
}

// holds checks that every event which a host believes to be acknowledged is in
// the log as the host made it (S33).
func (l *ledger) holds(t testing.TB, o outbox) {
	t.Helper()
	if o.acked > 0 && (len(o.events) == 0 || o.events[0].seq != 1) {
		t.Errorf("host %s does not keep its events from the first on", o.host)
	}
	for _, e := range o.events {
		if e.seq > o.acked {
			return
		}
		r, ok := l.hosts[place(o.host, o.incarnation, e.seq)]
		switch {
		case !ok:
			t.Errorf("event %d of host %s was acknowledged and is not in the log (%s)", e.seq, o.host, e.kind)
		case r.Type != e.kind || r.At != e.at || !bytes.Equal(r.Body, e.body):
			t.Errorf("event %d of host %s is another one in the log, at %d", e.seq, o.host, r.Seq)
		}
	}
}

// tail is the end of the log, for a failed test.
func (l *ledger) tail(n int) string {
	var b bytes.Buffer
	for _, r := range l.records[max(0, len(l.records)-n):] {
		fmt.Fprintf(&b, "%d term %d %s %s %s\n", r.Seq, r.Term, r.Type, r.Host(), r.Body)
	}
	return b.String()
}

// eventsOf returns the events of one type with their records.
func eventsOf[E event.Event](t testing.TB, l *ledger) (out []E, at []event.Record) {
	t.Helper()
	for _, r := range l.records {
		var zero E
		if r.Type == zero.EventType() {
			out, at = append(out, testkit.Value(event.Decode(r.Entry))(t).(E)), append(at, r)
		}
	}
	return out, at
}
