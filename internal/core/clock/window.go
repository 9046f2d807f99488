package clock

import (
	"errors"
	"fmt"
	"math/bits"
	"time"
)

// Bounds of a window's duration.
const (
	MinWindow = 1 * Minute
	MaxWindow = 7 * Day
)

// Window is one maintenance window. It opens whenever Cron comes on the clocks of
// Zone and stays open for Duration of time that passes, whatever the clocks do
// meanwhile. A local time that the clocks show twice opens it once, at the first;
// one that they skip opens it when they have skipped.
type Window struct {
	Name     string   `json:"name"`
	Cron     Cron     `json:"cron"`
	Duration Duration `json:"duration"`
	Zone     Zone     `json:"zone"`
	Reason   string   `json:"reason,omitempty"`
}

// Check refuses what no declaration resolves to.
func (w *Window) Check() error {
	if w.Name == "" || len(w.Name) > 63 || len(w.Reason) > 1024 {
		return errors.New("a window has no name, or one that is too long")
	}
	if w.Duration < MinWindow || w.Duration > MaxWindow || w.Duration%Second != 0 {
		return fmt.Errorf("window %s lasts %s: expected %s to %s in whole seconds", w.Name, w.Duration, MinWindow, MaxWindow)
	}
	if err := w.Zone.check(); err != nil {
		return fmt.Errorf("window %s: %w", w.Name, err)
	}
	return nil
}

// Open reports whether the window is open.
func (w *Window) Open(now Instant) bool {
	_, open := w.opened(now)
	return open
}

// NextOpen returns the first instant from now on at which the window is open; it
// is not ok when its table ends before.
func (w *Window) NextOpen(now Instant) (at Instant, ok bool) {
	if w.Open(now) {
		return now, true
	}
	z := &w.Zone
	from := max(now, z.From-1)
	least, _ := z.bounds()
	first := int64(from) + least*second // nothing up to this wall clock is after from
	for day := floorDiv(first, dayMillis); ; day++ {
		if start := z.instant(day * dayMillis); start >= z.Until {
			return 0, false
		}
		if !w.Cron.on(day) {
			continue
		}
		for m := w.Cron.next(minuteOf(first, day)); m >= 0; m = w.Cron.next(m + 1) {
			if start := z.instant(day*dayMillis + int64(m)*int64(Minute)); start > from && start >= z.From {
				return start, start < z.Until
			}
		}
	}
}

// Closes returns when the window that is open now closes, looking no further
// than limit; it is now when the window is closed.
func (w *Window) Closes(now, limit Instant) Instant {
	end := now
	for end < limit {
		start, open := w.opened(end)
		if !open {
			return end
		}
		end = start.Add(w.Duration)
	}
	return limit
}

// opened returns the last opening up to now, and whether it lasts.
func (w *Window) opened(now Instant) (Instant, bool) {
	z := &w.Zone
	if now < z.From || now >= z.Until {
		return 0, false
	}
	after := max(now.Add(-w.Duration), z.From-1)
	least, most := z.bounds()
	first, last := int64(after)+least*second, int64(now)+most*second // outside of these is no opening after after, up to now
	for day := floorDiv(last, dayMillis); day >= floorDiv(first, dayMillis); day-- {
		if !w.Cron.on(day) {
			continue
		}
		for m := w.Cron.previous(minuteOf(last, day)); m >= 0; m = w.Cron.previous(m - 1) {
			start := z.instant(day*dayMillis + int64(m)*int64(Minute))
			if start > now {
				continue
			}
			return start, start > after
		}
	}
	return 0, false
}

// minuteOf is the minute of a day that a wall clock shows, or the first or the
// last of the day if it shows another one.
func minuteOf(local, day int64) int {
	return int(min(max((local-day*dayMillis)/int64(Minute), 0), 24*60-1))
}

// on reports whether the schedule comes on a day, counted from 1970-01-01.
func (c *Cron) on(day int64) bool {
	_, month, date := time.Unix(day*24*3600, 0).UTC().Date()
	if c.month&(1<<month) == 0 {
		return false
	}
	byDate := c.day&(1<<date) != 0
	byWeekday := c.weekday&(1<<weekdayOf(day)) != 0
	if c.anyDay || c.anyWeekday {
		return byDate && byWeekday
	}
	return byDate || byWeekday
}

func weekdayOf(day int64) int64 { return ((day+4)%7 + 7) % 7 } // 1970-01-01 was a Thursday

// next returns the first minute of a day from m on at which the schedule comes,
// or -1.
func (c *Cron) next(m int) int {
	for h := m / 60; h < 24; h++ {
		if c.hour&(1<<h) == 0 {
			continue
		}
		minutes := c.minute
		if h == m/60 {
			minutes &= ^uint64(0) << (m % 60)
		}
		if minutes != 0 {
			return h*60 + bits.TrailingZeros64(minutes)
		}
	}
	return -1
}

// previous returns the last minute of a day up to m at which the schedule comes,
// or -1.
func (c *Cron) previous(m int) int {
	if m < 0 {
		return -1
	}
	for h := m / 60; h >= 0; h-- {
		if c.hour&(1<<h) == 0 {
			continue
		}
		minutes := c.minute
		if h == m/60 {
			minutes &= ^uint64(0) >> (63 - m%60)
		}
		if minutes != 0 {
			return h*60 + bits.Len64(minutes) - 1
		}
	}
	return -1
}

func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}

// AllOpen reports whether all windows are open; there may be none.
func AllOpen(ws []Window, now Instant) bool { return FirstClosed(ws, now) < 0 }

// FirstClosed returns the index of the first window that is not open, or -1.
func FirstClosed(ws []Window, now Instant) int {
	for i := range ws {
		if !ws[i].Open(now) {
			return i
		}
	}
	return -1
}

// NextAll returns the first instant from now on at which all windows are open; it
// is not ok when they never are while their tables last.
func NextOpening(ws []Window, now Instant) (at Instant, ok bool) {
	for at = now; ; {
		latest := at
		for i := range ws {
			next, ok := ws[i].NextOpen(at)
			if !ok {
				return 0, false
			}
			latest = max(latest, next)
		}
		if latest == at {
			return at, true
		}
		at = latest
	}
}

// Horizon is when the first of the tables ends; zero without windows.
func Horizon(ws []Window) Instant {
	var end Instant
	for i := range ws {
		end = Earliest(end, ws[i].Zone.Until)
	}
	return end
}
