package server

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/steadyfleet/steady/internal/testkit"
)

// An object comes apart as the JSON package takes it apart, and what is none comes apart only where
// decoding a value then fails.
func TestMembers(t *testing.T) {
	for _, text := range []string{
		`{}`, ` { } `, `{"a":1}`, ` { "a" : 1 , "b" : [1, {"c": "}"}], "a" : null } `, `{"a\"}":"\\","\u00e9":"\"{"}`,
		``, `null`, `[]`, `{`, `}`, `{"a"}`, `{"a":}`, `{"a":1,}`, `{,}`, `{"a":1`, `{"a":1 2}`, `{"a":1}}`, `{"a:1}`, `{"a":"\`, `{1:2}`, `{"a":[1}`, `{"a":1]}`, `{"a":1} {"b":1}`,
	} {
		hold(t, []byte(text))
	}
	rapid.Check(t, func(t *rapid.T) {
		value := rapid.Custom(func(t *rapid.T) any {
			return rapid.OneOf(rapid.Just[any](nil), rapid.Map(rapid.String(), func(s string) any { return s }), rapid.Map(rapid.Int(), func(n int) any { return []any{n, map[string]any{"}": n}} })).Draw(t, "value")
		})
		raw := testkit.Value(json.MarshalIndent(rapid.MapOf(rapid.String(), value).Draw(t, "object"), "", rapid.SampledFrom([]string{"", " "}).Draw(t, "indent")))(t)
		hold(t, raw)
		if n := len(raw); n > 0 {
			hold(t, raw[:rapid.IntRange(0, n).Draw(t, "cut")])
		}
	})
}

func hold(t rapid.TB, raw []byte) {
	t.Helper()
	var want map[string]json.RawMessage
	wrong := json.Unmarshal(raw, &want)
	got, err := members(raw)
	if err == nil && wrong != nil {
		for _, v := range got { // order-free: one is enough
			if !json.Valid(v) {
				return
			}
		}
	}
	if string(raw) != "null" && (err != nil) != (wrong != nil) || err == nil && cmp.Diff(want, got) != "" {
		t.Errorf("%q: %s, %v; expected %s, %v", raw, got, err, want, wrong)
	}
}
