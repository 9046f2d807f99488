package main

import (
	"cmp"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
	"go.yaml.in/yaml/v4"

	"github.com/steadyfleet/steady/internal/release/compose"
	"github.com/steadyfleet/steady/internal/testkit"
)

// corporaEnv names folders of public Compose files, as docs/compose-corpora.md has them, separated as in PATH; the other
// two are how many of their applications run, by default all, and the seed by which they are chosen.
const (
	corporaEnv     = "STEADY_CORPORA"
	corporaAppsEnv = "STEADY_CORPORA_APPS"
	corporaSeedEnv = "STEADY_CORPORA_SEED"
)

// TestCorpora runs the applications of public repositories as TestStrangers does: every service with the same small image,
// and all that concerns its mounts as it stands in the file. What is below an absolute path lies in a folder of the test.
func TestCorpora(t *testing.T) {
	binary, folders := os.Getenv(peerEnv), filepath.SplitList(os.Getenv(corporaEnv))
	testkit.Only(t, binary != "" && len(folders) > 0, "no docker compose, or no public files: see docs/compose-corpora.md, "+peerEnv+"=FILE and "+corporaEnv+"=FOLDER:FOLDER")
	files := corporaFiles(t, folders)
	seed := testkit.Value(strconv.ParseUint(cmp.Or(os.Getenv(corporaSeedEnv), "1"), 10, 64))(t)
	rand.New(rand.NewPCG(seed, 0)).Shuffle(len(files), func(i, j int) { files[i], files[j] = files[j], files[i] })
	most := testkit.Value(strconv.Atoi(cmp.Or(os.Getenv(corporaAppsEnv), strconv.Itoa(len(files)))))(t)
	d := newStrangersEngine(t)
	equal, left := 0, map[string]int{}
	for _, file := range files[:min(most, len(files))] {
		ar, why := borrowed(t, file)
		if why != "" {
			left[why]++
			t.Logf("%s: left out: %s", file, why)
			continue
		}
		if t.Run(name(file), func(t *testing.T) {
			s := &stranger{bench: d.bench(t), ar: ar}
			defer s.end()
			s.equal(binary)
		}) {
			equal++
		}
	}
	t.Logf("%d applications are equal in what their services see; left out: %v", equal, left)
}

func name(file string) string {
	return filepath.Base(filepath.Dir(file)) + "/" + filepath.Base(file)
}

func corporaFiles(t *testing.T, folders []string) (out []string) {
	for _, folder := range folders {
		testkit.Must(t, filepath.WalkDir(folder, func(at string, e fs.DirEntry, err error) error {
			if err == nil && !e.IsDir() && regexp.MustCompile(`^(docker-)?compose.*\.ya?ml$`).MatchString(e.Name()) {
				out = append(out, at)
			}
			return err
		}))
	}
	slices.Sort(out)
	return out
}

// borrowed is an application with its images replaced, or why it cannot be one.
func borrowed(t *testing.T, file string) (*txtar.Archive, string) {
	raw := testkit.Value(os.ReadFile(file))(t)
	dir := filepath.Dir(file)
	values := map[string]string{}
	if env, err := os.ReadFile(filepath.Join(dir, ".env")); err == nil {
		for line := range strings.Lines(string(env)) {
			if k, v, is := strings.Cut(strings.TrimSpace(line), "="); is {
				values[k] = strings.Trim(v, `"'`)
			}
		}
	}
	var doc map[string]any
	if err := yaml.Unmarshal([]byte(substitute(string(raw), values)), &doc); err != nil {
		return nil, "no YAML"
	}
	services, _ := doc["services"].(map[string]any)
	if len(services) == 0 {
		return nil, "no services"
	}
	b := &borrower{abs: filepath.Join(t.TempDir(), "abs"), volumes: map[string]any{}}
	for _, s := range services {
		m, is := s.(map[string]any)
		if !is || m["extends"] != nil {
			return nil, "a service that extends another"
		}
		b.service(m)
	}
	if b.why != "" {
		return nil, b.why
	}
	configs, _ := doc["configs"].(map[string]any)
	for _, c := range configs {
		if m, is := c.(map[string]any); is && m["content"] != nil {
			return nil, "a config within the file, which docker compose copies into the container"
		}
	}
	delete(doc, "version")
	delete(doc, "name")
	for _, of := range []string{"volumes", "networks"} {
		all, _ := doc[of].(map[string]any)
		for k := range all {
			all[k] = map[string]any{}
		}
		if of == "volumes" && len(b.volumes) > 0 {
			if all == nil {
				all = map[string]any{}
			}
			for k, v := range b.volumes {
				all[k] = v
			}
			doc[of] = all
		}
	}
	ar := &txtar.Archive{Files: []txtar.File{{Name: "compose.yaml", Data: testkit.Value(yaml.Marshal(doc))(t)}}}
	testkit.Must(t, filepath.WalkDir(dir, func(at string, e fs.DirEntry, err error) error {
		rel, _ := filepath.Rel(dir, at)
		if err != nil || e.IsDir() && e.Name() == ".git" {
			return cmp.Or(err, filepath.SkipDir)
		}
		info, err := e.Info()
		if err != nil || !e.Type().IsRegular() || rel == filepath.Base(file) || info.Size() > 1<<20 || rel == ".env" {
			return err
		}
		data, err := os.ReadFile(at)
		if name := filepath.ToSlash(rel); info.Mode()&0o100 != 0 {
			rel = name + "!"
		}
		ar.Files = append(ar.Files, txtar.File{Name: filepath.ToSlash(rel), Data: data})
		return err
	}))
	for _, name := range b.files {
		if !slices.ContainsFunc(ar.Files, func(f txtar.File) bool { return strings.TrimSuffix(f.Name, "!") == path.Clean(name) }) {
			ar.Files = append(ar.Files, txtar.File{Name: path.Clean(name)})
		}
	}
	return ar, refused(t, ar)
}

// refused is why a build refuses an application, empty if it does not.
func refused(t *testing.T, ar *txtar.Archive) string {
	s := &stranger{bench: &bench{host: &host{TB: t}}, ar: ar}
	dir := t.TempDir()
	s.write(dir, false)
	root := testkit.Value(os.OpenRoot(dir))(t)
	defer func() { testkit.Must(t, root.Close()) }()
	l, problems := compose.Load(root, []string{"compose.yaml"}, compose.Options{Name: project1})
	if l != nil {
		return ""
	}
	return fmt.Sprint("refused: ", problems)
}

// variable is one that has no other within it.
var variable = regexp.MustCompile(`\$\{([A-Za-z_][A-Za-z0-9_]*)(?::?[-?+]([^{}]*))?\}|\$([A-Za-z_][A-Za-z0-9_]*)`)

// substitute gives every variable its value in the file .env, its default, or v.
func substitute(text string, values map[string]string) string {
	for range 4 { // so deep are the defaults that have variables
		text = variable.ReplaceAllStringFunc(text, func(s string) string {
			m := variable.FindStringSubmatch(s)
			return cmp.Or(values[m[1]+m[3]], m[2], "v")
		})
	}
	return text
}

// borrower replaces what a file needs of the world outside of it.
type borrower struct {
	abs     string // stands for the root of absolute paths
	volumes map[string]any
	files   []string // that the file names and the repository may lack
	why     string
}

// kept are the members of a service that say which mounts it has, who it is, and after whom it starts.
var kept = []string{"container_name", "volumes", "tmpfs", "configs", "secrets", "depends_on", "restart", "networks", "profiles", "hostname", "labels", "volumes_from"}

func (b *borrower) service(m map[string]any) {
	files := m["env_file"]
	for k := range m {
		if !slices.Contains(kept, k) {
			delete(m, k)
		}
	}
	m["image"], m["environment"] = "app", map[string]any{"REV": "1"}
	if files != nil {
		m["env_file"] = files
		b.envFiles(files)
	}
	if deps, is := m["depends_on"].(map[string]any); is {
		for k := range deps {
			deps[k] = map[string]any{"condition": "service_started"}
		}
	}
	if nets, is := m["networks"].(map[string]any); is {
		for k := range nets {
			nets[k] = map[string]any{} // no addresses
		}
	}
	mounts, _ := m["volumes"].([]any)
	for i, v := range mounts {
		switch v := v.(type) {
		case string:
			mounts[i] = b.short(v)
		case map[string]any:
			if s, is := v["source"].(string); is && v["type"] == "bind" {
				v["source"] = b.source(s)
			}
		}
	}
}

func (b *borrower) envFiles(v any) {
	switch v := v.(type) {
	case string:
		b.files = append(b.files, v)
	case []any:
		for _, e := range v {
			b.envFiles(e)
		}
	case map[string]any:
		b.envFiles(v["path"])
	}
}

func (b *borrower) short(v string) string {
	source, rest, is := strings.Cut(v, ":")
	if !is {
		return v
	}
	if s := b.source(source); s == source && !strings.ContainsAny(s, "./~") && s != "" {
		b.volumes[s] = map[string]any{}
	} else {
		source = s
	}
	return source + ":" + rest
}

func (b *borrower) source(s string) string {
	switch {
	case s == "/etc/localtime":
		return s
	case strings.HasPrefix(s, "/"):
		at := filepath.Join(b.abs, s)
		if err := os.MkdirAll(at, 0o755); err != nil {
			b.why = err.Error()
		}
		return at
	case strings.HasPrefix(s, "~"):
		b.why = "a path in the home folder of whoever builds"
	case strings.Contains(s, "/") && !strings.HasPrefix(s, "."):
		return "./" + s
	}
	return s
}
