package devices

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/steadyfleet/steady/internal/api/operator"
	"github.com/steadyfleet/steady/internal/cli/command"
	"github.com/steadyfleet/steady/internal/cli/exit"
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/drift"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/nodeconfig"
	"github.com/steadyfleet/steady/internal/core/prose"
)

// Drift returns the command for drift.
func Drift(e *command.Env) *cobra.Command {
	a := verbs{e}
	return command.Group(command.GroupWatch, "drift", "What nodes have other than they should, and what to do about it",
		"  steady drift list\n  steady drift show d12\n  steady drift resolve d12 --ingest",
		a.driftList(), a.driftShow(), a.driftResolve(), a.driftDecisions(), a.driftUndo(), a.driftIgnore(), a.driftIgnored(), a.driftUnignore())
}

func (a verbs) queryFlags(cmd *cobra.Command, q *operator.DriftQuery) {
	f := cmd.Flags()
	f.StringVar(&q.Node, "node", "", "of this node alone")
	f.StringVar(&q.Kind, "kind", "", "of objects of this kind alone, such as flow")
	f.StringVar(&q.Name, "name", "", "of this object alone")
	f.StringVar(&q.Drift, "drift", "", "extraneous, missing or mismatched alone")
	a.completesKind(cmd)
	command.Complete(cmd, "drift", drift.Extraneous, drift.Missing, drift.Mismatched)
}

func (a verbs) driftList() *cobra.Command {
	var q operator.DriftQuery
	cmd := &cobra.Command{
		Use: "list", Short: "List the open episodes of drift, the oldest first",
		Long: `Drift is never corrected by itself: a node owns its configuration. Each episode is one
object of one node, from when it was found until it is gone.`,
		Example: "  steady drift list\n  steady drift list --node gw-1 --drift extraneous",
	}
	a.queryFlags(cmd, &q)
	return command.Shows(a.Env, cmd, func(ctx context.Context, c *operator.Client, _ []string) ([]drift.EpisodeRow, error) {
		all, err := c.Drift(ctx, q)
		return command.NonNil(all), err
	}, a.episodeTable)
}

func (a verbs) episodeTable(all []drift.EpisodeRow) error {
	if len(all) == 0 {
		a.Printf("No drift\n")
		return nil
	}
	var rows [][]string
	for _, e := range all {
		what := e.Describe()
		if e.Decided {
			what += "; decided, under way"
		} else {
			what += ". Next: " + strings.Join(e.Actions, ", ")
		}
		kind := e.Drift
		if e.Conflict {
			kind += ", conflict"
		}
		rows = append(rows, []string{e.ID, kind, prose.Ago(e.OpenedAt, a.Wall()), what})
	}
	return a.Table([]string{"id", "drift", "since", "what"}, rows)
}

// episodeNames completes the names of open episodes.
func (a verbs) episodeNames(cmd *cobra.Command) *cobra.Command {
	return completed(a, cmd, func(ctx context.Context, c *operator.Client) ([]drift.EpisodeRow, error) {
		return c.Drift(ctx, operator.DriftQuery{})
	}, func(e drift.EpisodeRow) string { return e.ID })
}

func (a verbs) driftShow() *cobra.Command {
	cmd := &cobra.Command{
		Use: "show ID", Short: "Show an episode field by field: acknowledged last, desired, and on the node",
		Example: "  steady drift show d12\n  steady drift show d12 -o json",
	}
	return a.episodeNames(command.Shows(a.Env, cmd, func(ctx context.Context, c *operator.Client, args []string) (drift.EpisodeDetail, error) {
		return c.Episode(ctx, args[0])
	}, func(e drift.EpisodeDetail) error {
		what := e.Describe()
		a.Printf("%s%s, since %s\n", strings.ToUpper(what[:1]), what[1:], prose.Date(e.OpenedAt))
		var rows [][]string
		for _, f := range e.Table {
			verdict := string(f.Cause)
			if f.Ignored {
				verdict = "ignored"
			}
			rows = append(rows, []string{f.Field, shown(f, f.Acknowledged), shown(f, f.Desired), shown(f, f.Actual), verdict})
		}
		if err := a.Details([]string{"field", "acknowledged", "desired", "on the node", ""}, rows); err != nil {
			return err
		}
		for _, action := range e.Actions {
			a.Printf("  steady drift resolve %s %s   # %s\n", e.ID, flagOf[action], meaningOf[action])
		}
		return nil
	}))
}

// shown is a value of a field; of a secret nothing but whether it is set.
func shown(f drift.Field, v *string) string {
	if v == nil {
		return ""
	}
	if rest, keyed := strings.CutPrefix(*v, nodeconfig.KeyedPrefix); keyed {
		return "secret " + rest[:min(len(rest), 8)]
	}
	return prose.Line(*v)
}

var flagOf = map[string]string{
	drift.ActionRepush:       "--repush",
	drift.ActionIngest:       "--ingest",
	drift.ActionDeleteNode:   "--delete=node",
	drift.ActionDeleteServer: "--delete=server",
}

var meaningOf = map[string]string{
	drift.ActionRepush:       "push what the server has; what is on the node goes",
	drift.ActionIngest:       "have the server want what the node has",
	drift.ActionDeleteNode:   "delete it on the node",
	drift.ActionDeleteServer: "have the server forget it; the node stays as it is",
}

// decision is what is to be done.
type decision struct {
	repush, ingest, dryRun, all bool
	remove, as                  string
	keep                        []string
}

func (d *decision) action() (string, error) {
	var out []string
	if d.repush {
		out = append(out, drift.ActionRepush)
	}
	if d.ingest {
		out = append(out, drift.ActionIngest)
	}
	switch d.remove {
	case "":
	case "node":
		out = append(out, drift.ActionDeleteNode)
	case "server":
		out = append(out, drift.ActionDeleteServer)
	default:
		return "", exit.Badf("--delete=%s: expected node or server", d.remove)
	}
	if len(out) != 1 {
		return "", exit.Badf("give one of --repush, --ingest, --delete=node or --delete=server")
	}
	return out[0], nil
}

func (a verbs) driftResolve() *cobra.Command {
	var q operator.DriftQuery
	var d decision
	cmd := &cobra.Command{
		Use: "resolve [ID...]", Short: "Decide about drift: push again, ingest, or delete on either side",
		Long: `Decides about the episodes that are named, or with --all about all that the filters
leave. --dry-run says what would be decided. Each is decided by itself, with an
outcome of its own, and steady drift undo takes it back.

--repush pushes what the server has, with --keep FIELD but for fields that stay as on
the node. The node refuses it if somebody changed the object again meanwhile.`,
		Example: "  steady drift resolve d12 --ingest\n  steady drift resolve d13 --repush --keep bitrate\n  steady drift resolve --all --node gw-1 --drift extraneous --ingest --dry-run",
		Args:    cobra.ArbitraryArgs,
	}
	a.queryFlags(cmd, &q)
	f := cmd.Flags()
	f.BoolVar(&d.repush, "repush", false, "push what the server has")
	f.BoolVar(&d.ingest, "ingest", false, "have the server want what the node has")
	f.StringVar(&d.remove, "delete", "", "node: delete it there; server: forget it")
	f.StringVar(&d.as, "as", "", "the name of what an ingest makes (default: what the device calls it)")
	f.StringArrayVar(&d.keep, "keep", nil, "of a repush: a field that stays as on the node")
	f.BoolVar(&d.all, "all", false, "all episodes that the filters leave")
	f.BoolVar(&d.dryRun, "dry-run", false, "say what would be decided, and decide nothing")
	command.Complete(cmd, "delete", "node", "server")
	reason := command.RequiresReason(cmd)
	return a.episodeNames(a.PrintsData(a.Talk(cmd, func(ctx context.Context, c *operator.Client, args []string) error {
		action, err := d.action()
		if err != nil {
			return err
		}
		if d.all == (len(args) > 0) {
			return exit.Badf("name the episodes, or give --all with or without filters")
		}
		out, err := a.resolve(ctx, c, args, q, d, action, *reason)
		if err != nil {
			return err
		}
		if err := a.Print(out, func() error { return a.outcomes(out, d.dryRun) }); err != nil {
			return err
		}
		if slices.ContainsFunc(out, func(o operator.Outcome) bool { return o.Error != "" }) {
			return exit.With(exit.Failed, fmt.Errorf("not everything could be decided"))
		}
		return nil
	})))
}

func (a verbs) resolve(ctx context.Context, c *operator.Client, ids []string, q operator.DriftQuery, d decision, action, reason string) ([]operator.Outcome, error) {
	if len(ids) != 1 || d.dryRun {
		if d.as != "" || len(d.keep) > 0 {
			return nil, exit.Badf("--as and --keep are for one episode at a time, and not for --dry-run")
		}
		return c.ResolveMany(ctx, operator.ResolveMany{DriftQuery: q, Episodes: ids, Action: action, DryRun: d.dryRun, Reason: reason})
	}
	seen, err := c.Episode(ctx, ids[0])
	if err != nil {
		return nil, err
	}
	o, err := c.Resolve(ctx, ids[0], operator.ResolveDrift{Action: action, Fields: d.keep, As: d.as, ETag: seen.ETag, Reason: reason})
	return []operator.Outcome{o}, err
}

func (a verbs) outcomes(all []operator.Outcome, dryRun bool) error {
	if len(all) == 0 {
		a.Printf("Nothing to decide about\n")
		return nil
	}
	var rows [][]string
	for _, o := range all {
		result := "decided; to take it back: steady drift undo " + o.Resolution
		switch {
		case o.Error != "":
			result = "FAILED: " + o.Error
		case dryRun:
			result = "would be decided"
		}
		rows = append(rows, []string{o.Episode, o.What, result})
	}
	return a.Table([]string{"id", "what", "outcome"}, rows)
}

func (a verbs) driftDecisions() *cobra.Command {
	cmd := &cobra.Command{
		Use: "decisions", Short: "List the newest decisions about drift, which can be undone",
		Long: `Lists the newest decisions with their names, which steady drift undo takes. In JSON the
name of a decision is resolution; id and name are those of the object that it was about.`,
		Example: "  steady drift decisions",
	}
	return command.Lists(a.Env, cmd, func(ctx context.Context, c *operator.Client, _ []string) ([]drift.Resolution, error) {
		return c.Resolutions(ctx)
	}, []string{"decision", "at", "action", "what", "by", "reason"}, func(r drift.Resolution) []string {
		kind, name := r.Object()
		undone := ""
		if r.Undone {
			undone = " (undone)"
		}
		return []string{r.Resolution, prose.Date(r.At), r.Action + undone, kind + " " + name + " on " + r.Node, r.Actor, r.Reason}
	})
}

func (a verbs) driftUndo() *cobra.Command {
	cmd := &cobra.Command{
		Use: "undo DECISION", Short: "Take a decision about drift back",
		Long: `What an ingest made is forgotten again, or is as it was; what a repush overwrote is
pushed back as it was on the node; what was deleted comes back, on its node with the
secrets that the node remembers.`,
		Example: "  steady drift decisions\n  steady drift undo k3v9x2m4c1ab",
	}
	reason := command.RequiresReason(cmd)
	return a.Talk(cmd, func(ctx context.Context, c *operator.Client, args []string) error {
		if err := c.UndoResolution(ctx, args[0], *reason); err != nil {
			return err
		}
		a.Printf("Undone. What comes of it: steady drift list\n")
		return nil
	})
}

func (a verbs) driftIgnore() *cobra.Command {
	var in operator.IgnoreDrift
	var long string
	cmd := &cobra.Command{
		Use: "ignore", Short: "Have fields or objects be no drift, for a while",
		Long: `A field that is ignored is not compared, and is not pushed either: it stays as the node
has it. Without --field whole objects that the server does not know are ignored.`,
		Example: "  steady drift ignore --kind flow --field bitrate --for 720h --reason 'tuned on site'\n  steady drift ignore --node gw-1 --name test --reason 'a test of the vendor'",
	}
	f := cmd.Flags()
	f.StringVar(&in.Node, "node", "", "on this node alone")
	f.StringVar(&in.Kind, "kind", "", "of objects of this kind alone, such as flow")
	f.StringVar(&in.Name, "name", "", "of this object alone")
	f.StringVar(&in.Field, "field", "", "the field, its steps separated by slashes; * is any one step")
	f.StringVar(&long, "for", "", "how long, such as 720h (default: until it is ended)")
	a.completesKind(cmd)
	reason := command.RequiresReason(cmd)
	return command.Shows(a.Env, cmd, func(ctx context.Context, c *operator.Client, _ []string) (operator.Ignored, error) {
		in.Reason = *reason
		if long != "" {
			d, err := clock.ParseDuration(long)
			if err != nil || d == 0 {
				return operator.Ignored{}, exit.Badf("--for %q: expected a duration such as 24h", long)
			}
			in.Until = a.Wall().Add(d)
		}
		return c.IgnoreDrift(ctx, in)
	}, func(r operator.Ignored) error {
		a.Printf("Ignored: %s. To end it: steady drift unignore %s\n", scopeOf(r.DriftIgnored), r.Rule)
		return nil
	})
}

func scopeOf(r event.DriftIgnored) string {
	var parts []string
	for _, p := range [][2]string{{"field", r.Field}, {"kind", r.Kind}, {"object", r.Name}, {"node", r.Node}} {
		if p[1] != "" {
			parts = append(parts, p[0]+" "+p[1])
		}
	}
	return strings.Join(parts, ", ")
}

func (a verbs) driftIgnored() *cobra.Command {
	cmd := &cobra.Command{Use: "ignored", Short: "List what is no drift, with who decided it and until when", Example: "  steady drift ignored"}
	return command.Lists(a.Env, cmd, func(ctx context.Context, c *operator.Client, _ []string) ([]operator.Ignored, error) {
		return c.IgnoredDrift(ctx)
	}, []string{"rule", "what", "until", "by", "reason"}, func(r operator.Ignored) []string {
		return []string{r.Rule, scopeOf(r.DriftIgnored), r.Until.String(), r.Actor, r.Reason}
	})
}

func (a verbs) driftUnignore() *cobra.Command {
	cmd := &cobra.Command{Use: "unignore RULE", Short: "Have what a rule ignores be drift again", Example: "  steady drift unignore k3v9x2m4c1ab"}
	return a.Talk(cmd, func(ctx context.Context, c *operator.Client, args []string) error {
		if err := c.UnignoreDrift(ctx, args[0]); err != nil {
			return err
		}
		a.Printf("The rule is ended\n")
		return nil
	})
}
