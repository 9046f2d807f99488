package sessions

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/server"
	"github.com/steadyfleet/steady/internal/core/session"
	"github.com/steadyfleet/steady/reconcile"
	"github.com/steadyfleet/steady/reconcile/engine"
)

// logStore is a reconcile.Store whose rows are a fold of the server's log: a call returns once
// what it writes is durable there.
type logStore struct{ *Runner }

var _ reconcile.Store = logStore{}

// write records what f makes of the committed rows. An error of f records nothing.
func (l logStore) write(ctx context.Context, of engine.Ref, f func(*server.State) (engine.Write, error)) error {
	var failed error
	err := l.srv.Record(ctx, "", func(s *server.State, _ clock.Instant) ([]event.Event, error) {
		var w engine.Write
		if w, failed = f(s); failed != nil || w.IsZero() {
			return nil, nil
		}
		var raw json.RawMessage
		if raw, failed = json.Marshal(w); failed != nil {
			return nil, nil
		}
		return []event.Event{event.ResourceRecorded{OnSession: subjectOf(of), Write: raw}}, nil
	})
	if err != nil {
		return err
	}
	return failed
}

// subjectOf is what the event about a row is of.
func subjectOf(ref engine.Ref) event.OnSession {
	switch ref.Kind {
	case session.KindTemplate:
		return event.OnSession{Template: ref.ID}
	case session.KindQuota:
		return event.OnSession{Quota: ref.ID}
	}
	return event.OnSession{Session: session.Of(ref)}
}

// read runs f on the committed rows.
func (l logStore) read(ctx context.Context, f func(*engine.Table) error) error {
	var failed error
	if err := l.srv.ViewState(ctx, func(s *server.State) { failed = f(s.Rows) }); err != nil {
		return err
	}
	return failed
}

// Commit implements reconcile.Store. It is refused, and the turn taken again, where the host that
// a pod books has no room or takes no pods any more: it was chosen on a copy, and two turns may have seen the same.
func (l logStore) Commit(ctx context.Context, rec engine.Record) (out reconcile.Committed, err error) {
	err = l.write(ctx, rec.Row.Ref, func(s *server.State) (w engine.Write, err error) {
		if b := session.Booking(&rec.Row); b != nil && !l.books(s, rec.Row.Ref, b) {
			return w, engine.ErrConflict
		}
		w, out, err = s.Rows.Commit(rec)
		return w, err
	})
	if err != nil {
		return reconcile.Committed{}, err
	}
	return out, nil
}

// Ack implements reconcile.Store.
func (l logStore) Ack(ctx context.Context, ref engine.Ref, n int64) error {
	return l.write(ctx, ref, func(s *server.State) (engine.Write, error) { return s.Rows.Ack(ref, n), nil })
}

// Apply implements reconcile.Store.
func (l logStore) Apply(ctx context.Context, in engine.Intent, now time.Time, cause engine.Cause) (ch engine.Change, err error) {
	err = l.write(ctx, in.Ref, func(s *server.State) (w engine.Write, err error) {
		w, ch, err = s.Rows.Apply(in, now, cause)
		return w, err
	})
	return ch, err
}

// Deliver implements reconcile.Store.
func (l logStore) Deliver(ctx context.Context, ref engine.Ref, e engine.Event, now time.Time) (r engine.Raise, err error) {
	err = l.write(ctx, ref, func(s *server.State) (w engine.Write, err error) {
		w, r, err = s.Rows.Deliver(ref, e, now)
		return w, err
	})
	return r, err
}

// Trim implements reconcile.Store.
func (l logStore) Trim(ctx context.Context, ref engine.Ref, h engine.History, now time.Time) error {
	return l.write(ctx, ref, func(s *server.State) (engine.Write, error) { return s.Rows.Trim(ref, h, now), nil })
}

// Purge implements reconcile.Store, with one event for each session.
func (l logStore) Purge(ctx context.Context, kind string, before time.Time) (int, error) {
	var gone []engine.Ref
	if err := l.read(ctx, func(t *engine.Table) error { gone = t.Purge(kind, before).Purged; return nil }); err != nil {
		return 0, err
	}
	bySubject := map[event.OnSession][]engine.Ref{}
	for _, ref := range gone {
		bySubject[subjectOf(ref)] = append(bySubject[subjectOf(ref)], ref)
	}
	for _, refs := range bySubject {
		if err := l.write(ctx, refs[0], func(*server.State) (engine.Write, error) { return engine.Write{Purged: refs}, nil }); err != nil {
			return 0, err
		}
	}
	return len(gone), nil
}

// Load implements reconcile.Store.
func (l logStore) Load(ctx context.Context, ref engine.Ref) (snap engine.Snapshot, err error) {
	err = l.read(ctx, func(t *engine.Table) (err error) { snap, err = t.Load(ref); return err })
	return snap, err
}

// Get implements reconcile.Store.
func (l logStore) Get(ctx context.Context, ref engine.Ref) (row engine.Row, err error) {
	err = l.read(ctx, func(t *engine.Table) (err error) { row, err = t.Get(ref); return err })
	return row, err
}

// rowsAtOnce bounds how many rows one read in the reducer copies: a session has up to 8,257 of them.
const rowsAtOnce = 512

// List implements reconcile.Store. The rows are not of one instant.
func (l logStore) List(ctx context.Context, f reconcile.Filter) (rows []engine.Row, err error) {
	var refs []engine.Ref
	if err := l.read(ctx, func(t *engine.Table) error { refs = t.Refs(f); return nil }); err != nil {
		return nil, err
	}
	slices.SortFunc(refs, engine.Ref.Compare)
	err = l.each(ctx, refs, func(row *engine.Row) {
		if f.Accepts(row) {
			rows = append(rows, *row)
		}
	})
	return rows, err
}

// each visits those of the rows that there are, some of them at one instant.
func (l logStore) each(ctx context.Context, refs []engine.Ref, visit func(*engine.Row)) error {
	for some := range slices.Chunk(refs, rowsAtOnce) {
		if err := l.read(ctx, func(t *engine.Table) error {
			for _, ref := range some {
				if row, err := t.Get(ref); err == nil {
					visit(&row)
				}
			}
			return nil
		}); err != nil {
			return err
		}
	}
	return nil
}

// Open implements reconcile.Store.
func (l logStore) Open(ctx context.Context) (o reconcile.Opened, err error) {
	err = l.read(ctx, func(t *engine.Table) error { o = t.Open(); return nil })
	return o, err
}

// History implements reconcile.Store.
func (l logStore) History(ctx context.Context, ref engine.Ref, after int64, limit int) (ts []engine.Transition, err error) {
	err = l.read(ctx, func(t *engine.Table) error { ts = t.History(ref, after, limit); return nil })
	return ts, err
}
