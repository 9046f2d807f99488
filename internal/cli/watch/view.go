package watch

import (
	"fmt"
	"io"
	"strings"

	"github.com/steadyfleet/steady/internal/api/operator"
	"github.com/steadyfleet/steady/internal/cli/term"
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/prose"
	"github.com/steadyfleet/steady/internal/core/rollout"
)

// View shows a rollout as it moves. Its functions are called by one goroutine.
type View struct {
	// Event is called for every event; changed, after it was folded, at most a
	// few times a second; end, once.
	event   func(operator.Event) error
	changed func(*Rollout) error
	end     func(*Rollout) error
}

func nothing(*Rollout) error { return nil }

// Plain prints a line for every event, and one at the end.
func Plain(w io.Writer) View {
	return View{event: Printer(w), changed: nothing, end: func(r *Rollout) error {
		_, err := fmt.Fprintln(w, Ending(r))
		return err
	}}
}

// Moving leaves out the events that move nothing.
func (v View) Moving() View {
	v.event = Moving(v.event)
	return v
}

// Moving leaves out what moves nothing.
func Moving(show func(operator.Event) error) func(operator.Event) error {
	return func(e operator.Event) error {
		if !moves(e) {
			return nil
		}
		return show(e)
	}
}

// moves reports whether an event moves something: all but the signed heads of
// the hosts' chains and steps that change no phase and are no probe's.
func moves(e operator.Event) bool {
	ev, err := event.DecodeBody(e.Type, e.Body)
	if err != nil {
		return true
	}
	switch v := ev.(type) {
	case event.HostHead:
		return false
	case event.HostStepped:
		_, probe := operator.ProbeOf(v)
		return probe || v.From != v.To
	}
	return true
}

// JSON prints a line of JSON for every event, and the rollout at the end.
func JSON(w io.Writer) View {
	return View{
		event:   func(e operator.Event) error { return term.Line(w, e) },
		changed: nothing,
		end: func(r *Rollout) error {
			return term.Line(w, struct {
				OK bool `json:"ok"`
				*Rollout
			}{r.Converged(), r})
		},
	}
}

// InPlace redraws the rollout on a terminal.
func InPlace(w io.Writer, s term.Screen) View {
	frame := term.NewFrame(w, s)
	return View{
		event:   func(operator.Event) error { return nil },
		changed: func(r *Rollout) error { return frame.Draw(Lines(s, r)) },
		end: func(r *Rollout) error {
			if err := frame.Draw(Lines(s, r)); err != nil {
				return err
			}
			frame.Leave()
			_, err := fmt.Fprintln(w, Ending(r))
			return err
		},
	}
}

// On is the view that fits an output: lines of JSON, a view that is redrawn on a terminal,
// or a line for every event.
func On(w io.Writer, s term.Screen, asJSON bool) View {
	switch {
	case asJSON:
		return JSON(w)
	case s.TTY:
		return InPlace(w, s)
	}
	return Plain(w)
}

// Ending sums up how a rollout ended.
func Ending(r *Rollout) string {
	by := map[string]int{}
	for i := range r.Hosts {
		by[r.Hosts[i].Status]++
	}
	s := fmt.Sprintf("Rollout %s %s", r.Name, EndMessage(r.Status))
	if r.Reason != "" {
		s += ": " + r.Reason
	}
	if r.Status == rollout.StatusHalted {
		s += "; next: steady rollout resume, retry or cancel " + r.Name
	}
	return s + " (" + prose.Join(fmt.Sprintf("%d converged", by[rollout.Converged.String()]), prose.Any(by[rollout.AtTarget.String()], "ran the target already"),
		prose.Any(by[rollout.RolledBack.String()], "went back"), prose.Any(by[rollout.Broken.String()], "failed")) + ")"
}

// EndMessage says how a rollout ended, by where it stands.
func EndMessage(standing string) string {
	switch standing {
	case rollout.StatusDone:
		return "converged"
	case rollout.StatusHalted:
		return "was halted"
	case rollout.StatusRevertFailed:
		return "was not reverted on every host"
	case string(rollout.Reverted), string(rollout.Superseded), "cancelled":
		return "was " + standing
	}
	return "is " + standing
}

const barWidth = 24

// Lines draws a rollout: its waves with their hosts.
func Lines(s term.Screen, r *Rollout) []string {
	lines := []string{head(s, r)}
	moving := 0 // while hosts move, their wave waits for them and nothing else
	for i, w := range r.Waves {
		done, busy, bad, all := r.Progress(i)
		moving += busy
		state := "waits for its turn"
		if r.Ended() && !w.Open {
			state = "never opened"
		} else if w.Open {
			state = fmt.Sprintf("soak %s", w.Soak)
		}
		count := fmt.Sprintf("%d/%d", done, all)
		if bad > 0 {
			count += s.Paint(term.Bad, fmt.Sprintf(", %d failed", bad))
		}
		lines = append(lines, fmt.Sprintf("  wave %-12s %s  %s  %s", w.Name, s.Bar(done, busy, all, barWidth), count, s.Paint(term.Faint, state)))
		lines = append(lines, hostLines(s, r, i)...)
	}
	if r.Blocked != "" && !r.Ended() && moving == 0 {
		lines = append(lines, "  "+s.Paint(term.Busy, "held: "+r.Blocked))
	}
	if r.Next != "" && !r.Ended() {
		lines = append(lines, "  "+s.Paint(term.Faint, "next: "+r.Next))
	}
	return lines
}

const maxHosts = 16

// hostLines lists the hosts of a wave; of a large wave only those that move or
// failed, which are what a person looks for.
func hostLines(s term.Screen, r *Rollout, wave int) []string {
	_, _, _, all := r.Progress(wave)
	var lines []string
	listed := 0
	for i := range r.Hosts {
		h := &r.Hosts[i]
		if h.Wave != wave || (all > maxHosts && (h.waits() || h.done())) {
			continue
		}
		if listed < maxHosts {
			listed++
			lines = append(lines, hostLine(s, h, r))
			lines = append(lines, below(s, h, r)...)
		}
	}
	if rest := all - listed; rest > 0 {
		lines = append(lines, s.Paint(term.Faint, fmt.Sprintf("    … and %d more", rest)))
	}
	return lines
}

func hostLine(s term.Screen, h *Host, r *Rollout) string {
	status := h.Status
	if r.Ended() && h.waits() {
		return fmt.Sprintf("    %-12s %s", h.Name, s.Paint(term.Faint, "not granted"))
	}
	if status == rollout.Claimed.String() && h.Phase != "" {
		status = h.Phase
	}
	var parts []string
	if soak := soakMessage(h, r.Now); soak != "" {
		parts = append(parts, soak)
	}
	for _, p := range h.Probes {
		if p.Pass {
			parts = append(parts, s.Paint(term.Good, "✓ "+p.Name))
		}
	}
	if h.Message != "" {
		parts = append(parts, s.Paint(term.Faint, h.Message))
	}
	if !h.Online {
		parts = append(parts, s.Paint(term.Busy, "silent"))
	}
	return fmt.Sprintf("    %-12s %s  %s", h.Name, s.Paint(colorOf(h.Status), fmt.Sprintf("%-10s", status)), strings.Join(parts, "  "))
}

func colorOf(status string) term.Color {
	switch status {
	case rollout.Converged.String(), rollout.AtTarget.String(), rollout.StatusDone:
		return term.Good
	case rollout.Broken.String(), rollout.Refused.String(), rollout.RolledBack.String(), "reverting":
		return term.Bad
	case rollout.Waiting.String():
		return term.Faint
	}
	return term.Busy
}

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
		lines = append(lines, "        "+s.Paint(term.Busy, "… "+prose.Detailed(u.Resource+" is "+u.State, u.Message)))
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
		return s.Paint(term.Busy, prose.Detailed("! "+words+since+", only observed", prose.Reason(p.Reason)))
	}
	if since != "" && h.Progress != nil {
		since += " of " + h.Progress.SustainedFailure.String()
	}
	return s.Paint(term.Bad, prose.Detailed("✗ "+words+since, prose.Reason(p.Reason)))
}
