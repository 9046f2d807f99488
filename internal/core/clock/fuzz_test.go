package clock

import "testing"

// FuzzParseDuration: what is taken is not negative and reads back from its text.
func FuzzParseDuration(f *testing.F) {
	for _, s := range []string{"30s", "1h30m", "250ms", "-1s", "1.5s", "1us", "2540400h", "9223372036854775807ns", "1e3s", ""} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		d, err := ParseDuration(s)
		if err != nil {
			return
		}
		if d < 0 {
			t.Fatalf("%q is %d ms", s, int64(d))
		}
		if again, err := ParseDuration(d.String()); err != nil || again != d {
			t.Fatalf("%q became %s, which is %d, %v", s, d, int64(again), err)
		}
	})
}
