package hosts

import (
	"context"
	"time"

	"github.com/steadyfleet/steady/internal/api/operator"
	"github.com/steadyfleet/steady/internal/cli/command"
	"github.com/steadyfleet/steady/internal/cli/exit"
	"github.com/steadyfleet/steady/internal/cli/term"
	"github.com/steadyfleet/steady/internal/cli/watch"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/health"
	"github.com/steadyfleet/steady/internal/core/managed"
)

// redrawEvery bounds how often the server is asked while it moves; askEvery, how
// long it is not asked while nothing does, for what time alone changes.
const (
	redrawEvery = 200 * time.Millisecond
	pollEvery   = 5 * time.Second
)

// watch follows the resources of a host until ctx ends.
func (a verbs) watch(ctx context.Context, c *operator.Client, host string) error {
	table := a.TableOutput()
	r, err := c.Resources(ctx, host)
	if err != nil {
		return err
	}
	screen := a.Screen()
	q := operator.EventQuery{About: operator.AboutHost(host), Tail: true}
	if !table || !screen.TTY {
		show := watch.Printer(a.Out)
		if !table {
			show = func(e operator.Event) error { return term.Line(a.Out, e) }
		} else if err := a.show(r); err != nil {
			return err
		}
		return watch.Follow(ctx, c, q, func(e operator.Event) error {
			if !concerns(e) {
				return nil
			}
			return show(e)
		})
	}
	return a.redraw(ctx, c, host, q, screen)
}

// concerns reports whether an event changes the list of resources.
func concerns(e operator.Event) bool {
	return (managed.Folds(e.Type) || health.Folds(e.Type)) && e.Type != event.HostEnrolled{}.EventType()
}

func (a verbs) redraw(ctx context.Context, c *operator.Client, host string, q operator.EventQuery, screen term.Screen) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	moved, broken := make(chan struct{}, 1), make(chan error, 1)
	go func() {
		broken <- watch.Follow(ctx, c, q, func(e operator.Event) error {
			select {
			case moved <- struct{}{}:
			default:
			}
			return nil
		})
	}()
	frame := term.NewFrame(a.Out, screen)
	for {
		r, err := c.Resources(ctx, host)
		if err == nil {
			err = frame.Draw(a.lines(r))
		}
		if err != nil {
			return command.RemoteError(err)
		}
		if err := watch.Pause(ctx, redrawEvery); err != nil {
			return err
		}
		select {
		case <-moved:
		case <-time.After(pollEvery):
		case err := <-broken:
			if ctx.Err() == nil {
				return exit.With(exit.Unreachable, err)
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
