package form

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// Keyed gives a digest function under a key that never leaves the host, so that
// a digest proves nothing to who only guesses values.
func Keyed(key []byte) func(string) string {
	return func(v string) string {
		m := hmac.New(sha256.New, key)
		m.Write([]byte(v))
		return "hmac:" + hex.EncodeToString(m.Sum(nil))
	}
}

// words in a name or a value that say that the value is a secret.
var words = []string{"password", "passwd", "passphrase", "secret", "token", "apikey", "api_key", "api-key",
	"access_key", "accesskey", "access-key", "private_key", "privatekey", "private-key", "credential"}

// Secretish reports whether a value looks like a secret by the name that it
// stands under, or by a name within it (o=username=a,password=b).
func Secretish(name, value string) bool {
	return within(name, words, "") || within(value, words, "=")
}

func within(s string, words []string, after string) bool {
	s = strings.ToLower(s)
	for _, w := range words {
		if strings.Contains(s, w+after) {
			return true
		}
	}
	return false
}

// option is a value of an option, a label or a variable as it may be shown.
func (in *Inputs) option(name, value string) string {
	if Secretish(name, value) {
		return in.digest(value)
	}
	return plain(value)
}
