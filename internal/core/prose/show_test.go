package prose

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/steadyfleet/steady/internal/testkit"
)

func TestLine(t *testing.T) {
	for in, want := range map[string]string{
		"plain, ä█ and 日本":      "plain, ä█ and 日本",
		"a\nb\r\nc\rd\te":       "a ⏎ b ⏎ c d e",
		"\x1b[2J\x1b[31mred\a":  " [2J [31mred ",
		"\u009b31mred\x7f\x00":  " 31mred  ",
		"a\u2028b\u2029c":       "a b c",
		"\u202egnp\u2066.exe":   " gnp .exe",
		"zero\u200bwidth\ufeff": "zerowidth",
		"tag\U000e0041":         "tag",
		"bad\xff utf8":          "bad\ufffd utf8",
		"":                      "",
	} {
		if got := Line(in); got != want {
			t.Errorf("%q becomes %q, expected %q", in, got, want)
		}
	}
	if got := Lines("a\r\n\tb\x1b\n"); got != "a\n\tb \n" {
		t.Errorf("lines become %q", got)
	}
}

// hostile draws text out of what does harm and what does not.
func hostile() *rapid.Generator[string] {
	return rapid.OneOf(rapid.String(), rapid.StringOf(rapid.RuneFrom([]rune("aä\"\\/<\n\r\t\x00\x1b\x7f\u009b\u202e\u200b\u2028\ufeff\U000e0041日"))))
}

// TestNothingUnsafeIsLeft: of no text is anything left that does something to a
// terminal, and what is clean stays as it is.
func TestNothingUnsafeIsLeft(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := hostile().Draw(t, "text")
		line := Line(s)
		if strings.ContainsFunc(line, Unsafe) || Line(line) != line {
			t.Fatalf("%q becomes %q", s, line)
		}
		if lines := Lines(s); strings.ContainsFunc(strings.NewReplacer("\n", "", "\t", "").Replace(lines), Unsafe) || Lines(lines) != lines {
			t.Fatalf("%q becomes %q", s, lines)
		}
	})
}

// TestJSONIsCleanedAsItIsRead: the strings of a cleaned JSON text are the cleaned
// strings of the text, whatever else there is; escaping one changes no meaning.
func TestJSONIsCleanedAsItIsRead(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		type doc struct {
			A string
			N int64
			M map[string]string
			R []json.RawMessage
		}
		in := doc{A: hostile().Draw(t, "a"), N: rapid.Int64().Draw(t, "n"), M: map[string]string{"k": hostile().Draw(t, "v")}}
		nested := testkit.Value(json.Marshal(hostile().Draw(t, "nested")))(t)
		in.R = []json.RawMessage{nested, json.RawMessage(`{"x":[1.50,null]}`)}
		raw := testkit.Value(json.Marshal(in))(t)
		var was, got, same doc
		for _, part := range []struct {
			raw  []byte
			into *doc
		}{{raw, &was}, {JSON(raw), &got}, {Escaped(raw), &same}} {
			if err := json.Unmarshal(part.raw, part.into); err != nil {
				t.Fatalf("%s: %v", part.raw, err)
			}
		}
		if got.A != Line(was.A) || got.M["k"] != Line(was.M["k"]) || got.N != was.N || string(got.R[1]) != string(was.R[1]) {
			t.Fatalf("%+v became %+v", was, got)
		}
		for i := range same.R {
			var a, b any
			if json.Unmarshal(same.R[i], &a) != nil || json.Unmarshal(was.R[i], &b) != nil || !reflect.DeepEqual(a, b) {
				t.Fatalf("%s became %s", was.R[i], same.R[i])
			}
			same.R[i] = was.R[i]
		}
		if !reflect.DeepEqual(same, was) || strings.ContainsFunc(string(Escaped(raw)), Unsafe) {
			t.Fatalf("escaped %q means something else, or is not clean", Escaped(raw))
		}
		if clean := JSON(raw); string(JSON(clean)) != string(clean) {
			t.Fatalf("cleaned twice: %q, %q", clean, JSON(clean))
		}
	})
	for _, broken := range []string{`{"a`, `"\`, `{"a":"\ud800\n`, "\"\x1b\""} {
		if got := string(JSON([]byte(broken))); got != broken {
			t.Errorf("%q became %q", broken, got)
		}
	}
}
