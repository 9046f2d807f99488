package engine

import (
	"bytes"
	"cmp"
	"maps"
	"slices"
	"time"
)

// Table keeps rows, history, inboxes and the trigger outbox in memory. It changes by Fold alone: what
// a call would change is returned as a Write, which the caller makes durable first. It has no
// lock: many may read it, or one write.
type Table struct {
	rows                      map[Ref]*kept
	below                     map[Ref]*below
	created, raised, received int64 // numbers given out
}

// kept is all that is kept of one resource.
type kept struct {
	row     Row
	history []Transition
	inbox   []Event // by N; those up to row.Handled only keep their names
	bare    int     // so many of them have no data any more
	known   map[eventName]struct{}
	outbox  []Raise
}

type eventName struct{ source, id string }

// unhandled are the events that no decision has named as handled.
func (k *kept) unhandled() []Event {
	from, _ := slices.BinarySearchFunc(k.inbox, k.row.Handled()+1, func(e Event, n int64) int { return cmp.Compare(e.N, n) })
	return k.inbox[from:]
}

// below is what has one parent. Deleted children stay for their retention, and are only
// counted: they cost their parent nothing.
type below struct {
	live    map[Ref]*kept
	deleted int
}

// NewTable makes an empty table.
func NewTable() *Table {
	return &Table{rows: map[Ref]*kept{}, below: map[Ref]*below{}}
}

func (t *Table) put(row Row) {
	r := t.rows[row.Ref]
	if r == nil {
		r = &kept{}
		t.rows[row.Ref] = r
	} else {
		t.leave(r)
	}
	r.row = row
	t.join(r)
	t.created = max(t.created, row.Created)
}

func (t *Table) remove(ref Ref) {
	if r := t.rows[ref]; r != nil {
		t.leave(r)
	}
	delete(t.rows, ref)
}

// join puts a row below its parent, and leave takes it away there.
func (t *Table) join(r *kept) {
	p := r.row.Parent
	if p.IsZero() {
		return
	}
	b := t.below[p]
	if b == nil {
		b = &below{live: map[Ref]*kept{}}
		t.below[p] = b
	}
	if r.row.Phase == Deleted {
		b.deleted++
		return
	}
	b.live[r.row.Ref] = r
}

func (t *Table) leave(r *kept) {
	b := t.below[r.row.Parent]
	if b == nil {
		return
	}
	if r.row.Phase == Deleted {
		b.deleted--
	} else {
		delete(b.live, r.row.Ref)
	}
	if b.deleted == 0 && len(b.live) == 0 {
		delete(t.below, r.row.Parent)
	}
}

// row is a copy of the row of ref, nil if there is none.
func (t *Table) row(ref Ref) *Row {
	if r := t.rows[ref]; r != nil {
		row := r.row
		return &row
	}
	return nil
}

// number gives new rows their place in the order of creation.
func (t *Table) number(rows []Row) []StoredRow {
	out, next := make([]StoredRow, len(rows)), t.created
	for i, r := range rows {
		if r.Created == 0 {
			next++
			r.Created = next
		}
		out[i] = stored(r)
		if before := t.rows[r.Ref]; before != nil && bytes.Equal(before.row.Desired, r.Desired) {
			out[i].Desired, out[i].SameDesired = nil, true
		}
	}
	return out
}

// Commit is what a record writes. It fails with ErrConflict if the row is not as expected.
func (t *Table) Commit(rec Record) (w Write, out Committed, err error) {
	ref := rec.Row.Ref
	if cur := t.row(ref); cur == nil || cur.Revision != rec.Expect {
		return w, out, ErrConflict
	}
	rows, ts, err := Expand(rec, func(r Ref) (*Row, error) { return t.row(r), nil })
	if err != nil {
		return w, out, err
	}
	out.Transitions = slices.Concat(rec.Transitions, ts)
	w = Write{At: rec.Now, Rows: t.number(append([]Row{rec.Row}, rows...)), Transitions: out.Transitions}
	if rec.NoHistory {
		w.Transitions = ts
	}
	for i, r := range rec.Raises {
		r.N = t.raised + int64(i) + 1
		out.Raised = append(out.Raised, r)
		w.Raised = append(w.Raised, Raised(r))
	}
	if rec.AckTrigger != 0 {
		w.Acked = &UpTo{ref, rec.AckTrigger}
	}
	if rec.Handled != 0 {
		w.Handled = &UpTo{ref, rec.Handled}
	}
	return w, out, nil
}

// Ack is what removing the triggers of ref up to n writes.
func (t *Table) Ack(ref Ref, n int64) (w Write) {
	if t.rows[ref] != nil && n > 0 {
		w.Acked = &UpTo{ref, n}
	}
	return w
}

// Apply is what an intent of the owner of a root writes.
func (t *Table) Apply(in Intent, now time.Time, cause Cause) (w Write, ch Change, err error) {
	row, ch, err := ApplyIntent(t.row(in.Ref), nil, in, now, cause)
	if err == nil && ch.Changed {
		w = Write{At: now, Rows: t.number([]Row{row}), Transitions: ch.Transition}
	}
	return w, ch, err
}

// Deliver is what an event for ref writes; nothing if it is known.
func (t *Table) Deliver(ref Ref, e Event, now time.Time) (w Write, r Raise, err error) {
	cur, unhandled := t.row(ref), 0
	if cur != nil {
		if _, known := t.rows[ref].known[eventName{e.Source, e.ID}]; known {
			return w, r, nil
		}
		unhandled = len(t.rows[ref].unhandled())
	}
	if e, err = Receive(cur, ref, e, unhandled, now); err != nil {
		return w, r, err
	}
	e.N = t.received + 1
	r = Raise{N: t.raised + 1, Ref: ref, Cause: e.Cause()}
	return Write{At: now, Events: []Received{{ref, e}}, Raised: []Raised{Raised(r)}}, r, nil
}

// Trim is what a history policy drops of one resource.
func (t *Table) Trim(ref Ref, h History, now time.Time) (w Write) {
	if r := t.rows[ref]; r != nil {
		if drop := h.Drop(r.history, now); len(drop) > 0 {
			w = Write{At: now, Trimmed: &Trimmed{ref, drop}}
		}
	}
	return w
}

// Purge is what removes the rows of a kind that were deleted before an instant and have no
// row below them.
func (t *Table) Purge(kind string, before time.Time) (w Write) {
	for ref, r := range t.rows {
		if ref.Kind == kind && r.row.Phase == Deleted && r.row.Since().Before(before) && t.below[ref] == nil {
			w.Purged = append(w.Purged, ref)
		}
	}
	slices.SortFunc(w.Purged, Ref.Compare)
	return w
}

// Load reads a row with its parent, its children but deleted ones, its inbox and its newest trigger.
func (t *Table) Load(ref Ref) (snap Snapshot, err error) {
	r := t.rows[ref]
	if r == nil {
		return snap, ErrNotFound
	}
	snap.Row, snap.Parent = r.row, t.row(r.row.Parent)
	if b := t.below[ref]; b != nil && len(b.live) > 0 {
		live := slices.SortedFunc(maps.Values(b.live), func(a, b *kept) int {
			return cmp.Or(cmp.Compare(a.row.Order, b.row.Order), cmp.Compare(a.row.Created, b.row.Created))
		})
		snap.Children = make([]Row, len(live))
		for i, c := range live {
			snap.Children[i] = c.row
		}
	}
	snap.Events = slices.Clone(r.unhandled())
	if n := len(r.outbox); n > 0 {
		snap.TriggerN = r.outbox[n-1].N
	}
	return snap, nil
}

// Get reads one row. It returns ErrNotFound if there is none.
func (t *Table) Get(ref Ref) (Row, error) {
	if r := t.rows[ref]; r != nil {
		return r.row, nil
	}
	return Row{}, ErrNotFound
}

// List reads rows, ordered by kind and id.
func (t *Table) List(f Filter) []Row {
	refs := t.Refs(f)
	slices.SortFunc(refs, Ref.Compare)
	out := make([]Row, len(refs))
	for i, ref := range refs {
		out[i] = t.rows[ref].row
	}
	return out
}

// Refs names the rows that List reads, in no order: the caller sorts them.
func (t *Table) Refs(f Filter) (out []Ref) {
	for ref, r := range t.rows { // order-free: the caller sorts
		if f.Accepts(&r.row) {
			out = append(out, ref)
		}
	}
	return out
}

// Open lists every row that is not terminal, in the order of creation, and the outbox.
func (t *Table) Open() (out Opened) {
	open := make([]*kept, 0, len(t.rows))
	for _, r := range t.rows { // order-free: sorted below
		if !r.row.Phase.Terminal() {
			open = append(open, r)
		}
		out.Raised = append(out.Raised, r.outbox...)
	}
	slices.SortFunc(open, func(a, b *kept) int { return cmp.Compare(a.row.Created, b.row.Created) })
	out.Refs = make([]OpenRef, len(open))
	for i, r := range open {
		out.Refs[i] = OpenRef{Ref: r.row.Ref, Acting: r.row.Phase == Acting}
	}
	slices.SortFunc(out.Raised, func(a, b Raise) int { return cmp.Compare(a.N, b.N) })
	return out
}

// History reads up to limit transitions of ref with N > after, oldest first; limit 0 is all.
func (t *Table) History(ref Ref, after int64, limit int) []Transition {
	r := t.rows[ref]
	if r == nil {
		return nil
	}
	from, _ := slices.BinarySearchFunc(r.history, after+1, func(x Transition, n int64) int { return cmp.Compare(x.N, n) })
	ts := r.history[from:]
	if limit > 0 {
		ts = ts[:min(limit, len(ts))]
	}
	return slices.Clone(ts)
}

// Snapshot is a write that makes an empty table equal to this one.
func (t *Table) Snapshot() (w Write) {
	refs := make([]Ref, 0, len(t.rows))
	for ref := range t.rows { // order-free: sorted below
		refs = append(refs, ref)
	}
	slices.SortFunc(refs, func(a, b Ref) int { return cmp.Compare(t.rows[a].row.Created, t.rows[b].row.Created) })
	for _, ref := range refs {
		r := t.rows[ref]
		w.Rows = append(w.Rows, stored(r.row))
		w.Transitions = append(w.Transitions, r.history...)
		for _, e := range r.inbox {
			w.Events = append(w.Events, Received{ref, e})
		}
		for _, x := range r.outbox {
			w.Raised = append(w.Raised, Raised(x))
		}
	}
	return w
}
