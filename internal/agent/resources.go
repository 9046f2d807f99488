package agent

import (
	"context"
	"database/sql"
	"fmt"
	"io"
	"path/filepath"
	"slices"

	"github.com/steadyfleet/steady/internal/agent/probe"
	"github.com/steadyfleet/steady/internal/agent/state"
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/container"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/identity"
	"github.com/steadyfleet/steady/internal/system"
	"github.com/steadyfleet/steady/reconcile/engine"
)

// append adds an event to the outbox in somebody's transaction.
func (a *Agent) append(ctx context.Context, tx *sql.Tx, at clock.Instant, e event.Event) error {
	return state.Append(ctx, tx, link, at, e)
}

// link is the host's chain as the outbox keeps it.
func link(l state.Link, at clock.Instant, eventType string, body []byte) state.Link {
	c := identity.Chain{Seq: l.Seq}
	copy(c.Hash[:], l.Hash)
	c = c.Next(at, eventType, body)
	return state.Link{Seq: c.Seq, Hash: c.Hash[:]}
}

// Keep implements system.Keeper.
func (a *Agent) Keep(ctx context.Context, path string, d digest.Digest, r io.Reader) error {
	kept, err := a.store.Keep(d, r)
	if err != nil {
		return err
	}
	name, err := filepath.Rel(a.store.Dir(), kept)
	if err != nil {
		return err
	}
	record := context.WithoutCancel(ctx)
	err = a.store.Tx(record, func(tx *sql.Tx) error {
		return a.append(record, tx, a.time.Now(), event.FileKept{Path: path, Digest: d, KeptAs: name})
	})
	nudge(a.send)
	return err
}

// onTransition reports what is notable of a resource, in the transaction that
// records it: drift found and repaired, failures, and what could not be removed.
func (a *Agent) onTransition(ctx context.Context, tx *sql.Tx, t engine.Transition) error {
	ref := t.Ref.String()
	if slices.Contains(container.Kinds, t.Ref.Kind) {
		return a.onContainer(ctx, tx, t)
	}
	if t.To == engine.Pending || t.To == engine.Retiring {
		_, err := state.Undrifted(ctx, tx, ref) // another generation starts afresh
		return err
	}
	news := t.To == engine.Orphaned || t.To == engine.Failed && t.Ref.Kind != system.KindGeneration
	switch {
	case t.Ref.Kind == system.KindGeneration:
		// Its parts report themselves; the host's steps report the whole.
	case t.From == engine.Converged && t.To != engine.Converged && t.To != engine.Retired:
		found, err := state.Drifted(ctx, tx, ref)
		if err != nil {
			return err
		}
		news = news || found
	case t.To == engine.Converged:
		repaired, err := state.Undrifted(ctx, tx, ref)
		if err != nil {
			return err
		}
		news = news || repaired
	}
	if !news {
		return nil
	}
	detail := t.Reason.Words
	if t.Error != "" {
		detail = fmt.Sprintf("%s (%s)", detail, t.Error)
	}
	return a.append(ctx, tx, a.time.Now(), event.ResourceChanged{
		Resource: ref, From: string(t.From), To: string(t.To), Reason: string(t.Reason.Code),
		Detail: system.Scrub(detail, 2048),
	})
}

// afterCommit runs once transitions are durable. It must not block.
func (a *Agent) afterCommit(ts []engine.Transition) {
	if a.cut != nil {
		if err := a.cut(); err != nil {
			a.die(err)
			return
		}
	}
	nudge(a.send)
	if a.seen(ts) {
		nudge(a.look)
	}
	for _, t := range ts {
		if t.Ref == system.Current || t.Reason.Code == system.CodeNeedsReboot {
			nudge(a.look)
		}
	}
}

// onProbe hands a result to the reducer. The runner's looks end before the
// reducer does, so it waits for room.
func (a *Agent) onProbe(ctx context.Context, round int64, res probe.Result) {
	a.post(ctx, probed{round: round, result: res})
}
