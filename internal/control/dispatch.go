package control

import (
	"context"
	"slices"
	"time"

	"github.com/steadyfleet/steady/internal/control/documents"
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/plan"
	"github.com/steadyfleet/steady/internal/core/server"
	"github.com/steadyfleet/steady/internal/wire"
)

// Poll is what a host waits for, at most for Wait: a grant, and if News is set, its
// count, another count and streams as well. With Documents, the version of its timestamp,
// a grant comes with what it needs.
type Poll struct {
	Wait            time.Duration
	News, Documents *uint64
}

// Dispatch waits for what a poll is for, and returns nil when nothing came. It is answered
// from published state: an open one costs a goroutine.
func (c *Control) Dispatch(ctx context.Context, p *Peer, poll Poll) (*wire.Dispatch, error) {
	h := p.host
	h.polls.Add(1)
	defer h.polls.Add(-1)
	end := time.NewTimer(poll.Wait)
	defer end.Stop()
	for {
		changed := h.watch()
		if err := p.check(); err != nil {
			return nil, err
		}
		var again <-chan time.Time
		v := h.View()
		if !v.Online { // the reducer was too busy for it
			c.seen(h)
			again = time.After(time.Second)
		}
		d, pause, err := c.offer(ctx, h, v, poll)
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
			h.lastSeen.Store(int64(c.now()))
			return nil, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-c.stopping.Done():
			return nil, nil
		}
	}
}

// offer is what there is for a host now, or nil and how long to wait before it
// is looked at again, zero for until it changes.
func (c *Control) offer(ctx context.Context, h *contact, v *server.View, poll Poll) (*wire.Dispatch, time.Duration, error) {
	var requests []wire.StreamRequest
	var pause time.Duration
	tell := false
	if poll.News != nil {
		requests, pause = c.streams.Hand(h.name)
		tell = len(requests) > 0 || *poll.News != v.Changes
	}
	var d *wire.Dispatch
	var g *plan.Grant
	var wait clock.Duration
	h.do(func(s *server.Session) { g, wait = s.Offer(v, c.now()) })
	if g != nil {
		var err error
		if d, err = c.dispatch(ctx, g); err != nil {
			return nil, 0, err
		}
		if poll.Documents != nil && server.NeedsDocuments(g) {
			d.Documents = c.carried(ctx, h.name, g, *poll.Documents)
		}
	}
	if w := wait.Std(); w > 0 && (pause == 0 || w < pause) {
		pause = w
	}
	if d == nil && !tell {
		return nil, pause, nil
	}
	if d == nil {
		d = &wire.Dispatch{Term: c.Head().Term}
	}
	if poll.News != nil {
		d.News, d.Streams = v.Changes, requests
	}
	return d, 0, nil
}

// dispatch is a grant as the agent gets it.
func (c *Control) dispatch(ctx context.Context, g *plan.Grant) (*wire.Dispatch, error) {
	d := &wire.Dispatch{Grant: g.ID, Purpose: g.Purpose, Rollout: g.Rollout, Manifest: g.Manifest,
		Term: c.Head().Term, TTL: max(0, g.Expires.Sub(c.now())), Reason: g.Reason}
	if !server.NeedsProof(g) {
		d.Override = c.signed.Load().retries[g.Manifest]
		return d, nil
	}
	var err error
	if d.Override, err = c.rollback(ctx, g.Manifest); err == nil && d.Override == nil {
		d.Failures, err = c.failures(ctx, g.Manifest)
	}
	return d, err
}

// carried is what a host needs for a grant. What cannot be read is left out: the host
// asks for it, and is refused with the reason.
func (c *Control) carried(ctx context.Context, name string, g *plan.Grant, stamp uint64) *wire.Documents {
	d, err := c.library.Carried(ctx, c.public.Load(), stamp, g.Manifest, name)
	if err != nil && ctx.Err() == nil {
		c.cfg.Log.Warn("a grant goes without a part of its documents", "host", name, "rollout", g.Rollout, "err", err)
	}
	return d
}

// failures proves that more hosts of one wave failed than the manifest's policy
// allows.
func (c *Control) failures(ctx context.Context, manifest digest.Digest) ([]wire.FailureProof, error) {
	return c.prover.Failures(ctx, manifest, func() (failed []documents.Failed, need int, err error) {
		err = c.View(ctx, func(s *plan.State) {
			var waves map[string]int
			waves, need = server.ProvenFailures(s, manifest)
			for name, wave := range waves { // order-free: any that prove it do
				h := s.Hosts[name]
				failed = append(failed, documents.Failed{Name: name, Wave: wave, Incarnation: h.Incarnation, EventKey: slices.Clone(h.EventKey), TokenDoc: h.TokenDoc})
			}
		})
		return failed, need, err
	})
}
