package control

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/steadyfleet/steady/internal/control/streams"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/managed"
	"github.com/steadyfleet/steady/internal/core/plan"
	"github.com/steadyfleet/steady/internal/core/prose"
	"github.com/steadyfleet/steady/internal/core/spec"
	"github.com/steadyfleet/steady/internal/wire"
)

// Bounds of what is asked of a stream.
const (
	maxArgv     = 256
	maxArgBytes = 16 << 10
	maxTail     = 1_000_000
	maxAnswer   = 1 << 20 // bytes of a plan
)

// OpenStream asks a host's agent for a stream, as far as the host's declaration
// allows it, and returns once the agent has opened it; Close must follow. A
// command is in the log before the host hears of it.
func (c *Control) OpenStream(ctx context.Context, host string, kind wire.StreamKind, resource string, args wire.StreamArgs, actor string) (*streams.Stream, error) {
	if err := checkStream(resource, args); err != nil {
		return nil, err
	}
	target, err := c.Target(ctx, host)
	if err != nil {
		return nil, err
	}
	if err := c.mayStream(target, kind, resource, args); err != nil {
		return nil, err
	}
	h := c.hosts.find(host)
	if err := refusal(h.View().Answers(host, c.lastSeen(host))); err != nil {
		return nil, err
	}
	r := wire.StreamRequest{ID: newID(), Kind: kind, Resource: resource, Actor: actor, Args: args}
	if kind == wire.StreamExec || kind == wire.StreamPrune || kind == wire.StreamDiscard {
		err := c.submit(ctx, c.urgent, recorded(host, event.StreamOpened{Stream: r.ID, Kind: string(kind), Resource: resource, Argv: args.Argv,
			User: args.User, TTY: args.TTY, Actor: actor}))
		if err != nil {
			return nil, err
		}
	}
	s, err := c.streams.Open(host, r)
	if err != nil {
		return nil, wire.Refuse(wire.ErrUnavailable, "%v; close some, or try again later", err)
	}
	h.wake()
	ctx, stop := c.untilStopping(ctx)
	defer stop()
	if err := s.Attached(ctx); err != nil {
		s.Close()
		if errors.Is(err, streams.ErrNoAnswer) {
			return nil, wire.Refuse(wire.ErrUnavailable, "the agent of host %s did not open the stream within %s; it is busy, or too old for streams", host, wire.StreamAttach)
		}
		return nil, fmt.Errorf("%w: %w", wire.ErrUnavailable, err)
	}
	return s, nil
}

// mayStream refuses what the host's declaration does not allow.
func (c *Control) mayStream(t *managed.Target, kind wire.StreamKind, resource string, args wire.StreamArgs) error {
	of, name, _ := strings.Cut(resource, "/")
	var err error
	switch kind {
	case wire.StreamLogs, wire.StreamOutput:
		err = t.Allows(fleet.AllowLogs)
	case wire.StreamExec:
		err = t.Allows(fleet.AllowExec)
	case wire.StreamOrphans, wire.StreamPrune:
		err = t.Allows(fleet.AllowPrune)
	case wire.StreamDiscard:
		err = t.AcceptsSessions()
	case wire.StreamPlan:
		if len(args.Spec) == 0 {
			err = t.Manages(of)
		} else {
			_, err = managed.Check(t, managed.Input{Kind: of, Name: name, Spec: args.Spec}, spec.Operators)
		}
	default:
		err = wire.Refuse(wire.ErrInvalid, "unknown kind of stream %q", kind)
	}
	return refusal(err)
}

func checkStream(resource string, a wire.StreamArgs) error {
	kind, name, _ := strings.Cut(resource, "/")
	if err := fleet.CheckName(name); err != nil {
		return wire.Refuse(wire.ErrInvalid, "%v", err)
	}
	size := len(a.User) + len(a.WorkDir)
	for _, s := range a.Argv {
		size += len(s)
	}
	switch {
	case len(a.Argv) > maxArgv || size > maxArgBytes:
		return wire.Refuse(wire.ErrInvalid, "the command has %d arguments and %d bytes: expected at most %d and %d", len(a.Argv), size, maxArgv, maxArgBytes)
	case len(a.Spec) > spec.MaxSpec:
		return wire.Refuse(wire.ErrInvalid, "the spec has %d bytes: expected at most %d", len(a.Spec), spec.MaxSpec)
	case a.Tail < 0 || a.Tail > maxTail:
		return wire.Refuse(wire.ErrInvalid, "tail is %d: expected 0 to %d", a.Tail, maxTail)
	case a.Since < 0:
		return wire.Refuse(wire.ErrInvalid, "since is %d: expected milliseconds since 1970", a.Since)
	case a.After < 0:
		return wire.Refuse(wire.ErrInvalid, "after is %d: expected the number of a line, or 0", a.After)
	case a.Rows < 0 || a.Rows > 4096 || a.Cols < 0 || a.Cols > 4096:
		return wire.Refuse(wire.ErrInvalid, "the terminal has %d rows and %d columns: expected at most 4096", a.Rows, a.Cols)
	case kind == spec.KindWorkspace, kind == spec.KindImage, a.Argv == nil:
		return nil
	}
	return wire.Refuse(wire.ErrInvalid, "nothing runs in %s", resource)
}

// Plan asks a host's agent what setting a resource would do, or removing it when
// the spec is empty, and returns its wire.PlanAnswer.
func (c *Control) Plan(ctx context.Context, host string, in managed.Input, actor string) (wire.PlanAnswer, error) {
	var answer wire.PlanAnswer
	var others error
	if err := c.View(ctx, func(*plan.State) { others = c.state.Managed.Owned(host, in.Kind, in.Name, spec.Operators) }); err != nil {
		return answer, err
	}
	if others != nil {
		return answer, refusal(others)
	}
	s, err := c.OpenStream(ctx, host, wire.StreamPlan, managed.ID(in.Kind, in.Name), wire.StreamArgs{Spec: in.Spec}, actor)
	if err != nil {
		return answer, err
	}
	defer s.Close()
	ctx, cancel := context.WithTimeout(ctx, wire.StreamSilence.Std())
	defer cancel()
	raw, err := s.Collect(ctx, maxAnswer)
	if err != nil {
		return answer, wire.Refuse(wire.ErrConflict, "host %s cannot report what %s would do: %v", host, managed.ID(in.Kind, in.Name), err)
	}
	if err := wire.Decode(prose.JSON(raw), &answer); err != nil {
		return answer, wire.Refuse(wire.ErrConflict, "host %s answered what cannot be read: %v", host, err)
	}
	return answer, nil
}

// AttachStream is an agent's end of a stream that it was asked for; it returns at
// the end of the stream, and at once when the host's certificate is revoked.
func (c *Control) AttachStream(ctx context.Context, p *Peer, id string, e streams.End, opened func() error) error {
	err := c.guarded(ctx, func(ctx context.Context) error {
		for {
			changed := p.host.watch()
			if err := p.check(); err != nil {
				return err
			}
			select {
			case <-changed:
			case <-ctx.Done():
				return nil
			}
		}
	}, func(ctx context.Context) error { return c.streams.Attach(ctx, p.Name, id, e, opened) })
	switch {
	case errors.Is(err, streams.ErrUnknown):
		return wire.Refuse(wire.ErrNotFound, "%v", err)
	case errors.Is(err, streams.ErrOpen):
		return wire.Refuse(wire.ErrConflict, "%v", err)
	}
	return err
}

// untilStopping is ctx that ends with the server as well.
func (c *Control) untilStopping(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	leave := context.AfterFunc(c.stopping, func() { cancel(context.Cause(c.stopping)) })
	return ctx, func() { leave(); cancel(nil) }
}

// guarded is an end of a stream: run goes on until it is over, the server stops or
// watch, which returns nil once its context ends, says why it may not go on.
func (c *Control) guarded(ctx context.Context, watch, run func(context.Context) error) error {
	ctx, stop := c.untilStopping(ctx)
	defer stop()
	ctx, cancel := context.WithCancelCause(ctx)
	var watching sync.WaitGroup
	defer watching.Wait()
	defer cancel(nil)
	watching.Go(func() {
		if err := watch(ctx); err != nil {
			cancel(err)
		}
	})
	return run(ctx)
}

// ServeStream is the operator's end of a stream that is open. Again is asked now
// and then whether it may go on.
func (c *Control) ServeStream(ctx context.Context, s *streams.Stream, e streams.End, again func() error) error {
	return c.guarded(ctx, func(ctx context.Context) error {
		t := time.NewTicker(askAgain)
		defer t.Stop()
		for {
			select {
			case <-t.C:
				if err := again(); err != nil {
					return err
				}
			case <-ctx.Done():
				return nil
			}
		}
	}, func(ctx context.Context) error { return s.Serve(ctx, e) })
}

// askAgain is how often the right to a stream is looked at again.
const askAgain = 15 * time.Second
