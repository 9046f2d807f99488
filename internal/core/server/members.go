package server

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// members takes a JSON object apart without a look into its values: who decodes one finds what
// is wrong in it. The values are parts of raw.
func members(raw []byte) (map[string]json.RawMessage, error) {
	out := map[string]json.RawMessage{}
	raw = bytes.TrimSpace(raw)
	if len(raw) < 2 || raw[0] != '{' || raw[len(raw)-1] != '}' {
		return nil, fmt.Errorf("expected a JSON object, found %.20q", raw)
	}
	for rest := bytes.TrimSpace(raw[1 : len(raw)-1]); len(rest) > 0; {
		colon := valueEnd(rest, ':')
		if colon == len(rest) {
			return nil, fmt.Errorf("expected a name and a colon, found %.20q", rest)
		}
		var name string
		if err := json.Unmarshal(rest[:colon], &name); err != nil {
			return nil, fmt.Errorf("the name of a member: %w", err)
		}
		rest = rest[colon+1:]
		end := valueEnd(rest, ',')
		if out[name] = bytes.TrimSpace(rest[:end]); len(out[name]) == 0 {
			return nil, fmt.Errorf("member %s has no value", name)
		}
		if end == len(rest) {
			break
		}
		if rest = bytes.TrimSpace(rest[end+1:]); len(rest) == 0 {
			return nil, fmt.Errorf("nothing follows the comma behind member %s", name)
		}
	}
	return out, nil
}

// valueEnd is where a mark comes first that is in no string, list and object, or the length.
func valueEnd(raw []byte, mark byte) int {
	depth := 0
	for i := 0; i < len(raw); i++ {
		switch c := raw[i]; c {
		case '"':
			for i++; i < len(raw) && raw[i] != '"'; i++ {
				if raw[i] == '\\' {
					i++
				}
			}
		case '{', '[':
			depth++
		case '}', ']':
			depth--
		case mark:
			if depth == 0 {
				return i
			}
		}
	}
	return len(raw)
}
