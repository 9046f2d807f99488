package lint

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"
)

// retired are words that no exported name has any more, each with the field's.
var retired = map[string]string{
	"aside":     "deferred",
	"ask":       "request, prompt or query",
	"asked":     "requested",
	"asks":      "requests",
	"astray":    "needs rollback",
	"beside":    "with, next to",
	"courier":   "uplink",
	"crowded":   "full",
	"fate":      "outcome",
	"gave":      "has prefix",
	"greet":     "connect",
	"hear":      "contact, listen or subscribe",
	"heard":     "last seen",
	"held":      "blocked, pinned or reserved",
	"hold":      "block, pin, drain or reserve",
	"holds":     "blocks, has or restricts",
	"homebound": "rolling back",
	"homeward":  "rolling back",
	"hurry":     "wake",
	"kick":      "enqueue",
	"lacking":   "missing",
	"look":      "check, observe or find",
	"looked":    "checked",
	"looks":     "checks",
	"loosen":    "relax",
	"mishap":    "fault",
	"misread":   "parse error",
	"notary":    "signer",
	"nudge":     "wake or trigger",
	"outran":    "superseded",
	"overtaken": "superseded",
	"poke":      "wake",
	"relent":    "recover",
	"restless":  "in flight",
	"say":       "message, report",
	"says":      "message, reports",
	"settle":    "finish, wait or converge",
	"settled":   "finished, stable or converged",
	"settles":   "finishes",
	"spoil":     "invalidate",
	"standing":  "status",
	"stray":     "unknown or unmanaged",
	"take":      "accept, claim, create or run",
	"taken":     "accepted, claimed or in use",
	"takes":     "accepts, needs",
	"tell":      "notify, send",
	"thaw":      "unfreeze",
	"titled":    "name mapper",
	"told":      "acknowledged, sent",
	"took":      "duration, elapsed",
	"truth":     "oracle",
	"usual":     "default",
	"usurp":     "take over",
	"warm":      "not frozen",
	"words":     "message",
	"estranged": "restored",
	"housekeep": "collect garbage",
	"keephouse": "collect garbage",
	"foresight": "simulation",
	"strictdoc": "strict YAML",
	"trail":     "audit log",
}

// retiredPhrases are ways to put things that people must read twice: no message has
// them any more. What stands in place of each is beside it.
var retiredPhrases = map[string]string{
	`\b(is|are|be|was|were) (not )?taken\b`: "accepted, supported or used",
	`\b(un)?heard\b`:                        "seen, contact",
	`\btold\b`:                              "sent, known, reported",
	`\blook(s|ed) at\b`:                     "check",
	`\b(is|was|are|were|be) held\b`:         "blocked",
	`\b(mishap|stray|courier|settled?|fate|standing|usual)\b`: "fault, unknown, uplink, finished, outcome, status, default",
}

// wordsOf splits a Go name: TakenByHost is taken, by, host.
func wordsOf(name string) (out []string) {
	start := 0
	rs := []rune(name)
	for i := 1; i <= len(rs); i++ {
		if i == len(rs) || unicode.IsUpper(rs[i]) && (!unicode.IsUpper(rs[i-1]) || i+1 < len(rs) && unicode.IsLower(rs[i+1])) || rs[i] == '_' {
			out = append(out, strings.ToLower(strings.Trim(string(rs[start:i]), "_0123456789")))
			start = i
		}
	}
	return out
}

// exported lists the exported names of one file with members as Type.Member.
func exported(f *ast.File) (out []string) {
	names := map[string]bool{}
	for _, decl := range f.Decls {
		switch d := decl.(type) {
		case *ast.FuncDecl:
			names[receiver(d)+d.Name.Name] = true
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				declare(names, spec)
			}
		}
	}
	for name := range names {
		if _, member, ok := strings.Cut(name, "."); ast.IsExported(name) && !ok || ok && ast.IsExported(member) {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

// Words checks the exported names and the messages of one file. excepted has the
// names, package.Name, and the pieces of messages that stay; what it let pass is
// added to used.
func Words(name string, src []byte, excepted map[string]string, used map[string]bool) ([]Finding, error) {
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, name, src, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	var out []Finding
	pass := func(key string) bool {
		_, ok := excepted[key]
		used[key] = used[key] || ok
		return ok
	}
	for _, id := range exported(f) {
		own := id[strings.LastIndex(id, ".")+1:]
		for _, word := range wordsOf(own) {
			if use := retired[word]; use != "" && !pass(f.Name.Name+"."+id) {
				out = append(out, Finding{File: name, Text: fmt.Sprintf("exports %s: %q is retired, the trade says: %s", id, word, use)})
			}
		}
	}
	ast.Inspect(f, func(n ast.Node) bool {
		if field, ok := n.(*ast.Field); ok && field.Tag != nil {
			field.Tag = nil
		}
		lit, ok := n.(*ast.BasicLit)
		if !ok || lit.Kind != token.STRING {
			return true
		}
		text, err := strconv.Unquote(lit.Value)
		if err != nil || !strings.Contains(text, " ") {
			return true
		}
		for _, phrase := range slices.Sorted(maps.Keys(retiredPhrases)) {
			hit := phrases[phrase].FindString(text)
			if hit == "" || slices.ContainsFunc(slices.Collect(maps.Keys(excepted)), func(key string) bool {
				return strings.Contains(key, " ") && strings.Contains(text, key) && strings.Contains(key, hit) && pass(key)
			}) {
				continue
			}
			out = append(out, Finding{File: name, Line: fset.Position(lit.Pos()).Line,
				Text: fmt.Sprintf("says %q in a message, the trade says: %s", hit, retiredPhrases[phrase])})
		}
		return true
	})
	return out, nil
}

var phrases = func() map[string]*regexp.Regexp {
	out := map[string]*regexp.Regexp{}
	for p := range retiredPhrases { // order-free: one entry each
		out[p] = regexp.MustCompile(p)
	}
	return out
}()

// words that stay, with the reason; the list only becomes shorter.
var wordsThatStay = map[string]string{
	"spec.Snapshot.Take":            "of a declared snapshot: raised to have another one taken",
	"compose.snapshotDecl.Take":     "the same in a Compose file",
	"storage.Capture.Take":          "which take of the snapshot it is",
	"storage.SnapshotObserved.Take": "which take of the snapshot is there",
	"image.Image.Take":              "which take of a snapshot the image is",
	"CI runner was taken over":      "by an attacker",
}

func TestRetiredWordsStayAway(t *testing.T) {
	tr, used, files := load(t), map[string]bool{}, 0
	for _, name := range tr.files {
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") || strings.Contains("/"+name, "/testdata/") {
			continue
		}
		files++
		found, err := Words(name, tr.read(t, name), wordsThatStay, used)
		if err != nil {
			t.Fatal(err)
		}
		report(t, found)
	}
	for key := range wordsThatStay { // order-free: sorted by the reader
		if !used[key] {
			t.Errorf("the exception %q lets nothing pass: take it out of the list", key)
		}
	}
	if files < 500 {
		t.Errorf("only %d files read", files)
	}
}

func TestWordsRule(t *testing.T) {
	check := func(src string, want ...string) {
		t.Helper()
		found, err := Words("a.go", []byte("package a\n\n"+src), map[string]string{"a.Book.Take": "", "was taken over": ""}, map[string]bool{})
		if err != nil {
			t.Fatal(err)
		}
		one(t, found, want...)
	}
	check("type Holding struct{}\n\nfunc (b Book) Status() string { return \"the host is blocked\" }")
	check("type Hold struct{}", `exports Hold: "hold" is retired`)
	check("type row struct{ IsTaken bool }", `exports row.IsTaken: "taken" is retired`)
	check("func (b Book) Take() {}\n\nfunc hold() {}")
	check("var err = errors.New(\"the host was not heard\")", `says "heard" in a message`)
	check("type T struct {\n\tA string `json:\"held\" doc:\"It was held\"`\n}")
	check("var err = errors.New(\"the runner was taken over\")")
	check("const a = \"a stray container\"", `says "stray"`)
}
