package identity

import (
	"bytes"
	"context"

	"github.com/steadyfleet/steady/internal/core/event"
)

// Report is a batch of a host's events, without gaps and at least one, whose head the
// host signed.
type Report struct {
	Host        string
	Incarnation uint64
	Entries     []event.Entry
	Head        Chain // after the last entry
}

// Histories gives the last records about a subject, newest first.
type Histories interface {
	LastAbout(ctx context.Context, subject event.Subject, limit int) ([]event.Record, error)
}

// After returns the entries that follow the end of the host's chain as the server has
// it; none when it has them all. It is not ok when the host reports another history than
// before. The report must be of the same incarnation as the chain and begin at
// its end or before. No more than most records are read of the log at a time; errors
// are those of reading it.
func (r *Report) After(ctx context.Context, fleetName string, end Chain, log Histories, most int) (fresh []event.Entry, ok bool, err error) {
	fresh = r.Entries
	if first := fresh[0].HostSeq; first <= end.Seq {
		if same, err := r.sameAsStored(ctx, end.Seq, log, most); err != nil || !same {
			return nil, false, err
		}
		if r.Head.Seq <= end.Seq {
			return nil, true, nil
		}
		fresh = fresh[end.Seq-first+1:]
	}
	chain := end
	if end.Seq == 0 {
		chain = Genesis(fleetName, r.Host, r.Incarnation)
	}
	for i := range fresh {
		chain = chain.Next(fresh[i].At, fresh[i].Type, fresh[i].Body)
	}
	// The signature holds: a host whose chain differs has another history than it
	// reported.
	return fresh, chain == r.Head, nil
}

// sameAsStored compares the events up to a number that the server has already with
// those in the log. Ones too old to be among the last that a host reported are believed.
func (r *Report) sameAsStored(ctx context.Context, upTo uint64, log Histories, most int) (bool, error) {
	entries, first := r.Entries, r.Entries[0].HostSeq
	overlap := min(upTo-first+1, uint64(len(entries)))
	// Between a host's own events stand its heads and what concerns it.
	limit := int(min(uint64(most), 4*(upTo-first+1)+64))
	for {
		records, err := log.LastAbout(ctx, event.HostSubject(r.Host), limit)
		if err != nil {
			return false, err
		}
		found := uint64(0)
		for i := range records {
			s := &records[i]
			if s.HostSeq == 0 || s.Incarnation != r.Incarnation || s.HostSeq < first || s.HostSeq-first >= uint64(len(entries)) {
				continue
			}
			found++
			if e := &entries[s.HostSeq-first]; e.At != s.At || e.Type != s.Type || !bytes.Equal(e.Body, s.Body) {
				return false, nil
			}
		}
		if found >= overlap || len(records) < limit || limit == most {
			return true, nil
		}
		limit = most
	}
}
