package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/spf13/cobra"
	xterm "golang.org/x/term"

	"github.com/steadyfleet/steady/internal/api/operator"
	"github.com/steadyfleet/steady/internal/cli/exit"
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/spec"
)

func (a *Env) execCmd() *cobra.Command {
	var x operator.ExecRequest
	cmd := &cobra.Command{
		Use: "exec [-it] HOST/WORKSPACE -- COMMAND [ARG...]", GroupID: GroupWatch, Short: "Run a command in a workspace",
		Long: `Runs a command in a workspace through the agent's own connection and ends with its
exit code. With -i it gets standard input, with -t a terminal; -it is a shell. An
error of steady itself begins with "steady: " on standard error. A host runs
commands only if its signed declaration has "allow: [exec]"; who ran what is in
the log of events.`,
		Example: "  steady exec gpu-1/web -- nvidia-smi\n  steady exec -it gpu-1/web -- sh\n  steady exec -i gpu-1/db -- psql",
	}
	f := cmd.Flags()
	f.SetInterspersed(false) // what follows the workspace is the command's
	f.BoolVarP(&x.Stdin, "stdin", "i", false, "give the command standard input")
	f.BoolVarP(&x.TTY, "tty", "t", false, "give the command a terminal")
	f.StringVarP(&x.User, "user", "u", "", "user of the command, such as 1000 or www-data:www-data (default: the workspace's)")
	f.StringVarP(&x.WorkDir, "workdir", "w", "", "folder that it starts in (default: the workspace's)")
	return a.OnResource(cmd, spec.KindWorkspace, func(ctx context.Context, c *operator.Client, host, name string) error {
		x.Argv = cmd.Flags().Args()[1:]
		if x.Argv[0] == "--" {
			x.Argv = x.Argv[1:]
		}
		if len(x.Argv) == 0 {
			return exit.Badf("no command is given; usage: %s", cmd.UseLine())
		}
		return a.exec(ctx, c, host, name, x)
	})
}

func (a *Env) exec(ctx context.Context, c *operator.Client, host, name string, x operator.ExecRequest) error {
	var tty *terminal
	if x.TTY {
		var err error
		if tty, err = a.terminal(x.Stdin); err != nil {
			return err
		}
		x.Rows, x.Cols = tty.size()
	}
	s, err := c.Exec(ctx, host, name, x)
	if err != nil {
		return err
	}
	defer s.Close()
	in := &input{stream: s}
	if tty != nil {
		if err := tty.raw(); err != nil {
			return err
		}
		defer tty.restore()
		defer tty.watch(func(rows, cols int) { in.resize(rows, cols) })()
		if rows, cols := tty.size(); rows != x.Rows || cols != x.Cols { // since the command was asked for
			in.resize(rows, cols)
		}
	}
	if x.Stdin {
		go in.copy(a.In)
	}
	end, err := s.Copy(a.Out, a.Err)
	if tty != nil {
		tty.restore() // before anything is said
	}
	if err != nil {
		return ended(ctx, err)
	}
	if end.Code != 0 {
		return exit.Silently(end.Code)
	}
	return nil
}

// input is the side of a stream that goes to the host. Keys and sizes come from
// two goroutines.
type input struct {
	mu     sync.Mutex
	stream *operator.Stream
}

func (in *input) resize(rows, cols int) {
	in.mu.Lock()
	defer in.mu.Unlock()
	_ = in.stream.Resize(rows, cols) // a stream that is over says so elsewhere
}

// copy sends what is read until its end. It may stay behind in a read when the
// command has ended; the process ends then.
func (in *input) copy(r io.Reader) {
	buf := make([]byte, 32<<10)
	for {
		n, err := r.Read(buf)
		in.mu.Lock()
		if n > 0 && in.stream.Stdin(buf[:n]) != nil {
			err = io.EOF
		}
		if err != nil {
			_ = in.stream.CloseStdin() // a stream that is over says so elsewhere
		}
		in.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// terminal is that of this process.
type terminal struct {
	in, out int // descriptors
	state   *xterm.State
	once    sync.Once
}

func (a *Env) terminal(stdin bool) (*terminal, error) {
	in, isFile := a.In.(*os.File)
	out, isOut := a.Out.(*os.File)
	switch {
	case !isOut || !xterm.IsTerminal(int(out.Fd())):
		return nil, exit.Badf("-t needs a terminal, and standard output is none; leave out -t")
	case !stdin:
		return &terminal{in: -1, out: int(out.Fd())}, nil
	case !isFile || !xterm.IsTerminal(int(in.Fd())):
		return nil, exit.Badf("-t needs a terminal, and standard input is none; leave out -t")
	}
	return &terminal{in: int(in.Fd()), out: int(out.Fd())}, nil
}

func (t *terminal) size() (rows, cols int) {
	cols, rows, err := xterm.GetSize(t.out)
	if err != nil || rows < 1 || cols < 1 {
		return 24, 80
	}
	return min(rows, 4096), min(cols, 4096)
}

// raw hands every key to the command, Ctrl-C too.
func (t *terminal) raw() (err error) {
	if t.in < 0 {
		return nil
	}
	if t.state, err = xterm.MakeRaw(t.in); err != nil {
		return fmt.Errorf("hand the terminal over: %w", err)
	}
	return nil
}

func (t *terminal) restore() {
	t.once.Do(func() {
		if t.state != nil {
			_ = xterm.Restore(t.in, t.state) // there is nothing else to do
		}
	})
}

// StreamVerbs are the commands that open a stream into a host: logs of workspaces, the
// output of images' builds and pulls, and commands in workspaces.
func (a *Env) StreamVerbs() []*cobra.Command { return []*cobra.Command{a.logsCmd(), a.execCmd()} }

func (a *Env) logsCmd() *cobra.Command {
	var q operator.LogQuery
	var since string
	cmd := &cobra.Command{
		Use: "logs HOST/WORKSPACE", GroupID: GroupWatch, Short: "Show the log of a workspace",
		Long: `Shows what a workspace wrote, its standard error on standard error. It comes
through the agent's own connection. A host shows logs only if its signed
declaration has "allow: [logs]".`,
		Example: "  steady logs gpu-1/web\n  steady logs -f --tail 20 gpu-1/web\n  steady logs --since 10m gpu-1/web",
	}
	f := cmd.Flags()
	f.BoolVarP(&q.Follow, "follow", "f", false, "go on with new lines until interrupted")
	f.IntVar(&q.Tail, "tail", 0, "only the last lines; 0 for all")
	f.StringVar(&since, "since", "", "only lines since a time such as 10m ago, or 2026-01-31T12:00:00Z")
	return a.OnResource(cmd, spec.KindWorkspace, func(ctx context.Context, c *operator.Client, host, name string) (err error) {
		if q.Tail < 0 {
			return exit.Badf("--tail %d: expected 0 or more", q.Tail)
		}
		if q.Since, err = a.since(since); err != nil {
			return err
		}
		s, err := c.Logs(ctx, host, name, q)
		if err != nil {
			return err
		}
		return Copy(ctx, s, a.Out, a.Err)
	})
}

// since reads how long ago, or when.
func (a *Env) since(text string) (clock.Instant, error) {
	if text == "" {
		return 0, nil
	}
	if d, err := clock.ParseDuration(text); err == nil {
		return a.Wall().Add(-d), nil
	}
	t, err := time.Parse(time.RFC3339, text)
	if err != nil || t.UnixMilli() <= 0 {
		return 0, exit.Badf("--since %q: expected a duration such as 10m, or a time such as 2026-01-31T12:00:00Z", text)
	}
	return clock.FromTime(t), nil
}

// Copy writes a stream that only flows from the host, to its end.
func Copy(ctx context.Context, s *operator.Stream, stdout, stderr io.Writer) error {
	defer s.Close()
	_, err := s.Copy(stdout, stderr)
	return ended(ctx, err)
}

// ended words how a stream ended.
func ended(ctx context.Context, err error) error {
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, operator.ErrBroken):
		return exit.With(exit.Unreachable, fmt.Errorf("%w; the host may have gone: steady host show HOST says more", err))
	}
	return exit.With(exit.Failed, err)
}
