package event

import (
	"bytes"
	"encoding/json"
	"slices"
	"testing"

	"github.com/steadyfleet/steady/internal/core/nodeconfig"
)

// FuzzDecode: an event that is taken is of the type asked for, and what is
// written of it reads back the same: a log replays as it ran.
func FuzzDecode(f *testing.F) {
	for _, name := range Types() {
		f.Add(name, []byte(`{}`))
	}
	f.Add("unknown", []byte(`{}`))
	f.Add(Types()[0], []byte(`{"a":[1e400],"A":null}`))
	f.Fuzz(func(t *testing.T, name string, body []byte) {
		e, err := DecodeBody(name, body)
		if err != nil {
			return
		}
		if e.EventType() != name {
			t.Fatalf("%q became a %q", name, e.EventType())
		}
		out, err := json.Marshal(e)
		if err != nil {
			return // a field with its own rules, such as a digest, may refuse to be written
		}
		again, err := DecodeBody(name, out)
		if err != nil {
			t.Fatalf("%s %s is refused: %v", name, out, err)
		}
		if second, err := json.Marshal(again); err != nil || !bytes.Equal(second, out) {
			t.Fatalf("%s %s became %s, %v", name, out, second, err)
		}
	})
}

// FuzzParseSubject: what is taken is of a kind that there is or that a driver may have, and is written as it was read.
func FuzzParseSubject(f *testing.F) {
	for _, s := range []string{"host/web-1", "rollout/stable@v2", "rollout/", "node/x", "host", "channel/a/b"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, in string) {
		s, err := ParseSubject(in)
		if err == nil && (s.String() != in || s.Name == "" || !slices.Contains(Kinds(), s.Kind) && nodeconfig.CheckKind(s.Kind) != nil) {
			t.Fatalf("%q became %+v", in, s)
		}
	})
}
