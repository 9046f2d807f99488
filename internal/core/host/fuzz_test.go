package host

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/steadyfleet/steady/internal/testkit"
)

// FuzzDecodeInput: an input that is taken is of the kind asked for, and what is
// written of it reads back the same.
func FuzzDecodeInput(f *testing.F) {
	for _, in := range []Input{Claimed{Grant: "g", Wave: 1}, Activated{}, ActivationFailed{Code: "x"}, ActivationDeferred{}, ProbeObserved{},
		Contact{}, Elapsed{}, RevertClaimed{}, RevertCompleted{}, RevertFailed{}, Booted{}, RebootClaimed{}, RebootFailed{}, RevertDeferred{}} {
		raw := testkit.Value(EncodeInput(in))(f)
		f.Add(in.Kind(), []byte(raw))
	}
	f.Add("unknown", []byte(`{}`))
	f.Add(Claimed{}.Kind(), []byte(`{"wave":1e9,"WAVE":2}`))
	f.Fuzz(func(t *testing.T, kind string, raw []byte) {
		in, err := DecodeInput(kind, json.RawMessage(raw))
		if err != nil {
			return
		}
		if in.Kind() != kind {
			t.Fatalf("%q became a %q", kind, in.Kind())
		}
		out, err := EncodeInput(in)
		if err != nil {
			t.Fatalf("taken and cannot be written: %v", err)
		}
		again, err := DecodeInput(kind, out)
		if err != nil {
			t.Fatalf("%s is refused: %v", out, err)
		}
		if second, err := EncodeInput(again); err != nil || !bytes.Equal(second, out) {
			t.Fatalf("%s became %s, %v", out, second, err)
		}
	})
}
