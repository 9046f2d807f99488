package apply

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/steadyfleet/steady/internal/core/spec"
)

// Write returns a resource as a document that Read accepts.
func Write(kinds *spec.Table, r *Resource) ([]byte, error) {
	d := json.NewDecoder(bytes.NewReader(r.Spec))
	d.UseNumber()
	var fields map[string]any
	if err := d.Decode(&fields); err != nil {
		return nil, fmt.Errorf("%s cannot be read: %w", r.FullName(), err)
	}
	delete(fields, "name")
	k := kinds.Kind(r.Kind)
	if k == nil {
		return nil, fmt.Errorf("%s is of a kind that this version does not know", r.FullName())
	}
	raw, err := json.Marshal(prune(humanize(fields, k.New(""))))
	if err != nil {
		return nil, err
	}
	var plain any // JSON is YAML, and only its decoder keeps integers whole
	if err := yaml.Unmarshal(raw, &plain); err != nil {
		return nil, err
	}
	if plain == nil {
		plain = map[string]any{}
	}
	body, err := yaml.Marshal(map[string]any{"spec": plain})
	if err != nil {
		return nil, err
	}
	kind := strings.ToUpper(r.Kind[:1]) + r.Kind[1:]
	return fmt.Appendf(nil, "kind: %s\nhost: %s\nname: %s\n%s", kind, r.Host, quoted(r.Name), body), nil
}

// quoted writes a name so that it stays one: 1 and true are names too.
func quoted(name string) string {
	raw, err := yaml.Marshal(name)
	if err != nil {
		return name
	}
	return strings.TrimSpace(string(raw))
}

// prune leaves out what says nothing.
func prune(v any) any {
	m, ok := v.(map[string]any)
	if !ok {
		return v
	}
	for key, in := range m { // in place, one by one
		if in = prune(in); in == nil {
			delete(m, key)
		} else if sub, ok := in.(map[string]any); ok && len(sub) == 0 && key != "pull" && key != "build" {
			delete(m, key)
		}
	}
	return m
}
