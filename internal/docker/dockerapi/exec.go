package dockerapi

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/moby/moby/api/pkg/stdcopy"
	"github.com/moby/moby/client"
)

// Exec is a command to run in a running container.
type Exec struct {
	Cmd        []string
	Env        []string // KEY=value, beside those of the container
	User       string   // empty: that of the container
	WorkingDir string   // empty: that of the container
	Stdin      bool     // the command reads what is written
	Privileged bool     // with every capability
	TTY        bool     // the command has a terminal: standard error goes to standard output
	Height     uint     // of the terminal, in characters; 0: unknown
	Width      uint
}

// Running is a command that was started in a container. It goes on when its
// connection is closed.
type Running struct {
	e   *Engine
	id  string
	tty bool
	con client.HijackedResponse
}

// Exec starts a command and connects to its streams.
func (e *Engine) Exec(ctx context.Context, container string, x Exec) (*Running, error) {
	size := client.ConsoleSize{Height: x.Height, Width: x.Width}
	made, err := request(ctx, e, e.timeout, "prepare a command in container", container, e.api.ExecCreate, client.ExecCreateOptions{
		User: x.User, Privileged: x.Privileged, TTY: x.TTY, ConsoleSize: size, AttachStdin: x.Stdin, AttachStdout: true, AttachStderr: true,
		Env: x.Env, WorkingDir: x.WorkingDir, Cmd: x.Cmd})
	if err != nil {
		return nil, err
	}
	r := &Running{e: e, id: made.ID, tty: x.TTY}
	err = e.do(ctx, e.timeout, "start a command in container", container, func(ctx context.Context) error {
		c, err := e.api.ExecAttach(ctx, made.ID, client.ExecAttachOptions{TTY: x.TTY, ConsoleSize: size})
		r.con = c.HijackedResponse
		return err
	})
	if err != nil {
		return nil, err
	}
	return r, nil
}

// Write gives the command input.
func (r *Running) Write(b []byte) (int, error) { return r.con.Conn.Write(b) }

// CloseWrite ends the command's input.
func (r *Running) CloseWrite() error { return r.con.CloseWrite() }

// Copy passes the output on until the command has closed it or Close is called.
func (r *Running) Copy(stdout, stderr io.Writer) error {
	var err error
	if r.tty {
		_, err = io.Copy(stdout, r.con.Reader)
	} else {
		_, err = stdcopy.StdCopy(stdout, stderr, r.con.Reader)
	}
	if err != nil {
		return fmt.Errorf("read the output of a command: %w", err)
	}
	return nil
}

// Resize tells the command the size of its terminal, in characters.
func (r *Running) Resize(ctx context.Context, height, width uint) error {
	_, err := request(ctx, r.e, r.e.timeout, "resize the terminal of command", r.id, r.e.api.ExecResize, client.ExecResizeOptions{Height: height, Width: width})
	return err
}

// Exit reports whether the command still runs, and if not with which code it ended.
func (r *Running) Exit(ctx context.Context) (code int, running bool, err error) {
	out, err := request(ctx, r.e, r.e.timeout, "inspect command", r.id, r.e.api.ExecInspect, client.ExecInspectOptions{})
	return out.ExitCode, out.Running, err
}

// Close leaves the command, which goes on without its streams.
func (r *Running) Close() { r.con.Close() }

// exitWait is how often Run looks whether a command that closed its output ended.
const exitWait = 20 * time.Millisecond

// Run runs a command to its end, or to the end of ctx, and gives its exit code
// and the first most bytes of its output, both streams together. When ctx ends
// the command goes on.
func (e *Engine) Run(ctx context.Context, container string, x Exec, most int) (code int, output []byte, err error) {
	x.Stdin = false
	r, err := e.Exec(ctx, container, x)
	if err != nil {
		return 0, nil, err
	}
	defer r.Close()
	stop := context.AfterFunc(ctx, r.Close)
	defer stop()
	out := &capped{most: most}
	err = r.Copy(out, out)
	if ctx.Err() != nil {
		return 0, out.buf.Bytes(), &Error{Call: "run a command in container", Object: container, Kind: KindInterrupted,
			Socket: e.socket, Err: fmt.Errorf("given up: %w", ctx.Err())}
	}
	if err != nil {
		return 0, out.buf.Bytes(), err
	}
	for {
		code, running, err := r.Exit(ctx)
		if err != nil || !running {
			return code, out.buf.Bytes(), err
		}
		select {
		case <-time.After(exitWait):
		case <-ctx.Done():
		}
	}
}
