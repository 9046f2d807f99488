package simulate

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/steadyfleet/steady/internal/api/operator"
	"github.com/steadyfleet/steady/internal/cli/command"
	"github.com/steadyfleet/steady/internal/cli/exit"
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/plan"
	"github.com/steadyfleet/steady/internal/forecast"
	"github.com/steadyfleet/steady/internal/replay"
)

type replayOptions struct {
	source
	assumptions
	seq      uint64
	at       string
	why      string
	diff     string
	delay    []string
	drop     []uint
	policy   []string
	budget   []string
	check    bool
	seed     uint64
	beyond   string
	hasSeq   bool
	measured bool // --activation was not given
}

// Replay returns steady replay.
func Replay(e *command.Env) *cobra.Command {
	a, o := verbs{e}, replayOptions{}
	cmd := &cobra.Command{
		Use: "replay", GroupID: command.GroupWatch, Short: "Show any moment of the log, and what would have happened otherwise",
		Long: `Folds the server's log again. Without more it shows where everything stands at its
end; --seq or --at show an earlier moment, --why what held a host then, --diff what
changed between two moments.

What if: --delay, --drop, --policy and --budget run the same planner over the same
log with that one thing changed, and show the first decision that is another one,
with its reason, and where it ends. Changes of policy or budget count from --seq or
--at on, else from the start. --check changes nothing, and says whether this version
decides exactly what is in the log.

What is recorded, and what is not: hosts' events, claims, presence, releases and
verbs happen as in the log; every decision of the server is worked out anew, also
what a verb does, and whether it is refused. A host follows its record until the
first other decision, and no longer than its machine takes the recorded steps as it did.
From there on it is modelled: its own recorded durations, failures and probe results for
that release, counted from the new grant; where the log has none, --activation,
--failure-rate and the like.
The answer names these hosts, when each left its record, and why.

Limits: presence and operators' verbs stay as recorded, though people might have
acted otherwise; a host does not notice that its report was delayed; probes that a
longer soak would have looked for are assumed to pass unless the log has them; hosts'
repairs outside of rollouts are not modelled; resources, logs and the managed layer
are not folded. After the end of the log the model goes on for --beyond.`,
		Example: `  steady replay --seq 1200
  steady replay --at 2026-03-01T12:00:00Z --why web-1
  steady replay --diff 1100..1200
  steady replay --delay 1187=10m
  steady replay --policy maxFailures=0,onHealthFailure=halt --policy soak=5m
  steady replay --file fleet.log --budget tags:web=1
  steady audit export fleet.log && steady replay --file fleet.log --check`,
	}
	f := cmd.Flags()
	f.Uint64Var(&o.seq, "seq", 0, "the moment after this event")
	f.StringVar(&o.at, "at", "", "the moment at this time (RFC 3339)")
	f.StringVar(&o.why, "why", "", "show why this host had not moved at that moment")
	f.StringVar(&o.diff, "diff", "", "what changed between two events, N..M")
	f.StringSliceVar(&o.delay, "delay", nil, "what if this event had come later: SEQ=TIME; may be repeated")
	f.UintSliceVar(&o.drop, "drop", nil, "what if this event had not come; may be repeated")
	f.StringSliceVar(&o.policy, "policy", nil, "what if the policy were [CHANNEL:]FIELD=VALUE: "+strings.Join(replay.PolicyFields(), ", "))
	f.StringArrayVar(&o.budget, "budget", nil, "what if a budget were SELECTOR=N, the selector as steady why shows it; may be repeated")
	f.BoolVar(&o.check, "check", false, "change nothing and compare every decision with the log")
	o.assumptions.flags(cmd)
	f.Uint64Var(&o.seed, "seed", 1, "where chance begins for what is modelled")
	f.StringVar(&o.beyond, "beyond", "24h", "how long after the end of the log the model may go on")
	cmd.MarkFlagsMutuallyExclusive("seq", "at", "diff")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		o.hasSeq, o.measured = cmd.Flags().Changed("seq"), !cmd.Flags().Changed("activation")
		return a.replay(cmd.Context(), o)
	}
	a.fromFlags(cmd, &o.source)
	return a.PrintsData(cmd)
}

func (a verbs) replay(ctx context.Context, o replayOptions) error {
	change, err := o.change()
	if err != nil {
		return err
	}
	h, err := a.history(ctx, o.source)
	if err != nil {
		return err
	}
	seq, err := o.moment(h)
	if err != nil {
		return err
	}
	switch {
	case !change.Empty() || o.check:
		if o.hasSeq || o.at != "" {
			change.From = seq
		}
		return a.otherwise(h, change, o)
	case o.diff != "":
		return a.between(h, o.diff)
	}
	s, err := replay.Fold(h, h, seq)
	if err != nil {
		return exit.Bad(err)
	}
	if o.why != "" {
		answer, err := plan.Why(s, o.why, replay.At(h, seq))
		if err != nil {
			return exit.With(exit.NotFound, err)
		}
		return a.Print(answer, func() error { a.showWhy(answer, seq, replay.At(h, seq)); return nil })
	}
	v := replay.ViewAt(s, seq, replay.At(h, seq))
	return a.Print(v, func() error { return a.showView(v) })
}

// moment is the event after which to look; by default the last.
func (o *replayOptions) moment(h *replay.History) (uint64, error) {
	switch {
	case o.hasSeq && o.seq > h.End():
		return 0, exit.Badf("--seq %d: the log ends with event %d", o.seq, h.End())
	case o.hasSeq:
		return o.seq, nil
	case o.at != "":
		t, err := time.Parse(time.RFC3339Nano, o.at)
		if err != nil {
			return 0, exit.Badf("--at %q: expected a time such as 2026-03-01T12:00:00Z", o.at)
		}
		return replay.Before(h, clock.FromTime(t)), nil
	}
	return h.End(), nil
}

// change reads the flags that say what is otherwise.
func (o *replayOptions) change() (*replay.Change, error) {
	w := replay.Wish{Delay: o.delay, Policy: o.policy, Budget: o.budget}
	for _, seq := range o.drop {
		w.Drop = append(w.Drop, uint64(seq))
	}
	c, err := w.Change()
	if err == nil && o.check && !c.Empty() {
		err = exit.Badf("--check compares the log with itself; leave --delay, --drop, --policy and --budget out")
	}
	return c, exit.Bad(err)
}

func (a verbs) between(h *replay.History, text string) error {
	low, high, _ := strings.Cut(text, "..")
	n, err := strconv.ParseUint(low, 10, 63)
	m, failed := strconv.ParseUint(high, 10, 63)
	if err != nil || failed != nil || n > m || m > h.End() {
		return exit.Badf("--diff %q: expected N..M with N before M; the log ends with event %d", text, h.End())
	}
	var views [2]replay.View
	for i, seq := range []uint64{n, m} {
		s, err := replay.Fold(h, h, seq)
		if err != nil {
			return err
		}
		views[i] = replay.ViewAt(s, seq, replay.At(h, seq))
	}
	d := replay.Diff(views[0], views[1])
	return a.Print(d, func() error {
		a.Printf("From event %d (%s) to event %d (%s):\n", n, views[0].At, m, views[1].At)
		return a.showDifferences(d, "before", "after")
	})
}

// otherwise runs the planner again with something changed, or with nothing.
func (a verbs) otherwise(h *replay.History, c *replay.Change, o replayOptions) error {
	assumed, err := o.assumptions.parse()
	if err != nil {
		return err
	}
	if o.measured {
		assumed.Activation = forecast.Range{}
	}
	beyond, err := clock.ParseDuration(o.beyond)
	if err != nil {
		return exit.Badf("--beyond: %w", err)
	}
	out, err := replay.Rerun(h, c, replay.Options{Assumed: assumed, Seed: o.seed, Beyond: beyond})
	if refused, ok := errors.AsType[*replay.ChangeError](err); ok {
		return exit.Bad(refused)
	}
	if err != nil {
		return err
	}
	answer := out.WhatIf(operator.Messages)
	if err := a.Print(answer, func() error { return a.showAnswer(answer, c.Empty()) }); err != nil {
		return err
	}
	if c.Empty() && (out.Divergence != nil || out.Unfit > 0 || len(out.Modelled) > 0) {
		return exit.Silently(exit.Failed)
	}
	return nil
}
