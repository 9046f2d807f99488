package engine

import "time"

// instant is a time in milliseconds since the Unix epoch, which is all that a
// row keeps of one; 0 is none.
type instant int64

func toInstant(t time.Time) instant {
	if t.IsZero() {
		return 0
	}
	return instant(t.UnixMilli())
}

func (i instant) time() time.Time {
	if i == 0 {
		return time.Time{}
	}
	return time.UnixMilli(int64(i)).UTC()
}

func (i instant) add(d time.Duration) instant { return i + instant(d.Milliseconds()) }

// reached reports whether deadline i is set and now is at or past it.
func (i instant) reached(now instant) bool { return i != 0 && now >= i }

// earliest is the earlier of those instants that are set, or none.
func earliest(a, b instant) instant {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

func (i instant) String() string { return i.time().Format(time.RFC3339) }
