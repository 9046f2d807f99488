package operate

import (
	"cmp"
	"strings"

	"github.com/steadyfleet/steady/internal/api/operator"
	"github.com/steadyfleet/steady/internal/cli/command"
	"github.com/steadyfleet/steady/internal/cli/term"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/host"
	"github.com/steadyfleet/steady/internal/core/prose"
)

func (a verbs) showHost(h operator.HostDetail) error {
	a.PrintFolded("Host %s, channel %s, %s\n", h.Name, cmp.Or(h.Channel, "none"), presence(h.Presence, h.FrozenUntil))
	phase := cmp.Or(h.Phase, "none")
	if h.Rollout != "" {
		phase += " in " + h.Rollout
	}
	a.PrintFolded("  phase:       %s\n", phase)
	a.PrintFolded("  runs:        %s\n  target:      %s\n", cmp.Or(prose.Join(h.Runs, command.Short(string(h.Current))), "nothing yet"), cmp.Or(command.Short(string(h.Target)), "none"))
	well := string(h.Health)
	if d := h.Degraded; d != nil {
		well += " since " + a.when(d.Since) + ": " + term.Printable(d.Summary())
	}
	a.PrintFolded("  health:      %s\n", well)
	if h.Removed != nil {
		a.PrintFolded("  leaves:      %s\n", removedWords(h.Removed))
	}
	if h.Failed != "" {
		a.PrintFolded("  failed:      %s\n", h.Failed)
	}
	if h.FrozenUntil != 0 {
		a.PrintFolded("  frozen:      until %s: %s\n", prose.Date(h.FrozenUntil), h.FrozenWhy)
	}
	if h.Grant != "" {
		a.PrintFolded("  grant:       %s\n", h.Grant)
	}
	for i := range h.Probes {
		a.PrintFolded("  probe:       %s\n", a.probeWords(&h.Probes[i]))
	}
	if h.Incarnation != 0 {
		a.PrintFolded("  incarnation: %d, %d events reported, last seen %s\n", h.Incarnation, h.Seq, a.ago(h.LastSeen))
		a.PrintFolded("  certificate: %s, good until %s\n", h.CertSerial, prose.Date(h.CertExpires))
		for _, words := range factsMessages(h.Facts) {
			a.PrintFolded("  facts:       %s\n", term.Printable(words))
		}
	}
	return a.showAnswer(h.Why, false)
}

// factsMessages say what a host is, as far as it told.
func factsMessages(f *event.HostFacts) []string {
	if f == nil {
		return []string{"unknown: its agent has reported none"}
	}
	return operator.FactsMessages(*f)
}

// probeWords say how a probe stands, and which controls its evidence lacks.
func (a verbs) probeWords(p *host.ProbeState) string {
	words := p.Name + " (" + string(p.Mode)
	if p.Evidence {
		words += ", evidence of compliance"
	}
	words += ") "
	switch {
	case !p.Seen:
		return words + "has not been seen since the activation"
	case p.Passing:
		return words + "passes"
	}
	words += "fails"
	if p.FailingSince != 0 {
		words += " since " + a.when(p.FailingSince)
	}
	if p.Reason != "" {
		words += ": " + term.Printable(p.Reason)
	}
	if len(p.Failing) > 0 {
		words += "; controls that do not pass: " + term.Printable(strings.Join(p.Failing, ", "))
	}
	return words
}
