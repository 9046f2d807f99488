package simulate

import (
	"fmt"
	"math"
	"strings"

	"github.com/steadyfleet/steady/internal/cli/term"
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/forecast"
)

// chartColumns is the width of a chart; with its name it fits 80 columns.
const chartColumns = 48

func (a verbs) showForecast(r *forecast.Report) error {
	a.Printf("%d hosts, %d runs from seed %d, %s ahead\n", r.Hosts, r.Runs, r.Seed, r.Horizon)
	s := r.Assumptions
	a.Printf("Assumed: activation %s, preparing %s, failures %s, offline %s\n",
		span(s.Activation), span(s.Prepare), rates(s.Failure, s.Fail), rates(s.Offline, nil))
	for i := range r.Rollouts {
		if err := a.showRollout(&r.Rollouts[i], r.Runs); err != nil {
			return err
		}
	}
	a.showUsage(r)
	if r.Finished == 0 {
		a.Printf("\nFinish: in no run did every rollout converge.\n")
		return nil
	}
	f := r.Finish
	a.Printf("\nFinish: expected after %s; half of the runs by %s, 95%% by %s, worst %s",
		about(f.Mean), about(f.Median), about(f.P95), about(f.Worst))
	if r.Finished < r.Runs {
		a.Printf("\n  This counts the %s of runs in which every rollout converged.", share(r.Finished, r.Runs))
	}
	a.Printf("\n")
	return nil
}

func (a verbs) showRollout(r *forecast.Rollout, runs int) error {
	a.Printf("\nRollout %s, %d hosts: %s\n", r.Name, r.Hosts, strings.Join(fates(r, runs), ", "))
	if r.Affected.Runs > 0 {
		a.Printf("  Where it was stopped, it had touched %d hosts at most, %d in half of those runs.\n", r.Affected.Worst, r.Affected.Median)
		a.Printf("  For example: %s\n", term.Printable(r.Reason))
	}
	var rows [][]string
	for i := range r.Waves {
		w := &r.Waves[i]
		row := []string{w.Name, fmt.Sprint(w.Hosts), "never", "never", "", "", "-"}
		if w.Reached > 0 {
			row[2] = about(w.Opens.Median)
		}
		if w.Passed > 0 {
			row[3], row[4], row[5] = about(w.Promoted.Median), about(w.Promoted.P95), about(w.Promoted.Worst)
		}
		if w.Stopped > 0 {
			row[6] = share(w.Stopped, runs)
		}
		rows = append(rows, row)
	}
	if err := a.Table([]string{"wave", "hosts", "opens", "promoted", "95%", "worst", "stops here"}, rows); err != nil {
		return err
	}
	for _, h := range r.Obstacles {
		a.Printf("  It does not end in %s: %s\n", share(h.Runs, runs), term.Printable(h.Message))
		if h.HostBlock != nil {
			a.Printf("    %s\n    waits for %s, cleared by %s\n", term.Printable(h.HostBlock.Message), h.HostBlock.WaitsFor, h.HostBlock.ClearedBy)
		} else {
			a.Printf("    waits for %s", h.WaitsFor)
			if h.ClearedBy != "" {
				a.Printf(", cleared by %s", h.ClearedBy)
			}
			a.Printf("\n")
		}
	}
	return nil
}

// fates says in how many runs a rollout ended how.
func fates(r *forecast.Rollout, runs int) []string {
	var out []string
	for _, f := range []struct {
		n     int
		words string
	}{{r.Converged, "converges"}, {r.Reverted, "is reverted"}, {r.Halted, "is halted"}, {r.Blocked, "does not end"}, {r.Unopened, "does not open"}} {
		if f.n > 0 {
			out = append(out, f.words+" in "+share(f.n, runs))
		}
	}
	return out
}

func (a verbs) showUsage(r *forecast.Report) {
	steps := len(r.InFlight.Mean)
	if steps == 0 || r.PeakInFlight == 0 {
		a.Printf("\nNo host is disturbed at any time.\n")
		return
	}
	end := r.InFlight.Width * clock.Duration(steps)
	a.Printf("\nHosts in flight from 0 to %s, mean of all runs (full height: the budget, or the peak)\n", about(end))
	a.Printf("  %-26.26s %s\n", fmt.Sprintf("all, peak %d", r.PeakInFlight), spark(r.InFlight, end, float64(r.PeakInFlight)))
	for _, b := range r.Budgets {
		name := fmt.Sprintf(" %d/%d", b.Peak, b.Max)
		a.Printf("  %-26s %s\n", cut(b.Selector, 26-len(name))+name, spark(b.Usage, end, float64(b.Max)))
	}
}

func cut(s string, width int) string {
	if r := []rune(s); len(r) > width {
		return string(r[:max(width-1, 0)]) + "…"
	}
	return s
}

// spark draws a curve up to an instant as one line; full is the highest level.
func spark(c forecast.Curve, end clock.Duration, full float64) string {
	const bars = "▁▂▃▄▅▆▇█"
	var b strings.Builder
	for i := range chartColumns {
		from := float64(end) * float64(i) / chartColumns
		to := float64(end) * float64(i+1) / chartColumns
		level := 0.0
		for k := int(from / float64(c.Width)); k < len(c.Mean) && float64(k)*float64(c.Width) < to; k++ {
			level = max(level, c.Mean[k])
		}
		if level == 0 {
			b.WriteRune('·')
			continue
		}
		b.WriteRune([]rune(bars)[min(7, int(level/max(full, 1)*8))])
	}
	return b.String()
}

// about rounds a time to what people read.
func about(d clock.Duration) string {
	switch {
	case d >= clock.Hour:
		d = (d + 30*clock.Second) / clock.Minute * clock.Minute
	case d >= clock.Minute:
		d = (d + clock.Second/2) / clock.Second * clock.Second
	default:
		d = (d + 50) / 100 * 100
	}
	return d.String()
}

func share(n, of int) string {
	switch p := 100 * float64(n) / float64(of); {
	case n == of:
		return "all runs"
	case p < 1:
		return fmt.Sprintf("%.1f%%", p)
	case math.Round(p) == 100:
		return ">99%"
	default:
		return fmt.Sprintf("%.0f%%", p)
	}
}

func span(r forecast.Range) string {
	if r.Min == r.Max {
		return r.Min.String()
	}
	return r.Min.String() + ".." + r.Max.String()
}

func rates(rates []forecast.Rate, surely []string) string {
	var parts []string
	for _, r := range rates {
		part := fmt.Sprintf("%g%%", math.Round(r.Part*1e6)/1e4)
		switch {
		case r.Host != "" && r.Part == 1:
			part = r.Host
		case r.Host != "":
			part = r.Host + " " + part
		case r.Tag != "":
			part = "tag:" + r.Tag + " " + part
		}
		parts = append(parts, part)
	}
	parts = append(parts, surely...)
	if len(parts) == 0 {
		return "none"
	}
	return strings.Join(parts, " ")
}
