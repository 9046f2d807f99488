package imageref

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestBases(t *testing.T) {
	for _, c := range []struct {
		text string
		want []string
	}{
		{"FROM a:1", []string{"a:1"}},
		{"# syntax=x\n from --platform=linux/amd64 a AS one\nFROM one\nCOPY --from=b:2 / /\nCOPY --chown=1 --from=0 / /", []string{"a", "b:2"}},
		{"ARG V=3\nARG W\nFROM a:${V}\nFROM b:$W\nFROM c:${X:-9}", []string{"a:3", "b:given", "c:9"}},
		{"ARG V\nFROM a:$V", nil},
		{"FROM scratch\nFROM a \\\n  AS x\nFROM x", []string{"a"}},
		{"FROM a\nARG V=3\nFROM b:${V}", []string{"a"}},
		{"FROM a:${V:+x}\nFROM ${", nil},
		{"", nil},
	} {
		if got := Bases(c.text, map[string]string{"W": "given"}); !slices.Equal(got, c.want) {
			t.Errorf("%q is built on %v, expected %v", c.text, got, c.want)
		}
	}
}

func TestBasesIsTotal(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		Bases(rapid.StringMatching(`((FROM|ARG|COPY|#|RUN) ?[-a-z=:${}"\\ ]{0,12}\n?){0,5}`).Draw(t, "text"), nil)
		Bases(rapid.String().Draw(t, "any"), nil)
	})
}

func TestPinBases(t *testing.T) {
	digests := map[string]string{"a:1": "sha256:1", "a": "sha256:2", "b:2": "sha256:3"}
	for text, want := range map[string]string{
		"FROM a:1": "FROM a:1@sha256:1\n",
		"# note a:1\nARG V=1\nFROM --platform=linux/a:1 a:${V} AS a:1x\nRUN echo a:1  b\n": "FROM --platform=linux/a:1 a:1@sha256:1 AS a:1x\nRUN echo a:1  b\n",
		"FROM a AS b:2\nCOPY --from=b:2 x /\n":                                             "FROM a@sha256:2 AS b:2\nCOPY --from=b:2 x /\n", // a stage
		"FROM c\nCOPY --from=b:2 [\"x  y\", \\\n  \"/\"]\n":                                "FROM c\nCOPY --from=b:2@sha256:3 [\"x  y\", \\\n  \"/\"]\n",
		"FROM \\\n# what it is built on\n a\nRUN x":                                        "FROM a@sha256:2\nRUN x",
		"FROM a@sha256:9\n": "FROM a@sha256:9\n",
	} {
		if got := PinBases(text, nil, digests); !strings.HasSuffix(got, want) {
			t.Errorf("%q became %q, want %q at its end", text, got, want)
		}
	}
	if text := "FROM a\n\n# x\nCOPY a \\\n b"; PinBases(text, nil, nil) != text {
		t.Errorf("without digests %q became %q", text, PinBases(text, nil, nil))
	}
}

// What is pinned is what it is built on, and nothing else changes what it is.
func TestPinnedIsWhatItIsBuiltOn(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringMatching(`((FROM|ARG|COPY|#|RUN) ?[-a-z=:${}"\\\\ ]{0,12}\n?){0,5}`).Draw(t, "text")
		digests := map[string]string{}
		for _, ref := range Bases(text, nil) {
			digests[ref] = "sha256:0"
		}
		for _, ref := range Bases(PinBases(text, nil, digests), nil) {
			if !strings.HasSuffix(ref, "@sha256:0") {
				t.Fatalf("%q is pinned as %q, and built on %s", text, PinBases(text, nil, digests), ref)
			}
		}
	})
}
