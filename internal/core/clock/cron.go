package clock

import (
	"fmt"
	"math/bits"
	"strconv"
	"strings"
)

// Cron is a schedule of five fields as crontab(5) has them: minute, hour, day of
// the month, month, day of the week. Where both days are restricted, either will
// do. Its text is the canonical form, so that two spellings of one schedule are
// equal. The zero value never comes.
type Cron struct {
	minute, hour, day, month, weekday uint64 // bit sets
	anyDay, anyWeekday                bool   // began with a star
	text                              string
}

// field is what one of the five takes.
type field struct {
	name     string
	min, max int
	names    []string // of the values from min on
}

var fields = [5]field{
	{"minute", 0, 59, nil},
	{"hour", 0, 23, nil},
	{"day of the month", 1, 31, nil},
	{"month", 1, 12, []string{"jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"}},
	{"day of the week", 0, 7, []string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"}},
}

// maxCron bounds the text of a schedule in bytes.
const maxCron = 512

// ParseCron reads five fields of numbers, names, lists, ranges and steps. Sunday
// is 0 or 7.
func ParseCron(s string) (Cron, error) {
	parts := strings.Fields(s)
	if len(s) > maxCron || len(parts) != len(fields) {
		return Cron{}, fmt.Errorf("%.80q has %d fields: expected five, such as \"0 2 * * 1-5\": minute, hour, day of the month, month, day of the week", s, len(parts))
	}
	var sets [5]uint64
	var text [5]string
	for i, p := range parts {
		set, err := fields[i].parse(p)
		if err != nil {
			return Cron{}, err
		}
		if i == 4 && set&(1<<7) != 0 {
			set = set&^(1<<7) | 1
		}
		sets[i], text[i] = set, fields[i].canonical(set, strings.HasPrefix(p, "*"))
	}
	return Cron{minute: sets[0], hour: sets[1], day: sets[2], month: sets[3], weekday: sets[4],
		anyDay: strings.HasPrefix(parts[2], "*"), anyWeekday: strings.HasPrefix(parts[4], "*"), text: strings.Join(text[:], " ")}, nil
}

func (f *field) parse(s string) (uint64, error) {
	var set uint64
	if strings.Contains(s, "*") && strings.Contains(s, ",") {
		return 0, fmt.Errorf("%s %q: expected a star, with a step or without, to stand alone", f.name, s)
	}
	for _, item := range strings.Split(strings.ToLower(s), ",") {
		span, by, stepped := strings.Cut(item, "/")
		step := 1
		if stepped {
			n, err := strconv.Atoi(by)
			if err != nil || n < 1 || n > f.max {
				return 0, fmt.Errorf("%s %q: expected a step of 1 to %d after the slash", f.name, item, f.max)
			}
			step = n
		}
		lo, hi := f.min, f.max
		if f.min == 0 && f.max == 7 {
			hi = 6
		}
		if span != "*" {
			from, to, ranged := strings.Cut(span, "-")
			var ok, also bool
			lo, ok = f.value(from)
			hi, also = lo, ok
			if ranged {
				hi, also = f.value(to)
			}
			if !ok || !also || lo > hi || stepped && !ranged {
				return 0, fmt.Errorf("%s %q: expected numbers of %d to %d, ranges such as 1-5, lists of them, or *", f.name, item, f.min, f.max)
			}
		}
		for v := lo; v <= hi; v += step {
			set |= 1 << v
		}
	}
	return set, nil
}

func (f *field) value(s string) (int, bool) {
	for i, n := range f.names {
		if s == n {
			return f.min + i, true
		}
	}
	if s == "" || len(s) > 2 || strings.ContainsFunc(s, func(r rune) bool { return r < '0' || r > '9' }) {
		return 0, false
	}
	n, err := strconv.Atoi(s)
	return n, err == nil && n >= f.min && n <= f.max
}

// canonical writes a set as ascending runs. A field that began with a star keeps
// one, because it says which day counts.
func (f *field) canonical(set uint64, star bool) string {
	top := f.max
	if f.max == 7 {
		top = 6
	}
	if star {
		if bits.OnesCount64(set) == top-f.min+1 {
			return "*"
		}
		for step := 2; step <= top; step++ {
			var every uint64
			for v := f.min; v <= top; v += step {
				every |= 1 << v
			}
			if every == set {
				return "*/" + strconv.Itoa(step)
			}
		}
	}
	var runs []string
	for v := f.min; v <= top; v++ {
		if set&(1<<v) == 0 {
			continue
		}
		end := v
		for end < top && set&(1<<(end+1)) != 0 {
			end++
		}
		if end > v {
			runs = append(runs, strconv.Itoa(v)+"-"+strconv.Itoa(end))
		} else {
			runs = append(runs, strconv.Itoa(v))
		}
		v = end
	}
	return strings.Join(runs, ",")
}

// String returns the canonical form.
func (c Cron) String() string { return c.text }

// MarshalText writes the canonical form.
func (c Cron) MarshalText() ([]byte, error) { return []byte(c.text), nil }

// UnmarshalText reads what ParseCron does.
func (c *Cron) UnmarshalText(b []byte) (err error) {
	*c, err = ParseCron(string(b))
	return err
}
