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

// FuzzParseCron: the canonical form of what is taken means the same, is its own
// canonical form, and is what UnmarshalText reads.
func FuzzParseCron(f *testing.F) {
	for _, s := range []string{"0 2 * * 1-5", "*/15 0-23/2 1,15 jan-mar sun", "0 0 31 2 7", "60 0 * * *", "0 0 * *", "* * *,1 * *", "5-1 * * * *", ""} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		c, err := ParseCron(s)
		if err != nil {
			return
		}
		again, err := ParseCron(c.String())
		if err != nil || again != c {
			t.Fatalf("%q became %q, which is %+v, %v", s, c, again, err)
		}
		var text Cron
		if err := text.UnmarshalText([]byte(c.String())); err != nil || text != c {
			t.Fatalf("%q as text: %+v, %v", c, text, err)
		}
		if len(c.String()) > 4*maxCron {
			t.Fatalf("%d bytes became %d", len(s), len(c.String()))
		}
	})
}
