package stream

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/steadyfleet/steady/internal/agent/uplink"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/wire"
)

// Serve opens a stream that the server asked for and serves it to its end. The
// result is nil once the operator was told how it ended, ErrRefused when that was
// a refusal, and else why it broke off. The end of ctx ends the stream; its cause
// is told to the operator.
func Serve(ctx context.Context, t Transport, r wire.StreamRequest, b Backend, allowed *fleet.Delegation) error {
	life, drop := context.WithCancel(context.WithoutCancel(ctx)) // outlives ctx for the last words
	defer drop()
	con, err := t.Stream(life, r.ID)
	if err != nil {
		return fmt.Errorf("open stream %s: %w", r.ID, err)
	}
	defer con.Close()
	stop := context.AfterFunc(ctx, func() { con.Close() })
	err = con.Accepted()
	if !stop() || err != nil {
		return fmt.Errorf("open stream %s: %w", r.ID, cmp.Or(context.Cause(ctx), err))
	}
	s := newSession(con, r)
	defer s.end(nil)
	return s.serve(ctx, b, Check(r, allowed))
}

// session is one open stream.
type session struct {
	con  uplink.Duplex
	r    wire.StreamRequest
	work context.Context // of the backend
	end  context.CancelCauseFunc

	mu    sync.Mutex // of what is written
	out   *wire.FrameWriter
	stall *time.Timer

	stdin    *io.PipeWriter
	input    *io.PipeReader
	resize   chan wire.Resize
	lost     atomic.Bool // nobody hears what is written
	hung     sync.Once
	workers  sync.WaitGroup
	readDone chan struct{} // closed when nothing more is read
	done     chan struct{} // closed at the end
}

func newSession(con uplink.Duplex, r wire.StreamRequest) *session {
	s := &session{con: con, r: r, out: wire.NewFrameWriter(con), resize: make(chan wire.Resize, 1),
		readDone: make(chan struct{}), done: make(chan struct{})}
	s.work, s.end = context.WithCancelCause(context.Background())
	s.input, s.stdin = io.Pipe()
	s.stall = time.AfterFunc(Stall, func() {
		s.end(ErrStalled)
		s.con.Close()
	})
	s.stall.Stop()
	return s
}

// serve does what was asked unless it is refused, and says how that ended.
func (s *session) serve(ctx context.Context, b Backend, refusal error) error {
	s.workers.Go(s.read)
	s.workers.Go(s.keepAlive)
	s.workers.Go(func() {
		select {
		case <-ctx.Done():
			s.hangUp(why(ctx))
		case <-s.done:
		}
	})
	var exit wire.Exit
	err := refusal
	if err == nil {
		exit, err = s.run(b)
	}
	ended := context.Cause(s.work)
	s.end(nil)
	_ = s.input.CloseWithError(io.EOF) // a frame of input is dropped from here on
	switch {
	case ended != nil:
		exit.Code, exit.Error = -1, ended.Error()
	case err != nil:
		exit.Code, exit.Error = -1, err.Error()
	}
	told := s.part(exit)
	switch {
	case ended != nil:
		return ended
	case told != nil:
		return told
	}
	return refusal
}

// why is what an ended context says, or that the agent stops.
func why(ctx context.Context) error {
	if err := context.Cause(ctx); !errors.Is(err, context.Canceled) {
		return err
	}
	return ErrStopped
}

// part says the last words and waits until the server has taken them.
func (s *session) part(e wire.Exit) error {
	deadline := time.AfterFunc(parting, func() { s.con.Close() })
	err := s.send(func() error { return s.out.Exit(e) })
	if err == nil {
		err = s.con.CloseWrite()
	}
	if err == nil {
		<-s.readDone
	}
	if !deadline.Stop() && err == nil {
		err = ErrGone
	}
	close(s.done)
	s.con.Close()
	s.workers.Wait()
	return err
}

// send writes one frame or some; what nobody takes for Stall ends the stream.
func (s *session) send(write func() error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lost.Load() {
		return ErrGone
	}
	s.stall.Reset(Stall)
	err := write()
	s.stall.Stop()
	if err != nil {
		s.lost.Store(true)
		return fmt.Errorf("%w: %w", ErrGone, err)
	}
	return nil
}

// keepAlive shows the server that there is somebody, and finds a dead stream
// while there is nothing to say.
func (s *session) keepAlive() {
	tick := time.NewTicker(wire.StreamKeepAlive.Std())
	defer tick.Stop()
	for {
		select {
		case <-s.done:
			return
		case <-tick.C:
			if err := s.send(func() error { return s.out.Write(wire.Frame{Type: wire.FrameStdout}) }); err != nil {
				s.hangUp(err)
				return
			}
		}
	}
}

// read takes what the operator sends until there is no operator.
func (s *session) read() {
	defer close(s.readDone)
	in := wire.NewFrameReader(s.con)
	for {
		f, err := in.Next()
		if err == nil {
			err = s.take(f)
		}
		if err != nil {
			s.hangUp(gone(err))
			return
		}
	}
}

func gone(err error) error {
	switch {
	case errors.Is(err, io.EOF):
		return ErrGone
	case errors.Is(err, ErrOrder):
		return err
	}
	return fmt.Errorf("%w: %w", ErrGone, err)
}

func (s *session) take(f wire.Frame) error {
	switch f.Type {
	case wire.FrameStdin:
		if s.r.Kind == wire.StreamExec && s.r.Args.Stdin {
			_, _ = s.stdin.Write(f.Data) // a command that is over, or reads no more, drops it
		}
	case wire.FrameClose:
		_ = s.stdin.Close()
	case wire.FrameResize:
		size, err := f.Resize()
		if err != nil {
			return err
		}
		select {
		case <-s.resize: // only the newest counts
		default:
		}
		s.resize <- size // this goroutine alone fills it
	default:
		return ErrOrder
	}
	return nil
}

// What ends most of what runs at a terminal: an interrupt, which may drop what was
// typed, then an end of input.
const (
	interrupt  = "\x03"
	endOfInput = "\x04"
	typePause  = 200 * time.Millisecond
)

// hangUp ends the stream for a cause. A command that takes input hears of it
// first; everything else ends at once.
func (s *session) hangUp(cause error) {
	s.hung.Do(func() {
		if !errors.Is(cause, ErrStopped) && !errors.Is(cause, ErrRefused) {
			s.lost.Store(true)
		}
		if s.r.Kind != wire.StreamExec || !s.r.Args.Stdin {
			s.end(cause)
			return
		}
		s.workers.Go(func() {
			late := time.AfterFunc(parting, func() { s.end(cause) })
			defer late.Stop()
			if s.r.Args.TTY {
				_, _ = io.WriteString(s.stdin, interrupt+endOfInput)
				select {
				case <-time.After(typePause):
				case <-s.work.Done():
				}
				_, _ = io.WriteString(s.stdin, endOfInput)
			}
			_ = s.stdin.Close()
			<-s.work.Done()
		})
	})
}

// run has the backend do it.
func (s *session) run(b Backend) (exit wire.Exit, err error) {
	returned := make(chan struct{})
	defer close(returned)
	defer context.AfterFunc(s.work, func() {
		_ = s.stdin.CloseWithError(context.Cause(s.work))
		select {
		case <-returned:
		case <-time.After(parting): // it waits for a frame to be taken
			s.con.Close()
		}
	})()
	kind, name, _ := strings.Cut(s.r.Resource, "/")
	a := s.r.Args
	stdout, stderr := &output{s, wire.FrameStdout}, &output{s, wire.FrameStderr}
	switch s.r.Kind {
	case wire.StreamLogs:
		return exit, b.Logs(s.work, name, LogsOptions{Follow: a.Follow, Tail: a.Tail, Since: a.Since}, stdout, stderr)
	case wire.StreamOutput:
		exit.Last, err = b.Output(s.work, name, OutputOptions{Follow: a.Follow, Tail: a.Tail, After: a.After}, stdout, stderr)
		return exit, err
	case wire.StreamOrphans, wire.StreamPrune:
		return exit, b.Prune(s.work, s.r.Kind == wire.StreamOrphans, stdout)
	case wire.StreamDiscard:
		return exit, b.Discard(s.work, name)
	case wire.StreamExec:
		streams := ExecStreams{Stdout: stdout, Stderr: stderr, Resize: s.resize}
		if a.Stdin {
			streams.Stdin = s.input
		}
		exit.Code, err = b.Exec(s.work, name, ExecOptions{Argv: a.Argv, TTY: a.TTY, Rows: a.Rows, Cols: a.Cols, User: a.User, WorkDir: a.WorkDir}, streams)
		return exit, err
	}
	ctx, cancel := context.WithTimeout(s.work, planTime)
	defer cancel()
	answer, err := b.Plan(ctx, kind, name, a.Spec)
	if err != nil {
		return exit, err
	}
	raw, err := json.Marshal(answer)
	if err != nil {
		return exit, err
	}
	_, err = stdout.Write(raw)
	return exit, err
}

// output writes frames of one type. A command whose operator is gone goes on to
// its end unread, as long as it gets; all else fails.
type output struct {
	s *session
	t wire.FrameType
}

func (o *output) Write(b []byte) (int, error) {
	if err := context.Cause(o.s.work); err != nil {
		return 0, err
	}
	err := o.s.send(func() error { return o.s.out.WriteData(o.t, b) })
	if err != nil && (o.s.r.Kind != wire.StreamExec || !o.s.r.Args.Stdin) {
		return 0, err
	}
	return len(b), nil
}
