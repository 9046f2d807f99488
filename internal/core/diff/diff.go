// Package diff compares what is desired of a resource with what was observed,
// field by field, in one versioned normal form on both sides. For each field that
// differs it says what curing it takes and what caused it.
package diff

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Form is a resource in normal form: a canonical value by field path. An entry
// of a set is a field of its own (env/PATH, mount//data), so that sets compare as
// sets; a list whose order means something is one value. A field that is not set
// is absent.
type Form map[string]string

// Class is what curing a difference takes.
type Class string

// The classes, least first.
const (
	None    Class = "none"
	InPlace Class = "in place"
	Replace Class = "replace"
	Blocked Class = "blocked" // the engine cannot do it here
)

// Cause is why a field differs.
type Cause string

// The causes.
const (
	Declared Cause = "declared"        // what is desired changed
	Outside  Cause = "changed outside" // somebody changed it on the engine
	Unknown  Cause = "unknown"         // differs, and nothing is known of how it was made
	Both     Cause = "changed on both sides"
)

// Difference is one field that is not as desired.
type Difference struct {
	Field    string `json:"field"`
	Class    Class  `json:"class,omitempty"`
	Cause    Cause  `json:"cause"`
	Desired  string `json:"desired,omitempty"`
	Observed string `json:"observed,omitempty"`
	Why      string `json:"why,omitempty"` // of the class, for people
}

// Baseline is what was asked for when the resource was made and what the engine
// showed right after, both in the normal form of this version.
type Baseline struct {
	Desired  Form
	Observed Form
}

// Rules say of a kind which class a changed field has. Want and seen are empty
// when absent; the words say why. OwnsExtra says whether a field that is not
// desired and not in any baseline is a difference (an additional network) or a
// default of the engine that is none of our business. Default is what the engine
// has for a field that is not set, or empty: setting it to just that changes
// nothing.
type Rules interface {
	Class(field, want, seen string) (Class, string)
	OwnsExtra(field string) bool
	Default(field string) string
}

// Compare returns every field of seen that is not as wanted, sorted by field.
// Base is nil when nothing is known of how the thing was made. A field that is
// as desired, and one that still shows what the engine made of the same wish,
// is no difference.
func Compare(want, seen Form, base *Baseline, rules Rules) []Difference {
	var out []Difference
	for _, f := range fields(want, seen) {
		cause, differs := judge(f, want, seen, base, rules)
		if !differs {
			continue
		}
		class, why := rules.Class(f, want[f], seen[f])
		if class == None {
			continue
		}
		out = append(out, Difference{Field: f, Class: class, Cause: cause,
			Desired: want[f], Observed: seen[f], Why: why})
	}
	return out
}

// judge says whether the field differs, and why.
func judge(f string, want, seen Form, base *Baseline, rules Rules) (Cause, bool) {
	_, wanted := want[f]
	_, there := seen[f]
	switch {
	case sameIn(f, want, seen):
		return "", false
	case wanted != there && want[f]+seen[f] != "" && want[f]+seen[f] == rules.Default(f): // one of them is absent
		return "", false
	case base == nil && wanted:
		return Unknown, true
	case base == nil:
		return Unknown, rules.OwnsExtra(f)
	}
	switch ours, theirs := base.Sides(f, want, seen); {
	case ours:
		return Declared, true
	case !theirs:
		return "", false
	}
	// What is wanted stayed and what is seen changed. A default that a newer engine
	// began to show is nobody's change.
	_, known := base.Observed[f]
	return Outside, wanted || known || rules.OwnsExtra(f)
}

// Sides reports whether what is wanted of a field, and what is seen of it, is other than in
// the baseline.
func (b *Baseline) Sides(f string, want, seen Form) (ours, theirs bool) {
	return !sameIn(f, want, b.Desired), !sameIn(f, seen, b.Observed)
}

func sameIn(f string, a, b Form) bool {
	x, inA := a[f]
	y, inB := b[f]
	return inA == inB && x == y
}

func fields(a, b Form) []string {
	all := maps.Clone(a)
	if all == nil {
		all = Form{}
	}
	maps.Copy(all, b)
	return slices.Sorted(maps.Keys(all))
}

// shown bounds a value in a line for people, in bytes.
const shown = 80

// Show is the difference in one line for people. Long values are cut; whole ones
// stay in the fields.
func (d Difference) Show() string {
	var b strings.Builder
	b.WriteString(d.Field + ": " + Value(d.Observed) + " -> " + Value(d.Desired))
	b.WriteString(" (" + string(d.Class) + ", " + string(d.Cause))
	if d.Why != "" {
		b.WriteString("; " + d.Why)
	}
	b.WriteString(")")
	return b.String()
}

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

// Value shows a value to people: one that is long is cut, a secret is named by its digest.
func Value(v string) string {
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
