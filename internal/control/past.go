package control

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/steadyfleet/steady/internal/control/documents"
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/server"
	"github.com/steadyfleet/steady/internal/store"
	"github.com/steadyfleet/steady/internal/wire"
)

const (
	// pastWaiting bounds the requests that wait for a state of the past.
	pastWaiting = 16
	// pastBurst is how long folding takes a processor for itself, while the server commits
	// records, before it is held to its share, which is that of the audit.
	pastBurst = 3 * time.Second
	// pastFolded is how many states stay folded in memory, and pastUnused how long.
	pastFolded = 2
	pastUnused = 5 * time.Minute
	// pastSteps is about how many bytes of states on the way stay encoded in memory, and pastApart
	// how many records they are apart at least.
	pastSteps = 64 << 20
	pastApart = 2000
	// pastPage is how many records are read at once.
	pastPage = 500
)

// past gives the states that the log came to at earlier records. One request folds at a time.
type past struct {
	store   store.Store
	fleet   string
	library *documents.Library
	kept    *keptStates
	turn    chan struct{} // held by who folds, and looks at what follows
	waiting atomic.Int32

	// What follows is of who has the turn.
	begun  bool            // the newest snapshot is kept
	view   *documents.View // the one that was asked for last
	folded []*folded       // used last at the end
	// steps are states that were passed on the way back to an earlier record: who goes back
	// goes on to.
	steps  []documents.Checkpoint
	back   bool
	apart  uint64 // records between two of them
	unused *time.Timer
	// How long it took to decode a state, and to read and fold a record, the last time.
	decoding, folding time.Duration
	pace              pace
}

// pace holds folding to its share of a processor while the server has work of its own.
type pace struct {
	end    uint64        // of the log when it was asked last
	credit time.Duration // of a processor
	rested time.Time
}

// rest is how long to wait after so much was spent of a processor. There is nothing to wait
// for where the log has not grown meanwhile: a server that commits nothing needs no share.
func (p *pace) rest(now time.Time, spent time.Duration, end uint64) time.Duration {
	grown := end != p.end
	p.credit, p.rested, p.end = min(pastBurst, p.credit+now.Sub(p.rested)/auditShare), now, end
	if !grown {
		return 0
	}
	p.credit -= spent
	return max(0, -p.credit*auditShare)
}

// folded is the state at a record.
type folded struct {
	head  store.Head
	at    clock.Instant // of the newest record that has the server's clock
	state *server.State
	trust *documents.Trust
}

func newPast(c Config) *past {
	p := &past{store: c.Store, fleet: c.Fleet, library: documents.New(c.Store), kept: newKeptStates(c.DataDir), turn: make(chan struct{}, 1), pace: pace{credit: pastBurst, rested: time.Now()}, folding: 20 * time.Microsecond}
	p.apart = min(pastApart, c.SnapshotEvery)
	p.unused = time.AfterFunc(pastUnused, p.forget)
	p.unused.Stop()
	return p
}

// forget lets go of the states in memory when nobody asked for a while.
func (p *past) forget() {
	p.turn <- struct{}{}
	p.folded, p.steps = nil, nil
	<-p.turn
}

// at runs read on the state at a record, which it must not change nor keep.
func (p *past) at(ctx context.Context, seq uint64, read func(*folded) error) error {
	if p.waiting.Add(1) > pastWaiting {
		p.waiting.Add(-1)
		return wire.Refuse(wire.ErrUnavailable, "%d requests wait for a state of the past already; try again", pastWaiting)
	}
	defer p.waiting.Add(-1)
	select {
	case p.turn <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-p.turn }()
	p.unused.Reset(pastUnused)
	base, err := p.store.Base(ctx)
	if err != nil {
		return err
	}
	if seq < base.Seq {
		return wire.Refuse(wire.ErrNotFound, "the log was pruned up to record %d", base.Seq)
	}
	start := time.Now()
	f, ahead, err := p.nearest(ctx, base, seq)
	if err != nil {
		return err
	}
	defer ahead.close()
	if err := p.rest(ctx, time.Since(start)); err != nil {
		return err
	}
	if err := p.forward(ctx, f, ahead, base, seq); err != nil {
		return err
	}
	return read(f)
}

// nearest is a state at a record or before it, from where the least is left to fold, and what is left.
func (p *past) nearest(ctx context.Context, base store.Head, seq uint64) (*folded, *pages, error) {
	p.folded = slices.DeleteFunc(p.folded, func(f *folded) bool { return f.head.Seq < base.Seq })
	p.steps = slices.DeleteFunc(p.steps, func(c documents.Checkpoint) bool { return c.Through.Seq <= base.Seq })
	p.back = slices.ContainsFunc(p.folded, func(f *folded) bool { return f.head.Seq > seq })
	best := -1
	for i, f := range p.folded {
		if f.head.Seq <= seq && (best < 0 || f.head.Seq > p.folded[best].head.Seq) {
			best = i
		}
	}
	if err := p.begin(ctx); err != nil {
		return nil, nil, err
	}
	from, known, err := p.kept.before(ctx, p.store, base, seq)
	if err != nil {
		return nil, nil, err
	}
	for _, c := range p.steps {
		if c.Through.Seq <= seq && c.Through.Seq > from.Through.Seq {
			from, known = c, true
		}
	}
	if best >= 0 && (!known || p.worth(p.folded[best].head.Seq, from.Through.Seq)) {
		f := p.folded[best]
		p.folded = append(slices.Delete(p.folded, best, best+1), f)
		return f, p.ahead(ctx, f.head, seq), nil
	}
	start := time.Now()
	if !known {
		if from, err = documents.Begin(ctx, p.store); err != nil {
			return nil, nil, err
		}
	}
	ahead := p.ahead(ctx, from.Through, seq) // while the state is decoded
	f, err := p.decode(from)
	if err == nil {
		p.decoding = time.Since(start)
		if f.at, err = lastCommit(ctx, p.store, base, f.head.Seq); err == nil {
			p.hold(f)
			return f, ahead, nil
		}
		known = false
	}
	ahead.close()
	if !known {
		return nil, nil, err
	}
	p.steps = nil // it is made again
	if err := p.kept.drop(from.Through); err != nil {
		return nil, nil, err
	}
	return p.nearest(ctx, base, seq)
}

// hold keeps a state in memory.
func (p *past) hold(f *folded) {
	if p.folded = append(p.folded, f); len(p.folded) > pastFolded {
		p.folded = slices.Delete(p.folded, 0, 1)
	}
}

// ahead reads the records between two.
func (p *past) ahead(ctx context.Context, from store.Head, to uint64) *pages {
	return readPages(ctx, p.store, from, to, min(pastPage, p.apart))
}

// decode is a state that was kept, or that the log begins with.
func (p *past) decode(from documents.Checkpoint) (f *folded, err error) {
	if from.State == nil && from.Through.Seq > 0 {
		if from, err = p.kept.load(from); err != nil {
			return nil, err
		}
	}
	f = &folded{head: from.Through}
	f.state, f.trust, err = from.Fold(p.library)
	return f, err
}

// worth reports whether folding from one record to another is quicker than to decode a state.
func (p *past) worth(from, to uint64) bool {
	return from >= to || time.Duration(to-from)*p.folding <= p.decoding
}

// viewOf projects a state. The roster that the last one had is not read again.
func (p *past) viewOf(f *folded) (*documents.View, error) {
	old := p.view
	if f.state.Plan.Release.Roster == "" {
		old = nil // of a later record
	}
	v, err := f.trust.View(p.fleet, f.state.Plan, old)
	if err == nil {
		p.view = v
	}
	return v, err
}

// begin keeps the newest snapshot of the state, from which the last records are near.
func (p *past) begin(ctx context.Context) error {
	if p.begun {
		return nil
	}
	p.begun = true
	snap, err := p.store.LatestSnapshot(ctx)
	if errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrCorrupt) || snap.Format != documents.StateFormat || !p.kept.wants(snap.At.Seq, 1) {
		return nil // the log has it all
	}
	if err != nil {
		return err
	}
	return p.kept.keep(documents.Checkpoint{Through: snap.At, State: snap.Body})
}

// forward folds the records up to one into a state. What was folded when it ends early stays.
func (p *past) forward(ctx context.Context, f *folded, ahead *pages, base store.Head, seq uint64) error {
	for f.head.Seq < seq {
		begun := time.Now()
		next := ahead.next(ctx)
		start := time.Now()
		if next.err != nil && !errors.As(next.err, new(*store.ChainError)) {
			return next.err
		}
		for i := range next.records {
			if next.err == nil {
				next.err = f.state.Apply(next.records[i].Entry)
			}
			if next.records[i].HostSeq == 0 {
				f.at = next.records[i].At
			}
		}
		if next.err != nil {
			p.folded = nil
			return fmt.Errorf("fold the log to record %d: %w", seq, next.err)
		}
		f.head, p.folding = next.head, time.Since(begun)/time.Duration(len(next.records))
		if err := p.keep(ctx, base, f); err != nil {
			return err
		}
		if err := p.rest(ctx, next.verified+time.Since(start)); err != nil {
			return err
		}
	}
	return nil
}

// keep keeps the state of a record that was folded on the way, if none is kept near it.
func (p *past) keep(ctx context.Context, base store.Head, f *folded) error {
	end, err := p.store.Head(ctx)
	if err != nil {
		return err
	}
	kept := p.kept.wants(f.head.Seq, max(keptApart, (end.Seq-base.Seq)/keptMost))
	step := p.back && p.kept.wants(f.head.Seq, p.apart) && !slices.ContainsFunc(p.steps, func(c documents.Checkpoint) bool {
		return max(c.Through.Seq, f.head.Seq)-min(c.Through.Seq, f.head.Seq) < p.apart
	})
	if !kept && !step {
		return nil
	}
	c := documents.Checkpoint{Through: f.head}
	if c.State, err = f.state.Snapshot(); err != nil {
		return err
	}
	if step {
		p.steps = append(p.steps, c)
		for len(p.steps) > 1 && len(c.State)*len(p.steps) > pastSteps {
			p.steps = slices.Delete(p.steps, 0, 1)
		}
	}
	if kept {
		return p.kept.keep(c)
	}
	return nil
}

// rest waits until what was spent of a processor is within the share.
func (p *past) rest(ctx context.Context, spent time.Duration) error {
	end, err := p.store.Head(ctx)
	if err != nil {
		return err
	}
	wait := p.pace.rest(time.Now(), spent, end.Seq)
	if wait == 0 {
		return nil
	}
	select {
	case <-time.After(wait):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// lastCommit is the instant of the server's newest record up to one: how far a state has come.
func lastCommit(ctx context.Context, log store.Log, base store.Head, seq uint64) (clock.Instant, error) {
	const page = 100
	for seq > base.Seq {
		from := max(base.Seq, seq-min(seq, page))
		records, err := log.Read(ctx, from, int(seq-from))
		if err != nil {
			return 0, err
		}
		for _, r := range slices.Backward(records) {
			if r.HostSeq == 0 {
				return r.At, nil
			}
		}
		seq = from
	}
	return 0, nil
}
