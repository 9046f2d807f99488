package operate

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/steadyfleet/steady/internal/api/operator"
	"github.com/steadyfleet/steady/internal/cli/command"
	"github.com/steadyfleet/steady/internal/cli/exit"
	"github.com/steadyfleet/steady/internal/cli/term"
	"github.com/steadyfleet/steady/internal/cli/watch"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/plan"
	"github.com/steadyfleet/steady/internal/core/prose"
)

func (a verbs) rolloutCmd() *cobra.Command {
	return command.Group(command.GroupWatch, "rollout", "List, watch and steer rollouts",
		"  steady rollout list\n  steady rollout watch stable@v2\n  steady rollout pause stable@v2 --reason 'incident 7'",
		a.rolloutList(), a.rolloutShow(), a.rolloutWatch(), a.rolloutEvents(),
		a.steer(plan.Pause, "Give out no new grants until resumed; what runs goes on"),
		a.steer(plan.Resume, "End a pause, or a halt with its failures acknowledged"),
		a.promoteCmd(), a.retry(),
		a.cancelCmd(),
		a.rollback())
}

func (a verbs) rolloutList() *cobra.Command {
	var all bool
	cmd := &cobra.Command{Use: "list", Short: "List the rollouts, newest first", Example: "  steady rollout list\n  steady rollout list --all -o json"}
	cmd.Flags().BoolVar(&all, "all", false, "those that are pruned as well")
	return command.Shows(a.Env, cmd, func(ctx context.Context, c *operator.Client, _ []string) ([]operator.Rollout, error) {
		list := c.Rollouts
		if all {
			list = c.AllRollouts
		}
		rollouts, err := list(ctx)
		return command.NonNil(rollouts), err
	}, func(rollouts []operator.Rollout) error {
		var rows [][]string
		for _, r := range rollouts {
			rows = append(rows, []string{r.Name, r.Status, a.ago(r.OpenedAt), ended(a, r), blocked(r)})
		}
		if err := a.Table([]string{"rollout", "status", "opened", "ended", "reason"}, rows); err != nil {
			return err
		}
		a.showLegend(rollouts)
		return nil
	})
}

// ended is when a rollout ended, or empty while it has not.
func ended(a verbs, r operator.Rollout) string {
	if r.EndedAt == 0 {
		return ""
	}
	return a.ago(r.EndedAt)
}

func (a verbs) rolloutShow() *cobra.Command {
	cmd := &cobra.Command{Use: "show ROLLOUT", Short: "Show a rollout with its waves and hosts", Example: "  steady rollout show stable@v2"}
	return a.RolloutNames(command.Shows(a.Env, cmd, func(ctx context.Context, c *operator.Client, args []string) (operator.RolloutDetail, error) {
		return c.Rollout(ctx, args[0])
	}, a.showRollout))
}

func (a verbs) showRollout(r operator.RolloutDetail) error {
	a.Printf("Rollout %s: %s\n", r.Name, r.Status)
	if why := blocked(r.Rollout); why != "" {
		a.Printf("  %s\n", why)
	}
	a.Printf("  opened %s, %smanifest %s\n", a.ago(r.OpenedAt), prose.Format("[ended %s, ]", ended(a, r.Rollout)), r.Manifest)
	for _, b := range r.WaveBlocks {
		a.showGates([]plan.Gate{{Gate: b.Code, Block: b}}, true)
		a.Printf("    waits for %s; cleared by %s\n", b.WaitsFor, b.ClearedBy)
	}
	if r.Step != nil {
		a.PrintFolded("  next: %s\n", r.Step.Message)
	}
	if len(r.Next) > 0 {
		var names []string
		for _, next := range r.Next {
			names = append(names, next.Host)
		}
		a.PrintFolded("  next in line: %s\n", strings.Join(names, ", "))
	}
	if verbs := possible(r.Verbs); verbs != "" {
		a.PrintFolded("  verbs: steady rollout %s %s\n", verbs, r.Name)
	}
	if r.AsOf != nil {
		a.Printf("  waves and hosts as they were when it ended, %s; now they are in what followed\n", a.when(r.AsOf.At))
	}
	if len(r.Waves) > 0 {
		var rows [][]string
		for _, w := range r.Waves {
			rows = append(rows, []string{w.Name, w.State, w.Soak.String(), fmt.Sprint(w.Hosts), counts(w), fmt.Sprint(w.Failures), fmt.Sprint(w.Offline)})
		}
		if err := a.Table([]string{"wave", "state", "soak", "hosts", "by state", "failures", "offline"}, rows); err != nil {
			return err
		}
	}
	if len(r.Members) == 0 {
		return nil
	}
	var rows [][]string
	shown, left := notable(r.Members)
	for _, m := range shown {
		wave := fmt.Sprint(m.Wave)
		if m.Wave < len(r.Waves) {
			wave = r.Waves[m.Wave].Name
		}
		state := string(m.State)
		if m.Skipped {
			state += ", skipped"
		}
		rows = append(rows, []string{m.Host, wave, state, presence(m.Presence, m.FrozenUntil)})
	}
	if len(rows) > 0 {
		if err := a.Table([]string{"host", "wave", "state", "presence"}, rows); err != nil {
			return err
		}
	}
	if left > 0 {
		a.Printf("%s %s only counted above; -o json lists them all\n", prose.Count(left, "more host"), prose.Verb(left, "is", "are"))
	}
	return nil
}

// possible names the verbs that can be carried out.
func possible(verbs []plan.VerbState) string {
	var names []string
	for _, v := range verbs {
		if v.Possible {
			names = append(names, string(v.Verb))
		}
	}
	return prose.Either(names)
}

const maxMembers = 50

// notable picks the hosts of a table: all of a small rollout, and of a large one
// those that are neither waiting nor done. It also returns how many are left out.
func notable(members []operator.Member) (shown []operator.Member, left int) {
	if len(members) <= maxMembers {
		return members, 0
	}
	for _, m := range members {
		switch m.Status {
		case "waiting", "converged", "at-target", "ahead":
			continue
		}
		if len(shown) < maxMembers {
			shown = append(shown, m)
		}
	}
	return shown, len(members) - len(shown)
}

// blocked is what there is to say of a rollout: what holds it, or why it is where
// it is.
func blocked(r operator.Rollout) string {
	if r.Status == operator.Queued {
		return strings.TrimSuffix("waits since "+prose.Date(r.QueuedAt)+": "+r.Blocked, ": ")
	}
	if r.EndedAt != 0 || r.Blocked == "" {
		return r.Reason
	}
	return r.Blocked
}

func counts(w operator.Wave) string {
	var parts []string
	for state, n := range w.States {
		if n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, state))
		}
	}
	slices.Sort(parts)
	return strings.Join(parts, ", ")
}

func (a verbs) cancelCmd() *cobra.Command {
	var yes bool
	cmd := a.steer(plan.Cancel, "End a rollout for good; hosts keep what they run", func(ctx context.Context, c *operator.Client, id string) error {
		return a.consentToCancel(ctx, c, id, yes)
	})
	cmd.Long = `Ends a rollout for good; hosts keep what they run. A channel that waited for it, in its
queue or by channelEdges, opens its next rollout then. Quarantine is by channel: where a
bundle that opens so is quarantined on another channel, the command says so and asks
first; without a terminal it needs --yes.`
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask when bundles that failed on another channel are given out next")
	return cmd
}

// consentToCancel prints the rollouts that a cancel opens, and asks where a bundle of theirs is quarantined.
func (a verbs) consentToCancel(ctx context.Context, c *operator.Client, id string, yes bool) error {
	r, err := c.Rollout(ctx, id)
	if err != nil {
		return err
	}
	var failed []string
	for _, o := range r.CancelOpens {
		a.Printf("Opens next: %s\n", o.Rollout)
		for _, e := range o.Failed {
			words := fmt.Sprintf("bundle %s, for %s, is quarantined on channel %s: %s", e.Bundle.Short(), prose.Names(e.Hosts, maxNamed), e.On, e.Reason)
			a.PrintFolded("  %s\n", words)
			failed = append(failed, o.Rollout)
		}
	}
	if len(failed) == 0 || yes {
		return nil
	}
	slices.Sort(failed)
	opens := strings.Join(slices.Compact(failed), ", ")
	err = a.Confirm("Cancel "+r.Name+" and have "+opens+" give that out", "a cancel of "+r.Name+" has "+opens+" give out what is quarantined on channel "+r.Channel, "--yes")
	if err != nil {
		return fmt.Errorf("%w; or push a fixed release first, which replaces both", err)
	}
	return nil
}

// maxNamed is how many hosts a line names.
const maxNamed = 5

func (a verbs) steer(verb plan.Verb, short string, before ...func(ctx context.Context, c *operator.Client, id string) error) *cobra.Command {
	var reason string
	var sign Flags
	cmd := &cobra.Command{
		Use: string(verb) + " ROLLOUT", Short: short,
		Example: fmt.Sprintf("  steady rollout %[1]s stable@v2 --reason 'incident 7'\n  steady rollout %[1]s stable@v2 --sign keys", verb),
	}
	cmd.Flags().StringVar(&reason, "reason", command.NoReason, "why, for the log")
	sign.Add(cmd)
	return a.RolloutNames(a.Talk(cmd, func(ctx context.Context, c *operator.Client, args []string) error {
		for _, asks := range before {
			if err := asks(ctx, c, args[0]); err != nil {
				return err
			}
		}
		if sign.Keys != "" {
			return a.override(ctx, c, sign, fleet.OverrideAction(verb), args[0], reason)
		}
		if err := c.Operate(ctx, verb, args[0], reason); err != nil {
			return err
		}
		r, err := c.Rollout(ctx, args[0])
		if err != nil {
			return err
		}
		a.Printf("Rollout %s: %s\n", r.Name, r.Status)
		return nil
	}))
}

func (a verbs) rolloutWatch() *cobra.Command {
	cmd := &cobra.Command{
		Use: "watch ROLLOUT", Short: "Follow a rollout to its end",
		Long: `Follows a rollout to its end: waves, hosts, probes, what is blocked and why. On a
terminal the view is redrawn in place; elsewhere each event is a line, and with
-o json a line of JSON. Ends with code 0 when the rollout converged, and with 1
when it failed, was reverted, superseded or cancelled.`,
		Example: "  steady rollout watch stable@v2\n  steady rollout watch stable@v2 -o json",
	}
	lines := a.PrintsLines(cmd)
	return a.RolloutNames(a.Stream(cmd, func(ctx context.Context, c *operator.Client, args []string) error {
		end, err := watch.Watch(ctx, c, args[0], watch.On(a.Out, a.Screen(), lines()))
		if err != nil {
			return err
		}
		if !end.Converged() {
			return exit.Silently(exit.Failed)
		}
		return nil
	}))
}

// standings say in one line what a state of a rollout means.
var standings = []struct{ name, means string }{
	{"opening", "it was opened and has given nothing out yet"},
	{"active", "hosts are given the release, wave by wave"},
	{"converging", "every host of the last wave has it, or is on its way"},
	{"done", "every wave was promoted, and hosts that return are given it"},
	{"paused", "an operator stopped it for a while; hosts that began go on"},
	{"halted", "failures stopped it: steady rollout resume, retry or cancel"},
	{"reverting", "its hosts are being sent back to what they ran before"},
	{"reverted", "its hosts went back to what they ran before"},
	{"superseded", "a newer release replaced it"},
	{"cancelled", "an operator ended it; hosts keep what they run"},
}

// showLegend explains the states that a list shows, on a terminal.
func (a verbs) showLegend(rollouts []operator.Rollout) {
	screen := a.Screen()
	if !screen.TTY {
		return
	}
	for _, s := range standings {
		if slices.ContainsFunc(rollouts, func(r operator.Rollout) bool { return r.Status == s.name }) {
			a.Printf("%s\n", screen.Paint(term.Faint, s.name+": "+s.means))
		}
	}
}
