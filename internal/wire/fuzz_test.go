package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"testing"
)

// FuzzRead: a body within the bound is read whole, a larger one not at all, and
// what Decode takes of it encoding/json reads in the one way there is.
func FuzzRead(f *testing.F) {
	f.Add([]byte(`{"a":1}`), int64(7))
	f.Add([]byte(`{"a":1}`), int64(6))
	f.Add([]byte(`{"a":1,"A":2}`), int64(100))
	f.Add([]byte{}, int64(0))
	f.Fuzz(func(t *testing.T, body []byte, limit int64) {
		limit = max(0, limit%(1<<20))
		got, err := Read(bytes.NewReader(body), limit)
		if large := int64(len(body)) > limit; large != errors.Is(err, ErrTooLarge) || !large && !bytes.Equal(got, body) {
			t.Fatalf("%d bytes of at most %d: %d, %v", len(body), limit, len(got), err)
		}
		var v any
		if err := Decode(got, &v); err != nil {
			return
		}
		out, err := json.Marshal(v)
		if err != nil {
			t.Fatalf("taken and cannot be written: %v", err)
		}
		var again any
		if err := Decode(out, &again); err != nil {
			t.Fatalf("%s is refused: %v", out, err)
		}
	})
}
