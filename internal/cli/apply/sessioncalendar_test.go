package apply

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/steadyfleet/steady/internal/api/operator"
	"github.com/steadyfleet/steady/internal/core/session"
	"github.com/steadyfleet/steady/internal/testkit"
)

var morning = time.Date(2026, 3, 1, 9, 0, 0, 0, time.UTC)

// TestCalendarIsReadBack reads the calendar as a program would: lines are unfolded, and texts unescaped.
func TestCalendarIsReadBack(t *testing.T) {
	s := operator.Session{Name: "lab", Owner: `ann, of "R;D" \ ` + strings.Repeat("ä", 60), State: session.Running, Created: morning,
		Timeslot: session.Timeslot{Start: morning, End: morning.Add(time.Hour)}}
	var out bytes.Buffer
	testkit.Must(t, WriteICS(&out, []operator.Session{s, {Name: "next", State: session.Failed}}, morning))
	for line := range strings.Lines(out.String()) {
		if len(line) > 77 || !strings.HasSuffix(line, "\r\n") {
			t.Errorf("line %q", line)
		}
	}
	events, current := []map[string]string{}, map[string]string(nil)
	for line := range strings.Lines(strings.ReplaceAll(out.String(), "\r\n ", "")) {
		key, value, _ := strings.Cut(strings.TrimSuffix(line, "\r\n"), ":")
		switch {
		case key == "BEGIN" && value == "VEVENT":
			current = map[string]string{}
		case key == "END" && value == "VEVENT":
			events = append(events, current)
		case current != nil:
			current[key] = strings.NewReplacer(`\,`, ",", `\;`, ";", `\\`, `\`, `\n`, "\n").Replace(value)
		}
	}
	if len(events) != 2 {
		t.Fatalf("%d events", len(events))
	}
	e := events[0]
	start, err := time.Parse(icsTime, e["DTSTART"])
	if err != nil || !start.Equal(morning) || e["SUMMARY"] != "lab" || !strings.Contains(e["DESCRIPTION"], s.Owner) || e["STATUS"] != "CONFIRMED" || events[1]["STATUS"] != "CANCELLED" {
		t.Errorf("%v %v", events, err)
	}
}
