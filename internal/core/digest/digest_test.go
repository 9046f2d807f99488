package digest_test

import (
	"encoding/json"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/testkit"
)

func TestDigestOfNothing(t *testing.T) {
	const want = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
	if d := digest.Of(nil); d != want || d.Short() != "e3b0c44298fc" || "sha256:"+d.Hex() != want {
		t.Fatalf("the digest of nothing is %s (%s)", d, d.Short())
	}
	if digest.Digest("").Short() != "" || digest.Digest("").Hex() != "" {
		t.Fatal("no digest prints as one")
	}
}

func TestMalformedDigestsAreRefused(t *testing.T) {
	good := string(digest.Of([]byte("x")))
	for _, s := range []string{"", good[7:], "sha512" + good[6:], good + "0", good[:len(good)-1], strings.ToUpper(good),
		"sha256:" + strings.Repeat("g", 64), good[:len(good)-1] + "é", " " + good, "sha256:" + strings.Repeat("A", 64)} {
		if _, err := digest.Parse(s); err == nil {
			t.Errorf("%q was taken for a digest", s)
		}
		var d digest.Digest
		b := testkit.Value(json.Marshal(s))(t)
		if err := json.Unmarshal(b, &d); (err == nil) != (s == "") {
			t.Errorf("decoding %q: %v", s, err)
		}
	}
}

func TestEveryDigestParses(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := digest.Of(rapid.SliceOf(rapid.Byte()).Draw(t, "content"))
		if back, err := digest.Parse(string(d)); err != nil || back != d {
			t.Fatalf("%s parses as %s, %v", d, back, err)
		}
		b, err := json.Marshal(map[digest.Digest]digest.Digest{d: d})
		back := map[digest.Digest]digest.Digest{}
		if err != nil || json.Unmarshal(b, &back) != nil || back[d] != d {
			t.Fatalf("%s does not survive JSON as %s", d, b)
		}
	})
}

// TestAppendIn: digests are found wherever they stand, and nothing else is.
func TestAppendIn(t *testing.T) {
	a, b := digest.Of([]byte("a")), digest.Of([]byte("b"))
	text := `sha256:sha256:` + a.Hex() + `","x":"app@` + string(b) + `","short":"sha256:abc","upper":"SHA256:` + a.Hex() + `"} sha256:`
	if got := digest.AppendIn(nil, []byte(text)); len(got) != 2 || got[0] != a || got[1] != b {
		t.Fatalf("found %v", got)
	}
}
