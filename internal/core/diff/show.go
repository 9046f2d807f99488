package diff

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// shown bounds a value in a line for people, in bytes.
const shown = 80

// Show is the difference in one line for people. Long values are cut; whole ones
// stay in the fields.
func (d Difference) Show() string {
	var b strings.Builder
	b.WriteString(d.Field + ": " + show(d.Observed) + " -> " + show(d.Desired))
	b.WriteString(" (" + string(d.Class) + ", " + string(d.Cause))
	if d.Why != "" {
		b.WriteString("; " + d.Why)
	}
	b.WriteString(")")
	return b.String()
}

// mostShown bounds how many differences a summary shows.
const mostShown = 6

// Summary shows differences to people, in order of their fields.
func Summary(ds []Difference) string {
	ds = slices.Clone(ds)
	slices.SortStableFunc(ds, func(a, b Difference) int { return strings.Compare(a.Field, b.Field) })
	var out []string
	for _, d := range ds[:min(len(ds), mostShown)] {
		out = append(out, d.Show())
	}
	if more := len(ds) - mostShown; more > 0 {
		out = append(out, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(out, "; ")
}

func show(v string) string {
	if v == "" {
		return "none"
	}
	if rest, keyed := strings.CutPrefix(v, "hmac:"); keyed && len(rest) > 8 {
		return "secret " + rest[:8]
	}
	if len(v) > shown {
		cut := shown
		for cut > 0 && !utf8.RuneStart(v[cut]) {
			cut--
		}
		v = v[:cut] + "… (" + strconv.Itoa(len(v)) + " bytes)"
	}
	if strings.ContainsFunc(v, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return strconv.Quote(v)
	}
	return v
}
