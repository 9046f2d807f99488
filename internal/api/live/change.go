package live

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/steadyfleet/steady/internal/api/operator"
)

// object reads the body of a route's answer.
func object(body []byte) (operator.Answer, error) {
	body = bytes.TrimSpace(body)
	if len(body) > 0 && body[0] == '[' {
		return operator.Answer{"items": body}, nil
	}
	var a operator.Answer
	if err := json.Unmarshal(body, &a); err != nil {
		return nil, err
	}
	if a == nil {
		return nil, fmt.Errorf("%.20s is no object", body)
	}
	return a, nil
}

// changed fills a frame with what makes of one answer the other, and reports whether that is
// anything. A nil answer is none: the other comes whole.
func changed(f *operator.Frame, was, now operator.Answer) bool {
	if was == nil {
		f.Whole, f.Set = true, now
		return true
	}
	for _, key := range slices.Sorted(maps.Keys(was)) {
		if _, kept := now[key]; !kept {
			f.Drop = append(f.Drop, key)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(now)) {
		before, known := was[key]
		if known && bytes.Equal(before, now[key]) {
			continue
		}
		if parts := splices(before, now[key]); parts != nil {
			if f.Splice == nil {
				f.Splice = map[string][]operator.Splice{}
			}
			f.Splice[key] = parts
			continue
		}
		if f.Set == nil {
			f.Set = operator.Answer{}
		}
		f.Set[key] = now[key]
	}
	return f.Set != nil || f.Splice != nil || f.Drop != nil
}

// spliceCost is about what a splice takes beside its text; those that are nearer than that are
// one.
const spliceCost = 10

// splices are the parts in which two JSON strings of equal length differ, or nil where the
// second one whole is shorter, or an offset in it is not the same in bytes as in characters.
func splices(was, now []byte) (parts []operator.Splice) {
	if len(was) != len(now) || !plain(was) || !plain(now) {
		return nil
	}
	cost := 0
	for i := 1; i < len(now)-1; i++ {
		if was[i] == now[i] {
			continue
		}
		last := len(parts) - 1
		if last >= 0 && i-1-(parts[last].At+len(parts[last].Text)) < spliceCost {
			from := parts[last].At
			cost += i - from - len(parts[last].Text)
			parts[last].Text = string(now[from+1 : i+1])
		} else {
			parts = append(parts, operator.Splice{At: i - 1, Text: string(now[i : i+1])})
			cost += spliceCost + 1
		}
		if cost >= len(now) {
			return nil
		}
	}
	return parts
}

// plain reports whether a JSON value is a string of ASCII without an escape.
func plain(b []byte) bool {
	return len(b) > 1 && b[0] == '"' && !bytes.ContainsFunc(b, func(r rune) bool { return r < ' ' || r > '~' || r == '\\' })
}
