package spec

import (
	"encoding/json"
	"testing"
)

// FuzzParseSize: a size that is taken fits into JSON exactly, and its number of
// bytes is the same size.
func FuzzParseSize(f *testing.F) {
	for _, s := range []string{"512m", "2GiB", "1", "-1", "9223372036854775807t", "1kk", " 5 K", "0x10", ""} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		n, err := ParseSize(s)
		if err != nil {
			return
		}
		text, _ := json.Marshal(n)
		if n > MaxInteger || n < -1<<40 {
			t.Fatalf("%q is %d bytes", s, n)
		}
		if again, err := ParseSize(string(text)); n >= -1 && (err != nil || again != n) {
			t.Fatalf("%q is %d, which is %d, %v", s, n, again, err)
		}
	})
}
