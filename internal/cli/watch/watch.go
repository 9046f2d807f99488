package watch

import (
	"context"
	"errors"
	"io"
	"net"
	"time"

	"github.com/steadyfleet/steady/internal/api/operator"
	"github.com/steadyfleet/steady/internal/core/plan"
)

// Server is what watching needs of the operator's client.
type Server interface {
	Rollout(ctx context.Context, id string) (operator.RolloutDetail, error)
	Why(ctx context.Context, host string) (plan.Answer, error)
	Follower
}

// Follower streams events.
type Follower interface {
	Follow(ctx context.Context, q operator.EventQuery, fn func(operator.Event) error) error
}

const (
	redrawEvery = 150 * time.Millisecond
	// pollEvery is how often the server is asked without an event: what time
	// alone changes is in no event.
	pollEvery = time.Second
	// maxWhy bounds how many waiting hosts are asked about for one view.
	maxWhy = 12
	// patience is how long a lost connection is tried again.
	patience = 30 * time.Second
	// lastEvents is how long the event of a rollout's end may lag behind it.
	lastEvents = 2 * time.Second
	retryIn    = 500 * time.Millisecond
)

// errEnded ends a stream from within.
var errEnded = errors.New("the rollout ended")

// Watch follows a rollout, by name or manifest digest, until it ends or ctx
// does, and returns how it stands then.
func Watch(ctx context.Context, s Server, id string, v View) (*Rollout, error) {
	d, err := s.Rollout(ctx, id)
	if err != nil {
		return nil, err
	}
	w := &watch{server: s, view: v, rollout: &Rollout{}, events: make(chan operator.Event, 256)}
	w.rollout.Refresh(d)
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	failed := make(chan error, 1)
	go func() {
		failed <- feed(ctx, s, operator.EventQuery{About: operator.AboutRollout(d.Name)}, w.events)
	}()
	if err := w.run(ctx, failed); err != nil && !errors.Is(err, errEnded) {
		return w.rollout, err
	}
	return w.rollout, v.end(w.rollout)
}

type watch struct {
	server  Server
	view    View
	rollout *Rollout
	events  chan operator.Event
	dirty   bool
	polled  time.Time
	rest    time.Time // the server is not asked before
	ended   time.Time // when the server first said that it had
}

func (w *watch) run(ctx context.Context, failed <-chan error) error {
	redraw := time.NewTicker(redrawEvery)
	defer redraw.Stop()
	w.dirty = true
	for {
		select {
		case e := <-w.events:
			w.dirty = true
			w.rollout.Apply(e)
			if err := w.view.event(e); err != nil {
				return err
			}
		case now := <-redraw.C:
			if len(w.events) > 0 || now.Before(w.rest) || (!w.dirty && now.Sub(w.polled) < pollEvery) {
				continue
			}
			w.polled, w.dirty = now, false
			if err := w.refresh(ctx); err != nil {
				return err
			}
			// A large rollout is dear to ask for: use a tenth of the time at most.
			w.rest = now.Add(10 * time.Since(now))
		case err := <-failed:
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// refresh asks the server and shows the answer. The rollout has ended when the
// server says so and all events until then were shown.
func (w *watch) refresh(ctx context.Context) error {
	d, err := w.server.Rollout(ctx, w.rollout.Name)
	if err != nil {
		if lost(err) {
			w.dirty = true
			return nil // the stream decides when patience ends
		}
		return err
	}
	w.rollout.Refresh(d)
	if err := w.explain(ctx); err != nil {
		return err
	}
	if err := w.view.changed(w.rollout); err != nil {
		return err
	}
	if !w.rollout.Ended() || len(w.events) > 0 {
		return nil
	}
	if w.ended.IsZero() {
		w.ended = time.Now()
	}
	if w.rollout.applied == w.rollout.Phase || time.Since(w.ended) > lastEvents {
		return errEnded
	}
	w.dirty = true
	return nil
}

// explain asks why the first waiting hosts wait.
func (w *watch) explain(ctx context.Context) error {
	asked := 0
	for i := range w.rollout.Hosts {
		h := &w.rollout.Hosts[i]
		if !h.waits() || w.rollout.Ended() || asked == maxWhy {
			continue
		}
		asked++
		a, err := w.server.Why(ctx, h.Name)
		if lost(err) {
			return nil
		}
		if err != nil {
			return err
		}
		if h.Message = ""; a.Rollout == w.rollout.Name {
			h.Message = a.Message
		}
	}
	return nil
}

// feed is Follow into a channel.
func feed(ctx context.Context, s Follower, q operator.EventQuery, into chan<- operator.Event) error {
	return Follow(ctx, s, q, func(e operator.Event) error {
		select {
		case into <- e:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	})
}

// Follow streams events and connects again after a lost connection, from the
// last event on, until the server was away for longer than patience.
func Follow(ctx context.Context, s Follower, q operator.EventQuery, fn func(operator.Event) error) error {
	var away time.Time
	for {
		err := s.Follow(ctx, q, func(e operator.Event) error {
			away = time.Time{}
			q.After, q.Tail = e.Seq, false
			return fn(e)
		})
		if ctx.Err() != nil || !lost(err) {
			return err
		}
		if away.IsZero() {
			away = time.Now()
		}
		if time.Since(away) > patience {
			return err
		}
		if err := Pause(ctx, retryIn); err != nil {
			return err
		}
	}
}

// Pause waits, and ends early with the cause when ctx does.
func Pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// lost reports an error of the connection, after which trying again makes
// sense.
func lost(err error) bool {
	_, ok := errors.AsType[*net.OpError](err)
	return ok || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF)
}
