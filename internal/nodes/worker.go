package nodes

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/drift"
	"github.com/steadyfleet/steady/internal/core/nodeconfig"
	"github.com/steadyfleet/steady/internal/core/prose"
	"github.com/steadyfleet/steady/internal/core/server"
	"github.com/steadyfleet/steady/nodesdk"
)

// worker is what the one goroutine that sends requests remembers.
type worker struct {
	next   uint64 // number of the last request
	seen   bool   // the server knows the session
	pushed uint64 // the newest operation whose answer was handed over
	// dirty says that the node reported a change that was not read yet. It is read at once, a few
	// times at most once a second, and then once in ten.
	dirty  bool
	noOwn  time.Time // none before
	asked  time.Time // none of those that the server asks for before
	reread time.Time
}

// Pauses between two configurations.
const (
	leastPause = time.Second
	longPause  = 10 * time.Second
	// behind is how long the server may take to know a session that it began.
	behind = time.Minute
)

var ownRate = server.RateLimit{Burst: 10, Tokens: 1, Per: clock.FromStd(longPause)}

// work does what the server wants done, one after the other.
func (l *link) work(ctx context.Context) error {
	begun := time.Now()
	l.reread = begun.Add(l.rereadIn())
	timer := time.NewTimer(0)
	defer timer.Stop()
	for ctx.Err() == nil {
		w, changed := l.h.server.NodeWork(l.node)
		switch {
		case w.Session == l.session:
			l.seen = true
		case w.Session > l.session:
			return errReplaced
		case l.seen:
			return errEnded
		case time.Since(begun) > behind:
			return errors.New("the server does not know the session that it began")
		}
		wait, err := l.step(ctx, w)
		if err != nil {
			return err
		}
		if wait == 0 {
			continue
		}
		timer.Reset(wait)
		select {
		case <-changed:
		case <-l.changed:
			l.dirty = true
		case q := <-l.questions:
			if err := l.validate(ctx, q); err != nil {
				return err
			}
		case <-timer.C:
		case <-ctx.Done():
		}
	}
	return context.Cause(ctx)
}

func (l *link) rereadIn() time.Duration {
	return l.h.limits.Reread*9/10 + time.Duration(rand.Int64N(int64(l.h.limits.Reread)/5+1))
}

// step does one thing, or returns how long there is nothing to do.
func (l *link) step(ctx context.Context, w drift.Work) (wait time.Duration, err error) {
	now := time.Now()
	if !l.seen {
		return leastPause, nil
	}
	select {
	case <-l.changed:
		l.dirty = true
	default:
	}
	if w.Push != nil {
		if w.Push.Op > l.pushed {
			return 0, l.push(ctx, w.Push)
		}
		return longPause, nil // what came of it is on its way to the log
	}
	due := l.reread
	if w.Snapshot {
		at := l.asked
		if later := now.Add(w.At.Sub(l.h.instant()).Std()); w.At != 0 && later.After(at) {
			at = later
		}
		due = earlier(due, at)
	}
	if due.After(now) && l.dirty && !l.noOwn.After(now) {
		if wait := l.rates.spend(&l.rates.own, ownRate, l.h.instant()); wait == 0 {
			due = now
		} else {
			l.noOwn = now.Add(wait.Std())
		}
	}
	if l.dirty {
		due = earlier(due, l.noOwn)
	}
	if d := due.Sub(now); d > 0 {
		return d, nil
	}
	return 0, l.snapshot(ctx)
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// request sends a request and waits for its answer; release must follow.
func (l *link) request(ctx context.Context, r *nodesdk.Request, within time.Duration) (reply, error) {
	l.next++
	l.awaited.Store(l.next)
	if err := l.write(ctx, &nodesdk.Message{Type: nodesdk.TypeRequest, ID: l.next, Request: r}); err != nil {
		return reply{}, err
	}
	t := time.NewTimer(within)
	defer t.Stop()
	select {
	case a := <-l.answers:
		return a, nil
	case <-t.C:
		return reply{}, fmt.Errorf("it did not answer within %s", within)
	case <-ctx.Done():
		return reply{}, context.Cause(ctx)
	}
}

// push sends an operation, and hands over what came of it.
func (l *link) push(ctx context.Context, p *drift.Push) error {
	a, err := l.request(ctx, &nodesdk.Request{Apply: &nodesdk.Apply{Op: p.Op, Term: l.h.server.Term(), Kind: p.Kind, ID: p.ID, Delete: p.Delete, Config: p.Config, IfMatch: p.IfMatch}}, l.h.limits.Push)
	if err != nil {
		l.h.metrics.pushes.WithLabelValues(lost).Inc()
		return fmt.Errorf("operation %d: %w", p.Op, err)
	}
	defer a.release()
	in, err := l.answer(p, a.Applied)
	if err != nil {
		l.h.metrics.pushes.WithLabelValues(lost).Inc()
		l.h.metrics.frames.WithLabelValues(malformed).Inc()
		return later(nodesdk.CodeMalformed, fmt.Sprintf("the answer to operation %d cannot be used: %v", p.Op, err))
	}
	l.h.metrics.pushes.WithLabelValues(string(in.Outcome)).Inc()
	if err := l.h.retry(ctx, func(ctx context.Context) error { return l.h.server.ReportNode(ctx, in) }); err != nil {
		return fmt.Errorf("the server could not take in the answer to operation %d: %w", p.Op, err)
	}
	l.pushed = p.Op
	return nil
}

// outcomes are those that a node may report.
var outcomes = []drift.Outcome{drift.Applied, drift.Already, drift.Conflict, drift.Invalid, drift.NotApplied, drift.MaybeApplied}

// answer checks what a node says came of an operation.
func (l *link) answer(p *drift.Push, a *nodesdk.Applied) (drift.Answer, error) {
	in := drift.Answer{Node: l.node, Session: l.session, Op: p.Op}
	if a == nil || a.Op != p.Op {
		return in, errors.New("it is of another request")
	}
	in.Outcome = drift.Outcome(a.Outcome)
	if !slices.Contains(outcomes, in.Outcome) {
		return in, fmt.Errorf("the outcome %.40q is not known", a.Outcome)
	}
	in.Code, in.Error = line(a.Code[:min(len(a.Code), maxText)]), line(a.Error)
	if isEffect(a.Effect) {
		in.Effect = a.Effect
	}
	if a.Object == nil {
		return in, nil
	}
	x := actual(a.Object)
	in.Object = &x
	switch {
	case x.Kind != p.Kind || x.ID != p.ID:
		return in, errors.New("it is of another object")
	case x.ETag == "" || len(x.Config) > nodeconfig.MaxConfig:
		return in, errors.New("the object has no ETag, or is too large")
	}
	if len(a.Want) > 0 {
		if in.Want = prose.Escaped(a.Want); len(in.Want) > nodeconfig.MaxConfig {
			return in, errors.New("what it spells otherwise is too large")
		}
		if _, err := nodeconfig.Decode(in.Want); err != nil {
			return in, err
		}
	}
	_, err := nodeconfig.Decode(x.Config)
	return in, err
}

// actual is an object of a node. What a terminal would obey in its configuration is escaped,
// which means the same.
func actual(o *nodesdk.Object) drift.Actual {
	return drift.Actual{Kind: o.Kind, ID: o.ID, ETag: prose.Line(o.ETag), Op: o.Op, OpETag: prose.Line(o.OpETag), Config: prose.Escaped(o.Config)}
}

// snapshot asks for the configuration and hands it over.
func (l *link) snapshot(ctx context.Context) error {
	reported := l.dirty
	l.dirty = false
	a, err := l.request(ctx, &nodesdk.Request{Snapshot: &nodesdk.SnapshotRequest{}}, l.h.limits.Snapshot)
	if err != nil {
		l.h.metrics.snapshots.WithLabelValues(lost).Inc()
		return fmt.Errorf("reading its configuration: %w", err)
	}
	defer a.release()
	if a.Snapshot == nil {
		l.h.metrics.frames.WithLabelValues(malformed).Inc()
		return later(nodesdk.CodeMalformed, "it answered something else than its configuration")
	}
	in := l.observed(a.Snapshot)
	l.h.metrics.snapshots.WithLabelValues(map[bool]string{true: complete, false: incomplete}[in.Complete]).Inc()
	err = l.submit(ctx, in)
	now, pause := time.Now(), longPause
	if no, ok := limited(err); ok {
		pause = max(pause, no.After.Std())
		err := l.h.server.ReportNode(ctx, drift.Limited{Node: l.node, Session: l.session, Detail: no.Message})
		if _, often := limited(err); err != nil && !often && ctx.Err() == nil {
			l.h.log.Warn("that the configuration of a node has to wait is not in the log", "node", l.node, "err", err)
		}
	} else if err != nil && ctx.Err() == nil {
		l.h.log.Warn("the configuration of a node is not in the log; it is read again", "node", l.node, "err", err)
	}
	l.reread, l.asked = now.Add(l.rereadIn()), now.Add(leastPause)
	if reported { // a change right after a push is read at once
		l.noOwn = now.Add(leastPause)
	}
	if !in.Complete || err != nil {
		l.asked, l.noOwn, l.dirty = now.Add(pause), now.Add(pause), true
	}
	if w, _ := l.h.server.NodeWork(l.node); w.Push != nil {
		l.dirty = true // an operation was decided meanwhile: what was read counts for nothing
	}
	return nil
}

// submit has the server compare a configuration, a few at a time.
func (l *link) submit(ctx context.Context, in drift.Snapshot) error {
	select {
	case l.h.submissions <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { <-l.h.submissions }()
	return l.h.server.ReportNode(ctx, in)
}

func (l *link) observed(s *nodesdk.Snapshot) drift.Snapshot {
	in := drift.Snapshot{Node: l.node, Session: l.session, Generation: s.Generation, Op: s.Op, Complete: s.Complete,
		Error: line(s.Error), Instance: line(s.Instance[:min(len(s.Instance), maxText)])}
	if len(s.Objects) > nodesdk.MaxObjects {
		in.Complete, in.Error = false, fmt.Sprintf("it has %d objects, at most %d are allowed", len(s.Objects), nodesdk.MaxObjects)
		return in
	}
	for i := range s.Objects {
		in.Objects = append(in.Objects, actual(&s.Objects[i]))
	}
	return in
}

// validate asks an operator's question.
func (l *link) validate(ctx context.Context, q *question) error {
	a, err := l.request(ctx, &nodesdk.Request{Validate: &q.Validate}, l.h.limits.Validate)
	if err != nil {
		return fmt.Errorf("validating an object: %w", err)
	}
	defer a.release()
	out := nodesdk.Validated{}
	if v := a.Validated; v != nil {
		out.Supported = v.Supported
		for _, p := range v.Problems[:min(len(v.Problems), maxProblems)] {
			out.Problems = append(out.Problems, nodesdk.Problem{Field: line(p.Field), Message: line(p.Message)})
		}
	}
	q.answer <- out
	return nil
}

// maxProblems bounds what is shown of an answer.
const maxProblems = 64
