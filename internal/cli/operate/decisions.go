package operate

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/steadyfleet/steady/internal/api/operator"
	"github.com/steadyfleet/steady/internal/cli/command"
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/event"
)

// decision is one event about a rollout, with what all of them have in common.
type decision struct {
	Seq        uint64            `json:"seq"`
	At         clock.Instant     `json:"at"` // when the server committed it
	Rollout    string            `json:"rollout"`
	Wave       string            `json:"wave,omitempty"`
	Host       string            `json:"host,omitempty"`
	Transition string            `json:"transition"`
	Reason     string            `json:"reason"`
	Actor      string            `json:"actor,omitempty"`
	Budgets    map[string]string `json:"budgets,omitempty"`
	Waits      []event.HostWait  `json:"waits,omitempty"`
	// Message is the whole of it in words, as steady events has it.
	Message string `json:"message"`
}

func (a verbs) rolloutEvents() *cobra.Command {
	var reports bool
	cmd := &cobra.Command{
		Use: "events ROLLOUT", Short: "List every decision about a rollout, with its reason",
		Long: `Lists every decision about a rollout in order: when, which wave and host, what
changed, why, who asked for it, how full the host's budgets were, and which hosts wait
for what. A wait is listed again only when its reason changes. With --reports, what
hosts reported of themselves is listed as well, at the time at which the server committed it.`,
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
				rows = append(rows, []string{fmt.Sprint(d.Seq), d.At.String(), d.Wave, cmp.Or(d.Host, "server"), transition(&d), strings.TrimPrefix(d.Message, d.Rollout+": ")})
			}
			return a.Details([]string{"seq", "time", "wave", "host", "transition", "what"}, rows)
		})
	})))
}

// transition is what changed, in words: a step of a host that moved nothing is a report.
func transition(d *decision) string {
	if d.Transition == (event.HostStepped{}).EventType() {
		return "reported"
	}
	return d.Transition
}

func decisions(ctx context.Context, c *operator.Client, r operator.RolloutDetail, reports bool) ([]decision, error) {
	var events []operator.Event
	names := waveNames{}
	for i, w := range r.Waves {
		names[i] = w.Name
	}
	for q := (operator.EventQuery{About: operator.AboutRollout(r.Name), Limit: 1000}); ; {
		page, err := c.Events(ctx, q)
		if err != nil {
			return nil, err
		}
		for _, e := range page.Events {
			if e.HostSeq == 0 || reports {
				events = append(events, e)
			}
			names.learn(&e)
		}
		if len(page.Events) < q.Limit || page.Next == q.After {
			break
		}
		q.After = page.Next
	}
	var out []decision
	for _, e := range events {
		out = append(out, decisionOf(e, r.Name, names))
	}
	return out, nil
}

// waveNames are the names of a rollout's waves by their place: events have them, and the rollout
// itself while it is planned.
type waveNames map[int]string

func (n waveNames) learn(e *operator.Event) {
	var of struct {
		Wave     int    `json:"wave"`
		WaveName string `json:"waveName"`
	}
	if json.Unmarshal(e.Body, &of) == nil && of.WaveName != "" {
		n[of.Wave] = of.WaveName
	}
}

// decisionOf takes out of an event what every decision has.
func decisionOf(e operator.Event, rollout string, names waveNames) decision {
	var body struct {
		Wave    *int              `json:"wave"`
		From    string            `json:"from"`
		To      string            `json:"to"`
		Purpose string            `json:"purpose"`
		Reason  string            `json:"reason"`
		Actor   string            `json:"actor"`
		Final   bool              `json:"final"`
		Budgets map[string]string `json:"budgets"`
		Waits   []event.HostWait  `json:"waits"`
	}
	d := decision{Seq: e.Seq, At: e.Committed(), Rollout: rollout, Host: e.Subject.Host(), Transition: e.Type, Message: operator.Message(e)}
	d.Reason = d.Message
	if json.Unmarshal(e.Body, &body) != nil {
		return d
	}
	d.Actor, d.Budgets, d.Waits, d.Reason = body.Actor, body.Budgets, body.Waits, cmp.Or(body.Reason, d.Reason)
	switch {
	case body.From != body.To && body.To != "":
		d.Transition = cmp.Or(body.From, "new") + " -> " + body.To
		if d.Host == "" {
			d.Transition = cmp.Or(body.From, "new") + " -> " + operator.StatusOfPhase(body.To, body.Final)
		}
	case body.Purpose != "":
		d.Transition += " " + body.Purpose
	}
	if w := body.Wave; w != nil {
		d.Wave = cmp.Or(names[*w], fmt.Sprint(*w))
	}
	return d
}
