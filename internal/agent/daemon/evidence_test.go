package daemon

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/host"
	"github.com/steadyfleet/steady/internal/testkit"
)

// TestEvidenceOfAConvergedHostIsReportedOnChange checks that a host which has
// converged goes on to look at its evidence and says only what is new.
func TestEvidenceOfAConvergedHostIsReportedOnChange(t *testing.T) {
	s := newServer(t)
	b := newBox(t, s, "web-1").start()
	scan := filepath.Join(t.TempDir(), "scan.json")
	write := func(status string) {
		next := scan + ".new"
		testkit.Must(t, os.WriteFile(next, []byte(`{"sub_results":[{"control_id":"R1","status":"`+status+`","framework":"anssi"}]}`), 0o644))
		testkit.Must(t, os.Rename(next, scan))
	}
	write("pass")
	one := newPack(t, "web", []file{{path: "a", content: "one"}})
	p := single("web-1", 1, "r1", one)
	p.probes = []fleet.Probe{{Name: "scan", Mode: fleet.Enforce, Interval: 20, Timeout: clock.Second, Evidence: &fleet.EvidenceProbe{Path: scan}}}
	b.roll(p, "g1", one)
	b.phase(host.Converged)
	looks := func() (out []host.ProbeObserved) {
		for _, e := range reported[event.HostStepped](s) {
			var in host.ProbeObserved
			if e.Input == in.Kind() {
				testkit.Must(t, json.Unmarshal(e.Data, &in))
				out = append(out, in)
			}
		}
		return out
	}
	write("fail")
	testkit.Eventually(t, "the failure", func() bool { l := looks(); return len(l) > 0 && !l[len(l)-1].Pass })
	if last := looks()[len(looks())-1]; len(last.Results) != 1 || last.Results[0].Control != "R1" {
		t.Fatalf("reported %+v", last)
	}
	m := b.agent.Status().Machine
	if out := m.Outstanding(); !slices.Equal(out, []string{"R1 of probe " + m.Probes[0].Name}) {
		t.Fatalf("outstanding %v", out)
	}
	if m.Phase != host.Converged {
		t.Fatalf("the host is %s", m.Phase)
	}
	write("pass")
	testkit.Eventually(t, "the cure", func() bool { l := looks(); return l[len(l)-1].Pass })
	if n := len(looks()); n != 3 {
		t.Errorf("%d looks were reported, 3 changed anything", n)
	}
}
