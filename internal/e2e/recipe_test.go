package e2e

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/steadyfleet/steady/internal/testkit"
)

// edit is one place that a recipe of CONTRIBUTING.md changes: old, which is in the
// file once, becomes text. Without old the file is new.
type edit struct{ file, old, text string }

// before puts text before a place.
func before(file, place, text string) edit { return edit{file, place, text + place} }

// after puts text after a place.
func after(file, place, text string) edit { return edit{file, place, place + text} }

// follow makes the edits of a recipe in a copy of the tree and runs commands there.
func follow(t *testing.T, edits []edit, commands ...string) {
	t.Helper()
	dir := t.TempDir()
	sh(t, "../..", fmt.Sprintf("git -c safe.directory=* ls-files -z --cached --others --exclude-standard | while IFS= read -r -d '' f; do [[ ! -e $f ]] || printf '%%s\\0' \"$f\"; done | tar -c --null -T - | tar -x -C %q", dir))
	lines, files := 0, map[string]bool{}
	for _, e := range edits {
		name, src := filepath.Join(dir, e.file), ""
		if e.old != "" {
			src = string(testkit.Value(os.ReadFile(name))(t))
			if n := strings.Count(src, e.old); n != 1 {
				t.Fatalf("%s has %q %d times, and the recipe needs it once: correct the place here", e.file, e.old, n)
			}
			src = strings.Replace(src, e.old, e.text, 1)
		} else {
			src = e.text
		}
		testkit.Must(t, os.WriteFile(name, []byte(src), 0o644))
		if !strings.HasSuffix(e.file, "_test.go") {
			lines += strings.Count(e.text, "\n") - strings.Count(e.old, "\n")
			files[e.file] = true
		}
	}
	t.Logf("%d lines in %d files without tests: %q", lines, len(files), slices.Sorted(maps.Keys(files)))
	for _, line := range commands {
		cmd := exec.Command("bash", "-ec", line)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GOFLAGS="+os.Getenv("GOFLAGS")+" -vet=off") // what is not of the tree was built with these
		if out, err := cmd.CombinedOutput(); err != nil || strings.Contains(string(out), "no tests to run") {
			t.Errorf("%s: %v\n%s", line, err, out)
		}
	}
}

// TestRecipeOfAnEvent follows "An event type" of CONTRIBUTING.md: what somebody notes
// of a host is an event, part of the state, and shown.
func TestRecipeOfAnEvent(t *testing.T) {
	t.Parallel()
	follow(t, []edit{
		{"internal/core/event/noted.go", "", `package event

// HostNoted says what an operator wants others to know of a host.
type HostNoted struct {
	Note  string ` + "`json:\"note\"`" + `
	Actor string ` + "`json:\"actor\"`" + `
}

// EventType names the event.
func (HostNoted) EventType() string { return "host.noted" }

func init() { add(HostNoted{}, ofHost, notice(info, "host noted", "note actor")) }
`},
		after("internal/core/plan/state.go", "type Host struct {\n", "\tNote string `json:\"note,omitempty\"`\n"),
		before("internal/core/plan/fold.go", "\tcase event.HostEnrolled:\n", "\tcase event.HostNoted:\n\t\ts.host(e.Host()).Note = ev.Note\n"),
		before("internal/core/oracle/fold.go", "\tcase event.MirrorDiverged, ", "\tcase event.HostNoted:\n\t\t// Nothing that is decided reads it.\n"),
		before("internal/api/operator/message.go", "\trow(func(v event.HostFrozen) ", "\trow(func(v event.HostNoted) string { return \"noted by \" + v.Actor + \": \" + v.Note }),\n"),
		{"internal/core/plan/noted_test.go", "", `package plan_test

import (
	"testing"

	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/plan"
)

func TestNoteIsFolded(t *testing.T) {
	e, err := event.NewEntry(1, event.HostSubject("h"), event.HostNoted{Note: "new disk", Actor: "ada"})
	if err != nil {
		t.Fatal(err)
	}
	s := plan.New(documents{})
	if err := s.Apply(e); err != nil || s.Hosts["h"].Note != "new disk" {
		t.Fatalf("%v, %+v", err, s.Hosts["h"])
	}
}
`},
	},
		"go test ./internal/core/event -run TestVocabulary -rewrite && grep -q '^host.noted: ' internal/core/event/testdata/vocabulary.txt",
		"go test ./internal/core/event",
		"go test ./internal/core/plan -run 'TestNote|TestEveryEventType|TestOnlyHosts'",
		"go test ./internal/cli/watch -run TestEveryEvent",
	)
}

// TestRecipeOfAGate follows "A gate" of CONTRIBUTING.md: a host that was enrolled
// again is given no update.
func TestRecipeOfAGate(t *testing.T) {
	t.Parallel()
	follow(t, []edit{
		{"internal/core/gate/again.go", "", `package gate

// Again is the code of CheckAgain.
const Again Code = "again"

// CheckAgain blocks a host that was enrolled so many times.
func CheckAgain(host string, times uint64) *Block {
	if times <= 1 {
		return nil
	}
	return block(Again, "").says("host " + host + " was enrolled again").until("another host", never).by("whoever owns it")
}
`},
		before("internal/core/gate/table.go", "\t{Code: Queue, ", `	{Code: Again, For: ToUpdate, At: AtOffer | AtClaim, Scope: PerHost,
		When: "the host was enrolled again", ClearedBy: "whoever owns it", Check: func(f Facts, _ bool) *Block { return CheckAgain(f.Enrolled()) }},
`),
		after("internal/core/gate/table.go", "type Facts interface {\n", "\tEnrolled() (host string, times uint64)\n"),
		{"internal/core/plan/again.go", "", `package plan

func (f *facts) Enrolled() (string, uint64) {
	if f.h == nil {
		return "", 0
	}
	return f.h.Name, f.h.Incarnation
}
`},
		after("internal/core/oracle/rules.go", "var rules = []Rule{\n", "\t{\"S26\", \"the host was enrolled again\", always | forward, func(_ *Facts, q *Request) bool { return q.Host.Incarnation > 1 }},\n"),
		before("docs/operating.md", "| queue | a newer ref", "| again | the host was enrolled again | whoever owns it |\n"),
		after("internal/sim/mutant/faults_gates_test.go", "var gated = []Fault{\n", "\talwaysOpen(\"a host that was enrolled again gets updates\", \"CheckAgain(f.Enrolled())\", \"S26\"),\n"),
		after("internal/core/gate/complete_test.go", "var asked = map[string]func(*rapid.T, clock.Instant) []*gate.Block{\n",
			"\t\"CheckAgain\": func(t *rapid.T, _ clock.Instant) []*gate.Block { return one(gate.CheckAgain(\"h\", uint64(few(t, \"times\")))) },\n"),
		before("internal/core/oracle/rules_test.go", "\t\t{want: \"the host is frozen\"", "\t\t{want: \"the host was enrolled again\", breaks: say(event.HostEnrolled{Incarnation: 2}, \"h1\")},\n"),
		{"internal/core/gate/again_test.go", "", `package gate_test

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/steadyfleet/steady/internal/core/gate"
)

func TestS26EnrolledAgainIsLeftAlone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		times := uint64(few(t, "times"))
		opens(t, gate.CheckAgain("h", times), gate.Again, times <= 1)
	})
}
`},
		{"internal/core/plan/again_test.go", "", `package plan_test

import (
	"strings"
	"testing"

	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/gate"
)

func TestEnrolledAgainWaits(t *testing.T) {
	w := scene(t, "h0 h1")
	w.enrol("h1")
	w.presence("h1", true)
	w.release(fleet.Queue, w.manifest(spec{ref: "r1", waves: "h0 h1", target: bundles[0]}))
	w.live(4)
	w.expect("h0=converged/one")
	if n := w.count(event.Granted{}, "h1"); n > 0 {
		t.Fatalf("%d grants for h1", n)
	}
	if b := w.why("h1", gate.Again); b == nil || !strings.Contains(b.Message, "enrolled again") {
		t.Fatalf("why says %+v", b)
	}
}
`},
	},
		"go test ./internal/core/gate ./internal/core/oracle",
		"go test ./internal/core/plan -run TestEnrolledAgain",
		"go test ./internal/lint -run TestEveryGate",
		"go test ./internal/sim/mutant -run 'TestEveryGateHasAFault|TestEveryFaultHasItsPlace'",
	)
}
