package devices

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/steadyfleet/steady/internal/cli/exit"
	"github.com/steadyfleet/steady/internal/core/nodeconfig"
)

// fields changes single fields of the only leg.
func (a *objects) fields(in *input, d nodeconfig.Definition) (nodeconfig.Definition, error) {
	if a.kind == nodeconfig.Tunnel {
		return d, exit.Badf("a tunnel has several legs: give them in a file, with -f")
	}
	d.Legs = slices.Clone(d.Legs)
	l := &d.Legs[0]
	if in.node != "" {
		l.Node = in.node
	}
	if in.id != "" {
		l.ID = in.id
	}
	root := map[string]any{}
	if len(l.Config) > 0 {
		v, err := nodeconfig.Decode(l.Config)
		if err != nil {
			return d, err
		}
		root, _ = v.(map[string]any)
	}
	for _, s := range in.set {
		path, text, ok := strings.Cut(s, "=")
		if !ok || path == "" {
			return d, exit.Badf("--set %q: expected FIELD=VALUE", s)
		}
		v, err := nodeconfig.Decode([]byte(text))
		if err != nil {
			v = text
		}
		at, last, err := within(root, path, true)
		if err != nil {
			return d, exit.Badf("--set %q: %v", s, err)
		}
		at[last] = v
	}
	for _, path := range in.unset {
		at, last, err := within(root, path, false)
		if err != nil {
			return d, exit.Badf("--unset %q: %v", path, err)
		}
		delete(at, last)
	}
	var err error
	l.Config, err = json.Marshal(root)
	return d, err
}

// within returns the object that has the last field of a path, and the field's name. An object that
// is not there is made, also in the place of null; a value that is no object is not replaced.
func within(at map[string]any, path string, made bool) (map[string]any, string, error) {
	steps := strings.Split(path, ".")
	for i, step := range steps[:len(steps)-1] {
		v := at[step]
		next, isObject := v.(map[string]any)
		_, _, typed := nodeconfig.TypeOf(v)
		_, refers := nodeconfig.ReferenceOf(v)
		here := strings.Join(steps[:i+1], ".")
		switch {
		case v == nil && made:
			next = map[string]any{}
			at[step] = next
		case v == nil:
			return nil, "", fmt.Errorf("there is no field %s", here)
		case !isObject || typed || refers:
			return nil, "", fmt.Errorf("%s is no object: set it as a whole, as in --set '%s={...}'", here, here)
		}
		at = next
	}
	last := steps[len(steps)-1]
	if _, there := at[last]; !there && !made {
		return nil, "", fmt.Errorf("there is no field %s", path)
	}
	return at, last, nil
}
