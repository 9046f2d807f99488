package compose

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/compose-spec/compose-go/v2/dotenv"
	"github.com/compose-spec/compose-go/v2/loader"
	"github.com/compose-spec/compose-go/v2/types"
	"github.com/steadyfleet/steady/internal/core/spec"
	"github.com/steadyfleet/steady/internal/strictyaml"
)

// The library leaves this format to docker compose: nothing in it is interpreted,
// and a name alone takes its value from where the file is read.
func init() {
	dotenv.RegisterFormat("raw", func(r io.Reader, _ string, vars map[string]string, look func(string) (string, bool)) error {
		lines := bufio.NewScanner(r)
		lines.Buffer(nil, MaxFileBytes)
		for lines.Scan() {
			line := strings.TrimRight(lines.Text(), "\r")
			if strings.TrimSpace(line) == "" || strings.HasPrefix(strings.TrimSpace(line), "#") {
				continue
			}
			name, value, set := strings.Cut(line, "=")
			if !set {
				value, set = look(strings.TrimSpace(name))
			}
			if set {
				vars[strings.TrimSpace(name)] = value
			}
		}
		return lines.Err()
	})
}

// projectVariable is what texts of the files call the project.
const projectVariable = "COMPOSE_PROJECT_NAME"

// environment reads the .env file next to the first file; Environ has precedence.
func (l *load) environment() {
	l.env = map[string]string{}
	name := path.Join(l.dir, ".env")
	if _, err := l.root.Lstat(name); err == nil {
		values, _, err := l.envFile(name, l.o.Environ)
		if err != nil {
			l.note(name, 1, 1, "%v: expected NAME=value lines", err)
		}
		maps.Copy(l.env, values)
	} else if l.root.Hides(name) {
		l.problems = append(l.problems, Problem{File: name, IsWarning: true, Message: "git does not track this file, so that no variable is read from it: expected it added (git add), or named with --untracked"})
	}
	maps.Copy(l.env, l.o.Environ)
	for k, v := range l.env {
		if len(v) > maxEnv {
			delete(l.env, k)
			l.note(name, 0, 0, "variable %s has %d bytes: expected at most %d", k, len(v), maxEnv)
		}
	}
	l.ownVariables(name)
}

// ownVariables are those of docker compose itself.
func (l *load) ownVariables(name string) {
	warn := func(file, format string, args ...any) {
		l.problems = append(l.problems, Problem{File: file, Line: 1, Column: 1, IsWarning: true, Message: fmt.Sprintf(format, args...)})
	}
	if text := l.env["COMPOSE_PROFILES"]; len(l.o.Profiles) == 0 {
		for p := range strings.SplitSeq(text, ",") {
			if p = strings.TrimSpace(p); p != "" {
				l.o.Profiles = append(l.o.Profiles, p)
			}
		}
	}
	if text := l.env["COMPOSE_FILE"]; text != "" {
		sep := ":"
		if s := l.env["COMPOSE_PATH_SEPARATOR"]; s != "" {
			sep = s
		}
		for f := range strings.SplitSeq(text, sep) {
			if f != "" && !slices.Contains(l.files, path.Join(l.dir, f)) {
				warn(name, "COMPOSE_FILE names %q, which is not read: expected it under compose of bundle.yaml, or not in COMPOSE_FILE", f)
			}
		}
	}
	for _, stem := range []string{"compose", "docker-compose"} {
		for _, ext := range []string{".override.yaml", ".override.yml"} {
			f := path.Join(l.dir, stem+ext)
			if _, err := l.root.Lstat(f); err == nil && !slices.Contains(l.files, f) && l.env["COMPOSE_FILE"] == "" {
				warn(f, "docker compose would merge this file, and it is not read: expected compose: [%s, %s] in bundle.yaml, or another name", path.Base(l.files[0]), path.Base(f))
			}
		}
	}
	if text := loader.NormalizeProjectName(l.env[projectVariable]); text != "" {
		l.env[projectVariable] = text
	} else {
		l.env[projectVariable] = l.projectName()
	}
}

// projectName is the project's name for the library; names on the engine are the host's.
func (l *load) projectName() string {
	if name := loader.NormalizeProjectName(l.o.Name); name != "" {
		return name
	}
	return "bundle"
}

// resolve has the library read the environment and label files of services, from
// copies among the staged files.
func (l *load) resolve() {
	for _, name := range slices.Sorted(maps.Keys(l.project.Services)) {
		s := l.project.Services[name]
		at := []string{"services", name}
		before, known := len(l.problems), map[string]bool{}
		for i, f := range s.EnvFiles {
			here := append(at[:2:2], "env_file", strconv.Itoa(i))
			if data := l.stageFile(here, f.Path, !bool(f.Required)); f.Format != "raw" {
				l.missingIn(here, data, s.Environment, known)
			}
		}
		for i, f := range s.LabelFiles {
			l.stageFile(append(at[:2:2], "label_file", strconv.Itoa(i)), f, false)
		}
		if strictyaml.Fatal(l.problems[before:]) {
			s.EnvFiles, s.LabelFiles = nil, nil
		}
		one := types.Project{Services: types.Services{name: s}, Environment: l.env}
		resolved, err := one.WithServicesEnvironmentResolved(true)
		if err != nil {
			l.addf(append(at[:2:2], "env_file"), "%s: expected files of NAME=value lines", l.describe(err))
			continue
		}
		if resolved, err = resolved.WithServicesLabelsResolved(true); err != nil {
			l.addf(append(at[:2:2], "label_file"), "%s: expected files of NAME=value lines", l.describe(err))
			continue
		}
		l.project.Services[name] = resolved.Services[name]
	}
}

// describe are those of the library without where the copies lie.
func (l *load) describe(err error) string {
	return strings.ReplaceAll(err.Error(), l.stage+"/", "")
}

// stageFile copies a file that services name into the stage.
func (l *load) stageFile(at []string, p string, optional bool) []byte {
	name, inRoot := l.rel(p)
	if !inRoot || strings.HasPrefix(name, "../") {
		l.addf(at, "%q is outside the bundle folder: expected a file inside it", name)
		return nil
	}
	data, err := l.root.ReadFile(name, MaxFileBytes)
	if errors.Is(err, fs.ErrNotExist) && optional {
		return nil
	}
	if err == nil && strings.Count(string(data), "$") > maxVariables {
		err = fmt.Errorf("%q has more than %d variables in its values", name, maxVariables)
	}
	if err != nil {
		l.addf(at, "%v: expected a file of the bundle folder with NAME=value lines", err)
		return nil
	}
	file := path.Join(l.stage, name)
	if err = os.MkdirAll(path.Dir(file), 0o700); err == nil {
		err = os.WriteFile(file, data, 0o600)
	}
	if err != nil {
		l.addf(at, "%q cannot be copied to be read: %v; check the temporary folder", name, err)
	}
	return data
}

// missingIn warns of variables in an environment file that have no value: the
// library takes them as empty. Known are those of the files before.
func (l *load) missingIn(at []string, data []byte, own types.MappingWithEquals, known map[string]bool) {
	for line := range strings.Lines(string(data)) {
		name, value, _ := strings.Cut(line, "=")
		value = strings.TrimSpace(value)
		if strings.HasPrefix(strings.TrimSpace(name), "#") || strings.HasPrefix(value, "'") {
			continue
		}
		for _, m := range plainVariable.FindAllStringSubmatch(value, -1) {
			v := m[2] + m[3]
			_, set := l.env[v]
			if value := own[v]; v == "" || set || value != nil || known[v] {
				continue
			}
			l.warnf(at, "variable %s has no value and becomes empty: expected one in .env, under environment or in a file before", v)
			l.unset[v] = true
		}
		known[strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(name), "export "))] = true
	}
}

// variables are those of the service with its files.
func (l *load) variables(s *types.ServiceConfig) []spec.Env {
	var out []spec.Env
	for _, name := range slices.Sorted(maps.Keys(s.Environment)) {
		v := s.Environment[name]
		if v != nil {
			out = append(out, spec.Env{Name: name, Value: *v})
			continue
		}
		out = append(out, spec.Env{Name: name, Unset: true})
		l.unset[name] = true
		l.warnf([]string{"services", s.Name, "environment", name}, "variable %s has no value: the image's variable of this name is removed; expected a value, in .env or under composeEnv of bundle.yaml", name)
	}
	return out
}

// noteUnset lists all variables without a value after the problems that they may have caused.
func (l *load) noteUnset() {
	if !l.fatal() || len(l.unset) == 0 {
		return
	}
	names := slices.Sorted(maps.Keys(l.unset))
	l.note(l.files[0], 1, 1, "no value for %s: expected all of them in .env, under composeEnv of bundle.yaml, or a default in the file as in ${%s:-}",
		strings.Join(names, ", "), names[0])
}
