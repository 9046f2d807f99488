package cli

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/steadyfleet/steady/internal/testkit"
)

// mention finds what reads as a command of steady: its name, at least one word, and what follows up to the
// end of the clause.
var mention = regexp.MustCompile(`(?:^|[^\w./-])steady((?: +(?:[a-z][a-z-]*|--?[a-z][a-z-]*(?:=\S*)?|[A-Z][A-Z/.\[\]|=-]*|%[sdqv]|[\w./{}<>$\[\]@*'=-]+))+)`)

// placeholder is a word of a mention that stands for another one.
var placeholder = regexp.MustCompile(`%[sdqv]|\$\{[^}]*\}?|\{\d\}|<[^>]*>`)

// texts are the parts of a file that people read, each with its line.
func texts(t *testing.T, path string, raw []byte) map[int]string {
	t.Helper()
	out := map[int]string{}
	if filepath.Ext(path) != ".go" {
		for i, line := range strings.Split(string(raw), "\n") {
			out[i+1] = line
		}
		return out
	}
	files := token.NewFileSet()
	file := testkit.Value(parser.ParseFile(files, path, raw, 0))(t)
	ast.Inspect(file, func(n ast.Node) bool {
		if lit, is := n.(*ast.BasicLit); is && lit.Kind == token.STRING {
			text := testkit.Value(strconv.Unquote(lit.Value))(t)
			out[files.Position(lit.Pos()).Line] += "\n" + text
		}
		return true
	})
	return out
}

// named are the commands that a line names, as words behind steady. Prose is cut where the words of the command
// end: what follows a command that is no flag and no name of its own belongs to the sentence.
func named(line string) (all [][]string) {
	for _, l := range strings.Split(line, "\n") {
		for _, m := range mention.FindAllStringSubmatch(l, -1) {
			words := strings.Fields(placeholder.ReplaceAllString(m[1], "X"))
			for i, w := range words {
				if words[i] = strings.Trim(w, "'\"`*"); strings.HasPrefix(w, "<<") || w == "--" {
					words = words[:i]
					break
				}
			}
			if len(words) > 0 {
				all = append(all, words)
			}
		}
	}
	return all
}

// notCommands are words behind the name of the program that are no commands.
var notCommands = []string{"itself", "does", "does-not", "snapshot", "steady-agent"}

// checked cuts a mention where it is a command of any kind: behind a placeholder for a command nothing is known.
func checked(words []string) []string {
	switch first := words[0]; {
	case first == "X" || first == "KIND":
		words[0] = "flow" // objects of each kind have the same commands
	case strings.ContainsAny(first[:1], "-./ABCDEFGHIJKLMNOPQRSTUVWXYZ") || slices.Contains(notCommands, first):
		return nil
	}
	if len(words) > 1 && strings.HasPrefix(words[1], "X") {
		return words[:1]
	}
	return words
}

// TestCommandsThatAreNamedExist: every command of steady that a page, a message, an alert, a unit or the web UI
// names is there, with its flags.
func TestCommandsThatAreNamedExist(t *testing.T) {
	found := map[string]int{}
	testkit.Must(t, filepath.WalkDir("../..", func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if e.IsDir() {
			if slices.Contains([]string{".git", "node_modules", "dist", "testdata", "adr"}, e.Name()) { // a decision speaks of its day
				return filepath.SkipDir
			}
			return nil
		}
		ext := filepath.Ext(path)
		if !slices.Contains([]string{".go", ".md", ".tsx", ".ts", ".yaml", ".yml", ".service", ".sh"}, ext) || strings.HasSuffix(path, "_test.go") || e.Name() == "CHANGELOG.md" {
			return nil
		}
		for line, text := range texts(t, path, testkit.Value(os.ReadFile(path))(t)) { // order-free: each is checked by itself
			for _, words := range named(text) {
				if words = checked(words); words == nil {
					continue
				}
				found[ext]++
				if wrong := wrongCommand(words); wrong != "" {
					t.Errorf("%s:%d: steady %s: %s", strings.TrimPrefix(path, "../../"), line, strings.Join(words, " "), wrong)
				}
			}
		}
		return nil
	}))
	for ext, least := range map[string]int{".go": 500, ".md": 400, ".tsx": 50, ".yaml": 1} { // order-free: each by itself
		if found[ext] < least {
			t.Errorf("only %d commands found in %s files", found[ext], ext)
		}
	}
}

// TestNamesOfCommandsAreFound: a command that does not exist is found wherever it is named.
func TestNamesOfCommandsAreFound(t *testing.T) {
	for line, wrong := range map[string]bool{
		"Where they are: `steady keys status`": true, "Where they are: `steady keys show`": false,
		`<Command line="steady host rm web-1" />`: true, "Next: steady token create HOST": false,
		"ask steady why %s, then steady rollout promot %s": true, "steady status names it; --chek does not": false,
		"run steady status --chek": true, "steady %s list shows those": false, "steady %s lst shows those": true,
		"steady attention lists it": false, "go build -o steady ./cmd/steady": false, "STEADY_CONTEXT=x steady events -z": true,
	} {
		bad := false
		for _, words := range named(line) {
			if words = checked(words); words != nil && wrongCommand(words) != "" {
				bad = true
			}
		}
		if bad != wrong {
			t.Errorf("%q: found wrong %t", line, bad)
		}
	}
}
