package sessionfile

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/steadyfleet/steady/internal/core/session"
	"github.com/steadyfleet/steady/internal/strictyaml"
)

// templateDocument is a template as people write it: ${param:NAME} in a text of its parts or calls is the value of
// a parameter, and a text that is nothing else has the type of the parameter.
type templateDocument struct {
	Name        string              `json:"name"`
	Description string              `json:"description"`
	Parameters  []session.Parameter `json:"parameters"`
	partsDocument
}

// ReadTemplate reads a template, and checks it with a value for each parameter that the parameter allows.
func ReadTemplate(file string, data []byte, now time.Time) (name string, t *session.Template, problems []Problem) {
	in, r, problems := readTemplate(file, data, now, nil)
	if in == nil || strictyaml.Fatal(problems) {
		return "", nil, problems
	}
	slot := session.Timeslot{ProvisionAt: r.now, Start: r.now, End: r.now.Add(time.Hour), CleanupDeadline: r.now.Add(time.Hour)}
	r.name = in.Name
	s := r.session(&in.partsDocument)
	s.Timeslot = slot
	r.validate(in.Name, &s)
	t = &session.Template{Description: in.Description, Parameters: in.Parameters, Document: string(data)}
	r.add(session.CheckTemplate(in.Name, t))
	if strictyaml.Fatal(r.problems) {
		return "", nil, strictyaml.Sort(r.problems)
	}
	return in.Name, t, strictyaml.Sort(r.problems)
}

// Instantiate makes the parts of a session out of a template with values for its parameters. Its
// timeslot and owner are left to the caller.
func Instantiate(t *session.Template, template, name string, values map[string]any, now time.Time) (s session.Spec, err error) {
	values, found := session.Values(t.Parameters, values)
	if len(found) > 0 {
		return s, found
	}
	in, r, problems := readTemplate("template "+template, []byte(t.Document), now, values)
	if in != nil && !strictyaml.Fatal(problems) {
		r.name = name
		s = r.session(&in.partsDocument)
		s.Template = template
		problems = strictyaml.Sort(r.problems)
	}
	if strictyaml.Fatal(problems) {
		return s, errors.New(Text(problems))
	}
	return s, nil
}

// Text is all findings, a line each.
func Text(problems []Problem) string {
	lines := make([]string, len(problems))
	for i, p := range problems {
		lines[i] = p.String()
	}
	return strings.Join(lines, "\n")
}

// readTemplate reads a template with values in the place of its parameters; nil takes samples.
func readTemplate(file string, data []byte, now time.Time, values map[string]any) (*templateDocument, *reader, []Problem) {
	doc, problems := strictyaml.Parse(file, data)
	if doc == nil || strictyaml.Fatal(problems) {
		return nil, nil, problems
	}
	var declared struct {
		Parameters []session.Parameter `json:"parameters"`
	}
	if problems := doc.Check(parametersSchema()); len(problems) > 0 {
		return nil, nil, problems
	}
	if err := doc.DecodeKnown(&declared); err != nil {
		return nil, nil, []Problem{{File: file, Message: err.Error()}}
	}
	r := &reader{file: file, now: now.UTC().Truncate(time.Second), doc: doc}
	r.add(session.CheckParameters(declared.Parameters))
	if values == nil {
		values = map[string]any{}
		for i := range declared.Parameters {
			values[declared.Parameters[i].Name] = declared.Parameters[i].Sample()
		}
	}
	if problems := append(r.problems, doc.MapText(func(path []string, text string) (any, error) { return substitute(path, text, values) })...); len(problems) > 0 {
		return nil, nil, strictyaml.Sort(problems)
	}
	if problems := doc.Check(templateSchema()); len(problems) > 0 {
		return nil, nil, problems
	}
	in := new(templateDocument)
	if err := doc.DecodeKnown(in); err != nil {
		return nil, nil, []Problem{{File: file, Message: err.Error()}}
	}
	return in, r, nil
}

var placeholder = regexp.MustCompile(`\$\{param:([^}]*)\}`)

// substitute puts values in the place of placeholders. A value in a Compose fragment is no variable of it.
func substitute(path []string, text string, values map[string]any) (any, error) {
	if len(path) == 0 || path[0] != "parts" && path[0] != "calls" {
		return text, nil
	}
	inCompose := len(path) > 4 && path[4] == "compose"
	var missing error
	var whole any
	out := placeholder.ReplaceAllStringFunc(text, func(match string) string {
		name := placeholder.FindStringSubmatch(match)[1]
		v, ok := values[name]
		if !ok {
			missing = fmt.Errorf("%s names no parameter: expected one of those in parameters", match)
		}
		s, isText := v.(string)
		if !isText {
			s = fmt.Sprint(v)
		}
		if inCompose {
			s = strings.ReplaceAll(s, "$", "$$")
		}
		if match == text && !isText {
			whole = v
		}
		return s
	})
	if missing != nil {
		return nil, missing
	}
	if whole != nil {
		return whole, nil
	}
	return out, nil
}
