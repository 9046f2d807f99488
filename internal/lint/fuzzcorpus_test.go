package lint

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"strings"
)

// decoding are the words that the names of decoders begin with.
var decoding = []string{"Parse", "Decode", "Read", "Load", "Unmarshal", "Unpack", "Verify", "Open"}

// Decoder is an exported function, or an exported method of an exported type,
// that takes outside bytes: its name begins with one of the words above and a
// parameter is []byte, json.RawMessage, io.Reader, io.ReadCloser or fs.FS, or
// but for Open a string, which is text to parse or the name of a file to read.
// What only has io.Reader's own method is none.
type Decoder struct {
	Dir  string // of its package, relative to the root
	Recv string // the type of a method, else empty
	Name string
	File string
	Line int
}

// Key names a decoder, as "internal/trust.Verifier.Open".
func (d Decoder) Key() string {
	if d.Recv == "" {
		return d.Dir + "." + d.Name
	}
	return d.Dir + "." + d.Recv + "." + d.Name
}

// Decoders lists the decoders that a file declares.
func Decoders(name string, src []byte) ([]Decoder, error) {
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, name, src, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	var out []Decoder
	for _, decl := range file.Decls {
		fn, ok := decl.(*ast.FuncDecl)
		if !ok || !fn.Name.IsExported() || !takesBytes(fn) {
			continue
		}
		recv := receivedBy(fn)
		if fn.Recv != nil && !ast.IsExported(recv) {
			continue
		}
		out = append(out, Decoder{Dir: path.Dir(name), Recv: recv, Name: fn.Name.Name, File: name, Line: fset.Position(fn.Pos()).Line})
	}
	return out, nil
}

func takesBytes(fn *ast.FuncDecl) bool {
	word := ""
	for _, w := range decoding {
		if rest, ok := strings.CutPrefix(fn.Name.Name, w); ok && (rest == "" || ast.IsExported(rest)) {
			word = w
		}
	}
	if word == "" {
		return false
	}
	for _, p := range fn.Type.Params.List {
		switch spelled(p.Type) {
		case "[]byte":
			if fn.Name.Name != "Read" || fn.Recv == nil || fn.Type.Results == nil || spelled(fn.Type.Results.List[0].Type) != "int" {
				return true
			}
		case "json.RawMessage", "io.Reader", "io.ReadCloser", "fs.FS":
			return true
		case "string":
			if word != "Open" {
				return true
			}
		}
	}
	return false
}

// spelled is a type as it is written, for the few forms that the rule asks for.
func spelled(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return spelled(e.X) + "." + e.Sel.Name
	case *ast.ArrayType:
		if e.Len == nil {
			return "[]" + spelled(e.Elt)
		}
	}
	return ""
}

func receivedBy(fn *ast.FuncDecl) string {
	if fn.Recv == nil {
		return ""
	}
	t := fn.Recv.List[0].Type
	if star, ok := t.(*ast.StarExpr); ok {
		t = star.X
	}
	switch ix := t.(type) {
	case *ast.IndexExpr:
		t = ix.X
	case *ast.IndexListExpr:
		t = ix.X
	}
	return spelled(t)
}

// Target is a fuzz test and what its body calls: "dir.Name" of functions, and
// ".Name" of whatever may be a method, with the packages that its file knows.
type Target struct {
	Name  string
	Calls map[string]bool
	Knows map[string]bool // folders
}

// Targets lists the fuzz tests of a file.
func Targets(name string, src []byte) ([]Target, error) {
	file, err := parser.ParseFile(token.NewFileSet(), name, src, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	dir := path.Dir(name)
	imports, knows := map[string]string{}, map[string]bool{dir: true}
	for _, im := range file.Imports {
		p := strings.Trim(im.Path.Value, `"`)
		as := path.Base(p)
		if im.Name != nil {
			as = im.Name.Name
		}
		imports[as], knows[rel(p)] = rel(p), true
	}
	var out []Target
	for _, decl := range file.Decls {
		fn, ok := decl.(*ast.FuncDecl)
		if !ok || fn.Recv != nil || !strings.HasPrefix(fn.Name.Name, "Fuzz") {
			continue
		}
		t := Target{Name: fn.Name.Name, Calls: map[string]bool{}, Knows: knows}
		ast.Inspect(fn.Body, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			fun := call.Fun
			if ix, ok := fun.(*ast.IndexExpr); ok {
				fun = ix.X
			}
			switch f := fun.(type) {
			case *ast.Ident:
				t.Calls[dir+"."+f.Name] = true
			case *ast.SelectorExpr:
				t.Calls["."+f.Sel.Name] = true
				if id, ok := f.X.(*ast.Ident); ok && imports[id.Name] != "" {
					t.Calls[imports[id.Name]+"."+f.Sel.Name] = true
				}
			}
			return true
		})
		out = append(out, t)
	}
	return out, nil
}

// CalledByFuzz checks that each decoder is called by the body of a fuzz test, where
// what must hold of its result stands beside the call, or is excepted with a
// reason, and that no exception is left over.
func CalledByFuzz(decoders []Decoder, targets []Target, excepted map[string]string) []Finding {
	var out []Finding
	used := map[string]bool{}
	for _, d := range decoders {
		covered := false
		for _, t := range targets {
			covered = covered || d.Recv == "" && t.Calls[d.Dir+"."+d.Name] || d.Recv != "" && t.Calls["."+d.Name] && t.Knows[d.Dir]
		}
		reason, except := excepted[d.Key()]
		used[d.Key()] = true
		switch {
		case !covered && !except:
			out = append(out, Finding{d.File, d.Line, fmt.Sprintf("%s decodes outside bytes and no fuzz test calls it: add one that says what must hold of its result, or an exception with a reason", d.Key())})
		case covered && except:
			out = append(out, Finding{d.File, d.Line, fmt.Sprintf("%s is fuzzed and excepted (%s): take the exception away", d.Key(), reason)})
		case except && len(reason) < 20:
			out = append(out, Finding{d.File, d.Line, d.Key() + " is excepted without a reason: say why it needs no fuzz test"})
		}
	}
	for key := range excepted {
		if !used[key] {
			out = append(out, Finding{Text: "no decoder is named " + key + ": take the exception away"})
		}
	}
	return out
}
