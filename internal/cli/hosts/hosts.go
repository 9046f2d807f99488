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
	"github.com/steadyfleet/steady/internal/cli/term"
	"github.com/steadyfleet/steady/internal/cli/watch"
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/prose"
	"github.com/steadyfleet/steady/internal/core/spec"
	"github.com/steadyfleet/steady/reconcile/engine"
)

type verbs struct{ *command.Env }

// Verbs returns the commands below host.
func Verbs(e *command.Env) []*cobra.Command {
	a := verbs{e}
	return []*cobra.Command{a.resourcesCmd(), a.retryCmd(), a.metricsCmd(), a.setCmd(), a.switchCmd(true), a.switchCmd(false), a.freezeCmd(), a.unfreezeCmd(), a.pruneCmd(), a.revokeCmd(), a.decommissionCmd()}
}

func (a verbs) resourcesCmd() *cobra.Command {
	var watch bool
	cmd := &cobra.Command{
		Use: "resources HOST", Short: "List the resources of a host and the status of each",
		Long: `Lists the networks, volumes, images, workspaces, snapshots, routes, files and system
steps of a host: those of the bundle that it runs, those of its managed layer, and
what is left over. TRIES is how often the host tried in vain, and how long after its
report it tries again by itself; steady host retry does not wait for that.
With --watch the list follows
what the host reports, redrawn in place on a terminal and as a line for each
change elsewhere.`,
		Example: "  steady host resources gpu-1\n  steady host resources gpu-1 --watch\n  steady host resources gpu-1 -o json",
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
	for _, line := range a.lines(r) {
		a.Printf("%s\n", line)
	}
	return nil
}

// lines is the table with what there is to say beside it.
func (a verbs) lines(r operator.HostResources) []string {
	var lines []string
	if r.Settings.Enabled != nil && !*r.Settings.Enabled {
		lines = append(lines, "Host "+r.Host+" is disabled: its workspaces are stopped. Next: steady host enable "+r.Host)
	}
	if !slices.ContainsFunc(r.Resources, func(x operator.Resource) bool { return slices.Contains(spec.Kinds, x.Kind) }) {
		lines = append(lines, "Host "+r.Host+" has no container resources")
		if r.Delegation == nil || len(r.Delegation.Kinds) == 0 {
			lines = append(lines, "It leaves none to the server; bundles of a release declare them")
		} else {
			lines = append(lines, "It leaves these kinds to the server: "+strings.Join(r.Delegation.Kinds, ", ")+". Next: steady apply -f FILE "+r.Host)
		}
	}
	if len(r.Resources) == 0 {
		return lines
	}
	var rows [][]string
	for _, x := range r.Resources {
		rows = append(rows, []string{x.Kind + "/" + x.Name, stateOf(x), command.LayerOf(x), sinceOf(x, a.Wall()), triesOf(x), detailOf(x)})
	}
	table := term.Grid{Header: []string{"resource", "state", "layer", "since", "tries", "detail"}, Rows: rows, Paint: func(row, column int) term.Color {
		if column != 1 {
			return ""
		}
		return watch.StateColor(r.Resources[row].State)
	}}
	lines = append(lines, table.Lines(a.Screen())...)
	if r.Dropped > 0 {
		lines = append(lines, fmt.Sprintf("%d reports of more resources were not kept", r.Dropped))
	}
	return lines
}

func stateOf(x operator.Resource) string {
	state := cmp.Or(x.State, "not reported")
	switch {
	case x.Declared, x.State == string(spec.Undeclared):
	case x.Next:
		state = cmp.Or(x.State, "not there yet") + ", of the next bundle"
	case x.Phase == engine.Deleting || x.State == string(spec.Stopping) || x.State == string(spec.Removing):
		state += ", being removed"
	default:
		state += ", left over"
	}
	return state
}

// sinceOf is how long ago a state was reported. The host's clock is its own; one
// that is ahead shows as now.
func sinceOf(x operator.Resource, now clock.Instant) string {
	if x.Since == 0 {
		return ""
	}
	return prose.Span(now.Sub(x.Since))
}

// triesOf is how often the host tried in vain, and when it tries again. Both times
// are on its clock.
func triesOf(x operator.Resource) string {
	if x.Attempts == 0 && x.NextAttempt == 0 {
		return ""
	}
	s := fmt.Sprint(x.Attempts)
	if x.NextAttempt > x.Since && x.Since != 0 {
		s += ", again " + prose.Span(x.NextAttempt.Sub(x.Since)) + " after"
	}
	return s
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
