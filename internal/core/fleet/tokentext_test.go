package fleet

import (
	"encoding/json"
	"strings"
	"testing"
)

// FuzzDecodeTokenText: what is read is JSON; what is not is refused without its content.
func FuzzDecodeTokenText(f *testing.F) {
	f.Add(TokenText{Server: "https://a:1"}.String())
	f.Add("steady1.e30")
	f.Add("-----BEGIN CERTIFICATE-----\n")
	f.Add(`{"payloadType":"steady/root/v1"}`)
	f.Add("")
	f.Fuzz(func(t *testing.T, s string) {
		raw, err := DecodeTokenText(s)
		if err == nil && !json.Valid(raw) {
			t.Fatalf("%q is read as %q", s, raw)
		}
		if err != nil && strings.Contains(err.Error(), "\n") {
			t.Fatalf("the refusal of %q has its content: %v", s, err)
		}
		_, c, err := ReadNodeToken(s)
		if err == nil && (c.Node == "" || c.Type != TypeNodeToken) {
			t.Fatalf("%q is the token of node %+v", s, c)
		}
	})
}
