package simulate

import (
	"fmt"

	"github.com/steadyfleet/steady/internal/cli/term"
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/plan"
	"github.com/steadyfleet/steady/internal/replay"
)

func (a verbs) showWhy(w *plan.Answer, seq uint64, at clock.Instant) {
	a.Printf("After event %d (%s)\n%s: %s\n", seq, at, w.Host, w.Message)
	for _, g := range w.Gates {
		if g.Block == nil {
			a.Printf("  open   %s\n", g.Gate)
			continue
		}
		a.Printf("  blocks %s: %s\n         waits for %s, cleared by %s\n", g.Gate, term.Printable(g.Block.Message), g.Block.WaitsFor, g.Block.ClearedBy)
	}
	if w.Pending != "" && w.PendingBlock != nil {
		a.Printf("  %s is not open: %s\n", w.Pending, w.PendingBlock.Message)
	}
}

func (a verbs) showDifferences(ds []replay.Difference, before, after string) error {
	if len(ds) == 0 {
		a.Printf("  Nothing differs.\n")
	}
	for _, d := range ds {
		a.Printf("  %s\n    %s: %s\n    %s: %s\n", d.What, before, orNothing(d.Before), after, orNothing(d.After))
	}
	return nil
}

func orNothing(s string) string {
	if s == "" {
		return "nothing"
	}
	return term.Printable(s)
}

func (a verbs) showView(v replay.View) error {
	a.Printf("After event %d, %s: release %s\n", v.Seq, v.At, orNothing(v.Release))
	for _, r := range v.Rollouts {
		a.Printf("  %s: %s\n", r.Name, r.Message())
		if r.Block != "" {
			a.Printf("    held: %s\n", term.Printable(r.Block))
		}
	}
	var rows [][]string
	for _, h := range v.Hosts {
		rows = append(rows, []string{h.Name, string(h.Presence), h.Phase, h.Rollout, h.Runs, h.Grant})
	}
	if len(rows) == 0 {
		return nil
	}
	return a.Table([]string{"host", "presence", "phase", "rollout", "runs", "grant"}, rows)
}

func (a verbs) showAnswer(w *replay.WhatIf, check bool) error {
	if check {
		if w.Divergence == nil && w.Unfit == 0 && len(w.Modelled) == 0 {
			a.Printf("This version decides exactly what is in the log, event by event.\n")
			return nil
		}
		a.Printf("This version does not decide what is in the log.\n")
	}
	if w.Divergence == nil {
		a.Printf("Every decision would have been the same.\n")
	} else {
		where := "when the log has ended"
		if w.Divergence.Seq != 0 {
			where = fmt.Sprintf("at event %d of the log", w.Divergence.Seq)
		}
		a.Printf("First other decision at %s, %s\n", w.Divergence.At, where)
		a.list("recorded", w.FirstRecorded)
		a.list("instead", w.FirstNew)
	}
	a.Printf("\nThe log ends at %s; ", w.RecordedAt)
	if w.Rest {
		a.Printf("this course of events comes to rest at %s:\n", w.EndedAt)
	} else {
		a.Printf("this course of events is not at rest at %s, when --beyond is over:\n", w.EndedAt)
	}
	if err := a.showDifferences(w.Differences, "recorded", "instead"); err != nil {
		return err
	}
	a.Printf("\nRecorded: %d hosts follow the log to its end. Modelled: %d hosts left it.\n", w.Followed, len(w.Modelled))
	for i, m := range w.Modelled {
		if i == maxListed {
			a.Printf("  and %d more\n", len(w.Modelled)-i)
			break
		}
		a.Printf("  %s from %s: %s\n", m.Host, m.At, term.Printable(m.Why))
	}
	if w.Unfit > 0 {
		a.Printf("%d recorded events did not apply, for example %s\n", w.Unfit, term.Printable(w.UnfitExample))
	}
	return nil
}

const maxListed = 10

func (a verbs) list(what string, lines []string) {
	if len(lines) == 0 {
		a.Printf("  %-9s nothing\n", what)
	}
	for i, line := range lines {
		if i == maxListed {
			a.Printf("  %-9s and %d more\n", "", len(lines)-i)
			return
		}
		a.Printf("  %-9s %s\n", what, term.Printable(line))
		what = ""
	}
}
