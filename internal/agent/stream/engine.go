package stream

import (
	"context"
	"io"
	"time"

	"github.com/steadyfleet/steady/internal/docker/daemon"
	"github.com/steadyfleet/steady/internal/wire"
)

// exitWait is how often a command that closed its output is asked for its end.
const exitWait = 20 * time.Millisecond

// Command is what Backend.Exec starts on an engine.
func Command(o ExecOptions, s ExecStreams) daemon.Exec {
	return daemon.Exec{Cmd: o.Argv, User: o.User, WorkingDir: o.WorkDir,
		Stdin: s.Stdin != nil, TTY: o.TTY, Height: uint(max(o.Rows, 0)), Width: uint(max(o.Cols, 0))}
}

// Attend joins a command that was started with its streams until it ends, and
// closes it. When ctx ends the command loses its streams and goes on.
func Attend(ctx context.Context, r *daemon.Running, o ExecOptions, s ExecStreams) (code int, err error) {
	defer r.Close()
	defer context.AfterFunc(ctx, r.Close)()
	ended := make(chan struct{})
	defer close(ended)
	if s.Stdin != nil {
		go func() {
			// A command that reads no more is no error; its exit code tells.
			_, _ = io.Copy(struct{ io.Writer }{r}, s.Stdin)
			_ = r.CloseWrite()
		}()
	}
	if o.TTY {
		go resize(ctx, r, s.Resize, ended)
	}
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

// resize tells the command of new sizes; one that the engine does not take is
// one that the command no longer needs.
func resize(ctx context.Context, r *daemon.Running, sizes <-chan wire.Resize, ended <-chan struct{}) {
	for {
		select {
		case z := <-sizes:
			_ = r.Resize(ctx, uint(z.Rows), uint(z.Cols))
		case <-ended:
			return
		}
	}
}
