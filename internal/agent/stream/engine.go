package stream

import (
	"context"
	"io"
	"time"

	"github.com/steadyfleet/steady/internal/docker/dockerapi"
	"github.com/steadyfleet/steady/internal/wire"
)

// exitWait is how often a command that closed its output is asked for its end.
const exitWait = 20 * time.Millisecond

// Command is what Backend.Exec starts on an engine.
func Command(o ExecOptions, s ExecStreams) dockerapi.Exec {
	return dockerapi.Exec{Cmd: o.Argv, User: o.User, WorkingDir: o.WorkDir,
		Stdin: s.Stdin != nil, TTY: o.TTY, Height: uint(max(o.Rows, 0)), Width: uint(max(o.Cols, 0))}
}

// Attend joins a command that was started with its streams until it ends, and
// closes it. When ctx ends the command loses its streams and goes on. Sizes of its
// terminal and input reach it in the order in which they came, the size of o first.
func Attend(ctx context.Context, r *dockerapi.Running, o ExecOptions, s ExecStreams) (code int, err error) {
	defer r.Close()
	defer context.AfterFunc(ctx, r.Close)()
	ended := make(chan struct{})
	defer close(ended)
	turns := make(chan chan struct{})
	if s.Stdin != nil {
		go func() {
			// A command that reads no more is no error; its exit code tells.
			_, _ = io.Copy(inTurn{r, turns, ended}, s.Stdin)
			_ = r.CloseWrite()
		}()
	}
	go resize(ctx, r, o, s.Resize, turns, ended)
	err = r.Copy(s.Stdout, s.Stderr)
	if ctx.Err() != nil {
		return 0, context.Cause(ctx)
	}
	if err != nil {
		return 0, err
	}
	for {
		code, running, err := r.Exit(ctx)
		if err != nil || !running {
			return code, err
		}
		select {
		case <-time.After(exitWait):
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		}
	}
}

// inTurn writes input once the sizes that came before it are set: a command that
// is typed after a change of size must find it made.
type inTurn struct {
	w     io.Writer
	turns chan<- chan struct{}
	ended <-chan struct{}
}

func (t inTurn) Write(b []byte) (int, error) {
	turn := make(chan struct{})
	select {
	case t.turns <- turn:
	case <-t.ended:
		return 0, io.ErrClosedPipe
	}
	select {
	case <-turn:
	case <-t.ended:
		return 0, io.ErrClosedPipe
	}
	return t.w.Write(b)
}

// resize tells the command of sizes, and gives input its turns; a size that the
// engine does not take is one that the command no longer needs. Engines before API
// 1.42 leave the size out that a command is started with, so it is told here: the
// engine answers once the command runs.
func resize(ctx context.Context, r *dockerapi.Running, o ExecOptions, sizes <-chan wire.Resize, turns <-chan chan struct{}, ended <-chan struct{}) {
	tell := func(z wire.Resize) { _ = r.Resize(ctx, uint(z.Rows), uint(z.Cols)) }
	if !o.TTY {
		tell, sizes = nil, nil
	} else if o.Rows > 0 && o.Cols > 0 {
		tell(wire.Resize{Rows: o.Rows, Cols: o.Cols})
	}
	for {
		select {
		case z := <-sizes:
			tell(z)
		case turn := <-turns:
			select {
			case z := <-sizes:
				tell(z)
			default:
			}
			close(turn)
		case <-ended:
			return
		}
	}
}
