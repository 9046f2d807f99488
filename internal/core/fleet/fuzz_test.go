package fleet

import (
	"encoding/json"
	"testing"

	"github.com/steadyfleet/steady/internal/testkit"
)

// FuzzDurationText: what is taken is not negative and reads back as it is
// written, and absence stays absence.
func FuzzDurationText(f *testing.F) {
	for _, s := range []string{`"30m"`, `"0s"`, `null`, `5`, `"-1s"`, `"1ns"`, `{}`, ``} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		var d, again DurationText
		if err := d.UnmarshalJSON(raw); err != nil {
			return
		}
		if d.Duration < 0 || !d.Set && d.Duration != 0 {
			t.Fatalf("%q became %+v", raw, d)
		}
		out := testkit.Value(json.Marshal(d))(t)
		if err := again.UnmarshalJSON(out); err != nil || again != d {
			t.Fatalf("%q became %+v, then %s, then %+v, %v", raw, d, out, again, err)
		}
	})
}
