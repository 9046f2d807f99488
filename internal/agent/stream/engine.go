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

// Logs is Backend.Logs of a container of an engine.
func Logs(ctx context.Context, e *daemon.Engine, container string, o LogsOptions, stdout, stderr io.Writer) error {
	l := daemon.Logs{Follow: o.Follow, Tail: o.Tail}
	if o.Tail == 0 {
		l.Tail = -1
	}
	if o.Since != 0 {
		l.Since = time.UnixMilli(int64(o.Since))
	}
	return e.ContainerLogs(ctx, container, l, func(line daemon.LogLine) error {
		w, text := stdout, line.Text
		if line.Stderr {
			w = stderr
		}
		if !line.Partly {
			text += "\n"
		}
		_, err := io.WriteString(w, text)
		return err
	})
}

// Exec is Backend.Exec in a container of an engine. When ctx ends the command
// loses its streams and goes on.
func Exec(ctx context.Context, e *daemon.Engine, container string, o ExecOptions, s ExecStreams) (code int, err error) {
	r, err := e.Exec(ctx, container, daemon.Exec{Cmd: o.Argv, User: o.User, WorkingDir: o.WorkDir,
		Stdin: s.Stdin != nil, TTY: o.TTY, Height: uint(max(o.Rows, 0)), Width: uint(max(o.Cols, 0))})
	if err != nil {
		return 0, err
	}
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
