package nodeconfig

import (
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/steadyfleet/steady/internal/core/secret"
)

// Canonical returns a JSON object in the one form that its meaning has here: sorted keys and
// numbers in one spelling each. It drops nothing: a member that is null stays, an integer keeps
// every digit, and a float stays one.
func Canonical(config json.RawMessage) (json.RawMessage, error) {
	out, err := canonicalObject("object", config)
	if err == nil && out == nil {
		err = errors.New("the object has no config")
	}
	return out, err
}

// IsSecret reports whether the value at a path is one that must not leave the node.
func (r *Rules) IsSecret(path []string, v any) bool {
	s, isText := v.(string)
	if v == nil || isText && s == "" {
		return false
	}
	return r.secretAt(path) || isText && !refersAt(path) && secret.Likely(nameOf(path), s)
}

// secretAt reports whether a rule withholds what stands at a path.
func (r *Rules) secretAt(path []string) bool {
	return !refersAt(path) && anyMatches(r.Secrets, path)
}

// refersAt reports whether what stands at a path is a name of what stands elsewhere.
func refersAt(path []string) bool {
	return len(path) > 0 && slices.Contains(references, path[len(path)-1])
}

// nameOf is the name of the field in which a value stands, whatever its type.
func nameOf(path []string) string {
	for _, step := range slices.Backward(path) {
		if !isType(step) {
			return step
		}
	}
	return ""
}

// ReferenceOf returns the name of the secret that {"$secret": NAME} refers to.
func ReferenceOf(v any) (name string, is bool) {
	m, isObject := v.(map[string]any)
	if !isObject || !isSecretRef(m) {
		return "", false
	}
	name, is = m[SecretRef].(string)
	return name, is
}

// Replace returns a config in which f replaced values: it is called for every one that is
// no container, and for references to secrets. Unlike Form it goes into lists whose order
// matters too: their steps are indices.
func (r *Rules) Replace(config json.RawMessage, f func(path []string, v any) (any, error)) (json.RawMessage, error) {
	v, err := Decode(config)
	if err != nil {
		return nil, err
	}
	if v, err = r.replace(nil, v, f); err != nil {
		return nil, err
	}
	return encode(v), nil
}

func (r *Rules) replace(path []string, v any, f func([]string, any) (any, error)) (any, error) {
	var err error
	switch c := v.(type) {
	case map[string]any:
		if isSecretRef(c) {
			return f(path, v)
		}
		for _, k := range slices.Sorted(maps.Keys(c)) {
			if c[k], err = r.replace(append(slices.Clip(path), k), c[k], f); err != nil {
				return nil, err
			}
		}
		return c, nil
	case []any:
		ids, is := r.identities(path, c)
		for i := range c {
			step := strconv.Itoa(i)
			if is {
				step = ids[i]
			}
			if c[i], err = r.replace(append(slices.Clip(path), step), c[i], f); err != nil {
				return nil, err
			}
		}
		return c, nil
	}
	return f(path, v)
}

// Field writes a path as rules and problems do.
func Field(path []string) string { return join(path) }

// IsDigest reports whether a text is a keyed digest in the place of a secret.
func IsDigest(s string) bool {
	return strings.HasPrefix(s, KeyedPrefix) && len(s) == len(KeyedPrefix)+64
}
