package release

import (
	"fmt"
	"maps"
	"os"
	"slices"

	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/release/confined"
	"github.com/steadyfleet/steady/internal/strictdoc"
)

// FleetFile is the declaration's name in its folder. JSON is YAML, so the file
// may hold either.
const FleetFile = "fleet.yaml"

// Source is a fleet folder as read: the declaration and its bundles. It is
// complete only when Load gave no problem but warnings.
type Source struct {
	Dir         string
	Declaration fleet.Declaration
	// Bundles are by declared name; "" is the empty bundle of hosts without one.
	Bundles map[string]SourceBundle
	doc     *strictdoc.Doc
}

// SourceBundle is one bundle folder as read.
type SourceBundle struct {
	Bundle fleet.Bundle
	Bytes  []byte // canonical
	Digest digest.Digest
	Probes fleet.ProbeSet
	Blobs  map[digest.Digest][]byte
}

// Load reads and checks the fleet folder dir. It gives one problem per finding,
// ordered by file and position. The source is nil when the declaration could
// not be read at all.
func Load(dir string) (*Source, []Problem) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, []Problem{{File: dir, Message: fmt.Sprintf("the folder cannot be opened: %v: expected a folder with %s; steady init makes one", confined.Cause(err), FleetFile)}}
	}
	defer root.Close()
	data, err := confined.File(root, FleetFile, strictdoc.MaxBytes)
	if err != nil {
		return nil, []Problem{{File: FleetFile, Message: fmt.Sprintf("%v: expected the declaration of a fleet; steady init makes one", err)}}
	}
	doc, problems := strictdoc.Parse(FleetFile, data)
	if doc == nil {
		return nil, problems
	}
	src := &Source{Dir: dir, doc: doc, Bundles: map[string]SourceBundle{}}
	ok, found := decodeChecked(doc, fleetSchema(), problems, &src.Declaration)
	problems = append(problems, found...)
	if ok {
		problems = append(problems, place(doc, problems, fleet.Validate(&src.Declaration))...)
		problems = append(problems, place(doc, problems, src.expressions())...)
		problems = append(problems, src.loadBundles(root)...)
	}
	return src, strictdoc.Sort(problems)
}

// decodeChecked runs the schema and fills into. With problems it still fills
// what it can, so that further checks find more in the same run.
func decodeChecked(doc *strictdoc.Doc, schema *strictdoc.Schema, before []Problem, into any) (bool, []Problem) {
	problems := doc.Check(schema)
	if len(problems)+len(before) > 0 {
		return doc.DecodeKnown(into) == nil, problems
	}
	if err := doc.Decode(into); err != nil {
		return false, []Problem{doc.At(nil, fmt.Sprintf("the document does not decode: %v: expected what the schema describes", err))}
	}
	return true, nil
}

// place turns findings into problems, leaving out those at a place where
// another problem already says what is wrong.
func place(doc *strictdoc.Doc, known []Problem, findings []fleet.Finding) []Problem {
	type spot struct{ line, column int }
	taken := map[spot]bool{}
	for _, p := range known {
		taken[spot{p.Line, p.Column}] = true
	}
	var out []Problem
	for _, f := range findings {
		p := doc.At(f.Path, f.Message)
		p.IsWarning = f.Severity == fleet.Warning
		if !taken[spot{p.Line, p.Column}] {
			out = append(out, p)
		}
	}
	return out
}

func (s *Source) loadBundles(root *os.Root) []Problem {
	var problems []Problem
	empty, err := sealBundle(fleet.Bundle{Name: fleet.EmptyBundle}, nil, nil)
	if err != nil {
		return []Problem{s.doc.At([]string{"bundles"}, fmt.Sprintf("the empty bundle does not encode: %v", err))}
	}
	s.Bundles[""] = empty
	for _, name := range slices.Sorted(maps.Keys(s.Declaration.Bundles)) {
		path := s.Declaration.Bundles[name].Path
		folder, err := root.OpenRoot(path)
		if err != nil {
			problems = append(problems, s.doc.At([]string{"bundles", name, "path"},
				fmt.Sprintf("bundle folder %q cannot be opened: %v: expected a folder with %s below that of the fleet file", path, confined.Cause(err), BundleFile)))
			continue
		}
		b, found := loadBundle(folder, name, path)
		folder.Close()
		problems = append(problems, found...)
		if !Fatal(found) {
			s.Bundles[name] = b
		}
	}
	return problems
}
