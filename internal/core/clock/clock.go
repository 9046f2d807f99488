// Package clock holds the core's instants and durations, and the maintenance windows
// that a declaration puts on them: a cron schedule, a duration and a time zone.
// It cannot read a clock: every instant comes in as an argument, which is what lets
// a simulation run years in a minute. Everything it needs of a time zone is in the
// window, so that server, agents and replays agree.
package clock

import (
	"fmt"
	"strconv"
	"time"
)

// Instant is a point in time in milliseconds. On the server it counts from the
// Unix epoch; on a host it is the agent's own clock, which never goes back and
// never jumps with the wall clock. Zero means "never". An int64 survives JSON
// unchanged below 2^53, which is the year 287396.
type Instant int64

// Duration is a length of time in milliseconds.
type Duration int64

// Units of Duration.
const (
	Millisecond Duration = 1
	Second               = 1000 * Millisecond
	Minute               = 60 * Second
	Hour                 = 60 * Minute
	Day                  = 24 * Hour
)

// Add returns the instant d after t.
func (t Instant) Add(d Duration) Instant { return t + Instant(d) }

// Sub returns the time from u to t.
func (t Instant) Sub(u Instant) Duration { return Duration(t - u) }

// Reached reports whether deadline t is set and now is at or past it.
func (t Instant) Reached(now Instant) bool { return t != 0 && now >= t }

// Earliest returns the earlier of the two instants that are set, or zero.
func Earliest(a, b Instant) Instant {
	if a == 0 || (b != 0 && b < a) {
		return b
	}
	return a
}

// String prints a Unix instant as RFC 3339 in UTC with milliseconds.
func (t Instant) String() string {
	if t == 0 {
		return "never"
	}
	at := t.Time()
	var room [32]byte
	b := at.AppendFormat(room[:0], time.RFC3339) // which is made without reading a layout
	ms := at.Nanosecond() / int(time.Millisecond)
	return string(append(b[:len(b)-1], '.', byte('0'+ms/100), byte('0'+ms/10%10), byte('0'+ms%10), 'Z'))
}

// Std converts d for use with the time package.
func (d Duration) Std() time.Duration { return time.Duration(d) * time.Millisecond }

// FromStd converts a standard duration, dropping what is below a millisecond.
func FromStd(d time.Duration) Duration { return Duration(d / time.Millisecond) }

// FromTime converts a standard time to a Unix instant; the zero time is never.
func FromTime(t time.Time) Instant {
	if t.IsZero() {
		return 0
	}
	return Instant(t.UnixMilli())
}

// Time converts a Unix instant to a standard time in UTC; never is the zero time.
func (t Instant) Time() time.Time {
	if t == 0 {
		return time.Time{}
	}
	return time.UnixMilli(int64(t)).UTC()
}

// String prints d the way a declaration spells it, for example 1h30m or 250ms.
func (d Duration) String() string {
	if d == 0 {
		return "0s"
	}
	if d%Second != 0 {
		return d.Std().String()
	}
	sign := ""
	if d < 0 {
		sign, d = "-", -d
	}
	s := ""
	for _, unit := range []struct {
		size Duration
		name string
	}{{Hour, "h"}, {Minute, "m"}, {Second, "s"}} {
		if n := d / unit.size; n > 0 {
			s += strconv.FormatInt(int64(n), 10) + unit.name
			d -= n * unit.size
		}
	}
	return sign + s
}

// ParseDuration reads a duration such as 30s, 1h30m or 250ms. It refuses
// negative ones and parts of a millisecond.
func ParseDuration(s string) (Duration, error) {
	d, err := time.ParseDuration(s)
	if err != nil {
		return 0, fmt.Errorf("%q is not a duration such as 30s, 10m or 24h", s)
	}
	if d < 0 || d%time.Millisecond != 0 {
		return 0, fmt.Errorf("%q must be a whole number of milliseconds, not negative", s)
	}
	return FromStd(d), nil
}
