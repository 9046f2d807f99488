package control

import (
	"context"
	"slices"
	"time"

	"github.com/steadyfleet/steady/internal/control/documents"
	"github.com/steadyfleet/steady/internal/control/hosts"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/host"
	"github.com/steadyfleet/steady/internal/core/plan"
	"github.com/steadyfleet/steady/internal/wire"
)

// Dispatch waits for a grant of the host, at most wait, and returns nil when
// none came. With news, the host's count, it waits for another count and for
// streams as well. It is answered from published state: an open one costs a
// goroutine.
func (c *Control) Dispatch(ctx context.Context, p *Peer, news *uint64, wait time.Duration) (*wire.Dispatch, error) {
	h := p.host
	defer h.Poll()()
	end := time.NewTimer(wait)
	defer end.Stop()
	for {
		changed := h.Changed()
		if err := p.check(); err != nil {
			return nil, err
		}
		var again <-chan time.Time
		v := h.View()
		if !v.Online { // the reducer was too busy to hear it
			c.seen(h)
			again = time.After(time.Second)
		}
		d, pause, err := c.offer(ctx, h, v, news)
		if err != nil || d != nil {
			return d, err
		}
		var later <-chan time.Time
		if pause > 0 {
			t := time.NewTimer(pause)
			defer t.Stop()
			later = t.C
		}
		select {
		case <-changed:
		case <-again:
		case <-later:
		case <-end.C:
			h.Seen(c.now())
			return nil, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-c.stopping:
			return nil, nil
		}
	}
}

// offer is what there is for a host now, or nil and how long to wait before it
// is looked at again, zero for until it changes.
func (c *Control) offer(ctx context.Context, h *hosts.Host, v *hosts.View, news *uint64) (*wire.Dispatch, time.Duration, error) {
	var requests []wire.StreamRequest
	var pause time.Duration
	tell := false
	if news != nil {
		requests, pause = c.streams.Hand(h.Name)
		tell = len(requests) > 0 || *news != v.Layer.News
	}
	var d *wire.Dispatch
	if g := v.Grant; g != nil && !(g.Expires.Reached(c.now()) && !g.Claimed) {
		if wait := h.Hand(g.ID, c.now()).Std(); wait == 0 {
			var err error
			if d, err = c.dispatch(ctx, g); err != nil {
				return nil, 0, err
			}
		} else if pause == 0 || wait < pause {
			pause = wait
		}
	}
	if d == nil && !tell {
		return nil, pause, nil
	}
	if d == nil {
		d = &wire.Dispatch{Term: c.Head().Term}
	}
	if news != nil {
		d.News, d.Streams = v.Layer.News, requests
	}
	return d, 0, nil
}

// dispatch is a grant as the agent gets it.
func (c *Control) dispatch(ctx context.Context, g *plan.Grant) (*wire.Dispatch, error) {
	d := &wire.Dispatch{Grant: g.ID, Purpose: g.Purpose, Rollout: g.Rollout, Manifest: g.Manifest,
		Term: c.Head().Term, TTL: max(0, g.Expires.Sub(c.now())), Reason: g.Reason}
	if g.Purpose != host.Back {
		return d, nil
	}
	var err error
	if d.Override, err = c.rollback(ctx, g.Manifest); err == nil && d.Override == nil {
		d.Failures, err = c.failures(ctx, g.Manifest)
	}
	return d, err
}

// failures proves that more hosts of one wave failed than the manifest's policy
// allows.
func (c *Control) failures(ctx context.Context, manifest digest.Digest) ([]wire.FailureProof, error) {
	return c.prover.Failures(ctx, manifest, func() (failed []documents.Failed, need int, err error) {
		err = c.View(ctx, func(s *plan.State) {
			r := s.Rollouts[manifest]
			if r == nil || r.Plan == nil {
				return
			}
			need = r.Plan.Header.Policy.MaxFailures + 1
			for name, m := range r.Marks {
				i, member := r.Plan.Leaf(name)
				if h := s.Hosts[name]; m.Proven && member && h != nil {
					failed = append(failed, documents.Failed{Name: name, Wave: r.Plan.Leaves[i].Wave,
						Incarnation: h.Incarnation, EventKey: slices.Clone(h.EventKey), TokenDoc: h.TokenDoc})
				}
			}
		})
		return failed, need, err
	})
}
