// Package operate holds the commands that ask a server: they show what it knows,
// steer rollouts, and sign the overrides that hosts obey whoever controls the server.
package operate

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/steadyfleet/steady/internal/api/operator"
	"github.com/steadyfleet/steady/internal/cli/command"
	"github.com/steadyfleet/steady/internal/cli/exit"
	"github.com/steadyfleet/steady/internal/cli/hosts"
	"github.com/steadyfleet/steady/internal/cli/term"
	"github.com/steadyfleet/steady/internal/cli/watch"
	"github.com/steadyfleet/steady/internal/core/event"
)

type verbs struct{ *command.Env }

// Verbs returns the commands.
func Verbs(e *command.Env) []*cobra.Command {
	a := verbs{e}
	return []*cobra.Command{
		a.statusCmd(), a.attentionCmd(), a.uiCmd(), a.hostCmd(), a.rolloutCmd(), a.whyCmd(), hosts.ExplainCmd(e), a.eventsCmd(),
		a.quarantineCmd(), a.reconcileCmd(), a.safeModeCmd(), a.loginCmd(), a.operatorCmd(),
	}
}

func (a verbs) loginCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "login",
		GroupID: command.GroupWatch,
		Short:   "Keep how to reach a server, for later commands",
		Long: `Checks the given context against the server and keeps it in
~/.config/steady/config.json, readable by you alone. Later commands use it unless
flags or the environment say otherwise.`,
		Example: "  steady login --context data/operator.json\n  STEADY_TOKEN=... steady login --server https://steady.example:8443 --ca server-ca.pem",
	}
	return a.Talk(cmd, func(ctx context.Context, c *operator.Client, _ []string) error {
		s, err := c.Status(ctx)
		if err != nil {
			return err
		}
		where, err := a.Context()
		if err != nil {
			return err
		}
		path := command.ConfigFile(a.Getenv)
		if err := command.WriteContext(path, where); err != nil {
			return err
		}
		a.Printf("Reached fleet %s at %s; kept in %s\n", s.Fleet, where.Server, path)
		return nil
	})
}

func (a verbs) eventsCmd() *cobra.Command {
	var q operator.EventQuery
	var follow, all bool
	cmd := &cobra.Command{
		Use: "events", GroupID: command.GroupWatch, Short: "Show the log of events",
		Long: `Shows events of the server's log in order: by default the last ones, with --after
those that follow a sequence number. Every decision is in it, with its reason. Times
are UTC and on the server's clock: what a host reported shows the time at which the server
committed it (received in -o json, where at is on the host's clock).

Records that hosts signed their events so far, and steps that change nothing, are left
out unless --all is given; -o json has everything.`,
		Example: "  steady events\n  steady events -f\n  steady events --rollout stable@v2 --limit 500\n  steady events --about host/web-1 -o json\n  steady events --type 'rollout.*' --actor ann",
	}
	lines := a.PrintsLines(cmd)
	f := cmd.Flags()
	f.BoolVar(&all, "all", false, "what moves nothing as well")
	f.BoolVarP(&follow, "follow", "f", false, "go on with new events until interrupted")
	f.Uint64Var(&q.After, "after", 0, "begin after this sequence number")
	f.IntVar(&q.Limit, "limit", 100, "how many events, 1 to 1000")
	about := f.StringSlice("about", nil, "only events about KIND/NAME; given again, only what concerns all of them; kinds: "+strings.Join(event.Kinds(), ", "))
	f.StringSliceVar(&q.Types, "type", nil, "only events of this type, or of a group such as 'rollout.*'; given again, of any of them")
	f.StringVar(&q.Actor, "actor", "", "only events that this operator, or part of the server, decided on")
	host := f.String("host", "", "only events about this host: --about host/NAME")
	rollout := f.String("rollout", "", "only events about this rollout: --about rollout/NAME")
	command.Complete(cmd, "about", kinds...)
	return a.Stream(cmd, func(ctx context.Context, c *operator.Client, _ []string) error {
		if q.Limit < 1 || q.Limit > 1000 {
			return exit.Badf("--limit %d: expected 1 to 1000", q.Limit)
		}
		var err error
		for _, name := range []string{"about", "type", "actor", "host", "rollout"} {
			if f.Changed(name) && strings.Trim(f.Lookup(name).Value.String(), "[]") == "" {
				return exit.Badf("--%s is empty: leave it out for the events about everything", name)
			}
		}
		if q.About, err = subjects(*about, *host, *rollout); err != nil {
			return err
		}
		show := watch.Printer(a.Out)
		if !all {
			show = watch.Moving(show)
		}
		if lines() {
			show = func(e operator.Event) error { return term.Line(a.Out, e) }
		}
		return a.events(ctx, c, q, follow, show)
	})
}

// kinds completes what events are about.
var kinds = prefixes(event.Kinds())

func prefixes(kinds []string) []string {
	out := make([]string, len(kinds))
	for i, k := range kinds {
		out[i] = k + "/"
	}
	return out
}

// subjects reads what events are to be about.
func subjects(about []string, host, rollout string) ([]event.Subject, error) {
	if host != "" {
		about = append(about, event.KindHost+"/"+host)
	}
	if rollout != "" {
		about = append(about, event.KindRollout+"/"+rollout)
	}
	var out []event.Subject
	for _, a := range about {
		s, err := event.ParseSubject(a)
		if err != nil {
			return nil, exit.Badf("--about: %v", err)
		}
		out = append(out, s)
	}
	return out, nil
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
	return watch.Follow(ctx, c, q, show)
}

func (a verbs) quarantineCmd() *cobra.Command {
	list := &cobra.Command{Use: "list", Short: "List the quarantined bundles, which no host is given", Example: "  steady quarantine list"}
	command.Lists(a.Env, list, func(ctx context.Context, c *operator.Client, _ []string) ([]operator.QuarantineRow, error) {
		return c.Quarantine(ctx)
	},
		[]string{"channel", "bundle", "reason"}, func(r operator.QuarantineRow) []string {
			return []string{r.Channel, command.Short(string(r.Bundle)), r.Reason}
		})
	var reason string
	drop := &cobra.Command{
		Use: "clear CHANNEL BUNDLE", Short: "Allow a bundle again on a channel",
		Long: `Allows a quarantined bundle again on a channel. BUNDLE is its digest or the first 12
digits. With --sign also what an operator quarantined by signature, and on hosts that
refuse the bundle by themselves because it failed there.`,
		Example: "  steady quarantine clear stable 3fa9c1d20b7e --reason 'the database was down'",
	}
	drop.Flags().StringVar(&reason, "reason", command.NoReason, "why, for the log")
	var sign Flags
	sign.Add(drop)
	a.Talk(drop, func(ctx context.Context, c *operator.Client, args []string) error {
		if sign.Keys != "" {
			return a.unquarantine(ctx, c, sign, args[0], args[1], reason)
		}
		if err := c.ClearQuarantine(ctx, args[0], args[1], reason); err != nil {
			return err
		}
		a.Printf("Bundle %s is no longer quarantined on channel %s\n", args[1], args[0])
		return nil
	})
	return command.Group(command.GroupWatch, "quarantine", "List, add and clear quarantined bundles",
		"  steady quarantine list\n  steady quarantine add stable 3fa9c1d20b7e --reason 'CVE-2031-1234'\n  steady quarantine clear stable 3fa9c1d20b7e", list, a.quarantineAdd(), drop)
}

func (a verbs) reconcileCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use: "reconcile", GroupID: command.GroupWatch, Short: "Evaluate every rollout and host now instead of at the next tick",
		Example: "  steady reconcile",
	}
	return a.Talk(cmd, func(ctx context.Context, c *operator.Client, _ []string) error {
		if err := c.Reconcile(ctx); err != nil {
			return err
		}
		a.Printf("Every rollout and host was evaluated again; steady why HOST shows what blocks one\n")
		return nil
	})
}
