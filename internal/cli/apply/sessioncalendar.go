package apply

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/steadyfleet/steady/internal/api/operator"
	"github.com/steadyfleet/steady/internal/cli/command"
	"github.com/steadyfleet/steady/internal/cli/exit"
	"github.com/steadyfleet/steady/internal/core/session"
)

func (a sessions) calendar() *cobra.Command {
	format := "text"
	cmd := &cobra.Command{
		Use: "calendar", Short: "Print the timeslots of sessions, also for calendar programs",
		Example: "  steady session calendar\n  steady session calendar -o ics > sessions.ics",
	}
	cmd.Flags().StringVarP(&format, "output", "o", format, "output format: text or ics")
	command.Complete(cmd, "output", "text", "ics")
	cmd.PreRunE = func(*cobra.Command, []string) error {
		if format != "text" && format != "ics" {
			return exit.Badf("--output %q: expected text or ics", format)
		}
		return nil
	}
	return a.Talk(cmd, func(ctx context.Context, c *operator.Client, _ []string) error {
		all, err := c.Sessions(ctx)
		if err != nil {
			return err
		}
		slices.SortStableFunc(all, func(x, y operator.Session) int { return x.Timeslot.Start.Compare(y.Timeslot.Start) })
		if format == "ics" {
			return WriteICS(a.Out, all, a.Now())
		}
		return a.days(all)
	})
}

// days lists sessions by the day on which they start.
func (a sessions) days(all []operator.Session) error {
	var rows [][]string
	day := ""
	for _, s := range all {
		at := s.Timeslot.Start.UTC().Format("Mon 2006-01-02")
		shown := at
		if at == day {
			shown = ""
		}
		day = at
		rows = append(rows, []string{shown, clockOf(s.Timeslot.Start, s.Timeslot.Start), clockOf(s.Timeslot.End, s.Timeslot.Start), s.Name, string(s.State), strings.Join(hosts(&s), ", ")})
	}
	return a.Table([]string{"day (UTC)", "start", "end", "session", "state", "hosts"}, rows)
}

// clockOf is the time of day, with the date where that is not the day of the start.
func clockOf(t, start time.Time) string {
	if t.UTC().YearDay() == start.UTC().YearDay() && t.UTC().Year() == start.UTC().Year() {
		return t.UTC().Format("15:04")
	}
	return t.UTC().Format("2006-01-02 15:04")
}

func hosts(s *operator.Session) (out []string) {
	for _, p := range s.Parts {
		for _, pod := range p.Pods {
			if pod.Host != "" {
				out = append(out, pod.Host)
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

const icsTime = "20060102T150405Z"

// WriteICS writes sessions as a calendar (RFC 5545).
func WriteICS(w io.Writer, all []operator.Session, now time.Time) error {
	var b strings.Builder
	line := func(format string, args ...any) { b.WriteString(folded(fmt.Sprintf(format, args...))) }
	line("BEGIN:VCALENDAR")
	line("VERSION:2.0")
	line("PRODID:-//Steady//sessions//EN")
	for _, s := range all {
		status := "CONFIRMED"
		if s.State == session.Failed {
			status = "CANCELLED"
		}
		line("BEGIN:VEVENT")
		line("UID:%s-%d@steady", s.Name, s.Created.Unix())
		line("DTSTAMP:%s", now.UTC().Format(icsTime))
		line("DTSTART:%s", s.Timeslot.Start.UTC().Format(icsTime))
		line("DTEND:%s", s.Timeslot.End.UTC().Format(icsTime))
		line("SUMMARY:%s", icsText(s.Name))
		line("DESCRIPTION:%s", icsText(fmt.Sprintf("%s, of %s, on %s", s.State, s.Owner, strings.Join(hosts(&s), ", "))))
		line("STATUS:%s", status)
		line("END:VEVENT")
	}
	line("END:VCALENDAR")
	_, err := io.WriteString(w, b.String())
	return err
}

func icsText(s string) string {
	return strings.NewReplacer(`\`, `\\`, ";", `\;`, ",", `\,`, "\n", `\n`, "\r", "").Replace(s)
}

// folded ends a line, and breaks it where it has more than 75 bytes.
func folded(s string) string {
	const most = 75
	var b strings.Builder
	room := most
	for _, r := range s {
		if n := utf8.RuneLen(r); n > room {
			b.WriteString("\r\n ")
			room = most - 1
		}
		room -= utf8.RuneLen(r)
		b.WriteRune(r)
	}
	return b.String() + "\r\n"
}
