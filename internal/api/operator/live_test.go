package operator

import (
	"encoding/json"
	"testing"
)

// FuzzSplice: what is read of a splice is written and read again as it is, and what is spliced into a string leaves
// it as long as it was, or is refused.
func FuzzSplice(f *testing.F) {
	for _, seed := range []string{`[0,"f"]`, `[3,"fcf"]`, `[-1,"f"]`, `[5,"ff"]`, `[]`, `{}`, `["f",0]`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		var s, again Splice
		if s.UnmarshalJSON(raw) != nil {
			return
		}
		out, err := s.MarshalJSON()
		if err == nil {
			err = again.UnmarshalJSON(out)
		}
		if err != nil || again != s {
			t.Fatalf("%q is %+v, and %s is %+v: %v", raw, s, out, again, err)
		}
		frame := Frame{Splice: map[string][]Splice{"cells": {s}}}
		now, err := frame.Apply(Answer{"cells": json.RawMessage(`"cccccc"`)})
		if got := now["cells"]; err == nil && (len(got) != 8 || got[0] != '"' || got[7] != '"') {
			t.Fatalf("%+v makes %s", s, got)
		}
	})
}
