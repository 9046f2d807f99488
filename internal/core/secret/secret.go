// Package secret keeps values from being shown: a digest under a key stands in their
// place, and texts that leave a host are cleaned of every encoding of them. It is a
// package of its own because its callers, on the host and elsewhere, have nothing else
// in common.
package secret

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"net/url"
	"strings"
)

// Keyed gives a digest function under a key that never leaves its holder, so that a
// digest proves nothing to who only guesses values.
func Keyed(key []byte) func(string) string {
	return func(v string) string {
		m := hmac.New(sha256.New, key)
		m.Write([]byte(v))
		return "hmac:" + hex.EncodeToString(m.Sum(nil))
	}
}

// Parts and ends of names that say that the value is a secret.
var (
	parts = []string{"password", "passwd", "passphrase", "secret", "token", "credential", "apikey", "api_key", "api-key",
		"access_key", "accesskey", "access-key", "private_key", "privatekey", "private-key", "auth_key"}
	ends = []string{"_pwd", "_pass", "_auth", "_dsn"}
)

// Likely reports whether a value looks like a secret: by the name that it stands under,
// by a name within it (o=username=a,password=b), or by a password inside a URL.
func Likely(name, value string) bool {
	low, in := strings.ToLower(name), strings.ToLower(value)
	for _, p := range parts {
		if strings.Contains(low, p) || strings.Contains(in, p+"=") {
			return true
		}
	}
	for _, e := range ends {
		if strings.HasSuffix(low, e) {
			return true
		}
	}
	if !strings.Contains(value, "://") {
		return false
	}
	u, err := url.Parse(value)
	if err != nil {
		return strings.Contains(value, "@") // a URL that may hold a password
	}
	_, has := u.User.Password()
	return has
}
