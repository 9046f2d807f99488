package verify

import (
	"bytes"
	"crypto/ed25519"
	"fmt"

	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/host"
	"github.com/steadyfleet/steady/internal/identity"
	"github.com/steadyfleet/steady/internal/trust"
	"github.com/steadyfleet/steady/internal/wire"
)

// Failed checks the proof behind an ordered revert: that more hosts failed in one wave
// of the manifest with this payload, which was accepted here before, than its signed
// policy allows. self, when this host failed in it, is its wave, and counts without a
// proof; it is negative otherwise. One bad proof refuses the whole.
func (f *Follower) Failed(payload []byte, proofs []wire.FailureProof, self int) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	m, err := f.v.Recall(payload)
	if err != nil {
		return err
	}
	header := m.Value()
	policy := header.Policy
	if policy.OnHealthFailure != fleet.RollbackAndHalt {
		return unproven("the signed policy of %s is %s: no revert can be ordered", header.Rollout(), policy.OnHealthFailure)
	}
	hosts, waves, failed := map[string]bool{}, map[int]int{}, 0
	count := func(name string, wave int) {
		if !hosts[name] {
			hosts[name] = true
			waves[wave]++
			failed = max(failed, waves[wave])
		}
	}
	if self >= 0 {
		count(f.o.Host, self)
	}
	for i := range proofs {
		plan, err := f.failure(m, &proofs[i])
		if err != nil {
			return err
		}
		count(plan.Host, plan.Wave)
	}
	if failed <= policy.MaxFailures {
		return unproven("a revert was ordered on the proof of %d failed hosts, and the signed policy of %s allows %d", failed, header.Rollout(), policy.MaxFailures)
	}
	return nil
}

func unproven(format string, args ...any) error {
	return &trust.Error{Code: trust.ManifestVerifyFailed, Message: fmt.Sprintf(format, args...)}
}

// failure checks one proof and returns the plan of the host that it is about.
func (f *Follower) failure(m trust.Verified[fleet.Manifest], p *wire.FailureProof) (none fleet.HostPlan, err error) {
	var leaf fleet.Leaf
	if err := trust.Decode(p.Leaf.Leaf, trust.MaxLeaf, &leaf); err != nil {
		return none, err
	}
	name := leaf.Host
	plan, err := f.v.HostPlan(m, p.Leaf.Leaf, trust.Proof{Index: uint64(p.Leaf.Index), Hashes: p.Leaf.Proof}, name)
	if err != nil {
		return none, err
	}
	// The token tied the event key to the host when it enrolled; that it has
	// been used up since does not matter here.
	var t identity.Token
	if _, err := f.v.Open(trust.RoleEnrol, identity.TypeToken, p.Token, &t, &t.Document); err != nil {
		return none, err
	}
	if t.Host != name {
		return none, unproven("the token is of host %q, the leaf of %q", t.Host, name)
	}
	key := ed25519.PublicKey(p.EventKey)
	if t.EventKeyDigest != "" {
		if got, err := identity.PublicDigest(key); err != nil || got != t.EventKeyDigest {
			return none, unproven("host %s: the event key is not the one that its token names", name)
		}
	}
	if err := f.chain(name, p); err != nil {
		return none, err
	}
	if !failedIn(p.Events, m.Digest()) {
		return none, unproven("host %s: no event says that it failed in manifest %s", name, m.Digest().Short())
	}
	return plan.Value(), nil
}

// chain checks that the events lead to the head that the host signed.
func (f *Follower) chain(name string, p *wire.FailureProof) error {
	if len(p.Events) == 0 || len(p.PrevHash) != 32 || p.Events[0].Seq == 0 {
		return unproven("host %s: a proof needs events and the hash before them", name)
	}
	c := identity.Chain{Seq: p.Events[0].Seq - 1, Hash: [32]byte(p.PrevHash)}
	for i := range p.Events {
		e := &p.Events[i]
		if e.Seq != c.Seq+1 {
			return unproven("host %s: event %d does not follow %d", name, e.Seq, c.Seq)
		}
		c = c.Next(e.At, e.Type, e.Body)
	}
	if c.Seq != p.Head.Seq || !bytes.Equal(c.Hash[:], p.Head.Hash) {
		return unproven("host %s: the events do not lead to the signed head", name)
	}
	if err := identity.VerifyHead(ed25519.PublicKey(p.EventKey), f.o.Fleet, name, p.Incarnation, c, p.Head.Signature); err != nil {
		return unproven("host %s: %v", name, err)
	}
	return nil
}

// failedIn looks for a host's own failure in a manifest. Being ordered back is
// none: it would let one failure revert a fleet host by host.
func failedIn(events []wire.Event, manifest digest.Digest) bool {
	for i := range events {
		if events[i].Type != (event.HostStepped{}).EventType() {
			continue
		}
		e, err := event.DecodeBody(events[i].Type, events[i].Body)
		if err != nil {
			continue
		}
		s, ok := e.(event.HostStepped)
		if ok && s.Manifest == manifest && s.To == host.Failed && s.Cause != host.RevertOrdered {
			return true
		}
	}
	return false
}
