// Package hosts holds the verbs on single hosts: what stands on them, what they
// measure, and how they are tuned.
package hosts

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/steadyfleet/steady/internal/api/operator"
	"github.com/steadyfleet/steady/internal/cli/command"
	"github.com/steadyfleet/steady/internal/cli/exit"
	"github.com/steadyfleet/steady/internal/cli/settle"
	"github.com/steadyfleet/steady/internal/cli/term"
	"github.com/steadyfleet/steady/internal/core/clock"
)

// verbs is one run of the command line.
type verbs struct{ *command.Env }

// Verbs returns the commands below host.
func Verbs(e *command.Env) []*cobra.Command {
	a := verbs{e}
	return []*cobra.Command{a.resourcesCmd(), a.metricsCmd(), a.setCmd(), a.switchCmd(true), a.switchCmd(false), a.freezeCmd(), a.unfreezeCmd(), a.pruneCmd(), a.revokeCmd(), a.decommissionCmd()}
}

func (a verbs) resourcesCmd() *cobra.Command {
	var watch bool
	cmd := &cobra.Command{
		Use: "resources HOST", Short: "List the container resources of a host and where each stands",
		Long: `Lists the networks, volumes, images, workspaces, snapshots and routes of a host:
those of its bundle and those of its managed layer. With --watch the list follows
what the host reports, redrawn in place on a terminal and as a line for each
change elsewhere.`,
		Example: "  steady host resources gpu-1\n  steady host resources gpu-1 --watch\n  steady host resources gpu-1 -o json",
		Args:    exit.Args(cobra.ExactArgs(1)),
	}
	cmd.Flags().BoolVarP(&watch, "watch", "w", false, "follow what the host reports until interrupted")
	return a.HostNames(a.PrintsData(a.Stream(cmd, func(ctx context.Context, c *operator.Client, args []string) error {
		if watch {
			return a.watch(ctx, c, args[0])
		}
		r, err := c.Resources(ctx, args[0])
		if err != nil {
			return err
		}
		return a.Print(r, func() error { return a.show(r) })
	})))
}

func (a verbs) show(r operator.HostResources) error {
	lines, err := a.lines(r)
	if err != nil {
		return err
	}
	width := term.Of(a.Out, a.Getenv).Width
	for _, line := range lines {
		a.Say("%s\n", term.Cut(line, width))
	}
	return nil
}

// lines is the table with what there is to say beside it.
func (a verbs) lines(r operator.HostResources) ([]string, error) {
	var lines []string
	if r.Settings.Enabled != nil && !*r.Settings.Enabled {
		lines = append(lines, "Host "+r.Host+" is disabled: its workspaces are stopped. Next: steady host enable "+r.Host)
	}
	if len(r.Resources) == 0 {
		lines = append(lines, "Host "+r.Host+" has no container resources")
		if r.Delegation == nil || len(r.Delegation.Kinds) == 0 {
			return append(lines, "It leaves none to the server; bundles of a release declare them"), nil
		}
		return append(lines, "It leaves these kinds to the server: "+strings.Join(r.Delegation.Kinds, ", ")+". Next: steady apply -f FILE "+r.Host), nil
	}
	screen := term.Of(a.Out, a.Getenv)
	var rows [][]string
	for _, x := range r.Resources {
		rows = append(rows, []string{x.Kind + "/" + x.Name, stateOf(x), x.Layer, sinceOf(x, a.Wall()), detailOf(x)})
	}
	table, err := term.Lines([]string{"resource", "state", "layer", "since", "detail"}, rows)
	if err != nil {
		return nil, err
	}
	for i, x := range r.Resources {
		state := stateOf(x)
		table[i+1] = strings.Replace(table[i+1], "  "+state, "  "+screen.Paint(settle.Color(x.State), state), 1)
	}
	lines = append(lines, table...)
	if r.Dropped > 0 {
		lines = append(lines, fmt.Sprintf("%d reports of more resources were not kept", r.Dropped))
	}
	return lines, nil
}

func stateOf(x operator.Resource) string {
	state := cmp.Or(x.State, "not reported")
	if !x.Declared {
		state += ", on its way out"
	}
	return state
}

// sinceOf is how long ago a state was reported. The host's clock is its own; one
// that is ahead shows as now.
func sinceOf(x operator.Resource, now clock.Instant) string {
	if x.Since == 0 {
		return ""
	}
	return Age(now.Sub(x.Since))
}

// Age is a time that has passed, in its two largest units.
func Age(d clock.Duration) string {
	d = max(d/clock.Second, 0)
	units := []struct {
		size clock.Duration
		name string
	}{{24 * 3600, "d"}, {3600, "h"}, {60, "m"}, {1, "s"}}
	for i, u := range units {
		if d < u.size {
			continue
		}
		s := fmt.Sprintf("%d%s", d/u.size, u.name)
		if i+1 < len(units) {
			if rest := d % u.size / units[i+1].size; rest > 0 {
				s += fmt.Sprintf("%d%s", rest, units[i+1].name)
			}
		}
		return s
	}
	return "0s"
}

func detailOf(x operator.Resource) string {
	if len(x.Differences) == 0 {
		return x.Message
	}
	fields := make([]string, 0, len(x.Differences))
	for _, d := range x.Differences {
		fields = append(fields, d.Field)
	}
	slices.Sort(fields)
	return strings.TrimPrefix(x.Message+"; differs in "+strings.Join(fields, ", "), "; ")
}
