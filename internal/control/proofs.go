package control

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/host"
	"github.com/steadyfleet/steady/internal/core/plan"
	"github.com/steadyfleet/steady/internal/identity"
	"github.com/steadyfleet/steady/internal/store"
	"github.com/steadyfleet/steady/internal/wire"
)

// proofCache keeps the proofs of the rollouts being reverted: every one of their
// hosts is shown the same.
type proofCache struct {
	mu sync.Mutex
	m  map[digest.Digest][]wire.FailureProof
}

const maxProofs = 8 // manifests in the cache

// failures proves that more hosts of one wave failed than the manifest's policy
// allows.
func (c *Control) failures(ctx context.Context, manifest digest.Digest) ([]wire.FailureProof, error) {
	c.proofs.mu.Lock()
	defer c.proofs.mu.Unlock()
	if p, ok := c.proofs.m[manifest]; ok {
		return p, nil
	}
	var proven []failedHost
	need := 0
	err := c.View(ctx, func(s *plan.State) {
		r := s.Rollouts[manifest]
		if r == nil || r.Plan == nil {
			return
		}
		need = r.Plan.Header.Policy.MaxFailures + 1
		for name, m := range r.Marks {
			i, member := r.Plan.Leaf(name)
			if h := s.Hosts[name]; m.Proven && member && h != nil {
				proven = append(proven, failedHost{name, r.Plan.Leaves[i].Wave, h.Incarnation, slices.Clone(h.EventKey), h.TokenDoc})
			}
		}
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(proven, func(a, b failedHost) int { return compareNames(a.name, b.name) })
	proofs := c.prove(ctx, manifest, proven, need)
	if need > 0 && len(proofs) == need {
		if c.proofs.m == nil || len(c.proofs.m) >= maxProofs {
			c.proofs.m = map[digest.Digest][]wire.FailureProof{}
		}
		c.proofs.m[manifest] = proofs
	}
	return proofs, nil
}

// prove returns the proofs of the first wave in which need hosts can be shown to
// have failed, or else those that there are of the fullest.
func (c *Control) prove(ctx context.Context, manifest digest.Digest, proven []failedHost, need int) (most []wire.FailureProof) {
	waves := map[int][]failedHost{}
	for _, f := range proven {
		waves[f.wave] = append(waves[f.wave], f)
	}
	for _, wave := range slices.Sorted(maps.Keys(waves)) {
		var proofs []wire.FailureProof
		for _, f := range waves[wave] {
			if len(proofs) == need {
				break
			}
			p, err := c.proof(ctx, manifest, f)
			if err != nil {
				c.cfg.Log.Warn("a failure cannot be proven", "host", f.name, "manifest", manifest.Short(), "err", err)
				continue
			}
			proofs = append(proofs, p)
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

// failedHost is a host with what ties its events to it.
type failedHost struct {
	name        string
	wave        int
	incarnation uint64
	eventKey    []byte
	token       digest.Digest
}

func compareNames(a, b string) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// proof shows one host's failure: its own events from the failure to the next
// head that it signed.
func (c *Control) proof(ctx context.Context, manifest digest.Digest, f failedHost) (p wire.FailureProof, err error) {
	records, err := c.cfg.Store.ReadHost(ctx, f.name, store.MaxRead)
	if err != nil {
		return p, err
	}
	slices.Reverse(records)
	at := slices.IndexFunc(records, func(r event.Record) bool { return failsIn(&r, manifest) })
	if at < 0 {
		return p, errors.New("the log's last events of the host hold no failure")
	}
	failure := &records[at]
	p.Incarnation = failure.Incarnation
	if p.Incarnation != f.incarnation {
		if f.eventKey, f.token, err = enrolledAs(records, p.Incarnation); err != nil {
			return p, err
		}
	}
	p.EventKey = f.eventKey
	if p.PrevHash, err = c.hashBefore(f.name, records[:at], failure); err != nil {
		return p, err
	}
	if p.Events, p.Head, err = upToHead(records[at:], p.Incarnation); err != nil {
		return p, err
	}
	if p.Token, err = c.library.Blob(ctx, f.token); err != nil {
		return p, fmt.Errorf("its enrolment token: %w", err)
	}
	leaf, ok, err := c.library.Leaf(manifest, f.name)
	if err != nil || !ok {
		return p, fmt.Errorf("its leaf: found %t: %w", ok, err)
	}
	p.Leaf = leaf
	return p, nil
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

// hashBefore returns the chain's hash before an event: from the last head before
// it, over the events in between.
func (c *Control) hashBefore(name string, before []event.Record, e *event.Record) ([]byte, error) {
	chain := identity.Genesis(c.cfg.Fleet, name, e.Incarnation)
	begin := 0
	for i := len(before) - 1; i >= 0; i-- {
		if h, ok := headIn(&before[i], e.Incarnation); ok {
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

func headIn(r *event.Record, incarnation uint64) (event.HostHead, bool) {
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
		if h, ok := headIn(r, incarnation); ok {
			return events, wire.Head{Seq: h.Seq, Hash: h.Hash, Signature: h.Signature}, nil
		}
	}
	return nil, head, errors.New("no signed head follows the failure")
}
