package lint_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/host"
	"github.com/steadyfleet/steady/internal/core/rollout"
	"github.com/steadyfleet/steady/internal/testkit"
)

var arrow = regexp.MustCompile(`^\s*(\[\*\]|[a-z]+) --> (\[\*\]|[a-z]+)(?: : (.+))?$`)

// diagram reads the n-th state diagram of the page: the label of each transition
// by "from to", and the page's section about it.
func diagram(t *testing.T, section string) (edges map[string]string, prose string) {
	t.Helper()
	page := testkit.Value(os.ReadFile("../../docs/states.md"))(t)
	_, prose, found := strings.Cut(string(page), "\n## "+section+"\n")
	if !found {
		t.Fatalf("docs/states.md has no section %q", section)
	}
	prose, _, _ = strings.Cut(prose, "\n## ")
	_, drawn, _ := strings.Cut(prose, "```mermaid\nstateDiagram-v2\n")
	drawn, _, found = strings.Cut(drawn, "```")
	if !found {
		t.Fatalf("section %q has no state diagram", section)
	}
	edges = map[string]string{}
	for line := range strings.Lines(drawn) {
		m := arrow.FindStringSubmatch(strings.TrimRight(line, "\n"))
		if m == nil {
			t.Fatalf("section %q: cannot read %q", section, line)
		}
		key := m[1] + " " + m[2]
		if _, twice := edges[key]; twice || m[3] == "" {
			t.Errorf("section %q: transition %s is drawn twice, or without its cause", section, key)
		}
		edges[key] = m[3]
	}
	return edges, prose
}

// same compares what is drawn with what the code has, and wants a line on every
// state.
func same[P ~string](t *testing.T, drawn map[string]string, prose string, phases []P, legal func(a, b P) bool) {
	t.Helper()
	code := map[string]bool{}
	for _, from := range phases {
		for _, to := range phases {
			if from != to && legal(from, to) {
				code[string(from)+" "+string(to)] = true
			}
		}
		if !strings.Contains(prose, "\n- **"+string(from)+"**: ") {
			t.Errorf("no line says what state %s is", from)
		}
	}
	for _, e := range slices.Sorted(maps.Keys(code)) {
		if _, there := drawn[e]; !there {
			t.Errorf("the code has transition %s, and it is not drawn", e)
		}
	}
	for _, e := range slices.Sorted(maps.Keys(drawn)) {
		if !code[e] && !strings.HasPrefix(e, "[*] ") {
			t.Errorf("transition %s is drawn, and the code does not have it", e)
		}
	}
}

// TestS19RolloutStatesAreDrawnAsTheyAre compares docs/states.md with the table of
// the rollout machine, both ways.
func TestS19RolloutStatesAreDrawnAsTheyAre(t *testing.T) {
	drawn, prose := diagram(t, "A rollout")
	same(t, drawn, prose, rollout.Phases, rollout.Legal)
	if !rollout.Legal("", rollout.Opening) || drawn["[*] opening"] == "" {
		t.Error("a rollout starts as opening")
	}
}

// TestHostStatesAreDrawnAsTheyAre compares docs/states.md with the table of the
// host machine, both ways, and the inputs on the arrows with those that really
// take the machine along them.
func TestHostStatesAreDrawnAsTheyAre(t *testing.T) {
	drawn, prose := diagram(t, "A host in a rollout")
	same(t, drawn, prose, host.Phases, host.Legal)
	for _, to := range host.Phases {
		if to != "" && host.Legal("", to) != host.Legal(host.Pending, to) && to != host.Pending {
			t.Errorf("a host without a state goes to %s, a pending one does not, or the other way round", to)
		}
	}
	happened := map[string]map[string]bool{}
	for seed := range uint64(3000) {
		walk(t, rand.New(rand.NewPCG(seed, 1)), func(from, to host.Phase, in host.Input) {
			key := string(from) + " " + string(to)
			if happened[key] == nil {
				happened[key] = map[string]bool{}
			}
			happened[key][in.Kind()] = true
		})
	}
	for e, label := range drawn {
		if strings.HasPrefix(e, "[*] ") {
			continue
		}
		if got := strings.Join(slices.Sorted(maps.Keys(happened[e])), ", "); got != label {
			t.Errorf("transition %s is drawn with %q; the inputs that cause it are %q", e, label, got)
		}
	}
}

// walk takes the machine through random inputs and tells of every change of phase.
func walk(t *testing.T, rnd *rand.Rand, changed func(from, to host.Phase, in host.Input)) {
	pick := func(n int) bool { return rnd.IntN(n) == 0 }
	was, is := digest.Of([]byte("was")), digest.Of([]byte("is"))
	plan := fleet.HostPlan{Manifest: digest.Of([]byte("m")), Rollout: "c@r", Channel: "c", Host: "h", Target: is, Soak: clock.Duration(rnd.IntN(2)) * 10 * clock.Second,
		Policy: fleet.Policy{OnHealthFailure: fleet.RollbackAndHalt, ConfirmWindow: clock.Duration(rnd.IntN(2)) * 30 * clock.Second, ActivationDeadline: 20 * clock.Second, SustainedFailure: 7 * clock.Second},
		Probes: []fleet.Probe{{Name: "p", Mode: fleet.Enforce}}}
	if pick(2) {
		plan.Policy.OnHealthFailure = fleet.Halt
	}
	s, now := host.State{Current: was}, clock.Instant(1000)
	for range 25 {
		inputs := []host.Input{
			host.Claimed{Grant: fmt.Sprint("g", now), Rollout: plan.Rollout, Manifest: plan.Manifest, From: s.Current, Target: is, BootID: "b"},
			host.Activated{Observed: is}, host.Activated{Observed: was}, host.ActivationFailed{Code: "exit"}, host.ActivationDeferred{Component: "kernel"},
			host.ProbeObserved{Name: "p", Pass: true}, host.ProbeObserved{Name: "p", Pass: true}, host.ProbeObserved{Name: "p"},
			host.Contact{}, host.Contact{}, host.Elapsed{}, host.Elapsed{}, host.RevertClaimed{Grant: "back", Reason: "r"}, host.RevertCompleted{Observed: s.From},
			host.RevertFailed{Code: "exit"}, host.Booted{BootID: s.BootID, Current: s.Current}, host.Booted{BootID: s.BootID + "x", Current: s.Current},
			host.RebootClaimed{Grant: "reboot"}, host.RebootFailed{Detail: "exit"}, host.RevertDeferred{Component: "kernel"}}
		in := inputs[rnd.IntN(len(inputs))]
		from := s.Phase
		if from == "" {
			from = host.Pending
		}
		now = now.Add(clock.Duration(rnd.IntN(6)) * clock.Second)
		next, _, err := host.Step(s, in, now, &plan)
		if err != nil {
			continue
		}
		if next.Phase != from && next.Phase != "" {
			if !host.Legal(from, next.Phase) {
				t.Fatalf("%s takes a host from %s to %s", in.Kind(), from, next.Phase)
			}
			changed(from, next.Phase, in)
		}
		s = next
	}
}
