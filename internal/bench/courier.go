package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/steadyfleet/steady/internal/agent/uplink"
	core "github.com/steadyfleet/steady/internal/core/agent"
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/host"
	"github.com/steadyfleet/steady/internal/core/spec"
	"github.com/steadyfleet/steady/internal/identity"
	"github.com/steadyfleet/steady/internal/wire"
)

// maxTries bounds how often one request is made before the run fails. With the
// backoff between them that is about a minute.
const maxTries = 12

// retry makes a request until it succeeds, final says that its refusal is an
// answer, or maxTries are spent. Every failure is counted.
func (a *agent) retry(ctx context.Context, what string, do func() error, final func(status int) bool) error {
	wait := uplink.Backoff{Cap: 10 * clock.Second}
	for try := 1; ; try++ {
		err := do()
		if err == nil || ctx.Err() != nil {
			return err
		}
		if final != nil && final(uplink.StatusOf(err)) {
			return err
		}
		err = fmt.Errorf("%s: %w", what, err)
		a.note(err)
		if try == maxTries {
			return fmt.Errorf("%w (tried %d times)", err, try)
		}
		if err := wait.Wait(ctx); err != nil {
			return err
		}
	}
}

// poll waits for offers with the pauses of a real agent.
func (a *agent) poll(ctx context.Context) {
	var failing, repeating uplink.Backoff
	last := ""
	for ctx.Err() == nil {
		began := time.Now()
		a.crowd.requests.Add(1)
		d, err := a.client.Dispatch(ctx, 0, a.docs.has())
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			a.note(fmt.Errorf("dispatch: %w", err))
			_ = failing.Wait(ctx) // its error is the end of ctx
			continue
		}
		failing.Reset()
		grant := ""
		if d != nil && d.Grant != "" {
			grant = d.Grant
			a.accept(ctx, d)
		}
		if grant == last && time.Since(began) < time.Second {
			a.crowd.repeated.Add(1)
			_ = repeating.Wait(ctx)
			continue
		}
		last = grant
		repeating.Reset()
	}
}

// accept turns a dispatch into an offer.
func (a *agent) accept(ctx context.Context, d *wire.Dispatch) {
	if g := a.busy.Load(); g != nil && *g == d.Grant {
		return // under way
	}
	if d.Purpose != host.Update {
		a.crowd.fail(a.name, fmt.Errorf("was given a grant to go %s in %s, which no benchmark asks for: %s", d.Purpose, d.Rollout, d.Reason))
		return
	}
	plan, err := a.docs.plan(ctx, d.Rollout, d.Manifest, d.Documents)
	if err == nil && d.Documents != nil {
		a.carrier.Carry(d.Documents.Content)
	}
	if err != nil {
		if ctx.Err() == nil {
			a.note(fmt.Errorf("documents of %s: %w", d.Rollout, err))
		}
		return
	}
	o := core.Granted{Grant: d.Grant, Purpose: d.Purpose, Term: d.Term, TTL: d.TTL, Reason: d.Reason, Plan: plan, Wall: now()}
	select {
	case a.offers <- o:
	case <-ctx.Done():
	}
}

// prepare fetches what the plan needs.
func (a *agent) prepare(ctx context.Context, o core.Offer) error {
	plan, err := a.docs.plan(ctx, o.Plan.Rollout, o.Plan.Manifest, nil)
	if err != nil {
		return err
	}
	if a.have[plan.Target] {
		return nil
	}
	raw, err := a.carrier.Bundle(ctx, plan.Target)
	if err != nil {
		return err
	}
	b, err := a.docs.bundle(raw)
	if err != nil {
		return err
	}
	for _, f := range b.Blobs() {
		if err := a.fetch(ctx, f); err != nil {
			return err
		}
	}
	a.have[plan.Target] = true
	return nil
}

func (a *agent) fetch(ctx context.Context, f spec.Blob) error {
	if a.have[f.Digest] {
		return nil
	}
	if err := a.carrier.Blob(ctx, f.Digest, f.Size, io.Discard); err != nil {
		return err
	}
	a.have[f.Digest] = true
	return nil
}

// claim asks until it is answered. As a real agent does, it looks at the
// documents once more before and at freshness after.
func (a *agent) claim(ctx context.Context, o core.Offer) (ans wire.ClaimAnswer, err error) {
	if _, err := a.docs.plan(ctx, o.Plan.Rollout, o.Plan.Manifest, nil); err != nil {
		return ans, err
	}
	err = a.retry(ctx, "claim "+o.Grant, func() (err error) {
		a.crowd.requests.Add(1)
		ans, err = a.client.Claim(ctx, wire.Claim{Grant: o.Grant, Term: o.Term})
		return err
	}, func(status int) bool {
		return status == http.StatusNotFound || status == http.StatusConflict || status == http.StatusGone
	})
	switch uplink.StatusOf(err) {
	case http.StatusNotFound, http.StatusConflict, http.StatusGone:
		return wire.ClaimAnswer{Reason: err.Error()}, nil
	}
	if err != nil || !ans.Accepted {
		return ans, err
	}
	return ans, a.docs.fresh(o.Plan.Channel)
}

// report sends what is pending with the signed head of the chain. An accepted
// report after an activation is the contact that its confirm window waits for.
func (a *agent) report(ctx context.Context) error {
	for len(a.pending) > 0 {
		if err := a.retry(ctx, "events", func() error { return a.sendEvents(ctx) }, nil); err != nil {
			return err
		}
	}
	return a.step(core.Contact{Era: a.state.Era()})
}

func (a *agent) sendEvents(ctx context.Context) error {
	sig, err := identity.SignHead(a.key, a.fleet, a.name, a.incarnation, a.chain)
	if err != nil {
		return err
	}
	a.crowd.requests.Add(1)
	ack, err := a.client.Events(ctx, wire.EventBatch{
		Incarnation: a.incarnation, Events: a.pending,
		Head: wire.Head{Seq: a.chain.Seq, Hash: a.chain.Hash[:], Signature: sig},
	})
	if err != nil && uplink.StatusOf(err) != http.StatusConflict {
		return err
	}
	first := a.pending[0].Seq
	if ack.Acked+1 < first || ack.Acked > a.chain.Seq {
		return fmt.Errorf("the server has event %d, and this host has %d to %d to send (%s)", ack.Acked, first, a.chain.Seq, ack.Reason)
	}
	a.pending = a.pending[ack.Acked+1-first:]
	a.acked = ack.Acked
	return err
}

// beat sends a heartbeat when it is time. A failed one is tried again after a
// pause.
func (a *agent) beat(ctx context.Context) {
	if time.Now().Before(a.beatAt) {
		return
	}
	reply, err := a.heartbeat(ctx)
	if err != nil {
		a.note(fmt.Errorf("heartbeat: %w", err))
		a.beatAt = time.Now().Add(time.Second)
		return
	}
	if reply.Interval > 0 {
		a.interval = min(max(reply.Interval, 5*clock.Second), 10*clock.Minute).Std()
	}
	a.beatAt = time.Now().Add(a.interval)
}

func (a *agent) heartbeat(ctx context.Context) (wire.HeartbeatReply, error) {
	a.crowd.requests.Add(1)
	return a.client.Heartbeat(ctx, wire.Heartbeat{
		AgentVersion: "bench", Incarnation: a.incarnation, BootID: a.crowd.bootID,
		Current: a.state.Machine.Current, LastSeq: a.chain.Seq, Pending: len(a.pending),
	})
}

// decode reads JSON of a document that is taken as it is.
func decode[T any](raw []byte) (v T, err error) { return v, json.Unmarshal(raw, &v) }
