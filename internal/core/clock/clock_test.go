package clock_test

import (
	"encoding/json"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/steadyfleet/steady/internal/core/clock"
)

func TestDurationSpellsBothWays(t *testing.T) {
	for want, d := range map[string]clock.Duration{"0s": 0, "250ms": 250, "1s": clock.Second, "1m30s": 90 * clock.Second,
		"1h": clock.Hour, "168h": 7 * clock.Day, "1h0m0.5s": clock.Hour + 500, "-1m": -clock.Minute, "1h1s": clock.Hour + clock.Second} {
		if d.String() != want {
			t.Errorf("%d is spelt %s, expected %s", d, d, want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		d := clock.Duration(rapid.Int64Range(0, int64(1000*clock.Day)).Draw(t, "d"))
		if back, err := clock.ParseDuration(d.String()); err != nil || back != d {
			t.Fatalf("%d is spelt %s and reads back as %d, %v", d, d, back, err)
		}
		if clock.FromStd(d.Std()) != d {
			t.Fatalf("%d does not survive the standard library", d)
		}
	})
}

func TestParseDurationRefuses(t *testing.T) {
	for _, s := range []string{"", "5", "-1s", "1us", "1.0005s", "1d", "99999999h", "s"} {
		if d, err := clock.ParseDuration(s); err == nil {
			t.Errorf("%q was read as %d", s, d)
		}
	}
}

func TestInstants(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := clock.Instant(rapid.Int64Range(0, 1<<53-1).Draw(t, "a"))
		b := clock.Instant(rapid.Int64Range(0, 1<<53-1).Draw(t, "b"))
		if b.Add(a.Sub(b)) != a {
			t.Fatalf("%d plus the time to %d is another instant", b, a)
		}
		switch e := clock.Earliest(a, b); {
		case a == 0 && e != b, b == 0 && e != a, a != 0 && b != 0 && e != min(a, b):
			t.Fatalf("the earliest of %d and %d is %d", a, b, e)
		}
		if a.Reached(b) != (a != 0 && b >= a) {
			t.Fatalf("deadline %d at %d", a, b)
		}
		j, err := json.Marshal(a)
		var back clock.Instant
		if err != nil || json.Unmarshal(j, &back) != nil || back != a {
			t.Fatalf("%d does not survive JSON", a)
		}
	})
	if s := clock.FromTime(time.UnixMilli(1_700_000_000_123)).String(); s != "2023-11-14T22:13:20.123Z" {
		t.Errorf("printed %s", s)
	}
	if clock.Instant(0).String() != "never" {
		t.Error("zero is not never")
	}
}

// TestInstantsAreWrittenInOneForm holds the quick way against the plain one.
func TestInstantsAreWrittenInOneForm(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		at := rapid.OneOf(rapid.Int64Range(-1<<45, 1<<47), rapid.Int64Range(1_600_000_000_000, 1_900_000_000_000)).Draw(t, "instant")
		want := time.UnixMilli(at).UTC().Format("2006-01-02T15:04:05.000Z")
		if got := clock.Instant(at).String(); got != want && at != 0 {
			t.Fatalf("%d is written %s, not %s", at, got, want)
		}
	})
}
