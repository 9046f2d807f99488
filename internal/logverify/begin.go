package logverify

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"github.com/steadyfleet/steady/internal/control/documents"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/server"
	"github.com/steadyfleet/steady/internal/identity"
	"github.com/steadyfleet/steady/internal/replay"
	"github.com/steadyfleet/steady/internal/store"
)

// Export writes what a log begins with, and has the writer send the documents that prove
// each record that is written then. The library reads documents from the same blobs.
func Export(ctx context.Context, w *replay.HistoryWriter, begin documents.Checkpoint, library *documents.Library) error {
	p := &proofs{ctx: ctx, from: library, sent: map[digest.Digest]bool{}}
	w.Proofs = p.of
	state, known, err := begin.Fold(library)
	if err != nil || begin.State == nil {
		return err
	}
	for _, version := range versions(known) {
		if _, err := p.send(known.Roots[version]); err != nil {
			return fmt.Errorf("root %d: %w", version, err)
		}
	}
	manifests := begin.Manifests(library, state)
	for _, d := range manifests {
		if err := p.manifest(library.Places()[d]); err != nil {
			return fmt.Errorf("manifest %s: %w", d.Short(), err)
		}
	}
	at := begin.Through
	return w.Begin(&replay.Beginning{Seq: at.Seq, Term: at.Term, Hash: at.Hash[:], State: begin.State, Audit: begin.Audit}, manifests, p.out)
}

func versions(t *documents.Trust) []uint64 {
	var out []uint64
	for v := range t.Roots { // order-free: sorted below
		out = append(out, v)
	}
	slices.Sort(out)
	return out
}

// manifest sends the documents of a manifest.
func (p *proofs) manifest(at documents.Place) error {
	raw, err := p.send(at.Envelope)
	if err == nil && raw != nil {
		var members []digest.Digest
		members, err = documents.BudgetsOf(raw)
		for _, d := range append(members, at.Leaves) {
			if err == nil {
				_, err = p.send(d)
			}
		}
	}
	return err
}

// Begin is what a history begins with.
func Begin(h *replay.History) documents.Checkpoint {
	b := h.Begins
	if b == nil {
		return documents.Checkpoint{}
	}
	return documents.Checkpoint{Through: store.Head{Seq: b.Seq, Term: b.Term, Hash: [32]byte(b.Hash)}, State: b.State, Audit: b.Audit}
}

// begin goes on from what a log begins with. What lies before rests on the word of who
// exported it; the roots alone are followed from the first.
func (c *checker) begin(begin documents.Checkpoint) (err error) {
	c.report.Head, c.report.Pruned = begin.Through, begin.Through.Seq
	state, known, err := begin.Fold(c.lib)
	if err != nil {
		return err
	}
	if c.log, err = begin.Auditor(c.lib); err != nil {
		return err
	}
	if err := c.signed.begins(known); err != nil {
		return err
	}
	c.report.Roots = len(known.Roots)
	c.chains(state)
	return nil
}

// begins follows the roots up to the one that the state trusts.
func (s *signed) begins(known *documents.Trust) error {
	var last []byte
	for _, version := range versions(known) {
		env, err := s.blobs.Blob(context.Background(), known.Roots[version])
		if err != nil {
			return err
		}
		if err := s.follow(version, env); err != nil {
			return err
		}
		last = env
	}
	if digest.Of(last) != digest.Of(known.State.Root) {
		return fmt.Errorf("the log begins with another root than the newest of its chain")
	}
	return s.with(known.State)
}

// chains goes on with the hosts' chains where the state has them.
func (c *checker) chains(state *server.State) {
	for _, name := range state.Plan.HostNames() {
		h := state.Plan.Hosts[name]
		if h.Incarnation == 0 {
			continue
		}
		chain := identity.Genesis(c.signed.fleet, name, h.Incarnation)
		if h.Seq > 0 {
			chain = identity.Chain{Seq: h.Seq, Hash: [32]byte(h.ChainHash)}
		}
		c.hosts[name] = &chained{incarnation: h.Incarnation, key: h.EventKey, chain: chain, signed: h.Seq}
		c.report.Hosts++
	}
}

// checkpoint checks that a checkpoint is one of this log.
func (c *checker) checkpoint(ev event.LogCheckpoint) error {
	h := c.history
	var hash []byte
	switch {
	case ev.Through == h.Base() && h.Begins != nil:
		c.joined, hash = true, h.Begins.Hash
		if digest.Of(h.Begins.State) != ev.State || digest.Of(h.Begins.Audit) != ev.Audit {
			return fmt.Errorf("the checkpoint of record %d, which the log begins with, is not the one that was recorded", ev.Through)
		}
	case ev.Through > h.Base() && ev.Through <= h.End():
		hash = h.Records[ev.Through-h.Base()-1].Hash[:]
	default: // of an earlier part, which an archive has
		return nil
	}
	if !bytes.Equal(hash, ev.Hash) {
		return fmt.Errorf("the checkpoint of record %d names another one", ev.Through)
	}
	return nil
}
