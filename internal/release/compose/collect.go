package compose

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/compose-spec/compose-go/v2/dotenv"
	"github.com/compose-spec/compose-go/v2/template"
	"go.yaml.in/yaml/v4"
)

// collect reads the named files and all that they include and extend.
func (l *load) collect() {
	for _, name := range l.files {
		if _, err := inside("", name); err != nil {
			l.note(name, 0, 0, "%v: expected a file of the bundle folder", err)
			return
		}
		if err := l.read(path.Clean(name), l.dir, l.env); err != nil {
			l.note(name, 0, 0, "%v: expected a Compose file of the bundle folder", err)
		}
	}
}

// read takes one file in; dir is what its relative paths start from. A file that
// comes again under other variables is checked again.
func (l *load) read(name, dir string, env map[string]string) error {
	if s := l.sources[name]; s != nil {
		if !maps.Equal(s.env, env) {
			l.checkTexts(s, env)
		}
		if l.including > 0 {
			l.plainIncludes(s)
		}
		return nil
	}
	if len(l.sources) >= MaxFiles {
		return fmt.Errorf("%q is one Compose file more than the %d that are allowed", name, MaxFiles)
	}
	data, err := l.root.ReadFile(name, MaxFileBytes)
	if err != nil {
		return err
	}
	s := &source{name: name, dir: dir, data: data, env: env, extends: map[string]string{}}
	l.sources[name] = s
	if s.top = l.parse(name, data); s.top == nil {
		s.top = &yaml.Node{Kind: yaml.MappingNode, Line: 1, Column: 1}
		return nil
	}
	if _, n := child(s.top, "name"); len(l.order) == 0 && n != nil && !strings.Contains(follow(n).Value, "$") && env[projectVariable] == l.projectName() {
		env[projectVariable] = follow(n).Value // as texts of the file may name it
	}
	l.order = append(l.order, s)
	if l.checkTexts(s, env); l.fatal() || l.including > 0 && !l.plainIncludes(s) {
		return nil
	}
	l.includes(s, env)
	l.extensions(s, env)
	return nil
}

// plainIncludes refuses, in a file that is itself included, what the library
// would resolve from the working folder of the process.
func (l *load) plainIncludes(s *source) bool {
	_, list := child(s.top, "include")
	ok := true
	if list = follow(list); list == nil {
		return ok
	}
	for _, item := range list.Content {
		for _, key := range []string{"project_directory", "env_file"} {
			if k, _ := child(item, key); k != nil {
				ok = false
				l.at(s, k, false, "%s in an included file: expected it in the first file, which names this one", key)
			}
		}
	}
	return ok
}

func (l *load) at(s *source, n *yaml.Node, warning bool, format string, args ...any) {
	l.problems = append(l.problems, Problem{File: s.name, Line: n.Line, Column: n.Column, IsWarning: warning, Message: fmt.Sprintf(format, args...)})
}

func (l *load) includes(s *source, env map[string]string) {
	_, list := child(s.top, "include")
	if list = follow(list); list == nil {
		return
	}
	for _, item := range list.Content {
		item = follow(item)
		if item.Kind == yaml.ScalarNode {
			l.include(s, []*yaml.Node{item}, "", nil, env)
			continue
		}
		_, paths := child(item, "path")
		_, project := child(item, "project_directory")
		_, envFile := child(item, "env_file")
		dir := ""
		if project = follow(project); project != nil {
			if strings.Contains(project.Value, "$") {
				l.at(s, project, false, "a variable in project_directory: expected the path written out")
				continue
			}
			var err error
			if dir, err = inside(s.dir, project.Value); err != nil {
				l.at(s, project, false, "%v: expected a folder of the bundle folder", err)
				continue
			}
		}
		l.include(s, scalars(paths), dir, scalars(envFile), env)
	}
}

// scalars lists a text or a list of texts.
func scalars(n *yaml.Node) []*yaml.Node {
	n = follow(n)
	switch {
	case n == nil:
		return nil
	case n.Kind == yaml.ScalarNode:
		return []*yaml.Node{n}
	}
	var out []*yaml.Node
	for _, c := range n.Content {
		if c = follow(c); c.Kind == yaml.ScalarNode {
			out = append(out, c)
		}
	}
	return out
}

func (l *load) include(s *source, paths []*yaml.Node, dir string, envFiles []*yaml.Node, env map[string]string) {
	next := env
	for i, n := range paths {
		file, err := l.named(s, n, env)
		if err != nil {
			return
		}
		if i == 0 {
			if dir == "" {
				dir = path.Dir(file)
			}
			if next = l.includeEnv(s, n, dir, envFiles, env); next == nil {
				return
			}
		}
		l.including++
		l.readNamed(s, n, file, dir, next)
		l.including--
	}
}

// named is the Compose file that a text of another one names.
func (l *load) named(s *source, n *yaml.Node, env map[string]string) (string, error) {
	text, err := substitute(n.Value, env)
	if err != nil {
		return "", err // checkTexts has said so
	}
	file, err := inside(s.dir, text)
	if err != nil {
		l.at(s, n, false, "%v: expected a Compose file of the bundle folder", err)
	}
	return file, err
}

func (l *load) readNamed(s *source, n *yaml.Node, file, dir string, env map[string]string) {
	if err := l.read(file, dir, env); err != nil {
		l.at(s, n, false, "%v: expected a Compose file of the bundle folder", err)
	}
}

// includeEnv takes the variables of an included project: its env_file, else the
// .env in its folder. What is set already has precedence.
func (l *load) includeEnv(s *source, n *yaml.Node, dir string, envFiles []*yaml.Node, env map[string]string) map[string]string {
	type envFile struct {
		name string
		at   *yaml.Node
	}
	var files []envFile
	for _, e := range envFiles {
		if strings.Contains(e.Value, "$") {
			l.at(s, e, false, "a variable in the env_file of an include: expected the path written out")
			return nil
		}
		name, err := inside(s.dir, e.Value)
		if err != nil {
			l.at(s, e, false, "%v: expected a file of the bundle folder", err)
			return nil
		}
		files = append(files, envFile{name, e})
	}
	if name := path.Join(dir, ".env"); len(envFiles) == 0 {
		if _, err := l.root.Lstat(name); err == nil {
			files = append(files, envFile{name, n})
		}
	}
	out := maps.Clone(env)
	for _, f := range files {
		values, data, err := l.envFile(f.name, env)
		if err != nil {
			l.at(s, f.at, false, "%v: expected NAME=value lines in a file of the bundle folder", err)
			return nil
		}
		l.sources[f.name] = &source{name: f.name, data: data, top: &yaml.Node{Kind: yaml.MappingNode, Line: 1, Column: 1}}
		for k, v := range values {
			if _, set := env[k]; !set {
				out[k] = v
			}
		}
	}
	return out
}

// extensions reads the files whose services are extended.
func (l *load) extensions(s *source, env map[string]string) {
	_, services := child(s.top, "services")
	for _, e := range entries(services) {
		_, ext := child(e[1], "extends")
		_, file := child(ext, "file")
		if file = follow(file); file == nil {
			continue
		}
		if name, err := l.named(s, file, env); err == nil {
			s.extends[file.Value] = name
			l.readNamed(s, file, name, path.Dir(name), env)
		}
	}
}

// substitute fills the variables of a text in.
func substitute(text string, env map[string]string) (string, error) {
	return template.SubstituteWithOptions(text, lookup(env), template.WithoutLogging)
}

func lookup(env map[string]string) func(name string) (string, bool) {
	return func(name string) (string, bool) {
		v, ok := env[name]
		return v, ok
	}
}

// plainVariable is a variable without an operator, such as $NAME and ${NAME}.
var plainVariable = regexp.MustCompile(`\$(\$|([A-Za-z_][A-Za-z0-9_]*)|\{([A-Za-z_][A-Za-z0-9_]*)\})`)

// checkTexts finds variables that are missing and ranges that would expand to
// too much, in every text of the file.
func (l *load) checkTexts(s *source, env map[string]string) {
	done := map[*yaml.Node]bool{}
	walk(s.top, nil, func(at []string, _, v *yaml.Node) {
		if v.Kind != yaml.ScalarNode || done[v] {
			return
		}
		done[v] = true
		text := v.Value
		if strings.Contains(text, "$") {
			if len(text) > MaxTemplate {
				l.at(s, v, false, "a text of %d bytes with variables: expected at most %d, or $$ put into a file", len(text), MaxTemplate)
				return
			}
			out, err := substitute(text, env)
			if err != nil {
				var required *template.MissingRequiredError
				if errors.As(err, &required) {
					l.unset[required.Variable] = true
				}
				l.at(s, v, false, "%v: expected a value in .env, or under composeEnv of bundle.yaml", err)
				return
			}
			for _, m := range plainVariable.FindAllStringSubmatch(text, -1) {
				name := m[2] + m[3]
				if _, set := env[name]; !set && name != "" {
					l.unset[name] = true
					l.at(s, v, true, "variable %s is not set and becomes empty: expected a value in .env, composeEnv of bundle.yaml, or a default as in ${%s:-value}", name, name)
				}
			}
			text = out
		}
		if len(at) >= 4 && at[0] == "services" && (at[2] == "ports" || at[2] == "expose") {
			if n := portCount(text); n > MaxPorts {
				l.at(s, v, false, "%q stands for %d ports: expected at most %d", text, n, MaxPorts)
			}
		}
	})
}

// portCount is how many ports the widest range of a text has.
func portCount(text string) int {
	most := 0
	for _, part := range strings.FieldsFunc(text, func(r rune) bool { return r == ':' || r == '/' }) {
		from, to, ok := strings.Cut(part, "-")
		a, err1 := strconv.Atoi(from)
		b, err2 := strconv.Atoi(to)
		if ok && err1 == nil && err2 == nil {
			most = max(most, b-a+1)
		}
	}
	return most
}

// envFile reads an environment file of the bundle folder. Variables in it take
// their values from env and from the file itself.
func (l *load) envFile(name string, env map[string]string) (values map[string]string, data []byte, err error) {
	if data, err = l.root.ReadFile(name, MaxFileBytes); err != nil {
		return nil, nil, err
	}
	if bytes.Count(data, []byte("$")) > maxVariables {
		return nil, nil, fmt.Errorf("%q has more than %d variables in its values", name, maxVariables)
	}
	if values, err = dotenv.ParseWithLookup(bytes.NewReader(data), lookup(env)); err != nil {
		return nil, nil, fmt.Errorf("%q cannot be read: %w", name, err)
	}
	for _, k := range slices.Sorted(maps.Keys(values)) {
		if len(values[k]) > maxEnv {
			return nil, nil, fmt.Errorf("%q: variable %s has %d bytes, at most %d are allowed", name, k, len(values[k]), maxEnv)
		}
	}
	return values, data, nil
}
