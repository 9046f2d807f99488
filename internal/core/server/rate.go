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
	per := int64(l.Per)
	if passed := int64(now.Sub(b.at)); passed > 0 {
		b.at = now
		if passed >= b.used/l.Tokens+1 {
			b.used = 0
		} else {
			b.used -= passed * l.Tokens
		}
	}
	if over := b.used + (min(n, l.Burst)-l.Burst)*per; over > 0 {
		return clock.Duration((over + l.Tokens - 1) / l.Tokens)
	}
	b.used += n * per
	return 0
}

// Return gives tokens back that were taken for nothing.
func (b *RateBucket) Return(l RateLimit, n int64) { b.used = max(0, b.used-n*int64(l.Per)) }
