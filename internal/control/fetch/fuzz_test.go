package fetch

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/steadyfleet/steady/internal/testkit"
)

// FuzzReadCredentials: what is taken of a file is one line that a header can
// carry, and what ReadSecret takes is bounded and has no white space around it.
func FuzzReadCredentials(f *testing.F) {
	for _, s := range []string{"user:password\n", "token", "user:pass word", "a:b:c", "x\r\nHeader: y", ":", "", "user:\x7f", strings.Repeat("x", maxSecret+1)} {
		f.Add([]byte(s))
	}
	file := filepath.Join(f.TempDir(), "secret")
	f.Fuzz(func(t *testing.T, raw []byte) {
		testkit.Must(t, os.WriteFile(file, raw, 0o600))
		secret, secretErr := ReadSecret(file)
		if secretErr == nil && (len(secret) == 0 || len(secret) > maxSecret || !bytes.Equal(bytes.TrimSpace(secret), secret) || !bytes.Contains(raw, secret)) {
			t.Fatalf("%q became the secret %q", raw, secret)
		}
		c, err := ReadCredentials(file)
		if err != nil {
			return
		}
		if secretErr != nil || strings.ContainsAny(c.user, ":") || strings.ContainsFunc(c.user+c.secret, func(r rune) bool { return r <= ' ' || r > '~' }) {
			t.Fatalf("%q became %q and %q", raw, c.user, c.secret)
		}
	})
}
