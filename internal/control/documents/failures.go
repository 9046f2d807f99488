package documents

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/host"
	"github.com/steadyfleet/steady/internal/identity"
	"github.com/steadyfleet/steady/internal/store"
	"github.com/steadyfleet/steady/internal/wire"
)

// Failed is a host that failed in a manifest, with what ties its events to it.
type Failed struct {
	Name        string
	Wave        int
	Incarnation uint64
	EventKey    []byte
	TokenDoc    digest.Digest
	chain       identity.Chain // as the log begins
}

// Prover shows hosts why they are to go back. It keeps the proofs of the
// rollouts being reverted: every one of their hosts is shown the same. It is
// safe for concurrent use.
type Prover struct {
	fleet   string
	library *Library
	log     Log
	warn    *slog.Logger

	mu    sync.Mutex
	kept  map[digest.Digest][]wire.FailureProof
	begin map[string]Failed // hosts as the log begins
	base  uint64            // the record that this is of
}

const maxProofs = 8 // manifests in the cache

// NewProver returns a prover over a fleet's log.
func NewProver(fleet string, library *Library, log Log, warn *slog.Logger) *Prover {
	return &Prover{fleet: fleet, library: library, log: log, warn: warn}
}

// Failures proves that need hosts of one wave failed, or as many as can be shown.
// Who failed is asked only when the proofs of the manifest are not kept, by one
// caller at a time.
func (p *Prover) Failures(ctx context.Context, manifest digest.Digest, ask func() (failed []Failed, need int, err error)) ([]wire.FailureProof, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if proofs, ok := p.kept[manifest]; ok {
		return proofs, nil
	}
	failed, need, err := ask()
	if err != nil {
		return nil, err
	}
	slices.SortFunc(failed, func(a, b Failed) int { return strings.Compare(a.Name, b.Name) })
	proofs := p.prove(ctx, manifest, failed, need)
	if need > 0 && len(proofs) == need {
		if p.kept == nil || len(p.kept) >= maxProofs {
			p.kept = map[digest.Digest][]wire.FailureProof{}
		}
		p.kept[manifest] = proofs
	}
	return proofs, nil
}

// prove returns the proofs of the first wave in which need hosts can be shown to
// have failed, or else those that there are of the fullest.
func (p *Prover) prove(ctx context.Context, manifest digest.Digest, failed []Failed, need int) (most []wire.FailureProof) {
	waves := map[int][]Failed{}
	for _, f := range failed {
		waves[f.Wave] = append(waves[f.Wave], f)
	}
	for _, wave := range slices.Sorted(maps.Keys(waves)) {
		var proofs []wire.FailureProof
		for _, f := range waves[wave] {
			if len(proofs) == need {
				break
			}
			proof, err := p.proof(ctx, manifest, f)
			if err != nil {
				p.warn.Warn("a failure cannot be proven", "host", f.Name, "manifest", manifest.Short(), "err", err)
				continue
			}
			proofs = append(proofs, proof)
		}
		if len(proofs) > len(most) {
			most = proofs
		}
		if len(most) == need {
			break
		}
	}
	return most
}

// proof shows one host's failure: its own events from the failure to the next
// head that it signed.
func (p *Prover) proof(ctx context.Context, manifest digest.Digest, f Failed) (shown wire.FailureProof, err error) {
	records, err := p.log.LastAbout(ctx, event.HostSubject(f.Name), store.MaxRead)
	if err != nil {
		return shown, err
	}
	slices.Reverse(records)
	at := slices.IndexFunc(records, func(r event.Record) bool { return failsIn(&r, manifest) })
	if at < 0 {
		return shown, errors.New("the log's last events of the host hold no failure")
	}
	failure := &records[at]
	begin, err := p.atBeginning(ctx, f.Name)
	if err != nil {
		return shown, err
	}
	shown.Incarnation = failure.Incarnation
	if begin.Incarnation == shown.Incarnation {
		f.Incarnation, f.EventKey, f.TokenDoc = begin.Incarnation, begin.EventKey, begin.TokenDoc
	}
	if shown.Incarnation != f.Incarnation {
		if f.EventKey, f.TokenDoc, err = enrolledAs(records, shown.Incarnation); err != nil {
			return shown, err
		}
	}
	shown.EventKey = f.EventKey
	from := identity.Genesis(p.fleet, f.Name, shown.Incarnation)
	if begin.Incarnation == shown.Incarnation {
		from = begin.chain
	}
	if shown.PrevHash, err = hashBefore(from, records[:at], failure); err != nil {
		return shown, err
	}
	if shown.Events, shown.Head, err = upToHead(records[at:], shown.Incarnation); err != nil {
		return shown, err
	}
	if shown.Token, err = p.library.Blob(ctx, f.TokenDoc); err != nil {
		return shown, fmt.Errorf("its enrolment token: %w", err)
	}
	leaf, ok, err := p.library.Leaf(manifest, f.Name)
	if err != nil || !ok {
		return shown, fmt.Errorf("its leaf: found %t: %w", ok, err)
	}
	shown.Leaf = leaf
	return shown, nil
}

// failsIn reports whether a record is a host's own failure in a manifest.
func failsIn(r *event.Record, manifest digest.Digest) bool {
	if r.HostSeq == 0 || r.Type != (event.HostStepped{}).EventType() {
		return false
	}
	ev, err := event.Decode(r.Entry)
	if err != nil {
		return false
	}
	s, ok := ev.(event.HostStepped)
	return ok && s.Manifest == manifest && s.To == host.Failed && s.From != host.Failed && s.Cause != host.RevertOrdered
}

func enrolledAs(records []event.Record, incarnation uint64) (key []byte, token digest.Digest, err error) {
	for i := range records {
		if records[i].Type != (event.HostEnrolled{}).EventType() {
			continue
		}
		ev, err := event.Decode(records[i].Entry)
		if err != nil {
			return nil, "", err
		}
		if e, ok := ev.(event.HostEnrolled); ok && e.Incarnation == incarnation {
			return e.EventKey, e.TokenDoc, nil
		}
	}
	return nil, "", fmt.Errorf("incarnation %d is not among the last events", incarnation)
}

// atBeginning is a host as the log begins, whose incarnation is 0 if it was not enrolled.
func (p *Prover) atBeginning(ctx context.Context, name string) (Failed, error) {
	base, err := p.log.Base(ctx)
	if err != nil || base.Seq == p.base {
		return p.begin[name], err
	}
	begin, err := Begin(ctx, p.log)
	if err != nil {
		return Failed{}, err
	}
	state, _, err := begin.Fold(New(p.log))
	if err != nil {
		return Failed{}, err
	}
	p.begin, p.base = map[string]Failed{}, base.Seq
	for _, h := range state.Plan.Hosts { // order-free: a map is made of them
		at := Failed{Name: h.Name, Incarnation: h.Incarnation, EventKey: h.EventKey, TokenDoc: h.TokenDoc, chain: identity.Genesis(p.fleet, h.Name, h.Incarnation)}
		if h.Seq > 0 {
			at.chain = identity.Chain{Seq: h.Seq, Hash: [32]byte(h.ChainHash)}
		}
		p.begin[h.Name] = at
	}
	return p.begin[name], nil
}

// hashBefore returns the chain's hash before an event: from where the log begins or the last
// head before it, over the events in between.
func hashBefore(chain identity.Chain, before []event.Record, e *event.Record) ([]byte, error) {
	begin := 0
	for i := len(before) - 1; i >= 0; i-- {
		if h, ok := HeadIn(&before[i], e.Incarnation); ok {
			chain, begin = identity.Chain{Seq: h.Seq, Hash: [32]byte(h.Hash)}, i+1
			break
		}
	}
	for i := begin; i < len(before); i++ {
		if r := &before[i]; r.HostSeq > chain.Seq && r.Incarnation == e.Incarnation {
			if r.HostSeq != chain.Seq+1 {
				return nil, fmt.Errorf("event %d does not follow %d", r.HostSeq, chain.Seq)
			}
			chain = chain.Next(r.At, r.Type, r.Body)
		}
	}
	if chain.Seq+1 != e.HostSeq {
		return nil, fmt.Errorf("the events before %d are not among the last ones", e.HostSeq)
	}
	return chain.Hash[:], nil
}

// HeadIn reads a signed head of a host's chain from a record, if it is one of the incarnation.
func HeadIn(r *event.Record, incarnation uint64) (event.HostHead, bool) {
	if r.Type != (event.HostHead{}).EventType() {
		return event.HostHead{}, false
	}
	ev, err := event.Decode(r.Entry)
	if err != nil {
		return event.HostHead{}, false
	}
	h, ok := ev.(event.HostHead)
	return h, ok && h.Incarnation == incarnation && len(h.Hash) == 32
}

func upToHead(records []event.Record, incarnation uint64) (events []wire.Event, head wire.Head, err error) {
	for i := range records {
		r := &records[i]
		if r.HostSeq != 0 && r.Incarnation == incarnation {
			events = append(events, wire.Event{Seq: r.HostSeq, At: r.At, Type: r.Type, Body: r.Body})
		}
		if h, ok := HeadIn(r, incarnation); ok {
			return events, wire.Head{Seq: h.Seq, Hash: h.Hash, Signature: h.Signature}, nil
		}
	}
	return nil, head, errors.New("no signed head follows the failure")
}
