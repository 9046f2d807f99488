package replay

import (
	"testing"

	"github.com/steadyfleet/steady/internal/core/fleet"
)

// FuzzParsePolicy: an edit that is taken is of a field that is listed, can be
// applied, and leaves no negative number behind.
func FuzzParsePolicy(f *testing.F) {
	for _, field := range PolicyFields() {
		f.Add("stable:" + field + "=1")
		f.Add(field + "=30s")
		f.Add(field + "=-1")
	}
	f.Add("onHealthFailure=halt")
	f.Add("maxFailures=1;2")
	f.Add("=")
	f.Fuzz(func(t *testing.T, text string) {
		e, err := ParsePolicy(text)
		if err != nil {
			return
		}
		m := fleet.Manifest{Policy: fleet.Policy{OnHealthFailure: fleet.Halt}, Waves: []fleet.Wave{{Hosts: 1}, {Hosts: 2}}}
		e.set(&m)
		p := m.Policy
		if min(p.MaxFailures, m.Waves[0].MinSoaked, m.Waves[1].MinSoaked) < 0 ||
			min(p.ConfirmWindow, p.ActivationDeadline, p.SustainedFailure, p.GrantExpiry, m.Waves[0].Soak, m.Waves[1].Soak) < 0 ||
			p.OnHealthFailure != fleet.Halt && p.OnHealthFailure != fleet.RollbackAndHalt {
			t.Fatalf("%q made %+v", text, m)
		}
	})
}
