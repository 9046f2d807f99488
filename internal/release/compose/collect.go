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

	"github.com/steadyfleet/steady/internal/release/confined"
)

// collect reads the named files and all that they include and extend.
func (l *load) collect() {
	for _, name := range l.files {
		if _, err := inside("", name); err != nil {
			l.problems = append(l.problems, Problem{File: name, Message: fmt.Sprintf("%v: expected a file of the bundle folder", err)})
			return
		}
		l.read(path.Clean(name), l.dir, l.env, func(words string) {
			l.problems = append(l.problems, Problem{File: name, Message: words + ": expected a Compose file of the bundle folder"})
		})
	}
}

// read takes one file in; dir is what its relative paths start from. A file that
// comes again under other variables is checked again.
func (l *load) read(name, dir string, env map[string]string, fail func(words string)) *source {
	if s := l.sources[name]; s != nil {
		if !maps.Equal(s.env, env) {
			l.checkTexts(s, env)
		}
		if l.including > 0 {
			l.plainIncludes(s)
		}
		return s
	}
	if len(l.sources) >= MaxFiles {
		fail(fmt.Sprintf("%q is one Compose file more than the %d that are taken", name, MaxFiles))
		return nil
	}
	data, err := confined.File(l.root, name, MaxFileBytes)
	if err != nil {
		fail(err.Error())
		return nil
	}
	s := &source{name: name, dir: dir, data: data, env: env, extends: map[string]string{}}
	l.sources[name] = s
	if s.top = l.parse(name, data); s.top == nil {
		s.top = &yaml.Node{Kind: yaml.MappingNode, Line: 1, Column: 1}
		return s
	}
	if _, n := child(s.top, "name"); len(l.order) == 0 && n != nil && !strings.Contains(follow(n).Value, "$") && env[projectVariable] == l.projectName() {
		env[projectVariable] = follow(n).Value // as texts of the file may name it
	}
	l.order = append(l.order, s)
	l.checkTexts(s, env)
	if l.fatal() {
		return s
	}
	if l.including > 0 && !l.plainIncludes(s) {
		return s
	}
	l.includes(s, env)
	l.extensions(s, env)
	return s
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

// includes reads the files of the include section.
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
	next := maps.Clone(env)
	for i, n := range paths {
		text, err := template.SubstituteWithOptions(n.Value, lookup(env), template.WithoutLogging)
		if err != nil {
			return // checkTexts has said so
		}
		file, err := inside(s.dir, text)
		if err != nil {
			l.at(s, n, false, "%v: expected a Compose file of the bundle folder", err)
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
		l.read(file, dir, next, func(words string) { l.at(s, n, false, "%s: expected a Compose file of the bundle folder", words) })
		l.including--
	}
}

// includeEnv takes the variables of an included project: its env_file, else the
// .env beside it. What is set already goes before.
func (l *load) includeEnv(s *source, n *yaml.Node, dir string, envFiles []*yaml.Node, env map[string]string) map[string]string {
	out := maps.Clone(env)
	add := func(name string, n *yaml.Node) bool {
		values, err := l.envFile(name, env)
		if err == nil {
			var data []byte
			if data, err = confined.File(l.root, name, MaxFileBytes); err == nil {
				l.sources[name] = &source{name: name, data: data, top: &yaml.Node{Kind: yaml.MappingNode, Line: 1, Column: 1}}
			}
		}
		if err != nil {
			l.at(s, n, false, "%v: expected NAME=value lines in a file of the bundle folder", err)
			return false
		}
		for k, v := range values {
			if _, set := env[k]; !set {
				out[k] = v
			}
		}
		return true
	}
	if len(envFiles) == 0 {
		name := path.Join(dir, ".env")
		if _, err := l.root.Lstat(name); err == nil && !add(name, n) {
			return nil
		}
		return out
	}
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
		if !add(name, e) {
			return nil
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
		text, err := template.SubstituteWithOptions(file.Value, lookup(env), template.WithoutLogging)
		if err != nil {
			continue
		}
		name, err := inside(s.dir, text)
		if err != nil {
			l.at(s, file, false, "%v: expected a Compose file of the bundle folder", err)
			continue
		}
		s.extends[file.Value] = name
		l.read(name, path.Dir(name), env, func(words string) {
			l.at(s, file, false, "%s: expected a Compose file of the bundle folder", words)
		})
	}
}

func lookup(env map[string]string) template.Mapping {
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
			out, err := template.SubstituteWithOptions(text, lookup(env), template.WithoutLogging)
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
func (l *load) envFile(name string, env map[string]string) (map[string]string, error) {
	data, err := confined.File(l.root, name, MaxFileBytes)
	if err != nil {
		return nil, err
	}
	if bytes.Count(data, []byte("$")) > 1000 {
		return nil, fmt.Errorf("%q has more than 1000 variables in its values", name)
	}
	out := map[string]string{}
	look := func(k string) (string, bool) { v, ok := env[k]; return v, ok }
	values, err := dotenv.ParseWithLookup(bytes.NewReader(data), look)
	if err != nil {
		return nil, fmt.Errorf("%q cannot be read: %w", name, err)
	}
	for _, k := range slices.Sorted(maps.Keys(values)) {
		if len(values[k]) > maxEnv {
			return nil, fmt.Errorf("%q: variable %s has %d bytes, at most %d are taken", name, k, len(values[k]), maxEnv)
		}
		out[k] = values[k]
	}
	return out, nil
}
