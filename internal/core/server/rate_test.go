package server

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/steadyfleet/steady/internal/core/clock"
)

// TestNeverMoreThanBurstAndRate: in no stretch of time passes more than the burst and
// what came back meanwhile, and whoever waits as long as told is let through.
func TestNeverMoreThanBurstAndRate(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := RateLimit{Burst: rapid.Int64Range(1, 50).Draw(t, "burst"), Tokens: rapid.Int64Range(1, 20).Draw(t, "tokens"),
			Per: clock.Duration(rapid.Int64Range(1, 2000).Draw(t, "per"))}
		var b RateBucket
		begin := clock.Instant(rapid.Int64Range(1, 1<<40).Draw(t, "begin"))
		b.Spend(l, 0, begin)
		now, latest, passed := begin, begin, int64(0)
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			now = now.Add(clock.Duration(rapid.Int64Range(-5, 500).Draw(t, "time")))
			n := rapid.Int64Range(1, l.Burst).Draw(t, "n")
			wait := b.Spend(l, n, now)
			if wait == 0 {
				passed += n
			} else if again := b.Spend(l, n, max(now, b.at).Add(wait)); again != 0 {
				t.Fatalf("told to wait %d, then %d more", wait, again)
			} else {
				now = max(now, b.at)
				passed += n
			}
			latest = max(latest, now) // a clock that goes back takes nothing back either
			if most := l.Burst*int64(l.Per) + int64(latest.Sub(begin))*l.Tokens; passed*int64(l.Per) > most {
				t.Fatalf("%d tokens passed in %d ms of %+v", passed, now.Sub(begin), l)
			}
		}
	})
}

func TestBucket(t *testing.T) {
	l := RateLimit{Burst: 10, Tokens: 2, Per: clock.Second}
	var b RateBucket
	if b.Spend(l, 10, 1000) != 0 {
		t.Fatal("the burst does not pass")
	}
	if wait := b.Spend(l, 4, 1000); wait != 2*clock.Second {
		t.Fatalf("4 tokens come back in %s", wait)
	}
	b.Return(l, 4)
	if b.Spend(l, 4, 1000) != 0 || b.Spend(l, 1, 1000) == 0 {
		t.Fatal("what is returned can be taken once")
	}
	if b.Spend(l, 30, 1000+5000) != 0 || b.Spend(l, 10, 1000+5000+14000) == 0 || b.Spend(l, 10, 1000+5000+15000) != 0 {
		t.Fatal("what is larger than the burst passes a whole bucket, and is paid for")
	}
}
