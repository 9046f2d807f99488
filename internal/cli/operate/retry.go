package operate

import (
	"context"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/steadyfleet/steady/internal/api/operator"
	"github.com/steadyfleet/steady/internal/cli/command"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/prose"
)

func (a verbs) retry() *cobra.Command {
	var sign Flags
	cmd := &cobra.Command{
		Use: "retry ROLLOUT", Short: "Try the same release again, once the cause of its failures is mended",
		Long: `Tries a rollout again that is halted, reverted or cancelled, or that left hosts behind
which failed, when the cause was not in the release: a registry or a database was
down. Failures so far count no more, its bundles are allowed again on the channel, and
waves open again from the first one with a host that failed, under the same soak,
budgets and limits.

A host that went back quarantined the bundle itself, and no token ends that: such hosts
are listed, and take it once the retry is signed with --sign. What was stopped by
signature takes a signed retry too.`,
		Example: "  steady rollout retry stable@v2 --reason 'the registry is back'\n  steady rollout retry stable@v2 --sign keys --reason 'the registry is back'",
	}
	reason := command.RequiresReason(cmd)
	sign.Add(cmd)
	return a.RolloutNames(command.Shows(a.Env, cmd, func(ctx context.Context, c *operator.Client, args []string) (operator.Retried, error) {
		if sign.Keys != "" {
			return a.signRetry(ctx, c, sign, args[0], *reason)
		}
		return c.Retry(ctx, args[0], *reason)
	}, a.showRetried))
}

// signRetry signs it, and says what came of it on the server.
func (a verbs) signRetry(ctx context.Context, c *operator.Client, f Flags, id, reason string) (r operator.Retried, err error) {
	o, err := OnRollout(ctx, c, fleet.OverrideRetry, id, reason)
	if err != nil {
		return r, err
	}
	before, err := c.Rollout(ctx, string(o.Manifest))
	if err != nil {
		return r, err
	}
	p, err := Push(ctx, a.Env, c, f, o)
	if err != nil {
		return r, err
	}
	after, err := c.Rollout(ctx, string(o.Manifest))
	if err != nil {
		return r, err
	}
	r = operator.Retried{Rollout: after.Name, Override: p.ID}
	for _, w := range after.Waves {
		if w.Open {
			r.WaveName = w.Name
		}
	}
	for _, m := range before.Members {
		if slices.Contains([]string{"failed", "reverted", "refused"}, m.Status) {
			r.Hosts = append(r.Hosts, m.Host)
		}
	}
	return r, nil
}

func (a verbs) showRetried(r operator.Retried) error {
	by := ""
	if r.Override != "" {
		by = ", by override " + r.Override
	}
	a.Printf("Rollout %s is tried again from wave %s%s\n", r.Rollout, r.WaveName, by)
	if len(r.Hosts) > 0 {
		a.Printf("May take it again: %s\n", strings.Join(r.Hosts, ", "))
	}
	if n := len(r.Refusing); n > 0 {
		a.Printf("%s it, having gone back from it: %s\n", prose.Verb(n, "Refuses", "Refuse"), strings.Join(r.Refusing, ", "))
		a.Printf("Next: steady rollout retry %s --sign KEYS --reason R has %s accept it\n", r.Rollout, prose.Verb(n, "it", "them"))
		return nil
	}
	a.Printf("Next: steady rollout watch %s\n", r.Rollout)
	return nil
}
