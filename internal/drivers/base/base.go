// Package base is what drivers share: the comparison of an object with the one that was read
// before, and a client of JSON over HTTP. It is a package of its own because drivers do not
// import each other.
package base

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/steadyfleet/steady/internal/core/nodeconfig"
	"github.com/steadyfleet/steady/nodesdk"
)

// List splits an option with several values.
func List(option string) []string {
	return strings.FieldsFunc(option, func(r rune) bool { return r == ',' })
}

// Invalid refuses a field of an object.
func Invalid(field, format string, args ...any) error {
	return &nodesdk.InvalidError{Code: "invalid", Problems: []nodesdk.Problem{{Field: field, Message: fmt.Sprintf(format, args...)}}}
}

// Object decodes a config, which has to be a JSON object.
func Object(config []byte) (map[string]any, error) {
	v, err := nodeconfig.Decode(config)
	if err != nil {
		return nil, Invalid("", "%v", err)
	}
	m, is := v.(map[string]any)
	if !is {
		return nil, Invalid("", "the config is no object")
	}
	return m, nil
}

// Known refuses a member that the device would drop in silence.
func Known(config map[string]any, fields ...string) error {
	var problems []nodesdk.Problem
	for name := range config {
		if !slices.Contains(fields, name) {
			problems = append(problems, nodesdk.Problem{Field: name, Message: "the device has no such field"})
		}
	}
	if len(problems) == 0 {
		return nil
	}
	slices.SortFunc(problems, func(a, b nodesdk.Problem) int { return strings.Compare(a.Field, b.Field) })
	return &nodesdk.InvalidError{Code: "invalid", Problems: problems}
}

// Moved reports whether a device has another object than was read before; nil is none.
// Secrets are compared too. What ignores names is no difference.
func Moved(d nodesdk.Driver, now, was *nodesdk.Item, ignored ...string) (bool, error) {
	if now == nil || was == nil {
		return now != was, nil
	}
	rules := &nodeconfig.Rules{Ignored: ignored}
	a, err := nodeconfig.Canonical(d.Normalize(*now).Config)
	if err != nil {
		return false, fmt.Errorf("%s %s as the device has it: %w", now.Kind, now.ID, err)
	}
	b, err := nodeconfig.Canonical(d.Normalize(*was).Config)
	if err != nil {
		return false, fmt.Errorf("%s %s as it was read: %w", was.Kind, was.ID, err)
	}
	return !bytes.Equal(rules.Pushed(a, b), b), nil
}
