// Package compliance asks static controls, CEL expressions of a signed release,
// about hosts and what they are to run. It is the only one that knows CEL.
package compliance

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/ext"

	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/fleet"
)

// Bounds of a control.
const (
	maxExpression = 4096
	// maxCost bounds one evaluation in CEL's own units: a step of a loop or a
	// comparison is a few.
	maxCost  = 200_000
	maxNamed = 4 // containers or files that a failure names
)

// environment declares host and bundle, and container and file for controls that
// are asked of each of them.
var environment = func() *cel.Env {
	env, err := cel.NewEnv(
		ext.NativeTypes(ext.ParseStructTags(true), reflect.TypeFor[Host](), reflect.TypeFor[Bundle](), reflect.TypeFor[Container](),
			reflect.TypeFor[File](), reflect.TypeFor[Mount](), reflect.TypeFor[Port](), reflect.TypeFor[Probe]()),
		cel.Variable("host", cel.ObjectType("compliance.Host")), cel.Variable("bundle", cel.ObjectType("compliance.Bundle")),
		cel.Variable("container", cel.ObjectType("compliance.Container")), cel.Variable("file", cel.ObjectType("compliance.File")),
		ext.Strings())
	if err != nil {
		panic("compliance: the environment of controls: " + err.Error())
	}
	return env
}()

// compiled is a control ready to be asked.
type compiled struct {
	program cel.Program
	uses    map[string]bool // of the variables
}

// Check says what is wrong with an expression.
func Check(expression string) error {
	_, err := compile(expression)
	return err
}

func compile(expression string) (*compiled, error) {
	if len(expression) > maxExpression {
		return nil, fmt.Errorf("the expression has %d bytes, at most %d are allowed", len(expression), maxExpression)
	}
	checked, issues := environment.Compile(expression)
	if err := issues.Err(); err != nil {
		words, _, _ := strings.Cut(issues.Errors()[0].Message, "\n")
		return nil, errors.New(words)
	}
	if checked.OutputType() != cel.BoolType {
		return nil, fmt.Errorf("the expression is of type %s: expected bool", checked.OutputType())
	}
	c := &compiled{uses: map[string]bool{}}
	for _, e := range ast.MatchDescendants(ast.NavigateAST(checked.NativeRep()), ast.KindMatcher(ast.IdentKind)) {
		c.uses[e.AsIdent()] = true
	}
	if c.uses["container"] && c.uses["file"] {
		return nil, errors.New("the expression asks about a container and a file: expected one of them")
	}
	var err error
	c.program, err = environment.Program(checked, cel.CostLimit(maxCost), cel.InterruptCheckFrequency(0))
	return c, err
}

// evaluate returns what fails, in words; nothing when the control passes. An error of
// the evaluation, such as its cost, fails.
func (c *compiled) evaluate(h *Host, b *Bundle) (string, bool) {
	vars := map[string]any{"host": h, "bundle": b}
	switch {
	case c.uses["container"]:
		return each(b.Containers, func(x *Container) string { return "container " + x.Name }, func(x *Container) (bool, error) { vars["container"] = x; return c.passes(vars) })
	case c.uses["file"]:
		return each(b.Files, func(x *File) string { return "file " + x.Path }, func(x *File) (bool, error) { vars["file"] = x; return c.passes(vars) })
	}
	ok, err := c.passes(vars)
	if err != nil {
		return "bundle " + b.Name + ": " + err.Error(), false
	}
	return "bundle " + b.Name, ok
}

func (c *compiled) passes(vars map[string]any) (bool, error) {
	out, _, err := c.program.Eval(vars)
	if err != nil {
		return false, err
	}
	ok, is := out.Value().(bool)
	return is && ok, nil
}

func each[T any](list []*T, name func(*T) string, ask func(*T) (bool, error)) (string, bool) {
	var failed []string
	for _, x := range list {
		ok, err := ask(x)
		if err != nil {
			return name(x) + ": " + err.Error(), false
		}
		if !ok {
			failed = append(failed, name(x))
		}
	}
	if n := len(failed) - maxNamed; n > 0 {
		failed = append(failed[:maxNamed], fmt.Sprintf("%d more", n))
	}
	return strings.Join(failed, ", "), len(failed) == 0
}

// Evaluate asks every control about every host of a manifest that it selects, and
// returns the failures by control. Hosts that run the same are asked once where
// the control does not look at the host.
func Evaluate(controls []fleet.Control, m *fleet.Manifest, leaves []fleet.Leaf, roster map[string]fleet.RosterHost, bundles map[digest.Digest]fleet.Bundle) []fleet.ControlFailure {
	views := newViews(m, roster, bundles)
	out := []fleet.ControlFailure{}
	for i := range controls {
		c := &controls[i]
		f := fleet.ControlFailure{Control: c.ID, Title: c.Title, Source: c.Source, Severity: c.Severity, Mode: c.Mode, Hosts: []string{}}
		program, err := compile(c.Expression)
		known := map[string]answer{}
		for k := range leaves {
			l := &leaves[k]
			if r := roster[l.Host]; !c.Selector.Matches(l.Host, r.Channel, r.Tags) {
				continue
			}
			a := answer{message: fmt.Sprint(err)}
			if err == nil {
				key := views.key(l)
				if program.uses["host"] {
					key = l.Host
				}
				var asked bool
				if a, asked = known[key]; !asked {
					a.message, a.ok = program.evaluate(views.host(l), views.bundle(l))
					known[key] = a
				}
			}
			if a.ok {
				continue
			}
			if len(f.Hosts) == fleet.MaxFailedHosts {
				f.More++
				continue
			}
			if len(f.Hosts) == 0 {
				f.Detail = a.message
			}
			f.Hosts = append(f.Hosts, l.Host)
		}
		if len(f.Hosts) > 0 {
			out = append(out, f)
		}
	}
	return out
}

type answer struct {
	message string
	ok      bool
}

// Pack returns the controls of a pack that ships with this version.
func Pack(name string) ([]fleet.Control, bool) {
	i := slices.IndexFunc(packs, func(p pack) bool { return p.name == name })
	if i < 0 {
		return nil, false
	}
	out := slices.Clone(packs[i].controls)
	for k := range out {
		out[k].Selector = fleet.Selector{All: true}
	}
	return out, true
}

// Packs lists the packs by name.
func Packs() []string {
	var names []string
	for _, p := range packs {
		names = append(names, p.name)
	}
	return names
}
