package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/steadyfleet/steady/internal/api/operator"
	"github.com/steadyfleet/steady/internal/cli/exit"
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/spec"
)

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
	return a.ResourceNames(a.Stream(cmd, func(ctx context.Context, c *operator.Client, args []string) error {
		host, name, err := OnHost(args[0])
		if err != nil {
			return err
		}
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
	}), spec.KindWorkspace)
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
