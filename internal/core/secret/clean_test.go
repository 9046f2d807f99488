package secret

import (
	"encoding/base64"
	"encoding/hex"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestS39CleanLeavesNoForm: whatever is around a value and however it is encoded,
// what is left holds no part of it that is worth having.
func TestS39CleanLeavesNoForm(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		value := rapid.StringMatching(`[A-Za-z0-9/+"&<=]{12,120}`).Draw(t, "value")
		lines := rapid.SliceOfN(rapid.StringMatching(`[A-Za-z0-9/+=]{16,64}`), 0, 3).Draw(t, "more lines")
		all := strings.Join(append([]string{value}, lines...), "\n")
		before, after := rapid.StringMatching(`[a-z]{0,5}:`).Draw(t, "before"), rapid.StringMatching(`[a-z ]{0,5}`).Draw(t, "after")
		for how, said := range map[string]string{
			"as it is": before + all + after, "by lines": before + strings.ReplaceAll(all, "\n", " | "),
			"base64": base64.StdEncoding.EncodeToString([]byte(before + all + after)), "base64 for addresses": base64.RawURLEncoding.EncodeToString([]byte(all)),
			"hexadecimal": hex.EncodeToString([]byte(before + all)), "HEXADECIMAL": strings.ToUpper(hex.EncodeToString([]byte(all))),
		} {
			got := Clean(said, "key", []byte(all+"\n"))
			// Eight characters in a row of any form, but for the edges that base64 shares.
			for _, form := range append(forms([]byte(all)), all) {
				for i := 4; i+12 <= len(form)-4; i++ {
					if strings.Contains(got, form[i:i+12]) {
						t.Fatalf("%s: %q is left in %q of %q", how, form[i:i+12], got, said)
					}
				}
			}
		}
	})
	if got := Clean("nothing to hide", "key", []byte(" \n")); got != "nothing to hide" {
		t.Errorf("an empty secret took out %q", got)
	}
	if got, want := Clean("bad key hush-hush!", "key", []byte("hush-hush\n")), "bad key [secret key]!"; got != want {
		t.Errorf("%q, expected %q", got, want)
	}
	if got, want := Clean(`{"a":"x\"&y long","b":"x\"\u0026y long"}`, "key", []byte(`x"&y long`)), `{"a":"[secret key]","b":"[secret key]"}`; got != want {
		t.Errorf("%q, expected %q", got, want)
	}
}
