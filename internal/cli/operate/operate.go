package operate

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/steadyfleet/steady/internal/api/operator"
	"github.com/steadyfleet/steady/internal/cli/command"
	"github.com/steadyfleet/steady/internal/cli/exit"
	"github.com/steadyfleet/steady/internal/cli/live"
	"github.com/steadyfleet/steady/internal/cli/signed"
	"github.com/steadyfleet/steady/internal/cli/term"
)

func (a verbs) eventsCmd() *cobra.Command {
	var q operator.EventQuery
	var follow, all bool
	cmd := &cobra.Command{
		Use: "events", GroupID: command.GroupWatch, Short: "Show the log of events",
		Long: `Shows events of the server's log in order: by default the last ones, with --after
those that follow a sequence number. Every decision is in it, with its reason. Times
are UTC; events that a host made itself show with ~ when the server had heard from it.

Records that hosts signed their events so far, and steps that change nothing, are left
out unless --all is given; -o json has everything.`,
		Example: "  steady events\n  steady events -f\n  steady events --rollout stable@v2 --limit 500\n  steady events --host web-1 -o json",
		Args:    exit.Args(cobra.NoArgs),
	}
	lines := a.PrintsLines(cmd)
	f := cmd.Flags()
	f.BoolVar(&all, "all", false, "what moves nothing as well")
	f.BoolVarP(&follow, "follow", "f", false, "go on with new events until interrupted")
	f.Uint64Var(&q.After, "after", 0, "begin after this sequence number")
	f.IntVar(&q.Limit, "limit", 100, "how many events, 1 to 1000")
	f.StringVar(&q.Host, "host", "", "only events that concern this host")
	f.StringVar(&q.Rollout, "rollout", "", "only events that concern this rollout")
	return a.Stream(cmd, func(ctx context.Context, c *operator.Client, _ []string) error {
		if q.Limit < 1 || q.Limit > 1000 {
			return exit.Badf("--limit %d: expected 1 to 1000", q.Limit)
		}
		show := live.Printer(a.Out)
		if !all {
			show = live.Moving(show)
		}
		if lines() {
			show = func(e operator.Event) error { return term.Line(a.Out, e) }
		}
		return a.events(ctx, c, q, follow, show)
	})
}

func (a verbs) events(ctx context.Context, c *operator.Client, q operator.EventQuery, follow bool, show func(operator.Event) error) error {
	q.Tail = q.After == 0
	page, err := c.Events(ctx, q)
	if err != nil {
		return err
	}
	for _, e := range page.Events {
		if err := show(e); err != nil {
			return err
		}
		q.After = e.Seq
	}
	if !follow {
		return nil
	}
	q.After, q.Tail = max(q.After, page.Next), false
	return live.Follow(ctx, c, q, show)
}

func (a verbs) quarantineCmd() *cobra.Command {
	list := &cobra.Command{Use: "list", Short: "List the quarantined bundles, which no host is given", Example: "  steady quarantine list", Args: exit.Args(cobra.NoArgs)}
	a.PrintsData(a.Talk(list, func(ctx context.Context, c *operator.Client, _ []string) error {
		rows, err := c.Quarantine(ctx)
		if err != nil {
			return err
		}
		return a.Print(command.NonNil(rows), func() error {
			var cells [][]string
			for _, r := range rows {
				cells = append(cells, []string{r.Channel, command.Short(string(r.Bundle)), r.Reason})
			}
			return a.Table([]string{"channel", "bundle", "reason"}, cells)
		})
	}))
	var reason string
	drop := &cobra.Command{
		Use: "clear CHANNEL BUNDLE", Short: "Allow a bundle again on a channel",
		Long: `Allows a quarantined bundle again on a channel. BUNDLE is its digest or the first 12
digits. With --sign also what an operator quarantined by signature, and on hosts that
refuse the bundle by themselves because it failed there.`,
		Example: "  steady quarantine clear stable 3fa9c1d20b7e --reason 'the database was down'",
		Args:    exit.Args(cobra.ExactArgs(2)),
	}
	drop.Flags().StringVar(&reason, "reason", command.NoReason, "why, for the log")
	var sign signed.Flags
	sign.Add(drop)
	a.Talk(drop, func(ctx context.Context, c *operator.Client, args []string) error {
		if sign.Keys != "" {
			return a.unquarantine(ctx, c, sign, args[0], args[1], reason)
		}
		if err := c.ClearQuarantine(ctx, args[0], args[1], reason); err != nil {
			return err
		}
		a.Say("Bundle %s is no longer quarantined on channel %s\n", args[1], args[0])
		return nil
	})
	return command.Group(command.GroupWatch, "quarantine", "List, add and clear quarantined bundles",
		"  steady quarantine list\n  steady quarantine add stable 3fa9c1d20b7e --reason 'CVE-2031-1234'\n  steady quarantine clear stable 3fa9c1d20b7e", list, a.quarantineAdd(), drop)
}

func (a verbs) reconcileCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use: "reconcile", GroupID: command.GroupWatch, Short: "Evaluate every rollout and host now instead of at the next tick",
		Example: "  steady reconcile", Args: exit.Args(cobra.NoArgs),
	}
	return a.Talk(cmd, func(ctx context.Context, c *operator.Client, _ []string) error {
		if err := c.Reconcile(ctx); err != nil {
			return err
		}
		a.Say("Every rollout and host was evaluated again; steady why HOST says what holds one\n")
		return nil
	})
}
