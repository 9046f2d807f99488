package gate_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/gate"
	"github.com/steadyfleet/steady/internal/testkit"
)

// asked holds every gate by the name of its function, asked with any arguments
// at an instant.
var asked = map[string]func(*rapid.T, clock.Instant) []*gate.Block{
	"CheckFreshness": func(t *rapid.T, now clock.Instant) []*gate.Block {
		issued := rapid.OneOf(rapid.Just(clock.Instant(0)), rapid.Just(drawInstant(t, "issued"))).Draw(t, "ever")
		return one(gate.CheckFreshness("c", issued, drawSpan(t, "window"), now))
	},
	"CheckOverlay": func(t *rapid.T, _ clock.Instant) []*gate.Block { return one(gate.CheckOverlay(drawStanding(t))) },
	"CheckOverride": func(t *rapid.T, _ clock.Instant) []*gate.Block {
		return one(gate.CheckOverride("c@1", rapid.SampledFrom([]string{"", "pause", "cancel", "rollback", "freeze"}).Draw(t, "action"), "pause signed as o-1: lunch"))
	},
	"CheckFreeze": func(t *rapid.T, now clock.Instant) []*gate.Block {
		return one(gate.CheckFreeze(freezeOf("h", drawInstant(t, "until"), "disk swap", now), true))
	},
	"CheckOccupied": func(t *rapid.T, now clock.Instant) []*gate.Block {
		return one(gate.CheckOccupied(given{host: "h", has: drawOccupants(t, now), now: now}, true))
	},
	"CheckQuarantine": func(t *rapid.T, _ clock.Instant) []*gate.Block {
		return one(gate.CheckQuarantine(quarantineOf("c", "b", rapid.SampledFrom([]string{"", "failed on h"}).Draw(t, "reason")), true))
	},
	"CheckWindow": func(t *rapid.T, now clock.Instant) []*gate.Block {
		return one(gate.CheckWindow("host h", drawWindows(t, now), now))
	},
	"CheckControls": func(t *rapid.T, _ clock.Instant) []*gate.Block {
		return one(gate.CheckControls("c@1", rapid.SliceOfN(names, 0, 2).Draw(t, "failures")))
	},
	"CheckEvidence": func(t *rapid.T, _ clock.Instant) []*gate.Block {
		return one(gate.CheckEvidence("c@1", drawOutstanding(t)))
	},
	"CheckQueue": func(t *rapid.T, now clock.Instant) []*gate.Block {
		return one(gate.CheckQueue("c@2", rapid.SampledFrom([]string{"", "c@1"}).Draw(t, "active"), "active", soon(t, now)))
	},
	"CheckChannelEdges": func(t *rapid.T, now clock.Instant) []*gate.Block {
		before := drawPredecessors(t)
		for i := range before {
			before[i].Earliest = soon(t, now)
		}
		return one(gate.CheckChannelEdges("c", before))
	},
	"CheckWave": func(t *rapid.T, now clock.Instant) []*gate.Block {
		return one(gate.CheckWave(waveOf("c@1", few(t, "wave"), "mine", few(t, "cursor"), "now", soon(t, now)), true))
	},
	"CheckCanary": func(t *rapid.T, now clock.Instant) []*gate.Block {
		return one(gate.CheckCanary(canaryOf("c@1", few(t, "tried"), few(t, "most"), soon(t, now)), true))
	},
	"CheckIdentity": func(t *rapid.T, _ clock.Instant) []*gate.Block {
		return one(gate.CheckIdentity("h", rapid.SampledFrom([]string{"", gate.Forked, gate.Revoked, gate.Decommissioned}).Draw(t, "standing"), "lost"))
	},
	"CheckPresence": func(t *rapid.T, now clock.Instant) []*gate.Block {
		a := gate.Absence{Presence: drawPresence(t), GivenUp: soon(t, now)}
		if rapid.Bool().Draw(t, "was heard") {
			a.LastSeen = now - 1
		}
		return one(gate.CheckPresence("h", a, now))
	},
	"CheckSoak": func(t *rapid.T, now clock.Instant) []*gate.Block {
		return one(gate.CheckSoak("c@1", "w", drawInstant(t, "until"), now))
	},
	"CheckHostEdges": func(t *rapid.T, now clock.Instant) []*gate.Block {
		return one(gate.CheckHostEdges(edgesOf("h", rapid.SliceOfN(names, 0, 2).Draw(t, "unmet"), soon(t, now)), true))
	},
	"CheckBudgets": func(t *rapid.T, now clock.Instant) []*gate.Block {
		return one(gate.CheckBudgets([]gate.Use{{Selector: "web", Max: few(t, "max"), InFlight: few(t, "in flight"), Earliest: soon(t, now)}}, true))
	},
	"CheckBehind": func(t *rapid.T, now clock.Instant) []*gate.Block {
		return one(gate.CheckBehind(rapid.SampledFrom([]string{"", "h"}).Draw(t, "host"), rapid.IntRange(0, 2).Draw(t, "more"), soon(t, now)))
	},
	"CheckUnheard": func(t *rapid.T, now clock.Instant) []*gate.Block {
		return one(gate.CheckUnheard(rapid.SampledFrom([]string{"", "h"}).Draw(t, "host"), soon(t, now)))
	},
	"CheckRollCall": func(t *rapid.T, now clock.Instant) []*gate.Block {
		full := gate.CheckBudgets([]gate.Use{{Selector: "web", Max: few(t, "max"), InFlight: few(t, "in flight")}}, true)
		return one(gate.CheckRollCall(full, soon(t, now)))
	},
	"CheckBackoff": func(t *rapid.T, now clock.Instant) []*gate.Block {
		return one(gate.CheckBackoff(backoffOf(drawInstant(t, "until"), "busy", "no room", now), true))
	},
	"BeyondForecast": func(*rapid.T, clock.Instant) []*gate.Block { return one(gate.BeyondForecast()) },
	"CheckSuperseded": func(t *rapid.T, _ clock.Instant) []*gate.Block {
		return one(gate.CheckSuperseded("h", rapid.SampledFrom([]string{"", "c@1"}).Draw(t, "went on in")))
	},
	"CheckInFlight": func(t *rapid.T, now clock.Instant) []*gate.Block {
		return one(gate.CheckInFlight(drawEvidence(t, now)))
	},
	"CheckReady": func(t *rapid.T, now clock.Instant) []*gate.Block { return one(gate.CheckReady(drawEvidence(t, now))) },
	"CheckProof": func(t *rapid.T, now clock.Instant) []*gate.Block { return one(gate.CheckProof(drawEvidence(t, now))) },
}

func one(b *gate.Block) []*gate.Block { return []*gate.Block{b} }

func drawPresence(t *rapid.T) gate.HostPresence {
	return rapid.SampledFrom([]gate.HostPresence{gate.Online, gate.Offline, gate.Silent, gate.Overdue, gate.NeverEnrolled}).Draw(t, "presence")
}

func few(t *rapid.T, label string) int { return rapid.IntRange(0, 3).Draw(t, label) }

// soon is an instant still to come, or none.
func soon(t *rapid.T, now clock.Instant) clock.Instant {
	if rapid.Bool().Draw(t, "time tells") {
		return now.Add(1 + drawSpan(t, "to wait"))
	}
	return 0
}

func drawEvidence(t *rapid.T, now clock.Instant) gate.Evidence {
	e := gate.Evidence{Rollout: "c@1", Wave: "w", AtTarget: few(t, "atTarget"), Converged: few(t, "converged"), InFlight: few(t, "inFlight"),
		Ready: few(t, "ready"), Offline: few(t, "offline"), MinSoaked: few(t, "minSoaked"), MinPercent: 40 * few(t, "percent"), Nobody: rapid.Bool().Draw(t, "nobody"), Finishes: soon(t, now), Starts: soon(t, now)}
	e.Hosts = e.AtTarget + e.Converged + e.InFlight + e.Ready + e.Offline
	return e
}

// TestL5EveryBlockSaysEverything asks every gate with any arguments: whichever
// holds says what it found, what it waits for and who can clear it; an instant
// that it names is still to come. Every code is seen.
func TestL5EveryBlockSaysEverything(t *testing.T) {
	codes, gates := declared(t)
	for name := range gates {
		if asked[name] == nil {
			t.Errorf("gate %s is not asked here: give it arguments in the table above", name)
		}
	}
	seen := map[gate.Code]bool{}
	for name, ask := range asked {
		if !gates[name] {
			t.Errorf("%s is no gate", name)
		}
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				now := drawInstant(t, "now")
				for _, b := range ask(t, now) {
					if b == nil {
						continue
					}
					seen[b.Code] = true
					if !codes[b.Code] || b.Message == "" || b.WaitsFor == "" || b.ClearedBy == "" {
						t.Fatalf("does not say everything: %+v", *b)
					}
					for _, line := range named(b.ClearedBy) {
						if !slices.ContainsFunc(b.Remedies, func(r gate.Remedy) bool { return r.Command == line }) {
							t.Fatalf("names the command %q, and no remedy is that: %+v", line, *b)
						}
					}
					for _, r := range b.Remedies {
						if r.Operation != "" && !slices.Contains(named(b.ClearedBy), r.Command) || r.Command == "" {
							t.Fatalf("has the remedy %+v, and does not name it: %s", r, b.ClearedBy)
						}
					}
					if b.Earliest != 0 && b.Earliest <= now {
						t.Fatalf("can clear at %d, it is %d: %+v", b.Earliest, now, *b)
					}
				}
			})
		})
	}
	for code := range codes {
		if !seen[code] {
			t.Errorf("no gate answers with code %s", code)
		}
	}
}

// command is one that a sentence names, up to what can be no part of it.
var command = regexp.MustCompile(`steady ((?:rollout|host|release|token|quarantine|override|safe-mode|session) [^,;]*)`)

// named are the commands that a sentence tells to use: "steady rollout resume or cancel X" are two.
func named(sentence string) (lines []string) {
	for _, m := range command.FindAllStringSubmatch(sentence, -1) {
		words := strings.Fields(m[1])
		if i := slices.Index(words, "or"); i == 2 && len(words) == 5 {
			lines = append(lines, "steady "+strings.Join([]string{words[0], words[3], words[4]}, " "))
			words = []string{words[0], words[1], words[4]}
		}
		if words[0] == "host" || words[0] == "token" {
			words = words[:3]
		}
		lines = append(lines, "steady "+strings.Join(words, " "))
	}
	return lines
}

// declared reads the package for its codes and for the functions that may block.
func declared(t *testing.T) (codes map[gate.Code]bool, gates map[string]bool) {
	t.Helper()
	codes, gates = map[gate.Code]bool{}, map[string]bool{}
	files, err := filepath.Glob("*.go")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f := testkit.Value(parser.ParseFile(token.NewFileSet(), name, nil, 0))(t)
		for _, d := range f.Decls {
			switch d := d.(type) {
			case *ast.GenDecl:
				for _, s := range d.Specs {
					if v, ok := s.(*ast.ValueSpec); ok && isIdent(v.Type, "Code") {
						code := testkit.Value(strconv.Unquote(v.Values[0].(*ast.BasicLit).Value))(t)
						codes[gate.Code(code)] = true
					}
				}
			case *ast.FuncDecl:
				if d.Recv == nil && d.Name.IsExported() && blocks(d.Type.Results) && name != "table.go" {
					gates[d.Name.Name] = true
				}
			}
		}
	}
	return codes, gates
}

func isIdent(e ast.Expr, name string) bool {
	id, ok := e.(*ast.Ident)
	return ok && id.Name == name
}

func blocks(results *ast.FieldList) bool {
	for i := 0; results != nil && i < len(results.List); i++ {
		e := results.List[i].Type
		if list, ok := e.(*ast.ArrayType); ok {
			e = list.Elt
		}
		if p, ok := e.(*ast.StarExpr); ok && isIdent(p.X, "Block") {
			return true
		}
	}
	return false
}

// TestBlocksAreMadeInOnePlace checks that no other code spells a block out: one
// that is made there could leave something unsaid.
func TestBlocksAreMadeInOnePlace(t *testing.T) {
	found := 0
	err := filepath.WalkDir("../../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") {
			if err == nil && d.IsDir() && (d.Name() == "testdata" || d.Name() == ".git") {
				return filepath.SkipDir
			}
			return err
		}
		inside := filepath.Base(filepath.Dir(path)) == "gate" || filepath.Dir(path) == "."
		fset := token.NewFileSet()
		f, err := parser.ParseFile(fset, path, nil, 0)
		if err != nil {
			return err
		}
		ast.Inspect(f, func(n ast.Node) bool {
			lit, ok := n.(*ast.CompositeLit)
			if !ok {
				return true
			}
			s, selected := lit.Type.(*ast.SelectorExpr)
			if selected && s.Sel.Name == "Block" && isIdent(s.X, "gate") || inside && isIdent(lit.Type, "Block") {
				if found++; filepath.Base(path) != "block.go" {
					t.Errorf("%s makes a block by itself; ask a gate for it", fset.Position(lit.Pos()))
				}
			}
			return true
		})
		return nil
	})
	if err != nil || found != 1 {
		t.Fatalf("%d places make a block, expected hold alone; %v", found, err)
	}
}
