package replay

import (
	"slices"
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
		for _, f := range fields {
			if f.name == e.Field && f.set(&m, e.Value) != nil {
				t.Fatalf("%q is taken and cannot be set", text)
			}
		}
		p := m.Policy
		if !slices.Contains(PolicyFields(), e.Field) || min(p.MaxFailures, m.Waves[0].MinSoaked, m.Waves[1].MinSoaked) < 0 ||
			min(p.ConfirmWindow, p.ActivationDeadline, p.SustainedFailure, p.GrantExpiry, m.Waves[0].Soak, m.Waves[1].Soak) < 0 ||
			p.OnHealthFailure != fleet.Halt && p.OnHealthFailure != fleet.RollbackAndHalt {
			t.Fatalf("%q made %+v", text, m)
		}
	})
}
