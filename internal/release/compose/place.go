package compose

import (
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"
)

// addf reports a finding at the place where the path of the merged model is
// declared, as precisely as possible: in the last file that goes deepest along
// it, through the services that a service extends.
func (l *load) addf(at []string, format string, args ...any) {
	l.report(at, false, fmt.Sprintf(format, args...))
}

func (l *load) warnf(at []string, format string, args ...any) {
	l.report(at, true, fmt.Sprintf(format, args...))
}

// note reports a finding about a file, at a place of it or, at line 0, as a whole.
func (l *load) note(file string, line, column int, format string, args ...any) {
	l.problems = append(l.problems, Problem{File: file, Line: line, Column: column, Message: fmt.Sprintf(format, args...)})
}

func (l *load) report(at []string, warning bool, words string) {
	p := l.place(at)
	p.Message, p.IsWarning = words, warning
	l.problems = append(l.problems, p)
}

// place is where the path of the merged model is declared.
func (l *load) place(at []string) (p Problem) {
	if len(at) > 1 && len(l.names) > 0 {
		at = slices.Clone(at)
		at[1] = l.names.back(at[0], at[1])
	}
	best := -1
	for _, s := range l.order {
		node, depth := l.deepest(s, at, 0)
		if depth > best || depth == best && depth > 0 {
			best, p.File, p.Line, p.Column = depth, s.name, node.Line, node.Column
			if node.owner != "" {
				p.File = node.owner
			}
		}
	}
	if p.File == "" && len(l.files) > 0 {
		p.File = l.files[0]
	}
	return p
}

// where is the place of a path as text.
func (l *load) where(at ...string) string {
	p := l.place(at)
	return fmt.Sprintf("%s:%d:%d", p.File, p.Line, p.Column)
}

type spot struct {
	Line, Column int
	owner        string
}

// deepest follows the path in one file and says how far it got.
func (l *load) deepest(s *source, at []string, hops int) (spot, int) {
	n, best, depth := s.top, spot{Line: 1, Column: 1}, 0
	for i, part := range at {
		k, v := child(n, part)
		if v == nil {
			break
		}
		best = spot{Line: v.Line, Column: v.Column}
		if k != nil && follow(v).Kind != yaml.ScalarNode || v.Kind == yaml.AliasNode && k != nil {
			best = spot{Line: k.Line, Column: k.Column}
		}
		depth, n = i+1, v
	}
	if depth >= 2 && depth < len(at) && at[0] == "services" && hops < 8 {
		if other, service := l.extended(s, at[1]); other != nil && (other != s || service != at[1]) {
			next := append([]string{"services", service}, at[2:]...)
			if found, d := l.deepest(other, next, hops+1); d > depth {
				if found.owner == "" {
					found.owner = other.name
				}
				return found, d
			}
		}
	}
	return best, depth
}

// extended says which service of which file a service extends.
func (l *load) extended(s *source, service string) (*source, string) {
	_, services := child(s.top, "services")
	_, decl := child(services, service)
	_, ext := child(decl, "extends")
	ext = follow(ext)
	switch {
	case ext == nil:
		return nil, ""
	case ext.Kind == yaml.ScalarNode:
		return s, ext.Value
	}
	_, file := child(ext, "file")
	_, name := child(ext, "service")
	if name == nil {
		return nil, ""
	}
	if file == nil {
		return s, follow(name).Value
	}
	return l.sources[s.extends[follow(file).Value]], follow(name).Value
}

// fail reports an error of the library, at the path that it names if it does.
func (l *load) fail(err error) {
	words := strings.ReplaceAll(err.Error(), l.stage+"/", "")
	words = strings.ReplaceAll(words, tilde, "")
	if strings.Contains(words, "cycle") || strings.Contains(words, "Circular") {
		words = strings.Join(strings.Fields(words), " ") // one finding over several lines
	}
	for line := range strings.SplitSeq(words, "\n") {
		if line = strings.TrimSpace(line); line != "" {
			l.addf(l.pathIn(line), "%s: expected what the Compose Specification describes", strings.TrimSuffix(line, "."))
		}
	}
}

var sections = []string{"services", "networks", "volumes", "configs", "secrets", "include", "models", "jobs"}

// pathIn finds the path of the model that an error's text names, or the service
// that it quotes.
func (l *load) pathIn(words string) []string {
	for field := range strings.FieldsSeq(words) {
		field = strings.Trim(field, "'\"`:,")
		for _, section := range sections {
			if strings.HasPrefix(field, section+".") {
				return strings.Split(strings.NewReplacer("[", ".", "]", "").Replace(field), ".")
			}
		}
	}
	if strings.Contains(words, "cycle") {
		for field := range strings.FieldsSeq(words) {
			if l.declared(field) {
				return []string{"services", field, "depends_on"}
			}
		}
	}
	rest := words
	for {
		i := strings.Index(rest, "service ")
		if i < 0 {
			return nil
		}
		rest = rest[i+len("service "):]
		name, _, _ := strings.Cut(rest, " ")
		name = strings.Trim(name, "'\"`:,")
		if l.declared(name) {
			return []string{"services", name}
		}
	}
}

func (l *load) declared(service string) bool {
	return slices.ContainsFunc(l.order, func(s *source) bool {
		_, services := child(s.top, "services")
		_, v := child(services, service)
		return v != nil
	})
}
