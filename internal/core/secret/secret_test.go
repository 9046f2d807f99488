package secret

import (
	"strings"
	"testing"
)

func TestLikely(t *testing.T) {
	for line, want := range map[string]bool{
		"DB_PASSWORD=x": true, "githubToken=x": true, "AWS_SECRET_ACCESS_KEY=x": true, "DB_PWD=x": true, "REDIS_AUTH=x": true,
		"URL=postgres://u:p@h/d": true, "URL=https://h/?a=b": false, "URL=https://u@h/": false, "URL=:// %zz@x": true,
		"PWD=/": false, "OLDPWD=/": false, "PATH=/bin": false, "KEYBOARD=de": false, "AUTHOR=me": false,
		"o=addr=10.0.0.1,password=x": true, "splunk-token=x": true, "DB_PASSWORD=": true, "o=size=1m": false, "max-size=1m": false,
		"NAME=a token of thanks": false,
	} {
		name, value, _ := strings.Cut(line, "=")
		if Likely(name, value) != want {
			t.Errorf("%s: expected %v", line, want)
		}
	}
}

func TestKeyed(t *testing.T) {
	if a, b := Keyed([]byte("1"))("v"), Keyed([]byte("2"))("v"); a == b || !strings.HasPrefix(a, "hmac:") || len(a) != 69 {
		t.Errorf("%s and %s", a, b)
	}
}
