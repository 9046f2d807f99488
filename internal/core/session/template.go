package session

import (
	"cmp"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/reconcile/engine"
)

// KindTemplate is the kind of row that keeps a template; its id is the name.
const KindTemplate = "template"

// Template is a session that lacks a name, a timeslot and the values of its parameters.
type Template struct {
	Owner       string      `json:"owner"` // who set it last
	Updated     time.Time   `json:"updated,omitzero"`
	Description string      `json:"description,omitempty"`
	Parameters  []Parameter `json:"parameters,omitempty"`
	Document    string      `json:"document"` // as it was written
}

// ParameterType is what a parameter takes.
type ParameterType string

// The types of parameters.
const (
	String  ParameterType = "string"
	Integer ParameterType = "integer"
	Number  ParameterType = "number"
	Boolean ParameterType = "boolean"
	Span    ParameterType = "duration" // such as 90m
)

// Parameter is a value of a template that whoever asks for a session gives.
type Parameter struct {
	Name        string        `json:"name"`
	Type        ParameterType `json:"type"`
	Description string        `json:"description,omitempty"`
	Default     any           `json:"default,omitempty"` // without one it has to be given
	Choices     []any         `json:"choices,omitempty"`
	Min         *float64      `json:"min,omitempty"` // of integers and numbers
	Max         *float64      `json:"max,omitempty"`
	Pattern     string        `json:"pattern,omitempty"` // that a whole text matches
}

// Bounds of a template.
const (
	MaxParameters = 64
	MaxTemplate   = 256 << 10 // bytes of its document
	MaxTemplates  = 1000
	maxText       = 4 << 10 // bytes of a value
)

// TemplateRef is the row of a template.
func TemplateRef(name string) engine.Ref { return engine.Ref{Kind: KindTemplate, ID: name} }

// CheckParameters finds what is wrong with the parameters of a template.
func CheckParameters(ps []Parameter) (found Problems) {
	if len(ps) > MaxParameters {
		found.add("parameters", "there are %d; expected at most %d", len(ps), MaxParameters)
	}
	seen := map[string]int{}
	for i := range ps {
		p, path := &ps[i], fmt.Sprintf("parameters[%d]", i)
		checkName(&found, path, p.Name, seen)
		numeric := p.Type == Integer || p.Type == Number
		switch {
		case !numeric && (p.Min != nil || p.Max != nil):
			found.add(path, "only an integer and a number have min and max")
		case p.Min != nil && p.Max != nil && *p.Min > *p.Max:
			found.add(path+".min", "it is more than max")
		case p.Pattern != "" && p.Type != String:
			found.add(path+".pattern", "only a string has a pattern")
		}
		if _, err := regexp.Compile(p.Pattern); err != nil {
			found.add(path+".pattern", "%v", err)
			continue
		}
		for k, c := range p.Choices {
			if v, err := p.read(c); err != nil {
				found.add(fmt.Sprintf("%s.choices[%d]", path, k), "%v", err)
			} else {
				p.Choices[k] = v
			}
		}
		if p.Default != nil {
			if v, err := p.Value(p.Default); err != nil {
				found.add(path+".default", "%v", err)
			} else {
				p.Default = v
			}
		}
	}
	return found
}

// Value is a given value in the form of the parameter's type: a string, int64, float64 or bool.
func (p *Parameter) Value(given any) (any, error) {
	v, err := p.read(given)
	if err == nil && len(p.Choices) > 0 && !slices.ContainsFunc(p.Choices, func(c any) bool { w, err := p.read(c); return err == nil && w == v }) {
		return nil, fmt.Errorf("%v is none of its choices: expected one of %s", v, list(p.Choices))
	}
	return v, err
}

func (p *Parameter) read(given any) (any, error) {
	bad := fmt.Errorf("%q is of no use here: parameter %s is of type %s", fmt.Sprint(given), p.Name, p.Type)
	number, isNumber := float64(0), true
	switch n := given.(type) {
	case int64:
		number = float64(n)
	case int:
		number = float64(n)
	case float64:
		number = n
	default:
		isNumber = false
	}
	text, isText := given.(string)
	switch p.Type {
	case Boolean:
		if b, ok := given.(bool); ok {
			return b, nil
		}
		return nil, bad
	case Integer, Number:
		switch {
		case !isNumber || p.Type == Integer && number != math.Trunc(number) || math.Abs(number) > 1<<53:
			return nil, bad
		case p.Min != nil && number < *p.Min:
			return nil, fmt.Errorf("%v is too little: parameter %s is at least %v", number, p.Name, *p.Min)
		case p.Max != nil && number > *p.Max:
			return nil, fmt.Errorf("%v is too much: parameter %s is at most %v", number, p.Name, *p.Max)
		case p.Type == Integer:
			return int64(number), nil
		}
		return number, nil
	}
	if !isText || len(text) > maxText {
		return nil, bad
	}
	if p.Type == Span {
		if _, err := clock.ParseDuration(text); err != nil {
			return nil, fmt.Errorf("%q is no span of time: expected one such as 90m for parameter %s", text, p.Name)
		}
		return text, nil
	}
	if whole, err := regexp.Compile(`\A(?:` + p.Pattern + `)\z`); p.Pattern != "" && (err != nil || !whole.MatchString(text)) {
		return nil, fmt.Errorf("%q does not match %s, the pattern of parameter %s", text, p.Pattern, p.Name)
	}
	return text, nil
}

// Values are the values of all parameters, as given or by default.
func Values(ps []Parameter, given map[string]any) (values map[string]any, found Problems) {
	values = map[string]any{}
	for i := range ps {
		p := &ps[i]
		v, ok := given[p.Name]
		switch {
		case !ok && p.Default == nil:
			found.add("parameters", "parameter %s is not given: expected %s", p.Name, p.expected())
			continue
		case !ok:
			v = p.Default
		}
		v, err := p.Value(v)
		if err != nil {
			found.add("parameters."+p.Name, "%v", err)
		}
		values[p.Name] = v
	}
	for _, name := range unknownNames(ps, given) {
		found.add("parameters."+name, "the template has no parameter %s: expected %s", name, cmp.Or(namesOf(ps), "none"))
	}
	return values, found
}

// Sample is a value that the parameter allows, where the template says enough to know one.
func (p *Parameter) Sample() any {
	switch {
	case p.Default != nil:
		return p.Default
	case len(p.Choices) > 0:
		return p.Choices[0]
	case p.Type == Boolean:
		return false
	case p.Type == Span:
		return "1m"
	case p.Type == String:
		return "sample"
	case p.Min != nil:
		return *p.Min
	case p.Max != nil:
		return *p.Max
	}
	return int64(1)
}

// Bounds is what the parameter allows beside its type, for people.
func (p *Parameter) Bounds() string {
	switch {
	case len(p.Choices) > 0:
		return list(p.Choices)
	case p.Min != nil && p.Max != nil:
		return fmt.Sprintf("%v to %v", *p.Min, *p.Max)
	case p.Min != nil:
		return fmt.Sprintf("at least %v", *p.Min)
	case p.Max != nil:
		return fmt.Sprintf("at most %v", *p.Max)
	case p.Pattern != "":
		return p.Pattern
	}
	return ""
}

func (p *Parameter) expected() string {
	if len(p.Choices) > 0 {
		return "one of " + list(p.Choices)
	}
	return "a value of type " + string(p.Type)
}

func list(values []any) string {
	texts := make([]string, len(values))
	for i, v := range values {
		texts[i] = fmt.Sprint(v)
	}
	return strings.Join(texts, ", ")
}

func namesOf(ps []Parameter) string {
	var names []string
	for i := range ps {
		names = append(names, ps[i].Name)
	}
	return strings.Join(names, ", ")
}

func unknownNames(ps []Parameter, given map[string]any) (names []string) {
	for name := range given { // order-free: sorted below
		if !slices.ContainsFunc(ps, func(p Parameter) bool { return p.Name == name }) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// CheckTemplate finds what is wrong with the name and the description of a template.
func CheckTemplate(name string, t *Template) (found Problems) {
	if err := fleet.CheckName(name); err != nil {
		found.add("name", "%v", err)
	}
	if len(t.Document) > MaxTemplate {
		found.add("", "it has %d bytes; expected at most %d", len(t.Document), MaxTemplate)
	}
	if len(t.Description) > maxText {
		found.add("description", "it has %d bytes; expected at most %d", len(t.Description), maxText)
	}
	return found
}

// DecideTemplate is the decision on a template: there is nothing to do for it.
func DecideTemplate(v engine.View[Template, NeedsNothing]) engine.Decision {
	return engine.IsConverged(engine.NewReason(codeReady, ""))
}
