package wire_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"
	"unicode"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/steadyfleet/steady/internal/testkit"
	"github.com/steadyfleet/steady/internal/wire"
)

func TestCheck(t *testing.T) {
	nested := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	wide := func(last string) string {
		var b strings.Builder
		for i := range 300 {
			fmt.Fprintf(&b, `"key%d":%d,`, i, i)
		}
		return "{" + b.String() + last + "}"
	}
	for name, c := range map[string]struct {
		body string
		want error // nil: taken; errAny: refused somehow
	}{
		"a value":               {`{"a":1,"b":[{"a":1},{"a":2}],"c":{"a":1}}`, nil},
		"bare values":           {` 7 `, nil},
		"nothing":               {``, errAny},
		"spaces":                {"  \n", errAny},
		"half":                  {`{"a":`, errAny},
		"two values":            {`{} {}`, errAny},
		"rubbish after":         {`{}x`, errAny},
		"a comma too many":      {`[1,]`, errAny},
		"the same key":          {`{"a":1,"a":2}`, wire.ErrDuplicate},
		"by escape":             {`{"a":1,"\u0061":2}`, wire.ErrDuplicate},
		"by case":               {`{"grant":1,"Grant":2}`, wire.ErrDuplicate},
		"by Kelvin's case":      {`{"key":1,"` + "\u212a" + `ey":2}`, wire.ErrDuplicate},
		"by long s":             {`{"hosts":1,"ho` + "\u017f" + `ts":2}`, wire.ErrDuplicate},
		"by Greek case":         {`{"Σ":1,"ς":2}`, wire.ErrDuplicate},
		"deep inside":           {`[{"x":{"a":1,"A":2}}]`, wire.ErrDuplicate},
		"among many":            {wide(`"key299":0`), wire.ErrDuplicate},
		"among many by case":    {wide(`"KEY7":0`), wire.ErrDuplicate},
		"many":                  {wide(`"more":0`), nil},
		"alike but not one":     {`{"a":1,"á":2,"b":3}`, nil},
		"as deep as may be":     {nested(wire.MaxDepth), nil},
		"deeper":                {nested(wire.MaxDepth + 2), wire.ErrTooDeep},
		"very deep":             {nested(100_000), errAny},
		"not UTF-8":             {"{\"a\":\"\xff\"}", errAny},
		"a surrogate cut short": {"\"\xed\xa0\x80\"", errAny},
	} {
		err := wire.Check([]byte(c.body))
		switch {
		case c.want == nil && err != nil:
			t.Errorf("%s: refused: %v", name, err)
		case c.want == errAny && err == nil, c.want != nil && c.want != errAny && !errors.Is(err, c.want):
			t.Errorf("%s: %v, expected %v", name, err, c.want)
		}
	}
}

var errAny = errors.New("any error")

func TestReadCapsTheBody(t *testing.T) {
	for n, ok := range map[int]bool{0: true, 9: true, 10: true, 11: false, 5000: false} {
		b, err := wire.Read(iotest.OneByteReader(strings.NewReader(strings.Repeat("x", n))), 10)
		if ok && (err != nil || len(b) != n) || !ok && !errors.Is(err, wire.ErrTooLarge) {
			t.Errorf("%d bytes: %d read, %v", n, len(b), err)
		}
	}
	if _, err := wire.Read(iotest.ErrReader(io.ErrUnexpectedEOF), 10); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("a broken body gives %v", err)
	}
}

func TestDecodeIgnoresWhatANewerPeerSays(t *testing.T) {
	var v struct {
		A int `json:"a"`
	}
	if err := wire.Decode([]byte(`{"a":1,"newer":{"x":[1]}}`), &v); err != nil || v.A != 1 {
		t.Fatalf("decoded %+v, %v", v, err)
	}
	if err := wire.Decode([]byte(`{"a":1,"A":2}`), &v); !errors.Is(err, wire.ErrDuplicate) || v.A != 1 {
		t.Fatalf("a duplicate gave %+v, %v", v, err)
	}
}

// TestOneFieldIsOneKey checks that two keys which encoding/json takes for the
// same field never get through together.
func TestOneFieldIsOneKey(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.SampledFrom([]string{"key", "hosts", "Straße", "grant"}).Draw(t, "name")
		other := strings.Map(func(r rune) rune {
			for range rapid.IntRange(0, 2).Draw(t, "folds") {
				r = unicode.SimpleFold(r)
			}
			return r
		}, name)
		fields := []string{`"` + name + `":1`, `"` + other + `":2`}
		for i := range rapid.IntRange(0, 60).Draw(t, "others") {
			fields = append(fields, fmt.Sprintf(`"%d":0`, i))
		}
		body := "{" + strings.Join(rapid.Permutation(fields).Draw(t, "order"), ",") + "}"
		if err := wire.Check([]byte(body)); !errors.Is(err, wire.ErrDuplicate) {
			t.Fatalf("%s: %v", body, err)
		}
	})
}

// FuzzCheck compares with encoding/json: what is taken is one JSON value, reads
// the same as a plain decoder reads it, and loses no key; what a plain decoder
// refuses is refused.
func FuzzCheck(f *testing.F) {
	for _, s := range []string{`{}`, `{"a":[1,2,{"b":null}]}`, `{"k":1,"K":2}`, "{\"k\":1,\"\u212a\":2}", `[[[[]]]]`, `1e400`, `"\ud800"`, `{"a":1}{}`, `{"a" 1}`, `[1 2]`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		err := wire.Check(b)
		if err != nil {
			if json.Valid(b) && utf8.Valid(b) && !errors.Is(err, wire.ErrDuplicate) && !errors.Is(err, wire.ErrTooDeep) {
				t.Fatalf("a JSON value was refused: %v", err)
			}
			return
		}
		if !json.Valid(b) {
			t.Fatal("taken, and not one JSON value")
		}
		var v any
		d := json.NewDecoder(bytes.NewReader(b))
		d.UseNumber()
		if err := d.Decode(&v); err != nil {
			t.Fatalf("taken, and not readable: %v", err)
		}
		if keys(v) != tokens(b) {
			t.Fatal("taken, and a key was lost in reading")
		}
		again, err := json.Marshal(v)
		testkit.Must(t, err)
		var back any
		d = json.NewDecoder(bytes.NewReader(again))
		d.UseNumber()
		if err := d.Decode(&back); err != nil || !reflect.DeepEqual(v, back) {
			t.Fatalf("taken, and reads otherwise once written again: %v", err)
		}
	})
}

// keys counts the keys of a decoded value.
func keys(v any) int {
	n := 0
	switch v := v.(type) {
	case map[string]any:
		n = len(v)
		for _, e := range v {
			n += keys(e)
		}
	case []any:
		for _, e := range v {
			n += keys(e)
		}
	}
	return n
}

// tokens counts the keys as written: outside of strings, a colon follows each
// key and nothing else.
func tokens(b []byte) int {
	n, inside, escaped := 0, false, false
	for _, c := range b {
		switch {
		case escaped:
			escaped = false
		case inside && c == '\\':
			escaped = true
		case c == '"':
			inside = !inside
		case !inside && c == ':':
			n++
		}
	}
	return n
}
