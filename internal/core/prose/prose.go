// Package prose has what messages to people share: numbers with their nouns,
// times, and the name that somebody may have meant. It also makes text of unknown
// origin fit to be shown: what a host, a container or a bundle says must neither
// drive a terminal nor pass for a line of somebody else.
package prose

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/steadyfleet/steady/internal/core/clock"
)

// Count is a number with its noun: 1 host, 2 hosts, 3 releases. The noun is given
// in the singular; irregular ones do not occur.
func Count[N int | int64 | uint64 | clock.Duration](n N, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return strconv.FormatInt(int64(n), 10) + " " + Plural(noun)
}

// Plural is the noun for any number but one.
func Plural(noun string) string {
	switch {
	case strings.HasSuffix(noun, "ch"), strings.HasSuffix(noun, "s"), strings.HasSuffix(noun, "x"):
		return noun + "es"
	case strings.HasSuffix(noun, "y") && !strings.HasSuffix(noun, "ey") && !strings.HasSuffix(noun, "ay"):
		return strings.TrimSuffix(noun, "y") + "ies"
	}
	return noun + "s"
}

// Verb picks the form of a verb that goes with a number: 1 host is, 2 hosts are.
func Verb(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}

// Span is a length of time in its two largest units, such as 2h5m, 41s or 3d; of 100 days and more in days.
// What is shorter than a second, or negative, is 0s.
func Span(d clock.Duration) string {
	units := []struct {
		size clock.Duration
		name string
	}{{clock.Day, "d"}, {clock.Hour, "h"}, {clock.Minute, "m"}, {clock.Second, "s"}}
	for i, u := range units {
		if d < u.size {
			continue
		}
		s := fmt.Sprintf("%d%s", d/u.size, u.name)
		if i+1 < len(units) && d < 100*clock.Day { // the hours of years tell nothing
			if rest := d % u.size / units[i+1].size; rest > 0 {
				s += fmt.Sprintf("%d%s", rest, units[i+1].name)
			}
		}
		return s
	}
	return "0s"
}

// Ago is when something was, seen from now: 3m ago, in 5m, now, or never for an
// instant that is not set.
func Ago(t, now clock.Instant) string {
	switch d := now.Sub(t); {
	case t == 0:
		return "never"
	case d >= clock.Second:
		return Span(d) + " ago"
	case d <= -clock.Second:
		return "in " + Span(-d)
	}
	return "now"
}

// Stamp is an instant for a line of a log: the time of day in UTC, with the date
// where it is not within a day of now.
func Stamp(t, now clock.Instant) string {
	s := t.String()
	if len(s) < len("2006-01-02T15:04:05") {
		return s
	}
	day, rest, _ := strings.Cut(s, "T")
	if d := now.Sub(t); d > clock.Day || d < -clock.Day {
		return day + " " + rest[:len("15:04:05")]
	}
	return rest[:len("15:04:05")]
}

// Date is an instant as a date and a time in UTC, to the minute.
func Date(t clock.Instant) string {
	s := t.String()
	if len(s) < len("2006-01-02T15:04") {
		return s
	}
	return strings.Replace(s[:len("2006-01-02T15:04")], "T", " ", 1) + " UTC"
}

// Names lists names, of which so many are shown: a, b and 3 more.
func Names(names []string, shown int) string {
	list := strings.Join(names[:min(shown, len(names))], ", ")
	if n := len(names) - shown; n > 0 {
		list += fmt.Sprintf(" and %d more", n)
	}
	return list
}

// Either lists names of which one is meant: a, a or b, a, b or c.
func Either(names []string) string {
	if len(names) < 2 {
		return strings.Join(names, "")
	}
	return strings.Join(names[:len(names)-1], ", ") + " or " + names[len(names)-1]
}

// Reason makes a chain of codes and text, as a host reports a failure, readable:
// codes such as part-failed before a text are left out, and a code
// alone loses its hyphens. What follows a text is left as it is.
func Reason(chain string) string {
	for {
		code, rest, more := strings.Cut(chain, ": ")
		switch {
		case !isCode(code):
			return chain
		case !more:
			return strings.ReplaceAll(chain, "-", " ")
		}
		chain = rest
	}
}

// Failure says why something failed: a code such as probe-failing without hyphens, and the
// Reason of its detail. It is empty when neither is known.
func Failure(code, detail string) string {
	words, detail := strings.ReplaceAll(code, "-", " "), Reason(detail)
	if words == "" || detail == "" {
		return words + detail
	}
	return words + ": " + detail
}

// isCode reports whether text is a code of a machine: words of lower case joined
// by hyphens.
func isCode(text string) bool {
	if !strings.Contains(text, "-") {
		return false
	}
	for _, r := range text {
		if (r < 'a' || r > 'z') && r != '-' {
			return false
		}
	}
	return true
}

// Join lists those of the parts that say something, with commas.
func Join(parts ...string) string {
	return join(parts, ", ")
}

// Clauses is Join of whole clauses.
func Clauses(parts ...string) string { return join(parts, "; ") }

func join(parts []string, by string) string {
	var said []string
	for _, p := range parts {
		if p != "" {
			said = append(said, p)
		}
	}
	return strings.Join(said, by)
}

// Some is Count, and nothing for zero: "" or "2 hosts were away".
func Some(n int, noun, rest string) string {
	if n == 0 {
		return ""
	}
	return Count(n, noun) + rest
}

const (
	// maxTypos is how many letters a mistyped word may differ in.
	maxTypos = 2
	// maxWord bounds the words that are compared: longer ones are no typing error
	// of anything here, and comparing takes the product of the lengths.
	maxWord = 64
)

// Nearest returns the names that somebody who wrote word most likely meant, in
// the order of names, or none. Upper and lower case count as the same letter. A
// short word may differ in less than half of its letters.
func Nearest(word string, names []string) []string {
	var found []string
	least := min(maxTypos, (len(word)-1)/2)
	for _, name := range names {
		d := distance(strings.ToLower(word), strings.ToLower(name))
		if d < least {
			found, least = nil, d
		}
		if d == least {
			found = append(found, name)
		}
	}
	return found
}

// DidYouMean is a question to append to a refusal, or nothing.
func DidYouMean(word string, names []string) string {
	if near := Nearest(word, names); len(near) > 0 {
		return "; did you mean " + Either(near) + "?"
	}
	return ""
}

// distance counts the letters to add, drop, change or swap with their neighbour
// to turn a into b.
func distance(a, b string) int {
	if len(a) > maxWord || len(b) > maxWord {
		return maxWord
	}
	var before []int
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		next := make([]int, len(b)+1)
		next[0] = i + 1
		for j := range len(b) {
			cost := row[j]
			if a[i] != b[j] {
				cost++
			}
			next[j+1] = min(cost, row[j+1]+1, next[j]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				next[j+1] = min(next[j+1], before[j-1]+1)
			}
		}
		before, row = row, next
	}
	return row[len(b)]
}

// Any is a count of something, and nothing where there is none.
func Any(n int, what string) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("%d %s", n, what)
}

// Detailed is a code with its detail, if it has one.
func Detailed(code, detail string) string {
	if detail == "" {
		return code
	}
	return code + ": " + detail
}
