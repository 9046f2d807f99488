package operate

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/steadyfleet/steady/internal/api/operator"
	"github.com/steadyfleet/steady/internal/cli/command"
	"github.com/steadyfleet/steady/internal/cli/exit"
	"github.com/steadyfleet/steady/internal/cli/hosts"
	"github.com/steadyfleet/steady/internal/cli/term"
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/gate"
	"github.com/steadyfleet/steady/internal/core/health"
	"github.com/steadyfleet/steady/internal/core/plan"
	"github.com/steadyfleet/steady/internal/core/prose"
	"github.com/steadyfleet/steady/internal/core/status"
	"github.com/steadyfleet/steady/internal/core/warning"
)

func (a verbs) statusCmd() *cobra.Command {
	var check bool
	cmd := &cobra.Command{
		Use: "status", GroupID: command.GroupWatch, Short: "Show the state of the fleet",
		Long: `Sums up the fleet: what needs a person, its release, its hosts, nodes and sessions, and where
each channel is. --ends lists all that ends or fills up: timestamps, the root of trust,
certificates, tokens, freezes, windows, the disk and the log of the server. With --check the
exit code is 6 when an item that needs a person is not acknowledged; steady attention
lists the same.`,
		Example: "  steady status\n  steady status --check\n  steady status --ends\n  steady status -o json",
	}
	ends := cmd.Flags().Bool("ends", false, "list all that ends or fills up")
	cmd.Flags().BoolVar(&check, "check", false, "end with code 6 when something needs a person")
	return a.PrintsData(a.Talk(cmd, func(ctx context.Context, c *operator.Client, _ []string) error {
		s, err := c.Status(ctx)
		if err != nil {
			return err
		}
		if err := a.Print(s, func() error {
			if *ends {
				return a.showExpiries(s.Expiries)
			}
			return a.showStatus(s)
		}); err != nil || !check || s.Inbox.Needed == 0 {
			return err
		}
		return exit.Silently(exit.Degraded)
	}))
}

func (a verbs) showStatus(s operator.Status) error {
	a.showNeeds(s)
	switch {
	case s.Release.Version == 0 && s.Hosts.Total == 0 && len(s.Nodes)+len(s.Sessions) > 0: // a fleet of nodes has no releases
	case s.Release.Version == 0:
		a.PrintFolded("No release was accepted yet. Next: steady release publish\n")
	default:
		a.PrintFolded("Release %s, version %d, accepted %s, timestamp signed %s\n", s.Release.Ref, s.Release.Version, a.ago(s.Release.AcceptedAt), a.ago(s.Release.TimestampAt))
	}
	a.PrintFolded("Root version %d, epoch %d, good until %s\n", s.Root.Version, s.Root.Epoch, prose.Date(s.Root.Expires))
	h := s.Hosts
	a.PrintFolded("Hosts: %d, of which %d enrolled, %d online, %d in flight, %d failed, %d behind\n", h.Total, h.Enrolled, h.Online, h.InFlight, h.Failed, sum(h.Behind))
	a.showBehind(h.Behind)
	a.showCounts("Nodes", s.Nodes)
	a.showCounts("Sessions", s.Sessions)
	a.showPresence(h)
	a.showLeaving(h.Leaving)
	a.showVersions(s)
	var rows [][]string
	for _, ch := range s.Channels {
		rows = append(rows, []string{ch.Name, ch.Rollout, ch.Status, ch.Queued, ch.Deferral, fmt.Sprint(len(ch.Quarantine))})
	}
	if err := a.showSources(s.Sources); err != nil || len(rows) == 0 {
		return err
	}
	return a.Table([]string{"channel", "rollout", "status", "queued", "waits for", "quarantined"}, rows)
}

// maxNeeds bounds what a status names of what needs a person.
const maxNeeds = 10

// showNeeds prints the open items, which come first in the output.
func (a verbs) showNeeds(s operator.Status) {
	known := len(s.Inbox.Items) - len(status.Needed(s.Inbox.Items))
	rest := ""
	if known > 0 {
		rest = fmt.Sprintf(" (%d acknowledged)", known)
	}
	if s.Inbox.Needed == 0 {
		a.PrintFolded("Fleet %s: nothing needs you%s\n", s.Fleet, rest)
		return
	}
	a.PrintFolded("Fleet %s: %s you%s\n", s.Fleet, prose.Count(s.Inbox.Needed, "item")+prose.Verb(s.Inbox.Needed, " needs", " need"), rest)
	needed := status.Needed(s.Inbox.Items)
	a.showItems(needed, maxNeeds)
	if len(grouped(needed)) > maxNeeds {
		a.PrintFolded("  steady attention lists all of them\n")
	}
}

func sum[K comparable](counts map[K]int) (n int) {
	for _, c := range counts {
		n += c
	}
	return n
}

// showBehind reports why hosts are behind their channels.
func (a verbs) showBehind(behind map[plan.BehindCode]int) {
	var parts []string
	for _, code := range plan.BehindCodes {
		if n := behind[code]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, code))
		}
	}
	if len(parts) > 0 {
		a.PrintFolded("Behind their channel: %s. steady host list --behind names them\n", strings.Join(parts, ", "))
	}
}

// showCounts counts objects of a kind by their word; without any it prints nothing.
func (a verbs) showCounts(kind string, counts map[string]int) {
	if len(counts) == 0 {
		return
	}
	var parts []string
	for _, word := range slices.Sorted(maps.Keys(counts)) {
		parts = append(parts, fmt.Sprintf("%d %s", counts[word], word))
	}
	a.PrintFolded("%s: %d, of which %s\n", kind, sum(counts), strings.Join(parts, ", "))
}

func (a verbs) showExpiries(items []warning.Item) error {
	var rows [][]string
	for _, i := range items {
		name, full := i.Name, ""
		if i.Hosts > 0 {
			name = prose.Count(i.Hosts, "host")
		}
		if i.Limit > 0 {
			full = fmt.Sprintf("%d %%", int64(float64(i.Used)/float64(i.Limit)*100))
		}
		ends := ""
		if i.Ends != 0 {
			ends = prose.Ago(i.Ends, a.Wall())
		}
		rows = append(rows, []string{string(i.Kind), name, string(i.Level), ends, full, i.Warning()})
	}
	return a.Table([]string{"what", "whose", "level", "ends", "full", "what it means"}, rows)
}

func (a verbs) hostCmd() *cobra.Command {
	list := a.hostList()
	show := &cobra.Command{Use: "show HOST", Short: "Show one host and why it stands where it does", Example: "  steady host show web-1"}
	a.HostNames(command.Shows(a.Env, show, func(ctx context.Context, c *operator.Client, args []string) (operator.HostDetail, error) {
		return c.Host(ctx, args[0])
	}, a.showHost))
	return command.Group(command.GroupWatch, "host", "Show, tune, freeze, disable and retire hosts", "  steady host list\n  steady host show web-1\n  steady host resources web-1 --watch",
		append([]*cobra.Command{list, show, a.hostRemove(), a.hostRename()}, hosts.Verbs(a.Env)...)...)
}

type hostFilter struct {
	channel, tag              string
	offline, failed, degraded bool
	behind                    bool
	all                       bool // decommissioned ones as well
	states                    []string
}

func (f hostFilter) picks(h operator.Host) bool {
	switch {
	case !f.all && h.Presence == gate.Decommissioned && !slices.Contains(f.states, string(h.State)):
	case f.channel != "" && h.Channel != f.channel:
	case len(f.states) > 0 && !slices.Contains(f.states, string(h.State)):
	case f.tag != "" && !slices.Contains(h.Tags, f.tag):
	case f.offline && h.Online:
	case f.failed && h.Failed == "":
	case f.behind && h.Behind == nil:
	case f.degraded && h.Health != health.Degraded:
	default:
		return true
	}
	return false
}

func (a verbs) hostList() *cobra.Command {
	var f hostFilter
	var states []string
	for _, row := range plan.HostStates {
		states = append(states, string(row.State))
	}
	cmd := &cobra.Command{
		Use: "list", Short: "List the hosts",
		Long: `Lists the hosts, by name: whether each is there, the state that it is in, and what
it runs: the release whose bundle it has, or the bundle's digest where that is another
than it should run. Filters add up: each one leaves hosts out.`,
		Example: "  steady host list\n  steady host list --channel stable --offline\n  steady host list --state failed --state reverted\n  steady host list --degraded\n  steady host list --behind\n  steady host list --versions\n  steady host list --tag web --failed -o json",
	}
	flags := cmd.Flags()
	flags.StringVar(&f.channel, "channel", "", "only hosts of this channel")
	flags.StringVar(&f.tag, "tag", "", "only hosts with this tag")
	flags.StringSliceVar(&f.states, "state", nil, "only hosts in this state; given again, in any of them: "+strings.Join(states, ", "))
	command.Complete(cmd, "state", states...)
	flags.BoolVar(&f.offline, "offline", false, "only hosts that are not online")
	flags.BoolVar(&f.degraded, "degraded", false, "only hosts that do not run what they should")
	flags.BoolVar(&f.behind, "behind", false, "only hosts in contact that run another bundle than the newest of their channel, and whose turn does not come by itself")
	flags.BoolVar(&f.all, "all", false, "decommissioned hosts as well")
	versions := flags.Bool("versions", false, "show each agent's version, the address at which it reaches the server, and the release that it accepted")
	flags.BoolVar(&f.failed, "failed", false, "only hosts whose last activation failed")
	return command.Shows(a.Env, cmd, func(ctx context.Context, c *operator.Client, _ []string) ([]operator.Host, error) {
		for _, s := range f.states {
			if !slices.Contains(states, s) {
				return nil, exit.Badf("--state %q: expected %s", s, strings.Join(states, ", "))
			}
		}
		all, err := c.Hosts(ctx)
		return command.NonNil(slices.DeleteFunc(all, func(h operator.Host) bool { return !f.picks(h) })), err
	}, func(list []operator.Host) error {
		header, row := []string{"host", "channel", "presence", "state", "rollout", "runs", "why"}, hostRow
		if *versions {
			header, row = []string{"host", "presence", "agent", "server", "accepted"}, agentRow
		}
		var rows [][]string
		for _, h := range list {
			rows = append(rows, row(h))
		}
		return a.Table(header, rows)
	})
}

func hostRow(h operator.Host) []string {
	return []string{h.Name, h.Channel, presence(h.Presence, h.FrozenUntil), stateOf(h), h.Rollout, runs(h), whyOf(h)}
}

func agentRow(h operator.Host) []string {
	accepted := ""
	if h.Accepted > 0 {
		accepted = fmt.Sprintf("version %d", h.Accepted)
	}
	return []string{h.Name, presence(h.Presence, h.FrozenUntil), h.AgentVersion, h.Server, accepted}
}

// showVersions names the versions of agents that are not the server's.
func (a verbs) showVersions(s operator.Status) {
	others := 0
	var parts []string
	for _, v := range slices.Sorted(maps.Keys(s.Hosts.Versions)) {
		if n := s.Hosts.Versions[v]; v != s.Version {
			others += n
			parts = append(parts, fmt.Sprintf("%d %s", n, cmp.Or(v, "unknown")))
		}
	}
	if s.Version != "" && others > 0 {
		a.PrintFolded("Agents of another version than the server's %s: %s. steady host list --versions names them\n", s.Version, strings.Join(parts, ", "))
	}
}

// stateOf is the state of a host, or how far it has left the fleet.
func stateOf(h operator.Host) string {
	if h.Removed != nil {
		return h.Removed.String()
	}
	return string(h.State)
}

// whyOf is why a host is in its state.
func whyOf(h operator.Host) string {
	if h.Owed != nil {
		return "has to send " + events(*h.Owed) + " again, which the restored log lacks"
	}
	if h.State == plan.StateConverged || h.State == plan.StateFrozen {
		if b := h.Behind; b != nil {
			return prose.Clauses(h.Summary.Reason, "behind: "+b.Reason)
		}
	}
	return h.Summary.Reason
}

// runs names what a host runs: the release that brought it where that is known.
func runs(h operator.Host) string { return cmp.Or(h.Runs, command.Short(string(h.Current))) }

// presence is the word for whether a host is there.
func presence(p gate.HostPresence, frozenUntil clock.Instant) string {
	switch {
	case p == gate.Forked || p == gate.Parked || p == gate.Revoked || p == gate.Decommissioned:
		return strings.ToUpper(string(p))
	case p == gate.Online && frozenUntil != 0:
		return "frozen"
	}
	return string(p)
}

// showPresence names the hosts that are not there, by why.
func (a verbs) showPresence(h operator.HostCounts) {
	const shown = 5
	if n := len(h.NeverEnrolled); n > 0 {
		a.PrintFolded("%s never enrolled: %s. Next: steady token create HOST\n", prose.Count(n, "host"), prose.Names(h.NeverEnrolled, shown))
	}
	var parts []string
	for _, row := range plan.Presences {
		if n := h.Presence[row.Presence]; n > 0 && row.Presence != gate.Online && row.Presence != gate.NeverEnrolled {
			parts = append(parts, fmt.Sprintf("%d %s", n, row.Presence))
		}
	}
	if len(parts) > 0 {
		a.PrintFolded("Not there: %s. steady host list --all names them\n", strings.Join(parts, ", "))
	}
}

// showLeaving names the hosts that leave the fleet, and what is left to do.
func (a verbs) showLeaving(leaving []operator.Removal) {
	const shown = 5
	for _, done := range []bool{false, true} {
		var names []string
		for _, r := range leaving {
			if r.Done == done {
				names = append(names, r.Host+" ("+string(r.Workloads)+")")
			}
		}
		n := len(names)
		if n == 0 {
			continue
		}
		list := prose.Names(names, shown)
		if !done {
			a.PrintFolded("Removing %s: %s. Next: steady why HOST\n", prose.Count(n, "host"), list)
			continue
		}
		a.PrintFolded("Removed %s: %s. Next: steady host decommission HOST, then take its line out of fleet.yaml\n", prose.Count(n, "host"), list)
	}
}

// removedWords says how far a removal is.
func removedWords(r *operator.Removal) string {
	words := "workloads " + string(r.Workloads)
	if r.Signed != "" {
		words += ", by a signed override: " + r.Signed
	}
	switch {
	case r.Done:
		return "removed, " + words + ". Next: steady host decommission " + r.Host + ", then take its line out of fleet.yaml"
	case r.Detail != "":
		return "removing, " + words + ". It cannot go on: " + r.Detail + ". Next: steady host retry " + r.Host
	}
	return "removing, " + words + ". Next: steady why " + r.Host
}

func (a verbs) whyCmd() *cobra.Command {
	var all bool
	cmd := &cobra.Command{
		Use: "why HOST", GroupID: command.GroupWatch, Short: "Say why a host has not moved yet",
		Long: `Says where a host stands in the newest rollout that names it, and asks every gate
in order: what holds it back, what that waits for, who can clear it, and when it
can clear at the earliest. Gates that are open are listed with --all.`,
		Example: "  steady why web-1\n  steady why web-1 --all\n  steady why web-1 -o json",
	}
	cmd.Flags().BoolVar(&all, "all", false, "list the gates that are open, too")
	return a.HostNames(command.Shows(a.Env, cmd, func(ctx context.Context, c *operator.Client, args []string) (plan.Answer, error) {
		return c.Why(ctx, args[0])
	}, func(answer plan.Answer) error { return a.showAnswer(answer, all) }))
}

// showAnswer prints the sentence first, then the gates.
func (a verbs) showAnswer(w plan.Answer, all bool) error {
	a.PrintFolded("%s: %s\n", w.Host, w.Message)
	for _, was := range w.Former {
		a.PrintFolded("  renamed:    was %s until %s; its history is in steady events --host %s\n", was.Name, prose.Date(was.Until), w.Host)
	}
	if w.Rollout != "" {
		runs := ""
		if w.Current != w.Target {
			runs = fmt.Sprintf(", runs %s, should run %s", cmp.Or(command.Short(w.Current), "nothing yet"), command.Short(w.Target))
		}
		a.PrintFolded("  rollout %s, wave %s, %s%s\n", w.Rollout, w.Wave, w.Status, runs)
	}
	if w.Degraded != nil {
		a.PrintFolded("  next:       steady host resources %s shows all; once its cause is gone: steady host retry %s\n", w.Host, w.Host)
	}
	if b := w.Block; b != nil {
		a.PrintFolded("  waits for:  %s\n  cleared by: %s\n", b.WaitsFor, b.ClearedBy)
		if w.Turn == nil && b.Earliest != 0 {
			a.PrintFolded("  earliest:   %s\n", a.when(b.Earliest))
		}
	}
	if w.Turn != nil {
		a.PrintFolded("  turn:       %s\n", w.Turn.Message)
	}
	a.showGates(w.Gates, all)
	for _, words := range w.Accepted {
		a.PrintFolded("  %s\n", words)
	}
	if len(w.WaveBlocks) > 0 {
		a.PrintFolded("  the open wave of %s continues when none of this blocks it:\n", w.Rollout)
	}
	for _, b := range w.WaveBlocks {
		a.showGates([]plan.Gate{{Gate: b.Code, Block: b}}, all)
	}
	if w.Pending != "" {
		a.PrintFolded("  rollout %s comes next:\n", w.Pending)
		a.showGates(w.PendingGates, all)
	}
	return nil
}

func (a verbs) showGates(gates []plan.Gate, all bool) {
	screen := a.Screen()
	for _, g := range gates {
		if g.Block == nil {
			if all {
				a.PrintFolded("  %s %s\n", screen.Paint(term.Good, "open  "), g.Gate)
			}
			continue
		}
		when := ""
		if g.Block.Earliest != 0 {
			when = "; not before " + a.when(g.Block.Earliest)
		}
		a.PrintFolded("  %s %s: %s%s\n", screen.Paint(term.Bad, "blocks"), g.Gate, g.Block.Message, when)
	}
}

func (a verbs) ago(t clock.Instant) string { return prose.Ago(t, a.Wall()) }

func (a verbs) when(t clock.Instant) string {
	return prose.Date(t) + " (" + prose.Ago(t, a.Wall()) + ")"
}

// showSources prints where releases are looked for; what is wrong has a line of
// its own, because it is long.
func (a verbs) showSources(sources []operator.Source) error {
	if len(sources) == 0 {
		return nil
	}
	var rows [][]string
	for _, s := range sources {
		brought := ""
		if s.Version > 0 {
			brought = fmt.Sprintf("%s, version %d", s.Ref, s.Version)
		}
		rows = append(rows, []string{s.Name, s.Summary.Word, brought, s.LastSuccess.String(), s.LastChecked.String()})
	}
	if err := a.Table([]string{"release source", "state", "brought", "last success", "last check"}, rows); err != nil {
		return err
	}
	for _, s := range sources {
		for _, t := range []*operator.SourceTrouble{s.Unfetched, s.Refused} {
			if t != nil {
				a.Printf("  %s, since %s: %s: %s\n", s.Name, t.Since, t.Cause, t.Detail)
			}
		}
		if s.LastError != "" && s.Unfetched == nil && s.Refused == nil {
			a.Printf("  %s: %s\n", s.Name, s.LastError)
		}
	}
	return nil
}
