package diff

import (
	"fmt"
	"maps"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

var (
	names  = []string{"name", "image", "env/A", "env/B", "limit/memory", "limit/pids", "network/n", "network/n/alias/a", "ipc", "shm-size", "mount//d", "health/start-interval"}
	values = []string{"", "1", "2", "private", "67108864"}
)

func forms(t *rapid.T, label string) Form {
	f := Form{}
	for _, n := range names {
		if rapid.Bool().Draw(t, label+" has "+n) {
			f[n] = rapid.SampledFrom(values).Draw(t, label+" "+n)
		}
	}
	return f
}

func baselines(t *rapid.T) *Baseline {
	if rapid.Bool().Draw(t, "no baseline") {
		return nil
	}
	return &Baseline{Desired: forms(t, "asked"), Observed: forms(t, "shown")}
}

func kinds(t *rapid.T) Rules {
	return rapid.SampledFrom([]Rules{WorkspaceRules{API: "1.41"}, WorkspaceRules{API: "1.44", Cgroup: "private"}, NetworkRules{}, VolumeRules{}}).Draw(t, "rules")
}

// TestS36CompareIsTotal: any two forms are compared, each differing field once
// and in order, with all that a person needs to know.
func TestS36CompareIsTotal(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want, seen, base, rules := forms(t, "want"), forms(t, "seen"), baselines(t), kinds(t)
		ds := Compare(want, seen, base, rules)
		if !reflect.DeepEqual(ds, Compare(maps.Clone(want), maps.Clone(seen), base, rules)) {
			t.Fatal("not the same twice")
		}
		last := ""
		for _, d := range ds {
			if d.Field <= last {
				t.Fatalf("%s comes after %s", d.Field, last)
			}
			last = d.Field
			if d.Class == None || d.Class == "" || d.Cause == "" || d.Why == "" {
				t.Fatalf("says too little: %+v", d)
			}
			if d.Desired != want[d.Field] || d.Observed != seen[d.Field] {
				t.Fatalf("says what is not so: %+v", d)
			}
			if !strings.Contains(d.Show(), d.Field) {
				t.Fatalf("shows %q", d.Show())
			}
		}
	})
}

// TestS36EqualFormsDoNotDiffer: what is as desired is no difference, whatever
// was before.
func TestS36EqualFormsDoNotDiffer(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := forms(t, "both")
		if ds := Compare(f, maps.Clone(f), baselines(t), kinds(t)); len(ds) != 0 {
			t.Fatalf("%v", ds)
		}
	})
}

// TestS36ABaselineSettles: whatever the engine made of a wish, right after a
// baseline of it nothing differs.
func TestS36ABaselineSettles(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want, seen, rules := forms(t, "want"), forms(t, "seen"), kinds(t)
		base := &Baseline{Desired: maps.Clone(want), Observed: maps.Clone(seen)}
		if ds := Compare(want, seen, base, rules); len(ds) != 0 {
			t.Fatalf("%v", ds)
		}
	})
}

// TestS36EachChangeIsFoundOnce: after a baseline, changing one field of either
// side makes a difference in this field at most, with the right cause.
func TestS36EachChangeIsFoundOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want, rules := forms(t, "want"), WorkspaceRules{API: "1.41"}
		seen := forms(t, "seen")
		base := &Baseline{Desired: maps.Clone(want), Observed: maps.Clone(seen)}
		field := rapid.SampledFrom(names).Draw(t, "field")
		declared := rapid.Bool().Draw(t, "declared")
		if declared {
			want[field] = "changed"
		} else {
			seen[field] = "changed"
		}
		ds := Compare(want, seen, base, rules)
		cause := map[bool]Cause{true: Declared, false: Outside}[declared]
		_, known := base.Observed[field]
		_, asked := want[field]
		if must := declared || known || asked || rules.OwnsExtra(field); must != (len(ds) == 1) || len(ds) > 1 {
			t.Fatalf("%v", ds)
		}
		for _, d := range ds {
			if d.Field != field || d.Cause != cause {
				t.Fatalf("%+v is not %s by %s", d, field, cause)
			}
		}
	})
}

func TestCompare(t *testing.T) {
	rules := WorkspaceRules{API: "1.41"}
	base := func(asked, shown string) *Baseline {
		b := &Baseline{Desired: Form{}, Observed: Form{}}
		for f, v := range map[*Form]string{&b.Desired: asked, &b.Observed: shown} {
			if v != "-" {
				(*f)["x"] = v
			}
		}
		return b
	}
	for _, x := range []struct {
		field, want, seen string
		base              *Baseline
		cause             Cause
		class             Class
	}{
		{"image", "1", "1", nil, "", None},
		{"image", "1", "2", nil, Unknown, Replace},
		{"image", "1", "2", base("1", "2"), "", None},
		{"image", "3", "2", base("1", "2"), Declared, Replace},
		{"image", "1", "3", base("1", "2"), Outside, Replace},
		{"limit/memory", "2", "1", base("2", "2"), Outside, InPlace},
		{"limit/memory", "-", "1", base("-", "-"), Outside, Replace},
		{"limit/memory", "-", "1", base("1", "1"), Declared, Replace},
		{"limit/pids", "-", "1", base("1", "1"), Declared, InPlace},
		{"limit/swappiness", "2", "1", nil, Unknown, Replace},
		{"network/n", "-", "id", nil, Unknown, InPlace},
		{"network/n/alias/a", "set", "-", base("set", "set"), Outside, InPlace},
		{"name", "b", "a", base("a", "a"), Declared, InPlace},
		{"restart", "-", "always", base("-", "-"), Outside, InPlace},
		// The engine's own: unset, and then shown by a newer engine.
		{"runtime", "-", "crun", nil, "", None},
		{"cgroupns", "-", "host", base("-", "-"), "", None},
		{"ipc", "-", "private", base("private", "private"), "", None},
		{"ipc", "-", "host", base("host", "host"), Declared, Replace},
		{"shm-size", "-", "67108864", base("67108864", "67108864"), "", None},
		{"stop-signal", "SIGTERM", "-", base("-", "-"), "", None},
		{"stop-signal", "SIGINT", "-", base("-", "-"), Declared, Replace},
		{"stop-grace", "-", "10s", base("10s", "10s"), "", None},
		{"env/A", "-", "", nil, Unknown, Replace},
		{"env/A", "", "-", base("-", "-"), Declared, Replace},
		{"health/start-interval", "1s", "-", nil, Unknown, Blocked},
		{"health/start-interval", "-", "1s", nil, Unknown, Replace},
		{"network/n/mac", "a", "b", base("b", "b"), Declared, Blocked},
		{"annotation/a", "1", "-", nil, Unknown, Blocked},
	} {
		want, seen := Form{}, Form{}
		if x.want != "-" {
			want[x.field] = x.want
		}
		if x.seen != "-" {
			seen[x.field] = x.seen
		}
		b := x.base
		if b != nil {
			b = &Baseline{Desired: Form{}, Observed: Form{}}
			if v, there := x.base.Desired["x"]; there {
				b.Desired[x.field] = v
			}
			if v, there := x.base.Observed["x"]; there {
				b.Observed[x.field] = v
			}
		}
		ds := Compare(want, seen, b, rules)
		got := string(None) + " "
		for _, d := range ds {
			got = fmt.Sprint(d.Class, " ", d.Cause)
		}
		if want := fmt.Sprint(x.class, " ", x.cause); got != want {
			t.Errorf("%s %s %s %+v: %q and not %q", x.field, x.want, x.seen, x.base, got, want)
		}
	}
}

func TestAVolumeIsNeverMadeAgain(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		for _, d := range Compare(forms(t, "want"), forms(t, "seen"), baselines(t), VolumeRules{}) {
			if d.Class != Blocked || !strings.Contains(d.Why, "move the data") {
				t.Fatalf("%+v", d)
			}
		}
	})
}

func TestShow(t *testing.T) {
	long := strings.Repeat("ä", 100)
	for _, x := range []struct{ seen, want string }{
		{"", "none"}, {"a", "a"}, {"a\nb", `"a\nb"`}, {"\x1b[2J", `"\x1b[2J"`},
		{"hmac:0123456789abcdef", "secret 01234567"},
		{long, strings.Repeat("ä", 40) + "… (200 bytes)"},
	} {
		d := Difference{Field: "f", Class: Replace, Cause: Outside, Observed: x.seen, Desired: "b", Why: "w"}
		if want := "f: " + x.want + " -> b (replace, changed outside; w)"; d.Show() != want {
			t.Errorf("%q and not %q", d.Show(), want)
		}
	}
}

func TestAtLeast(t *testing.T) {
	for _, x := range []struct {
		api   string
		minor int
		want  bool
	}{{"1.41", 44, false}, {"1.44", 44, true}, {"1.101", 44, true}, {"2.0", 44, true}, {"", 0, false}, {"x.50", 1, false}, {"1.x", 1, false}, {"1", 0, false}} {
		if AtLeast(x.api, x.minor) != x.want {
			t.Errorf("%q at least 1.%d", x.api, x.minor)
		}
	}
}
