package dockerapi

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/moby/moby/api/types/events"
	"github.com/moby/moby/client"
)

// Subject is what an event is about.
type Subject int

// The subjects of events.
const (
	// Resync is no event of the engine: events may have been missed, look at everything.
	Resync Subject = iota
	Container
	Network
	Volume
	Image
)

// Event is one thing that happened at the engine. It may come twice.
type Event struct {
	Subject    Subject
	Action     string // such as start, die, rename, connect, "health_status: healthy"
	ID         string // of the subject; the name of a volume
	Name       string // of the subject, if the event says it
	Container  string // ID of the container that a network or volume event is about
	Attributes map[string]string
	Time       time.Time // by the engine's clock
}

// Pauses between attempts to connect.
const (
	firstPause = 100 * time.Millisecond
	lastPause  = 10 * time.Second
)

// overlap is how far before the last event the engine is asked for events again: its
// answer begins before it listens.
const overlap = 2 * time.Second

// Watch gives each event to handle, one after the other, until ctx ends, whose
// error it returns. It connects again whenever the stream is lost. After each
// connection handle gets a Resync. It begins with those that the engine still has, the
// last 256 at most, so that how a container came to its end is known after a restart of
// the agent.
func (e *Engine) Watch(ctx context.Context, handle func(Event)) error {
	pause, last := firstPause, time.Unix(0, 0).Add(overlap)
	for {
		connected, err := e.watchOnce(ctx, last.Add(-overlap), func(ev Event) {
			if ev.Subject != Resync {
				last = ev.Time
			}
			handle(ev)
		})
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if connected {
			pause = firstPause
		}
		e.log.Warn("events of the container engine lost, connecting again", "in", pause, "error", err)
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return ctx.Err()
		}
		pause = min(2*pause, lastPause)
	}
}

func (e *Engine) watchOnce(ctx context.Context, since time.Time, handle func(Event)) (connected bool, err error) {
	err = e.endless(ctx, "listen to events", "", func(ctx context.Context, _ func()) error {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		f := client.Filters{}
		f.Add("type", string(events.ContainerEventType), string(events.NetworkEventType), string(events.VolumeEventType), string(events.ImageEventType))
		stream := e.api.Events(ctx, client.EventsListOptions{Since: fmt.Sprintf("%d.%09d", since.Unix(), since.Nanosecond()), Filters: f})
		if c, ok := ctx.Value(callKey{}).(*call); !ok || c.status.Load() != http.StatusOK {
			return <-stream.Err
		}
		connected = true
		e.log.Info("listening to events of the container engine", "socket", e.socket)
		handle(Event{Subject: Resync, Time: e.now()})
		for {
			select {
			case m := <-stream.Messages:
				if ev, ok := event(m); ok {
					handle(ev)
				}
			case err := <-stream.Err:
				return err
			}
		}
	})
	return connected, err
}

func event(m events.Message) (Event, bool) {
	out := Event{Action: string(m.Action), ID: m.Actor.ID, Name: m.Actor.Attributes["name"], Attributes: m.Actor.Attributes,
		Time: time.Unix(0, m.TimeNano)}
	switch m.Type {
	case events.ContainerEventType:
		out.Subject = Container
	case events.NetworkEventType:
		out.Subject, out.Container = Network, m.Actor.Attributes["container"]
	case events.VolumeEventType:
		out.Subject, out.Container = Volume, m.Actor.Attributes["container"]
	case events.ImageEventType:
		out.Subject = Image
	default:
		return Event{}, false
	}
	return out, true
}
