package operate

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/spf13/cobra"

	"github.com/steadyfleet/steady/internal/api/operator"
	"github.com/steadyfleet/steady/internal/cli/command"
	"github.com/steadyfleet/steady/internal/core/clock"
)

// decision is one event about a rollout, with what all of them have in common.
type decision struct {
	Seq        uint64            `json:"seq"`
	At         clock.Instant     `json:"at"`
	Rollout    string            `json:"rollout"`
	Wave       string            `json:"wave,omitempty"`
	Host       string            `json:"host,omitempty"`
	Transition string            `json:"transition"`
	Reason     string            `json:"reason"`
	Actor      string            `json:"actor,omitempty"`
	Budgets    map[string]string `json:"budgets,omitempty"`
}

func (a verbs) rolloutEvents() *cobra.Command {
	var reports bool
	cmd := &cobra.Command{
		Use: "events ROLLOUT", Short: "List every decision about a rollout, with its reason",
		Long: `Lists every decision about a rollout in order: when, which wave and host, what
changed, why, who asked for it if somebody did, and how full the host's budgets
were. A wait is listed again only when its reason changes. With --reports, what
hosts reported of themselves is listed as well, on their own clocks.`,
		Example: "  steady rollout events stable@v2\n  steady rollout events stable@v2 --reports -o json",
	}
	cmd.Flags().BoolVar(&reports, "reports", false, "what hosts reported as well")
	return a.RolloutNames(a.PrintsData(a.Stream(cmd, func(ctx context.Context, c *operator.Client, args []string) error {
		r, err := c.Rollout(ctx, args[0])
		if err != nil {
			return err
		}
		ds, err := decisions(ctx, c, r, reports)
		if err != nil {
			return err
		}
		return a.Print(command.NonNil(ds), func() error {
			var rows [][]string
			for _, d := range ds {
				rows = append(rows, []string{fmt.Sprint(d.Seq), d.At.String(), d.Wave, cmp.Or(d.Host, "server"), d.Transition, d.message()})
			}
			return a.Table([]string{"seq", "time", "wave", "host", "transition", "reason"}, rows)
		})
	})))
}

func decisions(ctx context.Context, c *operator.Client, r operator.RolloutDetail, reports bool) ([]decision, error) {
	var out []decision
	for q := (operator.EventQuery{About: operator.AboutRollout(r.Name), Limit: 1000}); ; {
		page, err := c.Events(ctx, q)
		if err != nil {
			return nil, err
		}
		for _, e := range page.Events {
			if e.HostSeq == 0 || reports {
				out = append(out, decisionOf(e, r))
			}
		}
		if len(page.Events) < q.Limit || page.Next == q.After {
			return out, nil
		}
		q.After = page.Next
	}
}

// decisionOf takes out of an event what every decision has. One without a reason
// of its own says in words what it is.
func decisionOf(e operator.Event, r operator.RolloutDetail) decision {
	var body struct {
		Wave    *int              `json:"wave"`
		From    string            `json:"from"`
		To      string            `json:"to"`
		Purpose string            `json:"purpose"`
		Reason  string            `json:"reason"`
		Actor   string            `json:"actor"`
		Budgets map[string]string `json:"budgets"`
	}
	d := decision{Seq: e.Seq, At: e.At, Rollout: r.Name, Host: e.Subject.Host(), Transition: e.Type, Reason: operator.Message(e)}
	if json.Unmarshal(e.Body, &body) != nil {
		return d
	}
	d.Actor, d.Budgets, d.Reason = body.Actor, body.Budgets, cmp.Or(body.Reason, d.Reason)
	switch {
	case body.From != body.To && body.To != "":
		d.Transition = cmp.Or(body.From, "new") + " -> " + body.To
	case body.Purpose != "":
		d.Transition += " " + body.Purpose
	}
	if w := body.Wave; w != nil {
		if d.Wave = fmt.Sprint(*w); *w < len(r.Waves) {
			d.Wave = r.Waves[*w].Name
		}
	}
	return d
}

// message is the reason with who asked and how full the budgets were.
func (d decision) message() string {
	s := d.Reason
	if d.Actor != "" {
		s += ", by " + d.Actor
	}
	for _, selector := range slices.Sorted(maps.Keys(d.Budgets)) {
		s += "; " + selector + " " + d.Budgets[selector]
	}
	return s
}
