package probe

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/host"
	"github.com/steadyfleet/steady/internal/testkit"
)

func TestEvidence(t *testing.T) {
	one := func(id, status, framework string) string {
		return fmt.Sprintf(`{"control_id":%q,"status":%q,"framework":%q,"article":"4.1"}`, id, status, framework)
	}
	list := func(results ...string) string { return `{"sub_results":[` + strings.Join(results, ",") + `]}` }
	many := func(n int) string {
		var out []string
		for i := range n {
			out = append(out, one(fmt.Sprintf("c%04d", i), "fail", "anssi"))
		}
		return list(out...)
	}
	for name, c := range map[string]struct {
		content, want string // of the reason; empty passes
		results       int
	}{
		"passes":           {list(one("R1", "pass", "anssi"), one("R2", "pass", "anssi")), "", 2},
		"fails":            {list(one("R1", "pass", "anssi"), one("R2", "fail", "anssi")), "1 of 2 controls do not pass: R2", 1},
		"unknown status":   {list(one("R1", "PASS", "anssi")), "1 of 1 controls", 1},
		"error fails":      {list(one("R1", "error", "anssi")), "1 of 1 controls", 1},
		"other framework":  {list(one("R1", "pass", "nis2")), "says nothing of framework", 0},
		"only its own":     {list(one("R1", "pass", "anssi"), one("R2", "fail", "nis2")), "", 1},
		"nothing":          {list(), "says nothing", 0},
		"empty file":       {"", "not as expected", 0},
		"unknown field":    {`{"sub_results":[],"extra":1}`, "not as expected", 0},
		"two documents":    {list(one("R1", "pass", "anssi")) + "{}", "more than one document", 0},
		"no id":            {list(one("", "pass", "anssi")), "lacks its control_id", 0},
		"long word":        {list(one(strings.Repeat("x", 200), "pass", "anssi")), "more than 128 bytes", 0},
		"many are capped":  {many(200), "200 of 200 controls", host.MaxResults},
		"too many":         {many(5000), "more than 4096", 0},
		"too large a file": {strings.Repeat(" ", 1<<20+1), "more than 1048576 bytes", 0},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "scan.json")
			testkit.Must(t, os.WriteFile(path, []byte(c.content), 0o644))
			p := fleet.Probe{Name: "scan", Timeout: clock.Second, Evidence: &fleet.EvidenceProbe{Path: path, Framework: "anssi", MaxAge: clock.Hour}}
			r := RunOnce(t.Context(), p, Env{})
			if r.Pass != (c.want == "") || !strings.Contains(r.Reason, c.want) || len(r.Results) != c.results || len(r.Reason) > MaxReason {
				t.Fatalf("pass %t, %d results: %s", r.Pass, len(r.Results), r.Reason)
			}
			old := time.Now().Add(-2 * time.Hour)
			testkit.Must(t, os.Chtimes(path, old, old))
			if r := RunOnce(t.Context(), p, Env{}); r.Pass || !strings.Contains(r.Reason, "1h old") {
				t.Fatalf("old evidence: %+v", r)
			}
		})
	}
	for name, path := range map[string]string{"missing": filepath.Join(t.TempDir(), "none"), "a folder": t.TempDir(), "a device": "/dev/zero"} {
		p := fleet.Probe{Name: "scan", Timeout: clock.Second, Evidence: &fleet.EvidenceProbe{Path: path}}
		if r := RunOnce(t.Context(), p, Env{}); r.Pass || r.Reason == "" {
			t.Errorf("%s: %+v", name, r)
		}
	}
}
