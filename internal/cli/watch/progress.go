package watch

import (
	"fmt"
	"strings"

	"github.com/steadyfleet/steady/internal/cli/term"
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/prose"
)

// head is the first line: the rollout, where it stands, and the server's clock.
func head(s term.Screen, r *Rollout) string {
	line := s.Paint(term.Bold, r.Name) + "  " + s.Paint(colorOf(r.Status), r.Status)
	if r.Now != 0 && !r.Ended() {
		line += "  " + s.Paint(term.Faint, prose.Stamp(r.Now, r.Now)+" UTC")
	}
	return strings.TrimRight(line+"  "+s.Paint(term.Faint, r.Reason), " ")
}

// soakMessage counts a soak down. It does not pass while an enforce probe fails.
func soakMessage(h *Host, now clock.Instant) string {
	p := h.Progress
	if p == nil || p.Soak == 0 || p.SoakFrom == 0 {
		return ""
	}
	for _, q := range h.Probes {
		if !q.Pass && !q.Observed {
			return "soak starts over once probes pass"
		}
	}
	if left := p.Soak - now.Sub(p.SoakFrom); left > 0 {
		return fmt.Sprintf("%s of %s soak left", prose.Span(left), p.Soak)
	}
	return fmt.Sprintf("soak of %s is over", p.Soak)
}

// below is what keeps a host in flight from converging, a line each: probes that
// fail and resources that do not run.
func below(s term.Screen, h *Host, r *Rollout) (lines []string) {
	if r.Ended() || h.done() {
		return nil
	}
	for _, p := range h.Probes {
		if !p.Pass {
			lines = append(lines, "        "+failingProbe(s, h, p, r.Now))
		}
	}
	for _, u := range h.Unready {
		lines = append(lines, "        "+s.Paint(term.Busy, "… "+joined(u.Resource+" is "+u.State, u.Message)))
	}
	if h.MoreUnready > 0 {
		lines = append(lines, fmt.Sprintf("        … %s more not running yet", prose.Count(h.MoreUnready, "resource")))
	}
	return lines
}

// failingProbe counts down to the failure of the host, or says that a probe which
// only observes holds nothing.
func failingProbe(s term.Screen, h *Host, p Probe, now clock.Instant) string {
	words, since := p.Name+" failing", ""
	if p.FailingSince != 0 {
		since = " for " + prose.Span(now.Sub(p.FailingSince))
	}
	if p.Observed {
		return s.Paint(term.Busy, joined("! "+words+since+", only observed", prose.Reason(p.Reason)))
	}
	if since != "" && h.Progress != nil {
		since += " of " + h.Progress.SustainedFailure.String()
	}
	return s.Paint(term.Bad, joined("✗ "+words+since, prose.Reason(p.Reason)))
}
