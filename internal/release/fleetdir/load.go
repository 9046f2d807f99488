// Package fleetdir reads the folder in which people declare a fleet: fleet.yaml and
// the bundles it names, each finding with its place.
package fleetdir

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/steadyfleet/steady/internal/compliance"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/disk"
	"github.com/steadyfleet/steady/internal/release/compose"
	"github.com/steadyfleet/steady/internal/strictyaml"
)

// FleetFile is the declaration's name in its folder. JSON is YAML, so the file
// may hold either.
const FleetFile = "fleet.yaml"

// Source is a fleet folder as read: the declaration and its bundles. It is
// complete only when Load gave no problem but warnings.
type Source struct {
	Declaration fleet.Declaration
	// Commit is the one of which nothing that the release is made of differs; empty
	// outside of a checkout.
	Commit string
	// Tracked reports that it is a checkout.
	Tracked bool
	// Bundles are by declared name; "" is the empty bundle of hosts without one.
	Bundles map[string]Bundle
	doc     *strictyaml.Doc
}

// Bundle is one bundle folder as read.
type Bundle struct {
	Bundle fleet.Bundle
	Bytes  []byte // canonical
	Digest digest.Digest
	Probes fleet.ProbeSet
	// NoResources says that what the bundle runs is not probed.
	NoResources bool
	// Times are where its files declare how long services may take.
	Times map[string]fleet.Times
	// Paths are those of its folder that services mount.
	Paths []compose.Path
	Blobs map[digest.Digest][]byte
	// Nars are the archives of its system's store paths.
	Nars []Nar
}

// Load reads and checks the fleet folder dir. It gives one problem per finding,
// ordered by file and position. The source is nil when the declaration could
// not be read at all. Of a checkout it reads what git tracks, and the untracked files and
// folders that are named.
func Load(dir string, untracked ...string) (*Source, []strictyaml.Problem) {
	return load(dir, nil, untracked)
}

// load is Load with images pinned by p; nil takes LockFile and what the
// declaration allows.
func load(dir string, p *pins, untracked []string) (*Source, []strictyaml.Problem) {
	root, err := disk.OpenCheckout(dir, disk.CheckoutOptions{Main: FleetFile, Also: untracked})
	if git, is := errors.AsType[*disk.GitError](err); is {
		return nil, []strictyaml.Problem{{File: dir, Message: git.Error()}}
	}
	if err != nil {
		return nil, []strictyaml.Problem{{File: dir, Message: fmt.Sprintf("the folder cannot be opened: %v: expected a folder with %s; steady init makes one", disk.Cause(err), FleetFile)}}
	}
	defer root.Close()
	data, err := root.ReadFile(FleetFile, strictyaml.MaxBytes)
	if err != nil {
		return nil, []strictyaml.Problem{{File: FleetFile, Message: fmt.Sprintf("%v: expected the declaration of a fleet; steady init makes one", err)}}
	}
	doc, problems := strictyaml.Parse(FleetFile, data)
	if doc == nil {
		return nil, problems
	}
	src := &Source{doc: doc, Bundles: map[string]Bundle{}}
	ok, found := decodeChecked(doc, fleetSchema(), problems, &src.Declaration)
	problems = append(problems, found...)
	if ok {
		problems = append(problems, place(doc, problems, fleet.Validate(&src.Declaration))...)
		problems = append(problems, place(doc, problems, src.expressions())...)
		if p == nil {
			p = &pins{moving: src.Declaration.AllowMovingTags, used: map[string]bool{}}
			p.lock, found = readLock(root)
			problems = append(problems, found...)
		}
		problems = append(problems, src.loadBundles(root, p)...)
		src.Commit, src.Tracked = root.Commit(src.files()...), root.Tracked()
	}
	return src, strictyaml.Sort(problems)
}

// expressions checks the fleet's own controls where they are declared.
func (s *Source) expressions() []fleet.Finding {
	var out []fleet.Finding
	if s.Declaration.Compliance == nil {
		return nil
	}
	for i, c := range s.Declaration.Compliance.Controls {
		if err := compliance.Check(c.Expression); err != nil {
			out = append(out, fleet.Finding{Path: []string{"compliance", "controls", strconv.Itoa(i), "expression"}, Severity: fleet.Error,
				Message: fmt.Sprintf("control %q: %v: expected a CEL expression over host, bundle, container or file", c.ID, err)})
		}
	}
	return out
}

// Place turns findings about the declaration into problems, leaving out those at
// a place that already has a problem.
func (s *Source) Place(known []strictyaml.Problem, findings []fleet.Finding) []strictyaml.Problem {
	return place(s.doc, known, findings)
}

// decodeChecked runs the schema and fills into. With problems it still fills
// what it can, so that further checks find more in the same run.
func decodeChecked(doc *strictyaml.Doc, schema *strictyaml.Schema, before []strictyaml.Problem, into any) (bool, []strictyaml.Problem) {
	problems := doc.Check(schema)
	if len(problems)+len(before) > 0 {
		return doc.DecodeKnown(into) == nil, problems
	}
	if err := doc.Decode(into); err != nil {
		return false, []strictyaml.Problem{doc.At(nil, fmt.Sprintf("the document does not decode: %v: expected what the schema describes", err))}
	}
	return true, nil
}

func place(doc *strictyaml.Doc, known []strictyaml.Problem, findings []fleet.Finding) []strictyaml.Problem {
	type spot struct{ line, column int }
	taken := map[spot]bool{}
	for _, p := range known {
		taken[spot{p.Line, p.Column}] = true
	}
	var out []strictyaml.Problem
	for _, f := range findings {
		p := doc.At(f.Path, f.Message)
		p.IsWarning = f.Severity == fleet.Warning
		if !taken[spot{p.Line, p.Column}] {
			out = append(out, p)
		}
	}
	return out
}

// files are those of the checkout that a release is made of, and their folders.
func (s *Source) files() []string {
	all := []string{FleetFile, LockFile}
	for _, b := range s.Declaration.Bundles { // order-free: a set is made of them
		all = append(all, b.Path)
	}
	return all
}

func (s *Source) loadBundles(root *disk.Folder, p *pins) []strictyaml.Problem {
	var problems []strictyaml.Problem
	empty, err := sealBundle(fleet.Bundle{Name: fleet.EmptyBundle}, nil, nil)
	if err != nil {
		return []strictyaml.Problem{s.doc.At([]string{"bundles"}, fmt.Sprintf("the empty bundle does not encode: %v", err))}
	}
	s.Bundles[""] = empty
	for _, r := range s.Declaration.Removed {
		if r.Workloads != fleet.Wipe {
			continue
		}
		if s.Bundles[fleet.WipedBundle], err = sealBundle(fleet.Bundle{Name: fleet.WipedBundle, Wipe: true}, nil, nil); err != nil {
			return []strictyaml.Problem{s.doc.At([]string{"removed"}, fmt.Sprintf("the bundle of hosts that are wiped does not encode: %v", err))}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.Declaration.Bundles)) {
		path := s.Declaration.Bundles[name].Path
		folder, err := root.OpenFolder(path)
		if err != nil {
			problems = append(problems, s.doc.At([]string{"bundles", name, "path"},
				fmt.Sprintf("bundle folder %q cannot be opened: %v: expected a folder with %s below that of the fleet file", path, disk.Cause(err), BundleFile)))
			continue
		}
		b, found := loadBundle(folder, name, path, p, s.Declaration.Logging)
		found = append(found, s.leftOut(name, path, folder.Untracked())...)
		folder.Close()
		problems = append(problems, found...)
		if !strictyaml.Fatal(found) {
			s.Bundles[name] = b
		}
	}
	return problems
}

// mostNamed bounds how many files a warning names.
const mostNamed = 5

// leftOut warns of files of a bundle that were not added to git.
func (s *Source) leftOut(name, folder string, files []string) []strictyaml.Problem {
	if len(files) == 0 {
		return nil
	}
	words := strings.Join(files[:min(len(files), mostNamed)], ", ")
	if more := len(files) - mostNamed; more > 0 {
		words += fmt.Sprintf(" and %d more", more)
	}
	p := s.doc.At([]string{"bundles", name, "path"}, fmt.Sprintf("git does not track %s, so that the release is built without: expected it added (git add), ignored (.gitignore), or named with --untracked", words))
	p.IsWarning = true
	return []strictyaml.Problem{p}
}

//go:embed fleet.schema.json
var fleetSchemaJSON []byte

//go:embed bundle.schema.json
var bundleSchemaJSON []byte

// Most commands read no document: schemas are compiled when the first one is read.
var (
	fleetSchema  = sync.OnceValue(func() *strictyaml.Schema { return strictyaml.MustSchema(fleetSchemaJSON) })
	bundleSchema = sync.OnceValue(func() *strictyaml.Schema { return strictyaml.MustSchema(bundleSchemaJSON) })
)

// SchemaJSON is the JSON Schema of fleet.yaml or bundle.yaml, by the name fleet or
// bundle; nil for any other name.
func SchemaJSON(name string) []byte {
	switch name {
	case "fleet":
		return fleetSchemaJSON
	case "bundle":
		return bundleSchemaJSON
	}
	return nil
}

// sampleFiles is kept equal to examples/quickstart by a test.
//
//go:embed sample
var sampleFiles embed.FS

// Sample writes a small commented fleet into dir, which must be new or empty:
// six hosts in two channels and two bundles. It returns the paths it wrote, and never replaces a file.
func Sample(dir string) ([]string, error) {
	switch entries, err := os.ReadDir(dir); {
	case dir == "":
		return nil, errors.New("the folder's name is empty: expected that of a new or an empty folder, such as fleet")
	case err == nil && len(entries) > 0:
		return nil, fmt.Errorf("%s is not empty: expected a new or an empty folder", dir)
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("%s cannot be used: %w", dir, disk.Cause(err))
	}
	sample, err := fs.Sub(sampleFiles, "sample")
	if err != nil {
		return nil, err
	}
	var written []string
	err = fs.WalkDir(sample, ".", func(p string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		at := filepath.Join(dir, filepath.FromSlash(p))
		if e.IsDir() {
			return os.MkdirAll(at, 0o755)
		}
		raw, err := fs.ReadFile(sample, p)
		if err != nil {
			return err
		}
		written = append(written, at)
		return disk.Create(at, raw, 0o644)
	})
	return written, err
}
