package nodeconfig

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/steadyfleet/steady/internal/core/diff"
)

// Rules say of the objects of one collection what is no difference, for compare and for push
// alike. A path is that of a field; * in it stands for any one step, and a path stands for
// all below it.
type Rules struct {
	// Sets are lists whose order means nothing, with the member that names an element; an
	// empty one is a list of plain values.
	Sets map[string]string `json:"sets,omitempty"`
	// Secrets are values that never leave the node.
	Secrets []string `json:"secrets,omitempty"`
	// Ignored are fields that the device changes by itself.
	Ignored []string `json:"ignored,omitempty"`
	// Ports are fields with a port, or an address with one, that the device listens on;
	// after a space comes the protocol, which is tcp if not said.
	Ports []string `json:"ports,omitempty"`
}

const (
	maxRules = 256
	maxPath  = 256
)

// Check refuses rules that are too many or malformed.
func (r *Rules) Check() error {
	if n := len(r.Sets) + len(r.Secrets) + len(r.Ignored) + len(r.Ports); n > maxRules {
		return fmt.Errorf("%d rules, at most %d are allowed", n, maxRules)
	}
	var all []string
	for path := range r.Sets { // order-free: each is checked by itself
		all = append(all, path)
	}
	slices.Sort(all)
	for _, path := range slices.Concat(all, r.Secrets, r.Ignored, r.Ports) {
		if path == "" || len(path) > maxPath {
			return fmt.Errorf("the path %.40q of a rule: expected 1 to %d bytes", path, maxPath)
		}
	}
	return nil
}

// matches reports whether a path is at or below the one that a pattern names.
func matches(pattern string, path []string) bool {
	for _, at := range path {
		step, rest, more := strings.Cut(pattern, "/")
		if step != "*" && step != at && (strings.IndexByte(step, '~') < 0 || unescape.Replace(step) != at) {
			return false
		}
		if !more {
			return true
		}
		pattern = rest
	}
	return false
}

func anyMatches(patterns []string, path []string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return matches(p, path) })
}

func (r *Rules) setKey(path []string) (string, bool) {
	for pattern, key := range r.Sets { // order-free: at most one fits
		if strings.Count(pattern, "/")+1 == len(path) && matches(pattern, path) {
			return key, true
		}
	}
	return "", false
}

// Ignores reports whether a field is none that is compared or pushed.
func (r *Rules) Ignores(field string) bool { return anyMatches(r.Ignored, split(field)) }

// Withholds reports whether a field is one whose value never leaves the node.
func (r *Rules) Withholds(field string) bool { return r.secretAt(split(field)) }

// With returns the rules with more fields ignored.
func (r *Rules) With(ignored []string) *Rules {
	if len(ignored) == 0 {
		return r
	}
	out := *r
	out.Ignored = slices.Concat(r.Ignored, ignored)
	return &out
}

// CheckSecrets refuses a config with a secret in it, and names the field, never the value.
func (r *Rules) CheckSecrets(config json.RawMessage) error {
	_, err := r.Replace(config, func(path []string, v any) (any, error) {
		if withheld(v) || !r.IsSecret(path, v) {
			return v, nil
		}
		return nil, fmt.Errorf(`field %s is a secret, which must not leave the node: store it there with steady node secret NAME and write {"%s": "NAME"} in its place`, join(path), SecretRef)
	})
	return err
}

// Redacted returns a config with every secret that the node left in it withheld, and
// whether there was one.
func (r *Rules) Redacted(config json.RawMessage) (json.RawMessage, bool) {
	out, found, err := r.Redact(config)
	if err != nil {
		return json.RawMessage("{}"), true
	}
	return out, found
}

// Redact is Redacted with the reason why a config cannot be read.
func (r *Rules) Redact(config json.RawMessage) (out json.RawMessage, found bool, err error) {
	out, err = r.Replace(config, func(path []string, v any) (any, error) {
		if v == nil || v == "" || withheld(v) || !r.secretAt(path) {
			return v, nil
		}
		found = true
		return KeyedPrefix + "withheld", nil
	})
	return out, found, err
}

// withheld reports whether a value stands for a secret without being it.
func withheld(v any) bool {
	s, _ := v.(string)
	_, refers := ReferenceOf(v)
	return refers || strings.HasPrefix(s, KeyedPrefix)
}

// Weight is what a comparison of so many bytes costs under the rules, in bytes under none.
func (r *Rules) Weight(bytes int) int64 {
	return int64(bytes) * int64(1+(len(r.Sets)+len(r.Secrets)+len(r.Ignored))/rulesOfOne)
}

// rulesOfOne is how many rules cost as much for each value as reading it does.
const rulesOfOne = 32

// Pushed is what is pushed for a config: the fields that are ignored are those that the
// node has.
func (r *Rules) Pushed(config, observed json.RawMessage) json.RawMessage {
	if len(r.Ignored) == 0 || len(observed) == 0 {
		return config
	}
	want, err := Decode(config)
	if err != nil {
		return config
	}
	fields, ix := map[string]bool{}, index{}
	for _, form := range []diff.Form{r.Form(config), r.Form(observed)} {
		for f := range form { // order-free: it fills a set
			if r.Ignores(f) && r.elements(ix, want, split(f)) {
				fields[f] = true
			}
		}
	}
	var list []string
	for f := range fields { // order-free: sorted below
		list = append(list, f)
	}
	slices.Sort(list)
	out, err := r.Mix(config, observed, list)
	if err != nil {
		return config
	}
	return out
}

// elements reports whether a config has the elements of sets that a path goes through, but for
// those that are ignored as a whole: no field brings back one that is not wanted any more.
func (r *Rules) elements(ix index, config any, path []string) bool {
	for i := range path {
		if _, is := r.setKey(path[:i]); is && !anyMatches(r.Ignored, path[:i+1]) {
			if _, there := r.get(ix, nil, config, path[:i+1]); !there {
				return false
			}
		}
	}
	return true
}

// Port is one that a device listens on.
type Port struct {
	Protocol string
	Address  string // empty is every one
	Number   uint16
}

func (p Port) String() string {
	port := strconv.Itoa(int(p.Number)) + "/" + p.Protocol
	switch {
	case p.Address == "":
		return port
	case strings.Contains(p.Address, ":"):
		return "[" + p.Address + "]:" + port
	}
	return p.Address + ":" + port
}

// Overlaps reports whether two objects cannot have the ports at a time.
func (p Port) Overlaps(o Port) bool {
	return p.Protocol == o.Protocol && p.Number == o.Number && (p.Address == "" || o.Address == "" || p.Address == o.Address)
}

// Listens lists the ports that a config has a device listen on.
func (r *Rules) Listens(config json.RawMessage) (out []Port) {
	v, err := Decode(config)
	if err != nil {
		return nil
	}
	for _, rule := range r.Ports {
		path, protocol, said := strings.Cut(rule, " ")
		if !said {
			protocol = "tcp"
		}
		r.walk(nil, v, func(at []string, v any) {
			if !matches(path, at) {
				return
			}
			list, is := v.([]any)
			if !is {
				list = []any{v}
			}
			for _, e := range list {
				if p, ok := portOf(text(e)); ok {
					p.Protocol = protocol
					out = append(out, p)
				}
			}
		})
	}
	return out
}

// portOf reads 8080, :8080 or 127.0.0.1:8080.
func portOf(s string) (Port, bool) {
	host, port := "", s
	if i := strings.LastIndexByte(s, ':'); i >= 0 {
		host, port = strings.Trim(s[:i], "[]"), s[i+1:]
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if a, failed := netip.ParseAddr(host); failed == nil && a.IsUnspecified() {
		host = ""
	}
	return Port{Address: host, Number: uint16(n)}, err == nil && n > 0
}

// fieldRules are the rules of package diff for fields of a device: all of them can be set,
// and one that nobody asked for is a difference.
type fieldRules struct{}

func (fieldRules) Class(string, string, string) (diff.Class, string) { return diff.InPlace, "" }
func (fieldRules) OwnsExtra(string) bool                             { return true }
func (fieldRules) Default(string) string                             { return "" }

// Base is what was pushed last, and what the device made of it, if that is known.
type Base struct {
	Desired  json.RawMessage `json:"desired"`
	Observed json.RawMessage `json:"observed,omitempty"`
}

// Compare returns the fields that differ between a config and what the node has, with who
// changed each since base, which is nil when nothing was pushed. Only where it is known what the
// device made of a push is anything but that very config no difference.
func (r *Rules) Compare(desired, actual json.RawMessage, base *Base) []diff.Difference {
	read := map[string]diff.Form{} // most are one text, several times
	form := func(config json.RawMessage) diff.Form {
		f, known := read[string(config)]
		if !known {
			f = r.Form(config)
			read[string(config)] = f
		}
		return f
	}
	want, seen := form(desired), form(actual)
	var b *diff.Baseline
	if base != nil && len(base.Observed) > 0 {
		b = &diff.Baseline{Desired: form(base.Desired), Observed: form(base.Observed)}
	}
	var out []diff.Difference
	for _, d := range diff.Compare(want, seen, b, fieldRules{}) {
		if r.Ignores(d.Field) {
			continue
		}
		if b != nil {
			if ours, theirs := b.Sides(d.Field, want, seen); ours && theirs {
				d.Cause = diff.Both
			}
		}
		d.Class = ""
		out = append(out, d)
	}
	if b != nil {
		out = append(out, r.lost(want, seen, b)...)
		slices.SortFunc(out, func(x, y diff.Difference) int { return strings.Compare(x.Field, y.Field) })
	}
	return out
}

// mostDescribed bounds the fields that Describe names.
const mostDescribed = 6

// Describe names fields that differ, each with both values, in one line; a secret by the
// beginning of its digest.
func Describe(differences []diff.Difference) string {
	var out []string
	value := func(v string) string {
		if v == "" {
			return "not set"
		}
		return diff.Value(v)
	}
	for _, d := range differences[:min(len(differences), mostDescribed)] {
		out = append(out, d.Field+" is "+value(d.Observed)+" instead of "+value(d.Desired))
	}
	if more := len(differences) - mostDescribed; more > 0 {
		out = append(out, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(out, "; ")
}

// lost are fields that nobody asked for and that the device had right after the push: that it
// has them no more is somebody's change, as one more would be.
func (r *Rules) lost(want, seen diff.Form, b *diff.Baseline) (out []diff.Difference) {
	for f, had := range b.Observed { // order-free: sorted by who asks
		_, wanted := want[f]
		_, there := seen[f]
		_, asked := b.Desired[f]
		if !wanted && !there && !asked && !r.Ignores(f) {
			out = append(out, diff.Difference{Field: f, Cause: diff.Outside, Why: "the node had " + had + " right after the push"})
		}
	}
	return out
}

// Changed reports whether the node changed something since base.
func (r *Rules) Changed(actual json.RawMessage, base *Base) bool {
	return len(r.Compare(base.Desired, actual, base)) > 0
}
