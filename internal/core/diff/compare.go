package diff

import (
	"maps"
	"slices"
)

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
	case wanted != there && isDefault(want[f]+seen[f], f, rules): // one of them is absent
		return "", false
	case base == nil && wanted:
		return Unknown, true
	case base == nil:
		return Unknown, rules.OwnsExtra(f)
	case settled(f, want, seen, base):
		return "", false
	case !sameIn(f, want, base.Desired):
		return Declared, true
	}
	// What is wanted stayed and what is seen changed. A default that a newer engine
	// began to show is nobody's change.
	_, known := base.Observed[f]
	return Outside, wanted || known || rules.OwnsExtra(f)
}

func isDefault(v, f string, rules Rules) bool { return v != "" && v == rules.Default(f) }

// settled reports that neither what is wanted nor what is seen changed since the
// baseline.
func settled(f string, want, seen Form, base *Baseline) bool {
	return sameIn(f, want, base.Desired) && sameIn(f, seen, base.Observed)
}

func sameIn(f string, a, b Form) bool {
	x, inA := a[f]
	y, inB := b[f]
	return inA == inB && x == y
}

// fields is the union of the names, sorted.
func fields(a, b Form) []string {
	all := maps.Clone(a)
	if all == nil {
		all = Form{}
	}
	maps.Copy(all, b)
	return slices.Sorted(maps.Keys(all))
}
