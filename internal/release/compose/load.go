// Package compose reads Compose files with the Compose Specification's own
// library and turns them into the container resources of a bundle. Every
// attribute of the specification is applied, or refused with the line and the
// reason, or named in a warning: Attributes says which. Nothing outside the
// bundle's folder is read, nothing is fetched, and no variable is read from the
// environment of the process.
package compose

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/compose-spec/compose-go/v2/loader"
	"github.com/compose-spec/compose-go/v2/template"
	"github.com/compose-spec/compose-go/v2/types"
	"github.com/sirupsen/logrus"

	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/spec"
	"github.com/steadyfleet/steady/internal/disk"
	"github.com/steadyfleet/steady/internal/strictyaml"
)

// Problem is one finding, with its file, line and column.
type Problem = strictyaml.Problem

// Bounds of what is read.
const (
	MaxFiles     = 64        // Compose files of one bundle, included ones counted
	MaxFileBytes = 1 << 20   // of one Compose or environment file
	MaxNodes     = 50_000    // of one file, aliases expanded
	MaxDepth     = 32        // of nesting
	MaxPorts     = 1_024     // that one entry of ports may expand to
	MaxReplicas  = 100       // of one service
	MaxContent   = 64 << 20  // bytes of a config or an archive
	MaxTemplate  = 4 << 10   // bytes of a text with variables
	maxParents   = 8         // ".." in one path
	maxEnv       = 128 << 10 // bytes of one variable
	maxVariables = 1_000     // in the values of one environment file
)

// Options are what the result depends on besides the files.
type Options struct {
	// Name is the bundle's; it takes the place of Compose's project name.
	Name string
	// Prefix goes before the name of everything; services are still found by their own on
	// their networks.
	Prefix string
	// Environ are the variables that the files may use besides those of the .env
	// file next to the first one, over which they have precedence.
	Environ map[string]string
	// Profiles are those that are active.
	Profiles []string
	// Paths are what relative paths of services are, where that does not follow from what the
	// folder has.
	Paths map[string]PathKind
	// Logging is that of services which declare none; nil is the engine's.
	Logging *spec.Logging
	// Pin gives the reference of an image that is pulled with its digest, or says
	// what is wrong without one; it has no place in a file. Nil keeps references.
	Pin func(ref string) (pinned string, p *Problem)
}

// Loaded is what the files declare.
type Loaded struct {
	Set   spec.Set // normalized and valid
	Blobs map[digest.Digest][]byte
	// Files are all files of the folder that were read as Compose files, sorted.
	Files []string
	// Attributes are those of the specification that the files use, sorted.
	Attributes []string
	// Times are where services declare how long they may take, by the name of the workspace.
	Times map[string]fleet.Times
	// Paths are those of the folder that services mount.
	Paths []Path
}

// PathKind is what a relative path is that services mount.
type PathKind string

// The kinds: a volume of the host, or content of the bundle.
const (
	Storage PathKind = "storage"
	Files   PathKind = "files"
)

// Path is one mount of a path of the folder.
type Path struct {
	Workspace, Target string
	Name              string // of the path
	Kind              PathKind
	Said              bool    // by Options.Paths
	At                Problem // where it stands, without a message
}

// Load is LoadFrom for a folder that git has no part in.
func Load(root *os.Root, files []string, o Options) (*Loaded, []Problem) {
	return LoadFrom(disk.PlainFolder(root), files, o)
}

// LoadFrom reads the files, merged in order, from the bundle's folder. The result is
// nil when a problem is more than a warning.
func LoadFrom(root *disk.Folder, files []string, o Options) (*Loaded, []Problem) {
	l := newLoad(root, files, o)
	defer l.close()
	loaded := l.run()
	problems := strictyaml.Sort(l.problems)
	if strictyaml.Fatal(problems) {
		return nil, problems
	}
	return loaded, problems
}

// The library writes what it warns of to the log; the same is found here, with
// its line.
func init() { logrus.SetOutput(io.Discard) }

type load struct {
	root     *disk.Folder
	files    []string
	o        Options
	env      map[string]string // Environ over .env
	dir      string            // the project's folder in the root
	scratch  string            // temporary folder; "" before it is made
	stage    string            // the copy of the root below it
	sources  map[string]*source
	order    []*source // files in order, what they include behind
	problems []Problem
	// including is how deep in include sections the file is that is being read.
	including int

	model   map[string]any
	project *types.Project
	set     spec.Set
	blobs   map[digest.Digest][]byte
	images  images
	steady  topSteady

	copied  map[string]bool   // paths of the folder that one service may write
	copies  map[string]copyOf // paths of the folder that several see, see shares
	folders map[string]string // paths that the folder has not, by the volume for them
	unset   map[string]bool   // variables without a value
	listed  map[string]bool   // of Options.Paths, those that a service mounts
	names   renamed
	former  map[string]string // by service in the file, the workspace that it is
	times   map[string]fleet.Times
	paths   []Path
}

func newLoad(root *disk.Folder, files []string, o Options) *load {
	return &load{
		root: root, files: files, o: o,
		sources: map[string]*source{}, blobs: map[digest.Digest][]byte{},
		times: map[string]fleet.Times{}, copied: map[string]bool{}, copies: map[string]copyOf{}, folders: map[string]string{}, unset: map[string]bool{}, listed: map[string]bool{},
	}
}

func (l *load) close() {
	if l.scratch != "" {
		_ = os.RemoveAll(l.scratch)
	}
}

func (l *load) fatal() bool { return strictyaml.Fatal(l.problems) }

func (l *load) run() *Loaded {
	if len(l.files) == 0 {
		l.note("", 0, 0, "no Compose file is named: expected at least one")
		return nil
	}
	l.dir = path.Dir(path.Clean(l.files[0]))
	for _, step := range []func(){l.environment, l.collect, l.checkKeys, l.parseModel, l.checkAttributes, l.bind, l.convert, l.finish} {
		if step(); l.fatal() {
			l.noteUnset()
			return nil
		}
	}
	out := &Loaded{Set: l.set, Blobs: l.blobs, Attributes: l.attributesUsed(), Times: l.times, Paths: l.paths}
	for _, s := range l.order {
		out.Files = append(out.Files, s.name)
	}
	slices.Sort(out.Files)
	out.Files = slices.Compact(out.Files)
	return out
}

// tilde marks a text that begins with ~, which the library would turn into the
// home folder of whoever builds.
const tilde = "/\x01home/"

func (l *load) substitute(text string, mapping template.Mapping) (string, error) {
	named := func(name string) (string, bool) {
		if name == projectVariable { // which the library sets to what it was told
			return l.env[name], true
		}
		return mapping(name)
	}
	out, err := template.SubstituteWithOptions(text, named, template.WithoutLogging)
	if strings.HasPrefix(out, "~") {
		out = tilde + out
	}
	return out, err
}

// guard refuses every resource outside the staged copy.
type guard struct{ stage string }

var errOutside = errors.New("a path outside the bundle folder or on the network: expected a file of the bundle folder")

func (g guard) Accept(p string) bool {
	return strings.Contains(p, "://") || strings.HasPrefix(p, "git@") || filepath.IsAbs(p) && !strings.HasPrefix(p, g.stage+"/")
}
func (g guard) Load(_ context.Context, p string) (string, error) {
	return "", fmt.Errorf("%q is %w", strings.TrimPrefix(p, tilde), errOutside)
}
func (g guard) Dir(string) string { return g.stage }

// parseModel has the library read the staged files.
func (l *load) parseModel() {
	if err := l.writeStage(); err != nil {
		l.note("", 0, 0, "the files cannot be copied to be read: %v; check the temporary folder", err)
		return
	}
	details := l.details()
	defer func() {
		// What the library trips over is the file's fault, and must not end the
		// program.
		if r := recover(); r != nil {
			l.fail(fmt.Errorf("the files cannot be read as they are: %v", r))
		}
	}()
	model, err := loader.LoadModelWithContext(context.Background(), details, l.options)
	if err != nil {
		l.fail(err)
		return
	}
	l.model = model
}

func (l *load) details() types.ConfigDetails {
	d := types.ConfigDetails{WorkingDir: path.Join(l.stage, l.dir), Environment: types.Mapping(maps.Clone(l.env))}
	for _, name := range l.files {
		d.ConfigFiles = append(d.ConfigFiles, types.ConfigFile{Filename: path.Join(l.stage, name), Content: l.sources[path.Clean(name)].data})
	}
	return d
}

func (l *load) options(o *loader.Options) {
	o.SetProjectName(l.projectName(), true)
	o.SkipNormalization = true
	o.SkipResolveEnvironment = true
	o.SkipResolveLabels = true
	o.Profiles = l.o.Profiles
	o.MaxNodeVisits = 2 * MaxNodes
	o.Interpolate.Substitute = l.substitute
	o.ResourceLoaders = append(o.ResourceLoaders, guard{l.stage})
}

// writeStage copies the files that were read into a folder of their own, so that
// the library finds them and nothing else: no links, and further down than any
// path in them leads up.
func (l *load) writeStage() error {
	var err error
	if l.scratch, err = os.MkdirTemp("", "steady-compose-"); err != nil {
		return err
	}
	if l.scratch, err = filepath.EvalSymlinks(l.scratch); err != nil {
		return err
	}
	l.stage = path.Join(l.scratch, strings.Repeat("d/", 2*maxParents), "bundle")
	if err := os.MkdirAll(path.Join(l.stage, l.dir), 0o700); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(l.sources)) {
		at := path.Join(l.stage, name)
		if err := os.MkdirAll(path.Dir(at), 0o700); err != nil {
			return err
		}
		if err := os.WriteFile(at, l.sources[name].data, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// bind decodes the model into the library's types.
func (l *load) bind() {
	defer func() {
		if r := recover(); r != nil {
			l.fail(fmt.Errorf("the files cannot be read as they are: %v", r))
		}
	}()
	l.stripTilde(l.model, nil)
	if l.fatal() || !l.readSteady() {
		return
	}
	l.model["name"] = l.projectName()
	normal, err := loader.Normalize(l.model, l.env)
	if err != nil {
		l.fail(err)
		return
	}
	details := l.details()
	opts := loader.ToOptions(&details, []func(*loader.Options){l.options})
	if l.project, err = loader.ModelToProject(normal, opts, details); err != nil {
		l.fail(err)
	}
}

// stripTilde takes the marks out again. Where a path of the host or the folder
// begins with one it is refused.
func (l *load) stripTilde(v any, at []string) any {
	switch v := v.(type) {
	case map[string]any:
		for _, k := range slices.Sorted(maps.Keys(v)) {
			v[k] = l.stripTilde(v[k], append(at[:len(at):len(at)], k))
		}
	case []any:
		for i := range v {
			v[i] = l.stripTilde(v[i], append(at[:len(at):len(at)], fmt.Sprint(i)))
		}
	case string:
		text := strings.ReplaceAll(v, tilde, "")
		if strings.HasPrefix(v, tilde) && homePaths(at) {
			l.addf(at, "%q is in the home folder of whoever builds: expected an absolute path of the host, or a path in the bundle folder", text)
		}
		return text
	}
	return v
}

// homePaths are where the library takes a path.
func homePaths(at []string) bool {
	last := at[len(at)-1]
	return slices.Contains([]string{"source", "context", "file", "path", "device"}, last) ||
		slices.Contains(at, "label_file") || slices.Contains(at, "additional_contexts")
}
