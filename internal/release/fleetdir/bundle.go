package fleetdir

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/spec"
	"github.com/steadyfleet/steady/internal/disk"
	"github.com/steadyfleet/steady/internal/release/compose"
	"github.com/steadyfleet/steady/internal/strictyaml"
	"github.com/steadyfleet/steady/internal/trust"
)

const (
	// BundleFile is the name of a bundle's declaration in its folder.
	BundleFile = "bundle.yaml"
	// MaxBlob is the largest file of a bundle in bytes.
	MaxBlob = 64 << 20
	// DefaultStepTimeout bounds an exec step that declares no timeout.
	DefaultStepTimeout = 1 * clock.Minute

	defaultFileMode = 0o644
)

type bundleDecl struct {
	Files  []fileDecl     `json:"files"`
	System systemDecls    `json:"system"`
	Probes fleet.ProbeSet `json:"probes"`
	// Resources turns the built-in probe of what the bundle runs off when false.
	Resources *bool `json:"resources"`
	// Compose is one file or several, merged in order.
	Compose stringList `json:"compose"`
	// ComposeEnv names variables of the builder's own environment that the Compose
	// files may use; no other is read.
	ComposeEnv []string `json:"composeEnv"`
	Profiles   []string `json:"profiles"`
	// Paths are what relative paths of services are, by path: storage or files.
	Paths map[string]compose.PathKind `json:"paths"`
	// GPURuntime is "configure" where the host's toolkit may set up the engine for GPUs.
	GPURuntime string `json:"gpuRuntime"`
}

// stringList takes one text for a list of one.
type stringList []string

func (l *stringList) UnmarshalJSON(raw []byte) error {
	var one string
	if json.Unmarshal(raw, &one) == nil {
		*l = stringList{one}
		return nil
	}
	return json.Unmarshal(raw, (*[]string)(l))
}

type fileDecl struct {
	Source  *string `json:"source"`
	Content *string `json:"content"`
	Path    string  `json:"path"`
	Mode    string  `json:"mode"`
	Owner   string  `json:"owner"`
}

type bundleLoader struct {
	root     *disk.Folder
	doc      *strictyaml.Doc
	pins     *pins
	problems []strictyaml.Problem
	times    map[string]fleet.Times // of the bundle's services
	paths    []compose.Path
	logging  *spec.Logging
	nars     []Nar
}

func (l *bundleLoader) addf(at []string, format string, args ...any) {
	l.problems = append(l.problems, l.doc.At(at, fmt.Sprintf(format, args...)))
}

// loadBundle reads one bundle folder; at is its path for problems, and logging that of services which declare none.
func loadBundle(root *disk.Folder, name, at string, p *pins, logging *spec.Logging) (Bundle, []strictyaml.Problem) {
	file := path.Join(at, BundleFile)
	data, err := root.ReadFile(BundleFile, strictyaml.MaxBytes)
	if err != nil {
		return Bundle{}, []strictyaml.Problem{{File: file, Message: fmt.Sprintf("%v: expected the declaration of bundle %q", err, name)}}
	}
	doc, problems := strictyaml.Parse(file, data)
	if doc == nil {
		return Bundle{}, problems
	}
	l := &bundleLoader{root: root, doc: doc, pins: p, logging: logging}
	var decl bundleDecl
	ok, found := decodeChecked(doc, bundleSchema(), problems, &decl)
	l.problems = append(problems, found...)
	if !ok {
		return Bundle{}, l.problems
	}
	l.problems = append(l.problems, place(doc, l.problems, fleet.ValidateProbes([]string{"probes"}, decl.Probes))...)
	b := fleet.Bundle{Name: name}
	blobs := map[digest.Digest][]byte{}
	for i := range decl.Files {
		if f, content, ok := l.file(i, &decl.Files[i]); ok {
			b.Files = append(b.Files, f)
			blobs[f.Blob] = content
		}
	}
	l.uniquePaths(decl.Files)
	l.system(&b, decl.System, blobs)
	l.containers(&b, &decl, at, blobs)
	noteFiles(&b)
	if strictyaml.Fatal(l.problems) {
		return Bundle{}, l.problems
	}
	sealed, err := sealBundle(b, decl.Probes, blobs)
	if err != nil {
		l.addf(nil, "the bundle does not encode: %v: expected fewer or smaller parts", err)
	}
	sealed.Times, sealed.Paths, sealed.Nars = l.times, l.paths, l.nars
	sealed.NoResources = decl.Resources != nil && !*decl.Resources
	return sealed, l.problems
}

// containers reads the Compose files that the bundle names; at is its folder for
// problems.
func (l *bundleLoader) containers(b *fleet.Bundle, decl *bundleDecl, at string, blobs map[digest.Digest][]byte) {
	if len(decl.Compose) == 0 {
		for _, key := range []string{"compose", "composeEnv", "profiles", "paths", "gpuRuntime"} {
			if l.doc.Has(key) {
				l.addf([]string{key}, "%s without a Compose file: expected compose with the name of one", key)
			}
		}
		return
	}
	env := map[string]string{}
	for i, name := range decl.ComposeEnv {
		value, set := os.LookupEnv(name)
		if !set {
			l.addf([]string{"composeEnv", strconv.Itoa(i)}, "variable %s is not set where the release is built: expected it to be exported, or not listed", name)
		}
		env[name] = value
	}
	loaded, problems := compose.LoadFrom(l.root, decl.Compose, compose.Options{Name: b.Name, Environ: env, Profiles: decl.Profiles, Paths: decl.Paths, Logging: l.logging, Pin: l.pins.pin})
	for _, p := range problems {
		p.File = path.Join(at, p.File)
		l.problems = append(l.problems, p)
	}
	if loaded == nil {
		return
	}
	if loaded.Set.Empty() {
		l.addf([]string{"compose"}, "the Compose files declare nothing that runs: expected a service whose profiles are active")
		return
	}
	b.Containers = &loaded.Set
	b.Containers.ConfigureGPUs = decl.GPURuntime != ""
	maps.Copy(blobs, loaded.Blobs)
	for i := range loaded.Paths {
		loaded.Paths[i].At.File = path.Join(at, loaded.Paths[i].At.File)
	}
	l.paths = loaded.Paths
	l.times = map[string]fleet.Times{}
	for service, t := range loaded.Times {
		l.times[service] = fleet.Times{Stop: path.Join(at, t.Stop), Start: path.Join(at, t.Start)}
	}
}

// noteFiles tells services which of the bundle's files they mount by a path of the host.
func noteFiles(b *fleet.Bundle) {
	if b.Containers == nil {
		return
	}
	for i := range b.Containers.Workspaces {
		mounts := b.Containers.Workspaces[i].Mounts
		for j := range mounts {
			for _, f := range b.Files {
				if mounts[j].Type == spec.MountBind && path.Clean(mounts[j].Source) == "/"+f.Path {
					mounts[j].File = f.Blob
				}
			}
		}
	}
}

func (l *bundleLoader) file(i int, d *fileDecl) (fleet.File, []byte, bool) {
	at := []string{"files", strconv.Itoa(i)}
	f := fleet.File{Path: d.Path, Mode: defaultFileMode, Owner: d.Owner}
	before := len(l.problems)
	if trust.CheckPath(d.Path) != nil {
		l.addf(append(at, "path"), "path is %q: expected a relative path with slashes and without . or .. parts, at most %d bytes", d.Path, trust.MaxPath)
	}
	if d.Mode != "" {
		if m, err := strconv.ParseUint(d.Mode, 8, 12); err == nil && m <= 0o777 {
			f.Mode = uint32(m)
		}
	}
	var content []byte
	switch {
	case d.Source != nil && d.Content != nil:
		l.addf(at, "the file has both source and content: expected one of them")
	case d.Content != nil:
		content = []byte(*d.Content)
	case d.Source != nil:
		var err error
		if content, err = l.root.ReadFile(*d.Source, MaxBlob); err != nil {
			l.addf(append(at, "source"), "%v: expected a file inside the bundle folder", err)
		}
	default:
		l.addf(at, "the file has no content: expected source or content")
	}
	f.Blob, f.Size = digest.Of(content), int64(len(content))
	return f, content, len(l.problems) == before
}

// uniquePaths refuses a path that is declared twice, or that is both a file and
// the folder of another.
func (l *bundleLoader) uniquePaths(files []fileDecl) {
	first := map[string]int{}
	for i, f := range files {
		at := []string{"files", strconv.Itoa(i), "path"}
		if j, dup := first[f.Path]; dup {
			l.addf(at, "path %q is declared twice: expected once; entry %d has it too", f.Path, j+1)
			continue
		}
		first[f.Path] = i
	}
	for i, f := range files {
		for dir := path.Dir(f.Path); dir != "." && dir != "/"; dir = path.Dir(dir) {
			if j, both := first[dir]; both {
				l.addf([]string{"files", strconv.Itoa(i), "path"}, "path %q needs folder %q, which entry %d declares as a file: expected one of them", f.Path, dir, j+1)
			}
		}
	}
}

// list is never nil, so that it encodes as a list.
func list(v []string) []string { return append([]string{}, v...) }

func sealBundle(b fleet.Bundle, probes fleet.ProbeSet, blobs map[digest.Digest][]byte) (Bundle, error) {
	b.Type = fleet.TypeBundle
	b.Files = append([]fleet.File{}, b.Files...)
	b.Exec = append([]fleet.Exec{}, b.Exec...)
	b.Critical = append(b.Critical, b.Criticals()...)
	slices.SortFunc(b.Files, func(x, y fleet.File) int { return strings.Compare(x.Path, y.Path) })
	raw, err := trust.Canonical(b)
	if err != nil {
		return Bundle{}, err
	}
	if len(raw) > trust.MaxBundle {
		return Bundle{}, fmt.Errorf("its description has %d bytes, at most %d are allowed", len(raw), trust.MaxBundle)
	}
	return Bundle{Bundle: b, Bytes: raw, Digest: digest.Of(raw), Probes: probes, Blobs: blobs}, nil
}
