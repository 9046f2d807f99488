package cli

import (
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/steadyfleet/steady/internal/api/operator"
	"github.com/steadyfleet/steady/internal/cli/exit"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/gate"
	"github.com/steadyfleet/steady/internal/core/prose"
	"github.com/steadyfleet/steady/internal/core/rollout"
	"github.com/steadyfleet/steady/internal/release/fleetdir"
	"github.com/steadyfleet/steady/internal/testkit"
)

var rewrite = flag.Bool("rewrite", false, "write the pages of docs/reference and docs/screens again")

// page holds a page equal to what the code says.
func page(t *testing.T, path, text string) {
	t.Helper()
	path = filepath.Join("../../docs", path)
	if *rewrite {
		testkit.Must(t, os.MkdirAll(filepath.Dir(path), 0o755))
		testkit.Must(t, os.WriteFile(path, []byte(text), 0o644))
	}
	if was, err := os.ReadFile(path); err != nil || string(was) != text {
		t.Errorf("%s is not what the code says (%v); run this test with -rewrite", path, err)
	}
}

const made = "\nThis page is made from the code; a test holds it equal.\n"

// cell is a text in a table.
func cell(s string) string {
	return strings.ReplaceAll(strings.Join(strings.Fields(s), " "), "|", `\|`)
}

// TestReferenceOfDeclarations writes what fleet.yaml and bundle.yaml may have.
func TestReferenceOfDeclarations(t *testing.T) {
	for _, name := range schemas {
		var schema map[string]any
		testkit.Must(t, json.Unmarshal(fleetdir.SchemaJSON(name), &schema))
		r := &schemaPage{defs: schema["$defs"].(map[string]any)}
		fmt.Fprintf(&r.text, "# %s.yaml\n%s\n`steady schema %[1]s` prints the JSON Schema for editors. A key with ● is required; `NAME` stands for a name of yours, `[]` for each entry of a list.\n\n", name, made)
		for _, def := range slices.Sorted(maps.Keys(r.defs)) {
			if d := r.defs[def].(map[string]any); d["type"] == "string" {
				fmt.Fprintf(&r.text, "- *%s*: %s\n", def, d["description"])
			}
		}
		r.text.WriteString("\n")
		r.table("", schema, 0)
		for _, def := range slices.Sorted(maps.Keys(r.defs)) {
			if d := r.defs[def].(map[string]any); d["properties"] != nil && r.used[def] {
				fmt.Fprintf(&r.text, "\n## %s\n\n", def)
				if about, ok := d["description"].(string); ok {
					fmt.Fprintf(&r.text, "%s.\n\n", strings.TrimSuffix(about, "."))
				}
				r.table("", d, 0)
			}
		}
		if len(r.silent) > 0 {
			t.Errorf("these keys of %s.yaml have no description in its schema: %s", name, strings.Join(r.silent, ", "))
		}
		page(t, "reference/"+name+".md", r.text.String())
	}
}

// schemaPage writes a schema as tables.
type schemaPage struct {
	text   strings.Builder
	defs   map[string]any
	used   map[string]bool
	silent []string // keys without a description
}

func (r *schemaPage) table(path string, s map[string]any, depth int) {
	if depth == 0 {
		r.text.WriteString("| key | value | |\n|---|---|---|\n")
	}
	props, _ := s["properties"].(map[string]any)
	required, _ := s["required"].([]any)
	for _, key := range slices.Sorted(maps.Keys(props)) {
		p := props[key].(map[string]any)
		mark := ""
		if slices.Contains(required, any(key)) {
			mark = " ●"
		}
		about, _ := p["description"].(string)
		if def := r.def(p); about == "" && def != nil && def["type"] == "object" { // that of a text says what it looks like
			about, _ = def["description"].(string)
		}
		if about == "" {
			r.silent = append(r.silent, path+key)
		}
		if otherwise, ok := p["default"]; ok {
			about += fmt.Sprintf("; default `%v`", otherwise)
		}
		fmt.Fprintf(&r.text, "| `%s%s`%s | %s | %s |\n", path, key, mark, cell(r.value(p)), cell(about))
		r.below(path+key, p, depth)
	}
}

// below goes into what a key holds, unless it has a table of its own.
func (r *schemaPage) below(path string, p map[string]any, depth int) {
	if p["properties"] != nil {
		r.table(path+".", p, depth+1)
	}
	if sub, ok := p["additionalProperties"].(map[string]any); ok && sub["properties"] != nil {
		r.table(path+".NAME.", sub, depth+1)
	}
	if sub, ok := p["items"].(map[string]any); ok && sub["properties"] != nil {
		r.table(path+"[].", sub, depth+1)
	}
}

func (r *schemaPage) def(p map[string]any) map[string]any {
	ref, _ := p["$ref"].(string)
	d, _ := r.defs[strings.TrimPrefix(ref, "#/$defs/")].(map[string]any)
	return d
}

// value says what a key takes.
func (r *schemaPage) value(p map[string]any) string {
	if d := r.def(p); d != nil {
		name := strings.TrimPrefix(p["$ref"].(string), "#/$defs/")
		if d["type"] == "string" { // said at the top
			return name
		}
		if d["properties"] == nil {
			return r.value(d)
		}
		if r.used == nil {
			r.used = map[string]bool{}
		}
		r.used[name] = true
		return fmt.Sprintf("[%s](#%s)", name, strings.ToLower(name))
	}
	if c, ok := p["const"]; ok {
		return fmt.Sprintf("`%v`", c)
	}
	if list, ok := p["enum"].([]any); ok {
		var words []string
		for _, v := range list {
			words = append(words, fmt.Sprintf("`%v`", v))
		}
		return strings.Join(words, ", ")
	}
	for _, either := range []string{"oneOf", "anyOf"} {
		if list, ok := p[either].([]any); ok {
			var words []string
			for _, v := range list {
				words = append(words, r.value(v.(map[string]any)))
			}
			return strings.Join(words, ", or ")
		}
	}
	switch sub, _ := p["additionalProperties"].(map[string]any); {
	case p["type"] == "array":
		items, _ := p["items"].(map[string]any)
		return "list of " + r.value(items)
	case sub != nil:
		return "by name: " + r.value(sub)
	case p["type"] == "object":
		return "mapping"
	case p["type"] == "integer":
		return "whole number"
	case p["type"] == "boolean":
		return "true or false"
	}
	return "text"
}

// TestReferenceOfErrors writes the exit codes and the codes in messages.
func TestReferenceOfErrors(t *testing.T) {
	var b strings.Builder
	fmt.Fprintf(&b, "# Exit codes and error codes\n%s\n## Exit codes\n\n```\n%s\n```\n\nWith `-o json` the code is a word:\n\n| exit | code |\n|---|---|\n", made, exit.Help)
	for _, line := range strings.Split(exit.Help, "\n") {
		if code, err := strconv.Atoi(strings.Fields(line + " -")[0]); err == nil && exit.Name(code) == "" {
			t.Errorf("exit code %d has no name", code)
		}
	}
	for code := range 256 {
		if name := exit.Name(code); name != "" {
			fmt.Fprintf(&b, "| %d | `%s` |\n", code, name)
		}
	}
	for _, g := range []struct{ title, about, dir, kind string }{
		{"Trust", "A signed document was refused, by the check that refused it.", "trust", "Code"},
		{"Enrolment tokens", "A token was refused.", "identity", "TokenErrorCode"},
		{"Failures of hosts", "Why an activation failed, or a host went back.", "core/host", "Cause"},
		{"Gates", "What holds a host or a rollout; [operating.md](../operating.md#reading-steady-why) says who clears each.", "core/gate", "Code"},
		{"Resources", "Why a resource of a host is not converged.", "core/spec", "Code"},
	} {
		fmt.Fprintf(&b, "\n## %s\n\n%s\n\n| code | |\n|---|---|\n", g.title, g.about)
		codes := constants(t, filepath.Join("..", g.dir), g.kind)
		if len(codes) < 3 {
			t.Errorf("only %d codes of %s were found", len(codes), g.title)
		}
		for _, c := range codes {
			fmt.Fprintf(&b, "| `%s` | %s |\n", c[0], cell(c[1]))
		}
	}
	page(t, "reference/errors.md", b.String())
}

// TestReferenceOfWords writes what every status means: each that the code has, and no other.
func TestReferenceOfWords(t *testing.T) {
	all := operator.NewReference()
	var b strings.Builder
	fmt.Fprintf(&b, "# What the words of a status mean\n%s\nThe operator API answers with them as well: `GET /v1/operator/reference`. [states.md](../states.md) draws how one follows another, and has a table of whether\na host is there; [operating.md](../operating.md#reading-steady-why) has the gates.\n", made)
	for _, s := range []struct {
		title, about, dir, kind string
		words, others           []prose.Meaning
	}{
		{"Rollouts", "", "core/rollout", "Phase", all.Rollouts, append(slices.Clone(all.Rollouts), prose.Meaning{Word: string(rollout.Failed)}, prose.Meaning{Word: string(rollout.Terminal)})}, // shown as halted or cancelled, and as done
		{"Waves", "", "", "", all.Waves, nil},
		{"Hosts", "Where a host stands, in the operator API and the web UI. The worst comes first; a host that two of them fit stands at the upper one, but for what is said of its identity, which comes before all.",
			"core/plan", "HostState", all.Hosts, all.Hosts},
		{"Hosts in a rollout", "", "", "", all.Members, nil},
		{"Health", "Of a host, or of several: then it is the worst of them.", "core/health", "Status", all.Health, nil},
		{"Resources", "Of containers, images and what else hosts report; which of them a kind has depends on the kind.", "core/spec", "State", all.Resources, nil},
		{"Nodes", "Of devices that own their configuration.", "core/drift", "NodeStatus", all.Nodes, all.Nodes},
		{"Pushes", "How far the part of a flow, a tunnel or a document is that one node has.", "core/drift", "Status", all.Legs, all.Legs},
		{"Drift", "Of an object on a node. It is never corrected by itself.", "", "", all.Drift, nil},
		{"Sessions", "", "core/session", "State", all.Sessions, nil},
		{"Parts and pods of sessions", "", "../reconcile/engine", "Phase", all.Parts, nil},
		{"Phases of sessions", "", "", "", all.Phases, nil},
		{"", "", "core/gate", "Code", all.Gates, []prose.Meaning{{Word: string(gate.Forecast)}}},
		{"", "", "core/gate", "HostPresence", all.Presences, all.Presences},
	} {
		known := map[string]bool{}
		for _, w := range s.words {
			if known[w.Word] = true; w.Means == "" || w.Next == "" {
				t.Errorf("%s: %q leaves something out", cmp.Or(s.title, s.kind), w.Word)
			}
		}
		if s.dir != "" {
			has := constants(t, filepath.Join("..", s.dir), s.kind)
			for _, c := range has {
				if !known[c[0]] && !slices.ContainsFunc(s.others, func(w prose.Meaning) bool { return w.Word == c[0] }) {
					t.Errorf("nothing says what %s %q means", s.kind, c[0])
				}
				delete(known, c[0])
			}
			if s.others == nil || s.kind == "Code" {
				for _, w := range slices.Sorted(maps.Keys(known)) {
					t.Errorf("there is no %s %q", s.kind, w)
				}
			}
		}
		if s.title == "" {
			continue
		}
		fmt.Fprintf(&b, "\n## %s\n\n", s.title)
		if s.about != "" {
			b.WriteString(s.about + "\n\n")
		}
		b.WriteString("| | which means | next |\n|---|---|---|\n")
		for _, w := range s.words {
			fmt.Fprintf(&b, "| %s | %s | %s |\n", w.Word, cell(w.Means), cell(w.Next))
		}
	}
	page(t, "reference/words.md", b.String())
}

// constants reads the text constants of a type, with their comments.
func constants(t *testing.T, dir, kind string) (out [][2]string) {
	t.Helper()
	for _, f := range sources(t, dir) {
		ast.Inspect(f, func(n ast.Node) bool {
			s, ok := n.(*ast.ValueSpec)
			if !ok || len(s.Values) != 1 {
				return true
			}
			lit, ok := s.Values[0].(*ast.BasicLit)
			if !ok || lit.Kind != token.STRING || typeName(s.Type) != kind {
				return true
			}
			value := testkit.Value(strconv.Unquote(lit.Value))(t)
			if value != "" {
				out = append(out, [2]string{value, cmp.Or(s.Comment.Text(), s.Doc.Text())})
			}
			return true
		})
	}
	slices.SortFunc(out, func(x, y [2]string) int { return cmp.Compare(x[0], y[0]) })
	return out
}

// typeName is the name of a type, of another package or this one.
func typeName(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return e.Sel.Name
	}
	return ""
}

func sources(t *testing.T, dir string) (files []*ast.File) {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil || len(paths) == 0 {
		t.Fatal(dir, err)
	}
	for _, p := range paths {
		if strings.HasSuffix(p, "_test.go") {
			continue
		}
		f := testkit.Value(parser.ParseFile(token.NewFileSet(), p, nil, parser.ParseComments))(t)
		files = append(files, f)
	}
	return files
}

// TestReferenceOfEvents writes the vocabulary of the log.
func TestReferenceOfEvents(t *testing.T) {
	docs := map[string]*ast.GenDecl{}
	for _, f := range sources(t, "../core/event") {
		for _, d := range f.Decls {
			if g, ok := d.(*ast.GenDecl); ok && g.Tok == token.TYPE && len(g.Specs) == 1 {
				docs[g.Specs[0].(*ast.TypeSpec).Name.Name] = g
			}
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "# Events\n%s\nWhat the log holds, as `steady events -o json` prints it: `seq`, `at` (milliseconds since 1970, on the host's own clock where `hostSeq` is set; `received` is when the server committed it then), `type`, `subject` (`kind` and `name` of what it happened to; none: the fleet) and a `body` with these keys.\n", made)
	for _, name := range event.Types() {
		ev := testkit.Value(event.DecodeBody(name, []byte("{}")))(t)
		is := reflect.TypeOf(ev)
		about := docs[is.Name()]
		if about == nil {
			t.Errorf("%s has no type of its own", name)
			continue
		}
		text := strings.Join(strings.Fields(about.Doc.Text()), " ")
		text = strings.TrimPrefix(strings.TrimPrefix(text, is.Name()+" "), "says that ")
		fmt.Fprintf(&b, "\n## %s\n\n%s\n", name, strings.ToUpper(text[:1])+text[1:])
		var keys []string
		for _, f := range reflect.VisibleFields(is) {
			if key, _, _ := strings.Cut(f.Tag.Get("json"), ","); key != "" && key != "-" {
				keys = append(keys, "`"+key+"`")
			}
		}
		if len(keys) > 0 {
			fmt.Fprintf(&b, "\n%s\n", strings.Join(keys, ", "))
		}
	}
	page(t, "reference/events.md", b.String())
}
