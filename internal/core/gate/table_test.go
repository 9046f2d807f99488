package gate_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/gate"
	"github.com/steadyfleet/steady/internal/testkit"
)

// waveFacts is a wave of which nothing but its counts is known.
type waveFacts struct {
	gate.Facts
	e gate.Evidence
}

func (f waveFacts) Promotion() gate.Evidence              { return f.e }
func (waveFacts) Evidence() (string, []gate.Outstanding)  { return "", nil }
func (waveFacts) Soak() (_, _ string, _, _ clock.Instant) { return "", "", 0, 0 }
func promotion(e gate.Evidence) *gate.Block {
	return gate.First(waveFacts{e: e}, gate.ToPromote, gate.AtOffer)
}
func same(all []*gate.Block, expected ...*gate.Block) bool {
	expected = slices.DeleteFunc(expected, func(b *gate.Block) bool { return b == nil })
	return reflect.DeepEqual(append([]*gate.Block{}, all...), expected)
}

// TestTableIsWhole: every code has a gate and every gate is asked somewhere, says for
// people what it is, and is in the order in which the codes are declared.
func TestTableIsWhole(t *testing.T) {
	codes, _ := declared(t)
	rules, seen := map[string]bool{}, map[gate.Code]bool{}
	for i := range gate.Table {
		g := &gate.Table[i]
		seen[g.Code] = true
		if key := string(g.Code) + "/" + g.Rule; rules[key] {
			t.Errorf("%s is in the table twice", key)
		} else {
			rules[key] = true
		}
		if g.When == "" || g.ClearedBy == "" || g.For == 0 || g.At == 0 || g.Check == nil {
			t.Errorf("gate %s/%s leaves something out: %+v", g.Code, g.Rule, g)
		}
		if g.Scope == gate.PerGrant && g.Code != gate.Budget {
			t.Errorf("gate %s is asked after every grant", g.Code)
		}
	}
	for code := range codes {
		if !seen[code] && code != gate.Forecast { // no gate: it says where a forecast ends
			t.Errorf("no gate of the table has code %s", code)
		}
	}
	for _, p := range []gate.Purpose{gate.ToUpdate, gate.ToRollback, gate.ToRepair, gate.ToReboot} {
		for _, g := range gate.Of(p, gate.AtClaim) {
			if g.Scope == gate.PerWave { // nothing says of an open wave that it closes
				t.Errorf("gate %s of a wave is asked at a claim", g.Code)
			}
		}
	}
}

// TestOperatorsTableOfGates holds the table of the page to the one of the code.
func TestOperatorsTableOfGates(t *testing.T) {
	const page = "../../../docs/operating.md"
	raw := testkit.Value(os.ReadFile(page))(t)
	var b strings.Builder
	b.WriteString("| gate | it blocks when | cleared by |\n|---|---|---|\n")
	for _, w := range gate.Meanings() {
		b.WriteString("| " + w.Word + " | " + w.Means + " | " + w.Next + " |\n")
	}
	if !strings.Contains(string(raw), b.String()) {
		t.Errorf("%s does not have this table:\n%s", page, b.String())
	}
}

// given is what the gates read that may leave their words out.
type given struct {
	gate.Facts
	host, code, reason string
	until, now         clock.Instant
	a, b               int
	unmet              []string
	has                []gate.Occupant
}

func (f given) Freeze() (string, clock.Instant, string, clock.Instant) {
	return f.host, f.until, f.reason, f.now
}
func (f given) Sessions() (string, []gate.Occupant, clock.Instant) { return f.host, f.has, f.now }
func (f given) Quarantine() (string, string, string, string)       { return f.host, f.code, f.reason, "" }
func (f given) Wave() (string, int, string, int, string, clock.Instant) {
	return f.host, f.a, f.code, f.b, f.reason, f.until
}
func (f given) Canary() (string, int, int, clock.Instant) { return f.host, f.a, f.b, f.until }
func (f given) HostEdges() (string, []string, []string, clock.Instant) {
	return f.host, f.unmet, nil, f.until
}
func (f given) Budgets() []gate.Use {
	return []gate.Use{{Selector: "web", Max: f.b + 1}, {Selector: "db", InFlight: f.a, Max: f.b}}
}
func (f given) Backoff() (clock.Instant, gate.Untaken, clock.Instant) {
	return f.until, gate.Untaken{Code: f.code, Detail: f.reason, Given: f.a}, f.now
}

func freezeOf(host string, until clock.Instant, reason string, now clock.Instant) given {
	return given{host: host, until: until, reason: reason, now: now}
}

func quarantineOf(channel, bundle, reason string) given {
	return given{host: channel, code: bundle, reason: reason}
}

func waveOf(rollout string, wave int, name string, cursor int, cursorName string, earliest clock.Instant) given {
	return given{host: rollout, a: wave, code: name, b: cursor, reason: cursorName, until: earliest}
}

func canaryOf(rollout string, tried, most int, earliest clock.Instant) given {
	return given{host: rollout, a: tried, b: most, until: earliest}
}

func edgesOf(host string, unmet []string, earliest clock.Instant) given {
	return given{host: host, unmet: unmet, until: earliest}
}

func backoffOf(until clock.Instant, code, detail string, now clock.Instant) given {
	return given{until: until, code: code, reason: detail, now: now}
}

// TestL5GateThatIsClosedSaysWhy: what the planner asks without words, and what people are
// told, is one answer.
func TestL5GateThatIsClosedSaysWhy(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := given{host: "h", code: "busy", until: drawInstant(t, "until"), now: drawInstant(t, "now"), a: few(t, "a"), b: few(t, "b"),
			reason: rapid.SampledFrom([]string{"", "failed"}).Draw(t, "reason"), unmet: rapid.SliceOfN(names, 0, 2).Draw(t, "unmet")}
		if rapid.Bool().Draw(t, "never") {
			f.until = 0
		}
		for _, code := range []gate.Code{gate.Freeze, gate.Quarantine, gate.Wave, gate.Canary, gate.HostEdge, gate.Budget, gate.Backoff} {
			i := slices.IndexFunc(gate.Table[:], func(g gate.Gate) bool { return g.Code == code })
			if g := &gate.Table[i]; (g.Check(f, false) != nil) != (g.Check(f, true) != nil) {
				t.Fatalf("gate %s answers %+v and says %+v of %+v", g.Code, g.Check(f, false), g.Check(f, true), f)
			}
		}
	})
}

// TestS2ClaimOfWhatWasSupersededIsRefused: a host that went on in a rollout since acts on
// no offer of before.
func TestS2ClaimOfWhatWasSupersededIsRefused(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := rapid.OneOf(rapid.Just(""), names).Draw(t, "went on in")
		b := gate.CheckSuperseded("h", in)
		opens(t, b, gate.Overlay, in == "")
		if b != nil && !strings.Contains(b.Message, in) {
			t.Fatalf("%+v does not name %s", b, in)
		}
	})
}

// TestJudgesAskNoGate: a wrong gate is found only by who does not ask it. What judges
// decisions may name codes, and nothing of the package that decides.
func TestJudgesAskNoGate(t *testing.T) {
	asks := regexp.MustCompile(`^(Check|First)|^(All|Of)$`)
	seen := 0
	for _, dir := range []string{"../audit", "../oracle"} {
		files, err := filepath.Glob(dir + "/*.go")
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %d files, %v", dir, len(files), err)
		}
		for _, name := range files {
			f := testkit.Value(parser.ParseFile(token.NewFileSet(), name, nil, 0))(t)
			ast.Inspect(f, func(n ast.Node) bool {
				sel, ok := n.(*ast.SelectorExpr)
				if ok && isIdent(sel.X, "gate") && !strings.HasSuffix(name, "_test.go") {
					if seen++; asks.MatchString(sel.Sel.Name) {
						t.Errorf("%s asks gate.%s: write the rule from its description", name, sel.Sel.Name)
					}
				}
				return true
			})
		}
	}
	if seen == 0 {
		t.Error("nothing of this package is used by any judge: the rule would see nothing")
	}
}
