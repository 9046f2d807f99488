package clock_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"
	_ "time/tzdata"

	"pgregory.net/rapid"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/testkit"
)

var (
	from  = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	until = time.Date(2028, 1, 1, 0, 0, 0, 0, time.UTC)
)

// table makes the table of a zone from the standard library's own.
func table(t rapid.TB, name string) (clock.Zone, *time.Location) {
	t.Helper()
	loc := testkit.Value(time.LoadLocation(name))(t)
	_, offset := from.In(loc).Zone()
	z := clock.Zone{Name: name, From: clock.FromTime(from), Until: clock.FromTime(until), Offset: int64(offset)}
	for at := from; ; {
		_, end := at.In(loc).ZoneBounds()
		if end.IsZero() || !end.Before(until) {
			return z, loc
		}
		_, offset := end.In(loc).Zone()
		z.Transitions = append(z.Transitions, clock.Transition{At: clock.FromTime(end), Offset: int64(offset)})
		at = end
	}
}

func cron(t rapid.TB, s string) clock.Cron {
	t.Helper()
	c := testkit.Value(clock.ParseCron(s))(t)
	return c
}

func make1(t rapid.TB, schedule, duration, zone string) clock.Window {
	d := testkit.Value(clock.ParseDuration(duration))(t)
	z, _ := table(t, zone)
	w := clock.Window{Name: "w", Cron: cron(t, schedule), Duration: d, Zone: z}
	testkit.Must(t, w.Check())
	return w
}

func utc(t rapid.TB, s string) clock.Instant {
	t.Helper()
	at := testkit.Value(time.Parse("2006-01-02 15:04", s))(t)
	return clock.FromTime(at)
}

func TestNextOpening(t *testing.T) {
	for _, c := range []struct{ name, cron, duration, zone, now, next, closes string }{
		{"weekday night in winter", "0 2 * * 1-5", "3h", "Europe/Berlin", "2026-01-10 12:00", "2026-01-12 01:00", "2026-01-12 04:00"},
		{"weekday night in summer", "0 2 * * mon-fri", "3h", "Europe/Berlin", "2026-07-11 12:00", "2026-07-13 00:00", "2026-07-13 03:00"},
		{"open now", "0 2 * * *", "3h", "UTC", "2026-01-10 04:59", "2026-01-10 04:59", "2026-01-10 05:00"},
		{"closed at its end", "0 2 * * *", "3h", "UTC", "2026-01-10 05:00", "2026-01-11 02:00", "2026-01-11 05:00"},
		// On 29 March 2026 the clocks of Berlin go from 02:00 to 03:00, which is 01:00 UTC.
		{"skipped by the clocks", "30 2 * * *", "1h", "Europe/Berlin", "2026-03-28 12:00", "2026-03-29 01:00", "2026-03-29 02:00"},
		{"open over the gap", "30 1 * * *", "2h", "Europe/Berlin", "2026-03-28 12:00", "2026-03-29 00:30", "2026-03-29 02:30"},
		// On 25 October 2026 they go from 03:00 back to 02:00, which is 01:00 UTC.
		{"shown twice", "30 2 * * *", "30m", "Europe/Berlin", "2026-10-24 12:00", "2026-10-25 00:30", "2026-10-25 01:00"},
		{"once on that day", "30 2 * * *", "30m", "Europe/Berlin", "2026-10-25 01:00", "2026-10-26 01:30", "2026-10-26 02:00"},
		{"over midnight", "0 23 * * sat", "4h", "UTC", "2026-01-11 01:00", "2026-01-11 01:00", "2026-01-11 03:00"},
		{"either day", "0 0 13 * fri", "1h", "UTC", "2026-01-10 00:00", "2026-01-13 00:00", "2026-01-13 01:00"},
		{"touching windows are one", "0,30 2 * * *", "30m", "UTC", "2026-01-10 02:10", "2026-01-10 02:10", "2026-01-10 03:00"},
		{"half an hour off", "0 2 * * *", "1h", "Asia/Kolkata", "2026-01-10 00:00", "2026-01-10 20:30", "2026-01-10 21:30"},
		{"a gap of half an hour", "15 2 * * *", "1h", "Australia/Lord_Howe", "2026-10-03 12:00", "2026-10-03 15:30", "2026-10-03 16:30"},
		{"leap day", "0 0 29 2 *", "1h", "UTC", "2026-01-10 00:00", "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := make1(t, c.cron, c.duration, c.zone)
			at, ok := w.NextOpen(utc(t, c.now))
			if c.next == "" {
				if ok {
					t.Fatalf("opens at %s, expected never before %s", at, w.Zone.Until)
				}
				return
			}
			if !ok || at != utc(t, c.next) {
				t.Fatalf("opens at %s, %t; expected %s", at, ok, c.next)
			}
			if end := w.Closes(at, at.Add(clock.Day)); end != utc(t, c.closes) {
				t.Fatalf("closes at %s, expected %s", end, c.closes)
			}
		})
	}
}

var zones = []string{"UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "America/St_Johns", "Asia/Kolkata", "Africa/Casablanca", "Pacific/Apia"}

// drawCron draws schedules of every form, biased to the hours at which clocks
// change.
func drawCron(t *rapid.T) string {
	pick := func(label string, of ...string) string { return rapid.SampledFrom(of).Draw(t, label) }
	return fmt.Sprintf("%s %s %s %s %s",
		pick("minute", "0", "30", "*/15", "5,35", "10-20", "59"),
		pick("hour", "2", "1-3", "*", "*/6", "0", "23", "22,2"),
		pick("day", "*", "*", "29", "1,25", "*/2", "8-14"),
		pick("month", "*", "*", "3,10", "mar-apr", "*/5"),
		pick("weekday", "*", "*", "sun", "1-5", "0,6", "7"))
}

// oracle is a second implementation: it looks at the wall clock of the standard
// library minute by minute.
type oracle struct {
	loc              *time.Location
	minute, hour     map[int]bool
	dom, month, dow  map[int]bool
	anyDom, anyMonth bool
	anyDow           bool
	duration         clock.Duration
}

func (o *oracle) comes(wall time.Time) bool {
	day := o.dom[wall.Day()] && o.dow[int(wall.Weekday())]
	if !o.anyDom && !o.anyDow {
		day = o.dom[wall.Day()] || o.dow[int(wall.Weekday())]
	}
	return o.minute[wall.Minute()] && o.hour[wall.Hour()] && o.month[int(wall.Month())] && day
}

// starts reports whether the window opens at a whole minute of UTC.
func (o *oracle) starts(at time.Time) bool {
	wall := func(u time.Time) time.Time {
		l := u.In(o.loc)
		return time.Date(l.Year(), l.Month(), l.Day(), l.Hour(), l.Minute(), 0, 0, time.UTC)
	}
	now := wall(at)
	if before := wall(at.Add(-time.Minute)); now.Sub(before) > time.Minute { // the clocks skipped
		for skipped := before.Add(time.Minute); skipped.Before(now); skipped = skipped.Add(time.Minute) {
			if o.comes(skipped) {
				return true
			}
		}
	}
	if !o.comes(now) {
		return false
	}
	for back := time.Minute; back <= 2*time.Hour; back += time.Minute { // shown before
		if wall(at.Add(-back)).Equal(now) {
			return false
		}
	}
	return true
}

func setOf(text string, lo, hi int, names map[string]int) (map[int]bool, bool) {
	set := map[int]bool{}
	star := text[0] == '*'
	step := 1
	if star {
		_, _ = fmt.Sscanf(text, "*/%d", &step)
		for v := lo; v <= hi; v += step {
			set[v] = true
		}
		return set, true
	}
	number := func(s string) int {
		if n, ok := names[s]; ok {
			return n
		}
		n := 0
		_, _ = fmt.Sscan(s, &n)
		return n
	}
	for _, item := range splitOn(text, ',') {
		ends := splitOn(item, '-')
		for v := number(ends[0]); v <= number(ends[len(ends)-1]); v++ {
			set[v] = true
		}
	}
	if names["sun"] == 0 && set[7] {
		set[0] = true
	}
	return set, false
}

func splitOn(s string, at byte) []string {
	var out []string
	last := 0
	for i := range s {
		if s[i] == at {
			out, last = append(out, s[last:i]), i+1
		}
	}
	return append(out, s[last:])
}

func newOracle(schedule string, loc *time.Location, d clock.Duration) *oracle {
	f := splitOn(schedule, ' ')
	o := &oracle{loc: loc, duration: d}
	o.minute, _ = setOf(f[0], 0, 59, nil)
	o.hour, _ = setOf(f[1], 0, 23, nil)
	o.dom, o.anyDom = setOf(f[2], 1, 31, nil)
	o.month, o.anyMonth = setOf(f[3], 1, 12, map[string]int{"mar": 3, "apr": 4})
	o.dow, o.anyDow = setOf(f[4], 0, 6, map[string]int{"sun": 0})
	return o
}

// TestS41WindowAgreesWithTheWallClock compares with a scan of every minute on the
// standard library's clocks, mostly around the days on which they change.
func TestS41WindowAgreesWithTheWallClock(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		schedule, zone := drawCron(t), rapid.SampledFrom(zones).Draw(t, "zone")
		d := clock.Duration(rapid.IntRange(1, 300).Draw(t, "minutes")) * clock.Minute
		z, loc := table(t, zone)
		w := clock.Window{Name: "w", Cron: cron(t, schedule), Duration: d, Zone: z}
		day := clock.FromTime(from.AddDate(0, 0, rapid.IntRange(20, 700).Draw(t, "day")))
		if n := len(z.Transitions); n > 0 && rapid.Bool().Draw(t, "change") {
			day = z.Transitions[rapid.IntRange(0, n-1).Draw(t, "transition")].At.Add(-12 * clock.Hour)
		}
		o := newOracle(schedule, loc, d)
		var opened time.Time // the last opening
		at := time.UnixMilli(int64(day)).UTC().Truncate(time.Minute).Add(-d.Std())
		for range int(d/clock.Minute) + 30*60 {
			if o.starts(at) {
				opened = at
			}
			want := !opened.IsZero() && at.Sub(opened) < d.Std()
			// Before the first whole duration the scan has not seen every opening.
			if now := clock.FromTime(at); now >= day && w.Open(now) != want {
				t.Fatalf("%q for %s in %s: open at %s (%s) is %t, the scan says %t", schedule, d, zone, now, at.In(loc), !want, want)
			}
			at = at.Add(time.Minute)
		}
	})
}

// TestS41NextOpeningIsTheFirst checks that the next opening is open and that
// nothing is between now and then, and the same of several windows at once.
func TestS41NextOpeningIsTheFirst(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 3).Draw(t, "windows")
		var ws []clock.Window
		for range n {
			z, _ := table(t, rapid.SampledFrom(zones).Draw(t, "zone"))
			ws = append(ws, clock.Window{Name: "w", Cron: cron(t, drawCron(t)), Duration: clock.Duration(rapid.IntRange(1, 2000).Draw(t, "minutes")) * clock.Minute, Zone: z})
		}
		now := clock.FromTime(from).Add(clock.Duration(rapid.Int64Range(0, int64(700*clock.Day)).Draw(t, "now")))
		at, ok := clock.NextOpening(ws, now)
		if ok && (at < now || !clock.AllOpen(ws, at)) {
			t.Fatalf("at %s the next opening is %s, where windows are closed", now, at)
		}
		if !ok {
			at = min(now.Add(30*clock.Day), clock.Horizon(ws))
		}
		for range 200 {
			if at > now {
				if between := now.Add(clock.Duration(rapid.Int64Range(0, int64(at-now)-1).Draw(t, "between"))); clock.AllOpen(ws, between) {
					t.Fatalf("open at %s already, between %s and %s", between, now, at)
				}
			}
		}
		if end := ws[0].Closes(now, now.Add(clock.Day)); end > now && (!ws[0].Open(end-1) || end < now.Add(clock.Day) && ws[0].Open(end)) {
			t.Fatalf("open at %s, said to close at %s", now, end)
		}
	})
}

func TestCronCanonical(t *testing.T) {
	for in, want := range map[string]string{
		"0 2 * * 1-5": "0 2 * * 1-5", "0  2 * * MON-FRI": "0 2 * * 1-5", "5,3,4 0-6/2 * jan,12 7": "3-5 0,2,4,6 * 1,12 0",
		"*/1 * * * *": "* * * * *", "*/15 */6 */2 * 0-7": "*/15 */6 */2 * 0-6", "0 0 1 1 sun,6": "0 0 1 1 0,6",
	} {
		c := cron(t, in)
		if c.String() != want {
			t.Errorf("%q is %q, expected %q", in, c, want)
		}
		if again := cron(t, c.String()); again != c {
			t.Errorf("%q does not read back as itself", c)
		}
	}
	for _, bad := range []string{"", "* * * *", "60 * * * *", "* 24 * * *", "* * 0 * *", "* * * 13 *", "* * * * 8", "5/2 * * * *", "*/0 * * * *",
		"a * * * *", "1- * * * *", "3-1 * * * *", "*,5 * * * *", "* * * * * *", "@daily", "-1 * * * *", "+1 * * * *", "1.5 * * * *"} {
		if c, err := clock.ParseCron(bad); err == nil {
			t.Errorf("%q was read as %q", bad, c)
		}
	}
}

func TestWindowSurvivesJSON(t *testing.T) {
	w := make1(t, "0 2 * * mon-fri", "3h", "Europe/Berlin")
	b := testkit.Value(json.Marshal(w))(t)
	var back clock.Window
	if err := json.Unmarshal(b, &back); err != nil || back.Cron != w.Cron || !back.Zone.Agrees(&w.Zone, w.Zone.From, w.Zone.Until) {
		t.Fatalf("%s came back as %+v, %v", b, back, err)
	}
	if len(w.Zone.Transitions) != 4 || len(b) > 512 {
		t.Errorf("two years of Berlin take %d transitions and %d bytes", len(w.Zone.Transitions), len(b))
	}
}

func TestCheckRefuses(t *testing.T) {
	for name, change := range map[string]func(*clock.Window){
		"no name": func(w *clock.Window) { w.Name = "" }, "too short": func(w *clock.Window) { w.Duration = clock.Second },
		"too long": func(w *clock.Window) { w.Duration = 8 * clock.Day }, "no zone": func(w *clock.Window) { w.Zone = clock.Zone{} },
		"backwards": func(w *clock.Window) { w.Zone.Transitions[1].At = w.Zone.Transitions[0].At },
		"far off":   func(w *clock.Window) { w.Zone.Transitions[0].Offset = 1 << 40 },
	} {
		w := make1(t, "0 2 * * *", "3h", "Europe/Berlin")
		change(&w)
		if w.Check() == nil {
			t.Errorf("%s: taken", name)
		}
	}
}

func BenchmarkNextOpen(b *testing.B) {
	w := make1(b, "0 2 * * 1-5", "3h", "Europe/Berlin")
	now := utc(b, "2026-05-02 12:00")
	b.ReportAllocs()
	for b.Loop() {
		if _, ok := w.NextOpen(now); !ok {
			b.Fatal("never")
		}
	}
}
