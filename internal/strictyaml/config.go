package strictyaml

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/big"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/steadyfleet/steady/internal/core/nodeconfig"
)

// Config is what nodes have in the text that people edit: YAML by the core schema of version 1.2,
// in which every value of the normal form is written and read again as it is. A tag is an object
// of one member, of the tag's name. It is a value of a larger document, or one by itself.
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
	budget := nodeconfig.MaxConfig * 4
	v, err := valueOf(n, &budget, 0)
	if err != nil || v == nil {
		return err
	}
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

// The scalars of the core schema that are no texts (YAML 1.2.2, section 10.3.2).
var (
	nulls    = regexp.MustCompile(`^(|~|null|Null|NULL)$`)
	trues    = regexp.MustCompile(`^(true|True|TRUE)$`)
	falses   = regexp.MustCompile(`^(false|False|FALSE)$`)
	integers = regexp.MustCompile(`^([-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+)$`)
	floats   = regexp.MustCompile(`^([-+]?)(?:(\.[0-9]+)|0*([0-9]+)(?:\.([0-9]*))?)([eE][-+]?[0-9]+)?$`)
	notJSON  = regexp.MustCompile(`^([-+]?)\.(inf|Inf|INF)$|^\.(nan|NaN|NAN)$`)
	tags     = regexp.MustCompile(`^![A-Za-z0-9_./-]+$`)
)

// plainScalar is a scalar without quotes.
func plainScalar(s string) any {
	switch {
	case nulls.MatchString(s):
		return nil
	case trues.MatchString(s):
		return true
	case falses.MatchString(s):
		return false
	case integers.MatchString(s):
		base := 10
		if strings.HasPrefix(s, "0o") || strings.HasPrefix(s, "0x") {
			base = 0
		}
		i, _ := new(big.Int).SetString(strings.TrimPrefix(s, "+"), base)
		return json.Number(i.String())
	case notJSON.MatchString(s):
		word := strings.ToLower(strings.Trim(s, "+."))
		return map[string]any{"!float": strings.Replace(word, "-.", "-", 1)}
	}
	m := floats.FindStringSubmatch(s)
	if m == nil {
		return s
	}
	sign, whole, part := strings.TrimPrefix(m[1], "+"), m[3], m[4]
	if m[2] != "" {
		whole, part = "0", m[2][1:]
	}
	switch {
	case part != "":
		part = "." + part
	case m[5] == "":
		part = ".0"
	}
	return json.Number(sign + whole + part + m[5])
}

// valueOf is a node as nodeconfig.Decode has it.
func valueOf(n *yaml.Node, budget *int, depth int) (any, error) {
	if *budget -= len(n.Value) + 1; *budget < 0 || depth > nodeconfig.MaxDepth*2 {
		return nil, errors.New("it is too large or too deep, or its aliases are too many")
	}
	if n.Kind == yaml.AliasNode {
		return valueOf(n.Alias, budget, depth+1)
	}
	tag := n.Tag
	if tagged := tags.MatchString(tag); !tagged && !strings.HasPrefix(n.ShortTag(), "!!") && tag != "" {
		return nil, fmt.Errorf("line %d: the tag %.40q cannot be written: expected ! and letters", n.Line, tag)
	} else if tagged {
		v, err := untagged(n, budget, depth, true)
		return map[string]any{tag: v}, err
	}
	return untagged(n, budget, depth, n.ShortTag() == "!!str")
}

// untagged is a node without its tag; a scalar of it is a text or not.
func untagged(n *yaml.Node, budget *int, depth int, isText bool) (any, error) {
	switch n.Kind {
	case yaml.MappingNode:
		out := map[string]any{}
		for i := 0; i+1 < len(n.Content); i += 2 {
			k := n.Content[i]
			if _, twice := out[k.Value]; twice || k.Kind != yaml.ScalarNode || k.ShortTag() == "!!merge" {
				return nil, fmt.Errorf("line %d: expected a key of text, once: a merge key (<<) has to be written out", k.Line)
			}
			v, err := valueOf(n.Content[i+1], budget, depth+1)
			if err != nil {
				return nil, err
			}
			out[k.Value] = v
		}
		return out, nil
	case yaml.SequenceNode:
		out := []any{}
		for _, e := range n.Content {
			v, err := valueOf(e, budget, depth+1)
			if err != nil {
				return nil, err
			}
			out = append(out, v)
		}
		return out, nil
	}
	if isText && n.Style != 0 { // it is quoted, or tagged
		return n.Value, nil
	}
	return plainScalar(n.Value), nil
}

// nodeOf is a value as a node.
func nodeOf(v any) *yaml.Node {
	scalar := func(tag, s string) *yaml.Node { return &yaml.Node{Kind: yaml.ScalarNode, Tag: tag, Value: s} }
	switch v := v.(type) {
	case map[string]any:
		if name, below, is := nodeconfig.TypeOf(v); is && tags.MatchString(name) && !isScalar(below) {
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
		if _, isText := plainScalar(v).(string); !isText {
			n.Style = yaml.DoubleQuotedStyle
		}
		return n
	case json.Number:
		if _, isNumber := plainScalar(string(v)).(json.Number); isNumber {
			return scalar("", string(v))
		}
		return scalar("!!float", string(v))
	case bool:
		return scalar("!!bool", fmt.Sprint(v))
	}
	return scalar("!!null", "null")
}

// isScalar reports whether a value is one that is no text, which a tag would make of it.
func isScalar(v any) bool {
	switch v.(type) {
	case map[string]any, []any, string:
		return false
	}
	return true
}
