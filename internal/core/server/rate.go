package server

import "github.com/steadyfleet/steady/internal/core/clock"

// RateLimit bounds how much passes in time: it lets Burst tokens through at once; Tokens come back in each Per. All are above
// zero, and Burst times Per below 2^62.
type RateLimit struct {
	Burst, Tokens int64
	Per           clock.Duration
}

// RateBucket counts against one limit. The zero value has its whole burst. It belongs to
// one goroutine.
type RateBucket struct {
	used int64 // tokens times Per
	at   clock.Instant
}

// Spend takes n tokens if they are there. Else it takes none and returns the time, above
// zero, until they are. What is larger than the burst passes when the burst is whole,
// and is paid for after it. A clock that goes back brings nothing back.
func (b *RateBucket) Spend(l RateLimit, n int64, now clock.Instant) (wait clock.Duration) {
	b.refill(l, now)
	per := int64(l.Per)
	if over := b.used + (min(n, l.Burst)-l.Burst)*per; over > 0 {
		return clock.Duration((over + l.Tokens - 1) / l.Tokens)
	}
	b.used += n * per
	return 0
}

// Charge takes n tokens that are spent already, also where they are not there.
func (b *RateBucket) Charge(l RateLimit, n int64, now clock.Instant) {
	b.refill(l, now)
	b.used += n * int64(l.Per)
}

func (b *RateBucket) refill(l RateLimit, now clock.Instant) {
	if passed := int64(now.Sub(b.at)); passed > 0 {
		b.at = now
		if passed >= b.used/l.Tokens+1 {
			b.used = 0
		} else {
			b.used -= passed * l.Tokens
		}
	}
}

// Rarely has what happens without end be noted now and then. The zero value has noted nothing.
type Rarely struct {
	bucket RateBucket
	left   int64
}

// rarely is how often: ten at once, then one in ten seconds.
var rarely = RateLimit{Burst: 10, Tokens: 1, Per: 10 * clock.Second}

// Note reports whether it is noted this time, and how often it was not since the time before.
func (r *Rarely) Note(now clock.Instant) (noted bool, left int64) {
	if r.bucket.Spend(rarely, 1, now) > 0 {
		r.left++
		return false, 0
	}
	left, r.left = r.left, 0
	return true, left
}

// Return gives tokens back that were taken for nothing.
func (b *RateBucket) Return(l RateLimit, n int64) { b.used = max(0, b.used-n*int64(l.Per)) }
