package mutant

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/steadyfleet/steady/internal/core/gate"
	"github.com/steadyfleet/steady/internal/testkit"
)

func root(t *testing.T) string {
	dir := testkit.Value(filepath.Abs("../../.."))(t)
	return dir
}

// simulated lists the invariants that schedules check.
func simulated() []string {
	var all []string
	for i := 1; i <= 33; i++ {
		all = append(all, "S"+strconv.Itoa(i))
	}
	all = append(all, "S38", "S40", "S42", "S43", "S55", "S56", "S57", "S58")
	for i := 44; i <= 53; i++ {
		all = append(all, "S"+strconv.Itoa(i)) // of nodes
	}
	for i := 1; i <= 7; i++ {
		all = append(all, "L"+strconv.Itoa(i))
	}
	return all
}

// TestEveryInvariantHasAFault: a check that no planted fault can trip is not shown
// to find anything.
func TestEveryInvariantHasAFault(t *testing.T) {
	planted := map[string]bool{}
	for _, f := range slices.Concat(Faults(), Nodes(), Labs()) {
		planted[f.Finds[0]] = true
	}
	for _, name := range simulated() {
		if !planted[name] {
			t.Errorf("no fault is planted for %s", name)
		}
	}
}

// TestEveryFaultHasItsPlace: each fragment is in its file, once, and no two
// overlap.
func TestEveryFaultHasItsPlace(t *testing.T) {
	faults, shells, nodes, labs := slices.Concat(Faults(), Nodes(), Labs()), Shells(), len(Nodes()), len(Labs())
	deadlines := Deadlines()
	if len(faults)-nodes-labs < 40 || len(shells) < 20 || nodes < 20 || labs < 15 {
		t.Errorf("%d faults, %d of shells, %d of nodes and %d of sessions, at least 40, 20, 20 and 15 are to be planted", len(faults)-nodes-labs, len(shells), nodes, labs)
	}
	names := map[string]bool{}
	for i := range faults {
		f := &faults[i]
		if names[f.Name] || len(f.Finds) == 0 || f.From == f.To {
			t.Errorf("fault %q is there twice, or nothing finds it, or it is none", f.Name)
		}
		names[f.Name] = true
		if _, err := find(root(t), f); err != nil {
			t.Error(err)
		}
	}
	for _, list := range [][]Fault{faults, shells, deadlines} {
		if _, err := Plant(root(t), t.TempDir(), list); err != nil {
			t.Error(err)
		}
	}
}

// unreached names the gates whose fault no schedule can find, and why.
var unreached = map[string]string{
	"restore/unheard":    "agents remember the grants that they acted under, which those of 0.1.0 do not; TestS23ClaimOfAnEarlierProcessWaitsForItsHost",
	"overlay/superseded": "the report by which a host goes on ends the offer in the same commit, so that none is left to claim; TestS2ClaimOfWhatWasSupersededIsRefused",
}

// TestEveryGateHasAFault: each row of the table of gates has a fault in which it never
// blocks, by its check.
func TestEveryGateHasAFault(t *testing.T) {
	raw := testkit.Value(os.ReadFile(filepath.Join(root(t), "internal/core/gate/table.go")))(t)
	covered := map[int]bool{}
	rows := strings.Split(string(raw), "\n\t{Code: ")[1:]
	if len(rows) != len(gate.Table) {
		t.Fatalf("%d rows of %d found", len(rows), len(gate.Table))
	}
	for i := range gated {
		for k, row := range rows {
			if strings.Contains(row, gated[i].From) {
				covered[k] = true
			}
		}
	}
	for k := range gate.Table {
		g := &gate.Table[k]
		if name := string(g.Code) + "/" + g.Rule; covered[k] == (unreached[name] != "") {
			t.Errorf("gate %s: has a fault %v, is unreached %v", name, covered[k], unreached[name] != "")
		}
	}
}
