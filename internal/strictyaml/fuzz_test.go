package strictyaml

import (
	"encoding/json"
	"strings"
	"testing"
)

// FuzzParse: a document that is taken without a problem is one tree of bounded
// depth that JSON can say, and JSON of it is taken as the same tree.
func FuzzParse(f *testing.F) {
	for _, s := range []string{"a: 1\n", "a: {b: [1, 2.5, true, null, \"x\"]}\n", "a: 1\na: 2\n", "a: &x 1\nb: *x\n", "--- \na: 1\n---\nb: 2\n",
		"a: !!binary AAAA\n", "? [1]\n: 2\n", "a: 0x10\n", "\xef\xbb\xbfa: 1\n", strings.Repeat("[", 100), "a: 2001-01-01\n", "<<: {a: 1}\n"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		d, problems := Parse("f.yaml", raw)
		for _, p := range problems {
			if p.Message == "" || p.File != "f.yaml" || p.Line < 0 || p.Line > len(raw)+1 || p.Column < 0 {
				t.Fatalf("a problem that leads nowhere: %+v", p)
			}
		}
		if d == nil {
			if len(problems) == 0 {
				t.Fatal("neither a document nor a problem")
			}
			return
		}
		if len(problems) > 0 {
			return
		}
		if deep(d.tree) > MaxDepth+1 || len(raw) > MaxBytes {
			t.Fatalf("%d bytes, %d deep", len(raw), deep(d.tree))
		}
		first, err := json.Marshal(d.tree)
		if err != nil {
			t.Fatalf("taken and cannot be written: %v", err)
		}
		again, problems := Parse("f.yaml", first)
		if len(problems) > 0 {
			t.Fatalf("%q became %s, which is refused: %v", raw, first, problems)
		}
		if second, err := json.Marshal(again.tree); err != nil || string(second) != string(first) {
			t.Fatalf("%s became %s, %v", first, second, err)
		}
	})
}

func deep(v any) int {
	most := 0
	switch v := v.(type) {
	case map[string]any:
		for _, x := range v {
			most = max(most, deep(x))
		}
	case []any:
		for _, x := range v {
			most = max(most, deep(x))
		}
	}
	return most + 1
}
