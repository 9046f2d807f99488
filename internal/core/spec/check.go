package spec

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Bounds of a set.
const (
	MaxWorkspaces = 1_000
	MaxEntries    = 4_096     // of any list or map of one resource
	MaxText       = 128 << 10 // bytes of any one text
	MaxInteger    = 1<<53 - 1

	maxTitle = 128
)

// LabelPrefix begins the labels that the agent itself puts on what it makes;
// nobody else may.
const LabelPrefix = "io.steady."

// Problem is one finding on a set or a resource. Path leads to it by the names
// of the JSON form; within a Set a list's entry is named by the resource's name,
// deeper ones by position.
type Problem struct {
	Path    []string `json:"path"`
	Message string   `json:"message"`
}

func (p Problem) String() string { return strings.Join(p.Path, ".") + ": " + p.Message }

// Problems are findings as one error, which tells the first eight.
type Problems []Problem

func (p Problems) Error() string {
	const most = 8
	var words []string
	for _, one := range p[:min(len(p), most)] {
		words = append(words, one.String())
	}
	if more := len(p) - most; more > 0 {
		words = append(words, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(words, "; ")
}

// Checker collects problems below a path.
type Checker struct {
	at  []string
	out *[]Problem
}

// In goes down the path.
func (c Checker) In(parts ...string) Checker {
	return Checker{append(slices.Clip(slices.Clone(c.at)), parts...), c.out}
}

// Item goes down to an entry of a list.
func (c Checker) Item(key string, i int) Checker { return c.In(key, strconv.Itoa(i)) }

// Of goes from a set down to a resource.
func (c Checker) Of(id ID) Checker { return c.In(Known.Kind(id.Kind).List, id.Name) }

// Addf adds a problem at the path.
func (c Checker) Addf(format string, args ...any) {
	*c.out = append(*c.out, Problem{Path: c.at, Message: fmt.Sprintf(format, args...)})
}

func (c Checker) tooMany(n int, what string) bool {
	if n > MaxEntries {
		c.Addf("%d %s: expected at most %d", n, what, MaxEntries)
	}
	return n > MaxEntries
}

// Check checks one resource by itself. It is total: any value gives problems or none.
func Check(r Resource) []Problem {
	var out []Problem
	c := Checker{out: &out}
	checkName(c.In("name"), *r.Named())
	r.Check(c)
	return out
}

// CheckName refuses a name that is unsafe or ambiguous as a path, label or
// certificate identity.
func CheckName(name string) error {
	ok := name != "" && len(name) <= 63
	for i := range len(name) {
		b := name[i]
		ok = ok && (b >= 'a' && b <= 'z' || b >= '0' && b <= '9' || i > 0 && (b == '.' || b == '_' || b == '-'))
	}
	if !ok {
		return fmt.Errorf("%q is not a name: expected 1 to 63 of a-z 0-9 . _ - starting with a letter or digit", name)
	}
	return nil
}

func checkName(c Checker, name string) {
	if err := CheckName(name); err != nil {
		c.Addf("%v", err)
	}
}

// checkTitle takes what an engine takes as a name, with room for a prefix.
func checkTitle(c Checker, title string) {
	ok := len(title) <= maxTitle
	for i := range len(title) {
		b := title[i]
		ok = ok && (b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' || b >= '0' && b <= '9' || i > 0 && (b == '.' || b == '_' || b == '-'))
	}
	if !ok {
		c.Addf("title %q: expected at most %d of a-z A-Z 0-9 . _ - starting with a letter or digit", title, maxTitle)
	}
}

func checkText(c Checker, values ...string) {
	for _, v := range values {
		if len(v) > MaxText {
			c.Addf("a text of %d bytes: expected at most %d", len(v), MaxText)
		}
		if strings.ContainsRune(v, 0) {
			c.Addf("a text with a NUL byte: expected none")
		}
	}
}

func checkTexts(c Checker, list []string) {
	if !c.tooMany(len(list), "entries") {
		checkText(c, list...)
	}
}

func checkMap(c Checker, m map[string]string) {
	if c.tooMany(len(m), "entries") {
		return
	}
	for _, k := range slices.Sorted(maps.Keys(m)) {
		if k == "" {
			c.Addf("an entry without a name")
		}
		checkText(c.In(k), k, m[k])
	}
}

func checkLabels(c Checker, m map[string]string) {
	checkMap(c, m)
	for _, k := range slices.Sorted(maps.Keys(m)) {
		if strings.HasPrefix(k, LabelPrefix) {
			c.In(k).Addf("label %q: labels that begin with %s belong to the agent", k, LabelPrefix)
		}
	}
}

// checkOneOf refuses a value that is none of those known; the format is given the value.
func checkOneOf[T comparable](c Checker, v T, format string, known ...T) {
	if !slices.Contains(known, v) {
		c.Addf(format, v)
	}
}

// checkSize takes a count or size of 0 to 2^53 - 1.
func checkSize(c Checker, key string, n int64) {
	if n < 0 || n > MaxInteger {
		c.In(key).Addf("%s is %d: expected 0 to %d", key, n, int64(MaxInteger))
	}
}
