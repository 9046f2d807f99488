// Package apply holds the commands that bring a file of resources to the managed
// layers of hosts: apply sets them, plan shows before what that would do. It reads
// what people write of them, one by one or as a Compose file, and writes a resource
// as people edit it.
package apply

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/steadyfleet/steady/internal/api/operator"
	"github.com/steadyfleet/steady/internal/cli/command"
	"github.com/steadyfleet/steady/internal/cli/exit"
	"github.com/steadyfleet/steady/internal/cli/watch"
	"github.com/steadyfleet/steady/internal/core/clock"
)

type verbs struct{ *command.Env }

// Verbs returns the commands.
func Verbs(e *command.Env) []*cobra.Command {
	a := verbs{e}
	return []*cobra.Command{a.applyCmd(), a.planCmd(), a.removeCmd()}
}

const fileHelp = `The file holds resources of the managed layer as YAML or JSON documents, each with
kind, name, spec, and host unless HOST is given:

  kind: Workspace
  host: gpu-1
  name: web
  spec:
    image: web
    ports: [{hostPort: 8080, port: 80, protocol: tcp}]

or it is a Compose file, for HOST. Durations may be written as 10s and sizes as
512m. - reads from standard input.`

type applyOptions struct {
	source
	prune, yes, allowMass bool
	reason                *string
	keys                  string
	end                   End
	watch.WaitFlags
}

func (a verbs) applyCmd() *cobra.Command {
	var o applyOptions
	cmd := &cobra.Command{
		Use: "apply -f FILE [HOST]", GroupID: command.GroupWatch, Short: "Set the resources of a file in the managed layer of hosts",
		Long: `Sets resources in the managed layer of hosts, what others need first. Nothing is
set when anything in the file is wrong. A host takes only kinds that its signed
declaration leaves to the server; a refusal says which line of fleet.yaml would.

` + fileHelp,
		Example: "  steady apply -f web.yaml --wait\n  steady apply -f compose.yaml gpu-1\n  steady apply -f web.yaml --prune --yes\n  steady apply -f lab.yaml --not-after 8h",
	}
	o.add(a, cmd)
	f := cmd.Flags()
	f.BoolVar(&o.prune, "prune", false, "remove what operators set in the managed layers of these hosts and the file does not name")
	f.BoolVarP(&o.yes, "yes", "y", false, "do not ask before removing")
	f.BoolVar(&o.allowMass, "allow-mass-change", false, "consent to removing many resources at once")
	f.StringVar(&o.keys, "sign", "", "sign every resource with the override key of this folder, an operator's own where there are several, for hosts whose bounds have requireSigned")
	o.end.Add(cmd)
	o.reason = command.RequiresReason(cmd)
	o.WaitFlags.Add(cmd)
	return a.HostNames(a.PrintsData(a.Stream(cmd, func(ctx context.Context, c *operator.Client, _ []string) error {
		return a.apply(ctx, c, o)
	})))
}

func (a verbs) apply(ctx context.Context, c *operator.Client, o applyOptions) error {
	end, err := o.end.At(a.Wall())
	if err != nil {
		return err
	}
	var prune []Resource
	if o.prune {
		if prune, _, err = surplus(ctx, c, o.list); err != nil {
			return err
		}
		if err := a.consent(prune, o.yes); err != nil {
			return err
		}
	}
	return Change(ctx, a.Env, c, *o.reason, o.WaitFlags, func(s *Changes) (err error) {
		if o.keys != "" {
			if s.sealer, err = newSealer(o.keys, a.Wall()); err != nil {
				return err
			}
		}
		s.NotAfter = end
		for _, r := range o.list {
			if _, err := s.Set(ctx, r); err != nil {
				return err
			}
		}
		return s.removeAll(ctx, prune, o.allowMass)
	})
}

// End is the flag for when hosts end what is set.
type End struct{ text string }

// Add gives a command the flag.
func (e *End) Add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&e.text, "not-after", "", "when hosts end what is set, also cut off: in a while, such as 8h, or at an instant, such as 2031-05-01T18:00:00Z (default: never)")
}

// At reads it: after a while, or at an instant; nothing is never, which is 0.
func (e *End) At(now clock.Instant) (clock.Instant, error) {
	text := e.text
	if text == "" {
		return 0, nil
	}
	if d, err := clock.ParseDuration(text); err == nil && d > 0 {
		return now.Add(d), nil
	}
	t, err := time.Parse(time.RFC3339, text)
	if err != nil || !now.Time().Before(t) {
		return 0, exit.Badf("--not-after %s: expected a duration such as 8h, or an instant to come such as 2031-05-01T18:00:00Z", text)
	}
	return clock.FromTime(t), nil
}
