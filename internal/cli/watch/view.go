package watch

import (
	"fmt"
	"io"
	"strings"

	"github.com/steadyfleet/steady/internal/api/operator"
	"github.com/steadyfleet/steady/internal/cli/term"
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

// Only leaves out the events that pick does not want shown.
func (v View) Only(pick func(operator.Event) bool) View {
	show := v.event
	v.event = func(e operator.Event) error {
		if !pick(e) {
			return nil
		}
		return show(e)
	}
	return v
}

// Moving leaves out what moves nothing.
func Moving(show func(operator.Event) error) func(operator.Event) error {
	return func(e operator.Event) error {
		if !Moves(e) {
			return nil
		}
		return show(e)
	}
}

// Moves reports whether an event moves something: all but the signed heads of
// the hosts' chains and steps that change no phase and are no probe's.
func Moves(e operator.Event) bool {
	ev, err := decode(e)
	if err != nil {
		return true
	}
	switch v := ev.(type) {
	case event.HostHead:
		return false
	case event.HostStepped:
		_, probe := probeOf(v)
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
	if rollout.Phase(r.Phase) == rollout.Failed {
		s += "; next: steady rollout resume or cancel " + r.Name
	}
	return s + " (" + prose.Join(fmt.Sprintf("%d converged", by[rollout.Converged.String()]), zeroless(by[rollout.AtTarget.String()], "ran the target already"),
		zeroless(by[rollout.RolledBack.String()], "went back"), zeroless(by[rollout.Broken.String()], "failed")) + ")"
}

// EndMessage says how a rollout ended, by where it stands.
func EndMessage(standing string) string {
	switch standing {
	case string(rollout.Terminal):
		return "converged"
	case string(rollout.Failed):
		return "was halted"
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
	return lines
}

// maxHosts bounds the hosts that are listed for one wave.
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
	case rollout.Converged.String(), rollout.AtTarget.String(), string(rollout.Terminal):
		return term.Good
	case rollout.Broken.String(), rollout.Refused.String(), rollout.RolledBack.String(), "reverting":
		return term.Bad
	case rollout.Waiting.String():
		return term.Faint
	}
	return term.Busy
}
