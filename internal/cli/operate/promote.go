package operate

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/steadyfleet/steady/internal/api/operator"
	"github.com/steadyfleet/steady/internal/cli/command"
	"github.com/steadyfleet/steady/internal/cli/exit"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/fleet"
)

func (a verbs) promoteCmd() *cobra.Command {
	var wave string
	cmd := &cobra.Command{
		Use: "promote ROLLOUT", Short: "Open the next wave without the evidence that the gate waits for",
		Long: `Opens the next wave although the open one is blocked: missing evidence, and hosts
that wait for a gate, are accepted by your decision, which the log keeps. Refused
while hosts are in flight, while failures exceed the policy, and while the rollout
is paused, halted or on its way back. On the last wave the rollout ends as
converged, and hosts that it left waiting are served after it.

The wave that is meant is the open one as you see it now, or --wave: should it be
promoted by itself in between, nothing else is. With --sign the word outlives the
server: a new one that takes the same release lets that wave pass as well.`,
		Example: "  steady rollout promote stable@v2 --reason 'canary-2 is in repair'\n  steady rollout promote stable@v2 --wave canary --reason 'lab is closed'",
	}
	cmd.Flags().StringVar(&wave, "wave", "", "the wave that is meant (default: the open one)")
	reason := command.RequiresReason(cmd)
	var sign Flags
	sign.Add(cmd)
	return a.RolloutNames(a.Talk(cmd, func(ctx context.Context, c *operator.Client, args []string) error {
		if wave == "" {
			r, err := c.Rollout(ctx, args[0])
			if err != nil {
				return err
			}
			for _, w := range r.Waves {
				if w.Open {
					wave = w.Name
				}
			}
			if wave == "" {
				return exit.Badf("rollout %s is %s and has no open wave", r.Name, r.Status)
			}
			for _, b := range r.WaveBlocks {
				a.Printf("Held: %s\n", b.Message)
			}
		}
		if sign.Keys != "" {
			return a.signPromotion(ctx, c, sign, args[0], wave, *reason)
		}
		if err := c.Promote(ctx, args[0], wave, *reason); err != nil {
			return err
		}
		a.Printf("Wave %s of %s is promoted, as you decided; the log says so\n", wave, args[0])
		return nil
	}))
}

// signPromotion signs that a wave passes.
func (a verbs) signPromotion(ctx context.Context, c *operator.Client, f Flags, id, wave, reason string) error {
	o, err := OnRollout(ctx, c, fleet.OverridePromote, id, reason)
	if err != nil {
		return err
	}
	o.Wave = wave
	p, err := Push(ctx, a.Env, c, f, o)
	if err != nil {
		return err
	}
	a.Printf("Wave %s of %s is promoted by override %s\n", wave, o.Rollout, p.ID)
	return nil
}

func (a verbs) quarantineAdd() *cobra.Command {
	cmd := &cobra.Command{
		Use: "add CHANNEL BUNDLE", Short: "Refuse a bundle on a channel before it fails",
		Long: `Refuses a bundle on a channel: it is granted to no host, and what was offered of it
is withdrawn. Hosts that run it keep it. BUNDLE is its digest, or the first 12
digits of one that a rollout of the channel targets. With --sign, which takes the
whole digest, hosts refuse it whoever controls the server.`,
		Example: "  steady quarantine add stable 3fa9c1d20b7e --reason 'CVE-2031-1234'\n  steady quarantine add stable sha256:3fa9... --sign keys --reason 'CVE-2031-1234'",
	}
	reason := command.RequiresReason(cmd)
	var sign Flags
	sign.Add(cmd)
	return a.Talk(cmd, func(ctx context.Context, c *operator.Client, args []string) error {
		if sign.Keys != "" {
			return a.signQuarantine(ctx, c, sign, args[0], args[1], *reason)
		}
		if err := c.AddQuarantine(ctx, args[0], args[1], *reason); err != nil {
			return err
		}
		a.Printf("Bundle %s is granted no more on channel %s. Next: push a release with another bundle, or steady quarantine clear %s %s\n",
			args[1], args[0], args[0], args[1])
		return nil
	})
}

// signQuarantine signs that a bundle is refused. Its digest is given whole: what
// is signed does not rest on what a server says that the digits stand for.
func (a verbs) signQuarantine(ctx context.Context, c *operator.Client, f Flags, channel, bundle, reason string) error {
	d, err := digest.Parse(bundle)
	if err != nil {
		return exit.Badf("with --sign a bundle is named by its whole digest: %w", err)
	}
	p, err := Push(ctx, a.Env, c, f, fleet.Override{Action: fleet.OverrideQuarantine, Channel: channel, Bundle: d, Reason: reason})
	if err != nil {
		return err
	}
	a.Printf("Bundle %s is granted no more on channel %s, by override %s. Next: push a release with another bundle, or steady quarantine clear %s %s --sign KEYS\n",
		d.Short(), channel, p.ID, channel, d.Short())
	return nil
}

func (a verbs) rollback() *cobra.Command {
	var f Flags
	cmd := &cobra.Command{
		Use: "rollback ROLLOUT", Short: "Send every host of a rollout back to where it came from",
		Long: `Signs an override that sends every host which took part in a rollout back to the
bundle that it came from, and brings it to the server. Hosts go back within the
disruption budgets, those that are away as they return; the rollout ends reverted.
Hosts believe the signature, and no server can order this without it. A rollout that
has converged is over: go back from it with steady release rollback.`,
		Example: "  steady rollout rollback stable@v2 --reason 'wrong prices'\n  steady rollout rollback stable@v2 --keys /media/usb/keys --save overrides/stable-v2.json",
	}
	reason := command.RequiresReason(cmd)
	f.AddRequired(cmd)
	return a.RolloutNames(a.Talk(cmd, func(ctx context.Context, c *operator.Client, args []string) error {
		return a.override(ctx, c, f, fleet.OverrideRollback, args[0], *reason)
	}))
}

// override signs a verb on a rollout and says where the rollout stands then.
func (a verbs) override(ctx context.Context, c *operator.Client, f Flags, action fleet.OverrideAction, id, reason string) error {
	o, err := OnRollout(ctx, c, action, id, reason)
	if err != nil {
		return err
	}
	p, err := Push(ctx, a.Env, c, f, o)
	if err != nil {
		return err
	}
	r, err := c.Rollout(ctx, string(o.Manifest))
	if err != nil {
		return err
	}
	a.Printf("Rollout %s: %s, by override %s\n", r.Name, r.Status, p.ID)
	return nil
}

// unquarantine signs that a bundle may be granted again. Its digest may be
// shortened if the server lists it.
func (a verbs) unquarantine(ctx context.Context, c *operator.Client, f Flags, channel, bundle, reason string) error {
	d, err := digest.Parse(bundle)
	if err != nil {
		rows, listed := c.Quarantine(ctx)
		if listed != nil {
			return listed
		}
		for _, r := range rows {
			if r.Channel == channel && r.Bundle.Short() == bundle {
				d = r.Bundle
			}
		}
	}
	if d == "" {
		return exit.Badf("bundle %s is not quarantined on channel %s; give its whole digest to clear it on hosts alone", bundle, channel)
	}
	p, err := Push(ctx, a.Env, c, f, fleet.Override{Action: fleet.OverrideUnquarantine, Channel: channel, Bundle: d, Reason: reason})
	if err != nil {
		return err
	}
	a.Printf("Bundle %s is no longer quarantined on channel %s, by override %s\n", d.Short(), channel, p.ID)
	return nil
}
