package strictyaml

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"

	"go.yaml.in/yaml/v4"

	"github.com/steadyfleet/steady/internal/core/nodeconfig"
)

// Config is what nodes have in the text that people edit: YAML by the core schema of version 1.2,
// in which every value of the normal form is written and read again as it is. A tag is an object
// of one member, of the tag's name, and a merge key gives its members. It is a value of a larger document, or one by itself.
type Config struct{ Raw json.RawMessage }

// ReadConfig reads one that is a document.
func ReadConfig(text []byte) (json.RawMessage, error) {
	top, problem := Mapping("", text)
	if problem != nil {
		return nil, fmt.Errorf("line %d, column %d: %s", problem.Line, problem.Column, problem.Message)
	}
	var c Config
	err := c.UnmarshalYAML(top)
	return c.Raw, err
}

// Text writes one as a document.
func (c Config) Text() (string, error) {
	out, err := yaml.Marshal(c)
	return string(out), err
}

// IsZero leaves it out where there is none.
func (c Config) IsZero() bool { return len(c.Raw) == 0 }

// UnmarshalYAML implements yaml.Unmarshaler.
func (c *Config) UnmarshalYAML(n *yaml.Node) error {
	v := (&Reader{Bytes: nodeconfig.MaxConfig * 4}).Value(n)
	if u := nodeconfig.UnreadIn(v); u != nil {
		return u
	} else if v == nil {
		return nil
	}
	var err error
	c.Raw, err = json.Marshal(v)
	return err
}

// MarshalYAML implements yaml.Marshaler.
func (c Config) MarshalYAML() (any, error) {
	v, err := nodeconfig.Decode(c.Raw)
	if err != nil {
		return nil, err
	}
	return nodeOf(v), nil
}

var tags = regexp.MustCompile(`^![A-Za-z0-9_./-]+$`)

// nodeOf is a value as a node.
func nodeOf(v any) *yaml.Node {
	scalar := func(tag, s string) *yaml.Node { return &yaml.Node{Kind: yaml.ScalarNode, Tag: tag, Value: s} }
	switch v := v.(type) {
	case map[string]any:
		if name, below, is := nodeconfig.TypeOf(v); is && tags.MatchString(name) && !slices.Contains(ownTypes, name) {
			if n := nodeOf(below); n.Style&yaml.TaggedStyle == 0 { // YAML has one tag for a node
				n.Tag, n.Style = name, n.Style|yaml.TaggedStyle
				return n
			}
		}
		out := &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}
		for _, k := range slices.Sorted(maps.Keys(v)) {
			out.Content = append(out.Content, nodeOf(k), nodeOf(v[k]))
		}
		return out
	case []any:
		out := &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq"}
		for _, e := range v {
			out.Content = append(out.Content, nodeOf(e))
		}
		return out
	case string:
		n := scalar("!!str", v)
		if PlainTag(v) != "!!str" {
			n.Style = yaml.DoubleQuotedStyle
		}
		return n
	case json.Number:
		return scalar(PlainTag(string(v)), string(v))
	case bool:
		return scalar("!!bool", fmt.Sprint(v))
	}
	return scalar("!!null", "null")
}
