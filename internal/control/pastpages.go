package control

import (
	"context"
	"sync"
	"time"

	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/store"
	"github.com/steadyfleet/steady/internal/wire"
)

// pages reads records ahead of who folds them, and verifies their chain: at most two pages of them
// are in memory that are not folded.
type pages struct {
	read  chan page
	leave context.CancelFunc
	ended sync.WaitGroup
}

// page are records, and where the log is behind them.
type page struct {
	records  []event.Record
	head     store.Head
	verified time.Duration // what it took of a processor
	err      error
}

// readPages reads what follows a record, up to another. The caller has to close it.
func readPages(ctx context.Context, log store.Log, from store.Head, to, most uint64) *pages {
	ctx, leave := context.WithCancel(ctx)
	p := &pages{read: make(chan page), leave: leave}
	p.ended.Go(func() {
		for at := from; at.Seq < to; {
			next := readPage(ctx, log, at, min(most-at.Seq%most, to-at.Seq)) // states are kept where pages end
			select {
			case p.read <- next:
			case <-ctx.Done():
				return
			}
			if next.err != nil {
				return
			}
			at = next.head
		}
	})
	return p
}

func readPage(ctx context.Context, log store.Log, from store.Head, most uint64) (p page) {
	if p.records, p.err = log.Read(ctx, from.Seq, int(most)); p.err != nil {
		return p
	}
	if len(p.records) == 0 {
		p.err = wire.Refuse(wire.ErrNotFound, "the log ends with record %d", from.Seq)
		return p
	}
	start := time.Now()
	p.head, p.err = store.Verify(from, p.records)
	p.verified = time.Since(start)
	return p
}

// next waits for the next page. There has to be one.
func (p *pages) next(ctx context.Context) page {
	select {
	case next := <-p.read:
		return next
	case <-ctx.Done():
		return page{err: ctx.Err()}
	}
}

func (p *pages) close() {
	p.leave()
	p.ended.Wait()
}
