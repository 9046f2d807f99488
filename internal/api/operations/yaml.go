package operations

import (
	"context"
	"encoding/json"

	"go.yaml.in/yaml/v4"

	"github.com/steadyfleet/steady/internal/api/operator"
	"github.com/steadyfleet/steady/internal/strictyaml"
	"github.com/steadyfleet/steady/internal/wire"
)

// maxYAML bounds a document that is converted, in bytes.
const maxYAML = 512 << 10

// convertYAML reads a document that a person typed, or writes one for a person to edit.
func (h *Handler) convertYAML(_ context.Context, in *bodyIn[operator.Conversion]) (out operator.Conversion, err error) {
	out = in.Body
	switch {
	case out.Value == nil && out.Config:
		if out.Value, err = strictyaml.ReadConfig([]byte(out.YAML)); err != nil {
			err = wire.Refuse(wire.ErrInvalid, "%v", err)
		}
		return out, err
	case out.Value == nil:
		return out, readYAML(&out)
	case out.Config:
		if out.YAML, err = (strictyaml.Config{Raw: out.Value}).Text(); err != nil {
			err = wire.Refuse(wire.ErrInvalid, "%v", err)
		}
		return out, err
	}
	var plain any
	if err = yaml.Unmarshal(out.Value, &plain); err != nil { // JSON is YAML, with its numbers as they are
		return out, wire.Refuse(wire.ErrInvalid, "the value is no JSON: %v", err)
	}
	text, err := yaml.Marshal(plain)
	out.YAML = string(text)
	return out, err
}

// readYAML refuses what is no YAML, or could be read in two ways, with its line and column.
func readYAML(c *operator.Conversion) error {
	doc, problems := strictyaml.Parse("", []byte(c.YAML))
	var value map[string]any
	if doc != nil && !strictyaml.Fatal(problems) {
		if err := doc.DecodeKnown(&value); err != nil {
			return wire.Refuse(wire.ErrInvalid, "%v", err)
		}
		var err error
		c.Value, err = json.Marshal(value)
		return err
	}
	p := strictyaml.Sort(problems)[0]
	return wire.Refuse(wire.ErrInvalid, "line %d, column %d: %s", p.Line, p.Column, p.Message)
}
