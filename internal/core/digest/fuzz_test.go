package digest

import (
	"strings"
	"testing"
)

// FuzzParse: what is taken is written back as it came, safe as a file name, and
// UnmarshalText takes the same and nothing more but the empty text.
func FuzzParse(f *testing.F) {
	f.Add(string(Of(nil)))
	f.Add("sha256:" + strings.Repeat("A", 64))
	f.Add("sha512:" + strings.Repeat("a", 64))
	f.Add("sha256:../" + strings.Repeat("a", 61))
	f.Add("")
	f.Fuzz(func(t *testing.T, s string) {
		d, err := Parse(s)
		var u Digest
		if textErr := u.UnmarshalText([]byte(s)); s != "" && (textErr == nil) != (err == nil) {
			t.Fatalf("%q: Parse says %v, UnmarshalText %v", s, err, textErr)
		}
		if err != nil {
			return
		}
		if string(d) != s || u != d || len(d.Hex()) != 64 || strings.Trim(d.Hex(), "0123456789abcdef") != "" {
			t.Fatalf("took %q as %q", s, d)
		}
	})
}
