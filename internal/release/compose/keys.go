package compose

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/compose-spec/compose-go/v2/schema"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
)

var specification = func() *jsonschema.Schema {
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(schema.Schema))
	if err != nil {
		panic("compose: the specification's schema is not JSON: " + err.Error())
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("mem:///compose.json", doc); err != nil {
		panic("compose: " + err.Error())
	}
	return c.MustCompile("mem:///compose.json")
}()

// checkKeys reports every key that the specification does not have, in each file
// by itself, so that it has a place. All else the library checks after merging.
func (l *load) checkKeys() {
	for _, s := range l.order {
		var tree any
		if err := s.top.Decode(&tree); err != nil {
			l.at(s, s.top, false, "the file does not decode: %v: expected plain values", err)
			continue
		}
		raw, err := json.Marshal(tree)
		if err == nil {
			err = json.Unmarshal(raw, &tree)
		}
		if err != nil {
			l.at(s, s.top, false, "the file does not decode: %v: expected text keys and plain values", err)
			continue
		}
		var ve *jsonschema.ValidationError
		if err := specification.Validate(tree); errors.As(err, &ve) {
			l.unknownKeys(s, ve)
		}
	}
}

func (l *load) unknownKeys(s *source, e *jsonschema.ValidationError) {
	for _, c := range e.Causes {
		l.unknownKeys(s, c)
	}
	k, ok := e.ErrorKind.(*kind.AdditionalProperties)
	if !ok {
		return
	}
	n := s.top
	for _, part := range e.InstanceLocation {
		if _, n = child(n, part); n == nil {
			return
		}
	}
	known := knownKeys(e.InstanceLocation)
	for _, key := range k.Properties {
		at, _ := child(n, key)
		if at == nil || slices.Contains(known, key) {
			continue
		}
		words := "expected one of " + strings.Join(known, ", ")
		if len(known) == 0 {
			words = "expected no key here"
		} else if near := nearest(key, known); near != "" {
			words = fmt.Sprintf("expected %s, or x-%s for a note of your own", near, key)
		}
		l.at(s, at, false, "unknown key %q: %s", key, words)
	}
}

// knownKeys lists what the specification has at a place.
func knownKeys(at []string) []string {
	out := map[string]bool{}
	for _, p := range schema.AttributePaths() {
		parts := p.Parts()
		if len(parts) == len(at)+1 && matches(parts[:len(at)], at) && parts[len(at)] != "*" {
			out[parts[len(at)]] = true
		}
	}
	return slices.Sorted(maps.Keys(out))
}

// matches compares a pattern of the inventory with a path.
func matches(pattern, at []string) bool {
	for i, p := range pattern {
		if p != "*" && p != "[]" && p != at[i] {
			return false
		}
	}
	return true
}

// nearest finds the key that is at most two changes away.
func nearest(key string, known []string) string {
	best, word := 3, ""
	for _, k := range known {
		if d := distance(key, k); d < best {
			best, word = d, k
		}
	}
	return word
}

func distance(a, b string) int {
	if len(a) > 64 || len(b) > 64 {
		return 99
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j+1]+1, row[j]+1)
		}
	}
	return row[len(b)]
}
