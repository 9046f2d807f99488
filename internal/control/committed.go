package control

import (
	"context"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/store"
)

// Committed is when the server committed records[i], of records in the order of the log. The instant
// of a host's own is on the host's clock; its batch ends with the server's record of the signed head.
func (c *Control) Committed(ctx context.Context, records []event.Record, i int) (clock.Instant, error) {
	return committed(ctx, c.cfg.Store, records, i)
}

func committed(ctx context.Context, log store.Log, records []event.Record, i int) (clock.Instant, error) {
	for {
		r := &records[i]
		if i++; r.HostSeq == 0 {
			return r.At, nil
		}
		if i == len(records) || records[i].Seq != r.Seq+1 {
			return committedBehind(ctx, log, r.Seq)
		}
	}
}

// committedBehind is the instant of the server's first record behind a sequence, or 0.
func committedBehind(ctx context.Context, log store.Log, seq uint64) (clock.Instant, error) {
	for page := 8; ; page = min(2*page, 512) { // most batches are small
		records, err := log.Read(ctx, seq, page)
		if err != nil || len(records) == 0 {
			return 0, err
		}
		for i := range records {
			if seq = records[i].Seq; records[i].HostSeq == 0 {
				return records[i].At, nil
			}
		}
	}
}
