// Package streams splices an operator's request with one that a host's agent
// makes for it, so that hosts take no connections: the broker keeps what operators
// ask for until the agent opens it, then frames go both ways. A frame is read only
// when the one before was taken, so that each end slows the other down. It knows
// nothing of who may do what, of HTTP or of the state.
package streams

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/steadyfleet/steady/internal/wire"
)

// Why a stream was not opened or ended early.
var (
	ErrBusy     = errors.New("too many streams are open")
	ErrNoAnswer = errors.New("the agent did not open the stream in time")
	ErrUnknown  = errors.New("there is no such stream; it is over, or was never asked for")
	ErrOpen     = errors.New("the stream is open already")
	ErrAgent    = errors.New("the agent went away")
	ErrOperator = errors.New("the operator went away")
	ErrIdle     = errors.New("nothing went either way for too long")
	ErrOrder    = errors.New("a frame came from the wrong end")
	ErrStopping = errors.New("the server is stopping")
)

// Limits bounds what is open. Zero fields take the defaults.
type Limits struct {
	PerHost, Total int
	Attach         time.Duration // until the agent must have opened it
	Again          time.Duration // until a request that was handed out is handed out again
	Silence        time.Duration // without a frame of the agent
	Idle           time.Duration // of an exec, without data either way
}

func (l Limits) withDefaults() Limits {
	l.PerHost = cmp.Or(l.PerHost, 8)
	l.Total = cmp.Or(l.Total, 512)
	l.Attach = cmp.Or(l.Attach, wire.StreamAttach.Std())
	l.Again = cmp.Or(l.Again, 4*time.Second)
	l.Silence = cmp.Or(l.Silence, wire.StreamSilence.Std())
	l.Idle = cmp.Or(l.Idle, time.Hour)
	return l
}

// Broker holds every stream. It is safe for concurrent use.
type Broker struct {
	limits Limits
	mu     sync.Mutex
	byID   map[string]*Stream
	byHost map[string][]*Stream
}

// New returns a broker without streams.
func New(l Limits) *Broker {
	return &Broker{limits: l.withDefaults(), byID: map[string]*Stream{}, byHost: map[string][]*Stream{}}
}

// Stream is one stream from the operator's word to its end.
type Stream struct {
	Host    string
	Request wire.StreamRequest

	b                   *Broker
	toAgent, toOperator chan wire.Frame
	attached, done      chan struct{}
	once                sync.Once
	err                 error // once done is closed
	moved               atomic.Int64

	// Of the broker's lock.
	taken  bool
	handed time.Time
}

// Open asks for a stream of a host; the request's ID is unique. Close must
// follow. It is refused with ErrBusy.
func (b *Broker) Open(host string, r wire.StreamRequest) (*Stream, error) {
	s := &Stream{Host: host, Request: r, b: b, toAgent: make(chan wire.Frame), toOperator: make(chan wire.Frame),
		attached: make(chan struct{}), done: make(chan struct{})}
	s.moved.Store(time.Now().UnixNano())
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case len(b.byID) >= b.limits.Total:
		return nil, fmt.Errorf("%w: %d over all hosts", ErrBusy, len(b.byID))
	case len(b.byHost[host]) >= b.limits.PerHost:
		return nil, fmt.Errorf("%w: %d of host %s", ErrBusy, len(b.byHost[host]), host)
	}
	b.byID[r.ID] = s
	b.byHost[host] = append(b.byHost[host], s)
	return s, nil
}

// Hand returns the requests that the host's agent should open now, and how long
// to wait for the next, zero when there is none.
func (b *Broker) Hand(host string) (requests []wire.StreamRequest, again time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	for _, s := range b.byHost[host] {
		if s.taken {
			continue
		}
		if left := b.limits.Again - now.Sub(s.handed); left > 0 && !s.handed.IsZero() {
			if again == 0 || left < again {
				again = left
			}
			continue
		}
		s.handed = now
		requests = append(requests, s.Request)
	}
	return requests, again
}

// Count returns how many streams of a host and over all are open or asked for.
func (b *Broker) Count(host string) (ofHost, all int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.byHost[host]), len(b.byID)
}

// Close ends the stream if need be and forgets it.
func (s *Stream) Close() {
	s.end(ErrOperator)
	s.b.mu.Lock()
	defer s.b.mu.Unlock()
	if s.b.byID[s.Request.ID] != s {
		return
	}
	delete(s.b.byID, s.Request.ID)
	rest := slices.DeleteFunc(s.b.byHost[s.Host], func(o *Stream) bool { return o == s })
	if len(rest) == 0 {
		delete(s.b.byHost, s.Host)
	} else {
		s.b.byHost[s.Host] = rest
	}
}

func (s *Stream) end(err error) {
	s.once.Do(func() { s.err = err; close(s.done) })
}

// Attached waits until the agent has opened the stream: ErrNoAnswer after the
// limit.
func (s *Stream) Attached(ctx context.Context) error {
	t := time.NewTimer(s.b.limits.Attach)
	defer t.Stop()
	select {
	case <-s.attached:
		return nil
	case <-t.C:
		return ErrNoAnswer
	case <-s.done:
		return s.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// End is one end of a stream as its own request holds it.
type End struct {
	// Read returns the next frame, good until the next call; nil reads nothing.
	Read func() (wire.Frame, error)
	// Write sends a frame at once and must not block for ever.
	Write func(wire.Frame) error
	// Close makes a blocked Read return.
	Close func()
}

// Attach is the agent's end: it opens a stream of its own host and returns when
// the stream is over. Opened, if set, is called before the first frame.
func (b *Broker) Attach(ctx context.Context, host, id string, e End, opened func() error) error {
	b.mu.Lock()
	s := b.byID[id]
	if s == nil || s.Host != host {
		b.mu.Unlock()
		return ErrUnknown
	}
	if s.taken {
		b.mu.Unlock()
		return ErrOpen
	}
	s.taken = true
	b.mu.Unlock()
	if opened != nil {
		if err := opened(); err != nil {
			s.end(ErrAgent)
			return err
		}
	}
	close(s.attached)
	s.serveAgent(ctx, e)
	return s.err
}

func (s *Stream) serveAgent(ctx context.Context, e End) {
	var heard atomic.Int64 // 0 while a frame waits for the operator
	heard.Store(time.Now().UnixNano())
	var reader sync.WaitGroup
	reader.Go(func() {
		exited := false
		err := s.pump(e.Read, s.toOperator, func(f wire.Frame, before bool) bool {
			if before {
				heard.Store(0)
				exited = f.Type == wire.FrameExit
				return f.Type.FromHost()
			}
			heard.Store(time.Now().UnixNano())
			return !exited
		})
		switch {
		case exited && err == nil: // the operator's end closes the stream
		case errors.Is(err, ErrOrder), errors.Is(err, wire.ErrFrameSize), errors.Is(err, wire.ErrFrameType):
			s.end(fmt.Errorf("the agent broke the stream: %w", err))
		default:
			s.end(ErrAgent)
		}
	})
	defer reader.Wait()
	defer e.Close()
	tick := time.NewTicker(max(s.b.limits.Silence/8, time.Millisecond))
	defer tick.Stop()
	for {
		select {
		case f := <-s.toAgent:
			if e.Write(f) != nil {
				s.end(ErrAgent)
				return
			}
		case <-tick.C:
			if at := heard.Load(); at != 0 && time.Since(time.Unix(0, at)) > s.b.limits.Silence {
				s.end(ErrAgent)
			} else if s.Request.Kind == wire.StreamExec && time.Since(time.Unix(0, s.moved.Load())) > s.b.limits.Idle {
				s.end(ErrIdle)
			}
		case <-s.done:
			return
		case <-ctx.Done():
			s.end(cause(ctx, ErrAgent))
			return
		}
	}
}

// Serve is the operator's end; Attached has returned. It returns when the stream
// is over: nil after the agent's exit. Any other end is told to the operator as
// an exit with an error, as far as it is still there.
func (s *Stream) Serve(ctx context.Context, e End) error {
	var reader sync.WaitGroup
	if e.Read != nil {
		reader.Go(func() { s.readOperator(e) })
	}
	defer reader.Wait()
	defer e.Close()
	for {
		select {
		case f := <-s.toOperator:
			if e.Write(f) != nil {
				s.end(ErrOperator)
				return ErrOperator
			}
			if f.Type == wire.FrameExit {
				s.end(nil)
				return nil
			}
		case <-s.done:
			if !errors.Is(s.err, ErrOperator) {
				_ = e.Write(wire.ExitFrame(wire.Exit{Code: -1, Error: s.err.Error()})) // it may be gone as well
			}
			return s.err
		case <-ctx.Done():
			s.end(cause(ctx, ErrOperator))
			return s.err
		}
	}
}

func (s *Stream) readOperator(e End) {
	closed := false
	err := s.pump(e.Read, s.toAgent, func(f wire.Frame, before bool) bool {
		closed = closed || before && f.Type == wire.FrameClose
		return !before || f.Type.ToHost()
	})
	switch {
	case errors.Is(err, io.EOF): // nothing more to type
		if !closed {
			select {
			case s.toAgent <- wire.Frame{Type: wire.FrameClose}:
			case <-s.done:
			}
		}
	case errors.Is(err, ErrOrder), errors.Is(err, wire.ErrFrameSize), errors.Is(err, wire.ErrFrameType):
		s.end(fmt.Errorf("the operator broke the stream: %w", err))
	case err != nil:
		s.end(ErrOperator)
	}
}

// pump passes frames on until read fails, the stream is over, or check says no:
// before a frame is passed on, which is ErrOrder, or after.
func (s *Stream) pump(read func() (wire.Frame, error), out chan<- wire.Frame, check func(f wire.Frame, before bool) bool) error {
	for {
		f, err := read()
		if err != nil {
			return err
		}
		if !check(f, true) {
			return ErrOrder
		}
		if len(f.Data) > 0 {
			s.moved.Store(time.Now().UnixNano())
		}
		f.Data = bytes.Clone(f.Data)
		select {
		case out <- f:
		case <-s.done:
			return nil
		}
		if !check(f, false) {
			return nil
		}
	}
}

// cause is why a context ended, when it says, or what its end means.
func cause(ctx context.Context, means error) error {
	if err := context.Cause(ctx); err != nil && !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return means
}
