package replace_test

import (
	"reflect"
	"testing"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/diff"
	"github.com/steadyfleet/steady/internal/core/replace"
)

// TestWhatIsReplacedNextIsNotAdjusted: a good container with the one before still
// there, which is to be replaced once more, is not changed in place first: the
// engine may refuse just that, such as CPUs where there is a quota.
func TestWhatIsReplacedNextIsNotAdjusted(t *testing.T) {
	main := replace.Container{ID: "b", Name: "web", Role: replace.Main, Replica: 2, State: replace.Running, Begun: true, Ran: clock.Minute,
		Differences: []diff.Difference{
			{Field: "limit/cpu-quota", Class: diff.Replace, Cause: diff.Declared, Observed: "50000"},
			{Field: "limit/cpus", Class: diff.InPlace, Cause: diff.Declared, Desired: "250000000"},
		}}
	old := replace.Container{ID: "a", Name: "web.1.old", Role: replace.Old, Replica: 1, State: replace.Exited, Begun: true}
	d := replace.Decide(replace.Want{Title: "web"}, replace.Seen{Containers: []replace.Container{main, old}}, 1)
	if _, ok := d.Action().(replace.RemoveOld); !ok {
		t.Errorf("%s %v (%s)", d.Name(), d.Action(), d.Reason())
	}
}

// TestCommandsOfAStart: they run before a container counts as good; where they fail
// the one before comes back, or the deployment fails, and a container that was good
// before has them run again after a while.
func TestCommandsOfAStart(t *testing.T) {
	const failed = "post_start command 1 (warm) ended with exit code 3"
	for name, c := range map[string]struct {
		settled, old bool
		hook         string
		rested       clock.Duration
		does         string // name of the action, or of the decision
	}{
		"not yet":                 {does: "post_start"},
		"not yet of a new one":    {old: true, does: "post_start"},
		"failed":                  {hook: failed, does: "fail"},
		"failed of a new one":     {old: true, hook: failed, does: "restore"},
		"failed a moment ago":     {settled: true, hook: failed, rested: clock.Second, does: "wait"},
		"failed before":           {settled: true, hook: failed, rested: 2 * clock.Minute, does: "post_start"},
		"failed before, never ok": {hook: failed, rested: 2 * clock.Minute, does: "fail"},
	} {
		seen := replace.Seen{Containers: []replace.Container{{ID: "b", Name: "web", Role: replace.Main, Replica: 2, State: replace.Running,
			Begun: true, Ran: clock.Minute, HookPending: true, HookError: c.hook, HookRested: c.rested}}}
		if c.old {
			seen.Containers = append(seen.Containers, replace.Container{ID: "a", Name: "web.1.old", Role: replace.Old, Replica: 1, State: replace.Exited, Begun: true})
		}
		want := replace.Want{Title: "web", HasConverged: c.settled}
		d := replace.Decide(want, seen, 1)
		does := d.Name()
		if d.Action() != nil {
			does = d.Action().ActionName()
		}
		if does != c.does {
			t.Errorf("%s: %s (%s), want %s", name, does, d.Reason(), c.does)
		}
	}
}

// TestWhatCanNeverStartIsMadeAnew: a container of which the engine forgot in the
// middle of a start that it runs is replaced, and any other failed start is tried
// again.
func TestWhatCanNeverStartIsMadeAnew(t *testing.T) {
	for _, c := range []struct {
		words string
		state replace.State
		anew  bool
	}{
		{"id already in use", replace.Created, true},
		{"task 4f0e: already exists", replace.Created, true},
		{"task 4f0e: already exists", replace.Exited, true},
		{"task 4f0e: already exists", replace.Running, false},
		{"driver failed programming external connectivity: Bind for 0.0.0.0:80 failed: port is already allocated", replace.Created, false},
		{"Address already in use", replace.Created, false},
	} {
		main := replace.Container{ID: "a", Name: "web", Role: replace.Main, Replica: 1, State: c.state, Error: c.words, ExitCode: 128, Ran: clock.Minute}
		d := replace.Decide(replace.Want{Title: "web"}, replace.Seen{Containers: []replace.Container{main}}, 1)
		if a, ok := d.Action().(replace.Create); ok != c.anew || ok && a.Replaces != "a" {
			t.Errorf("%s, %s: %s %v (%s)", c.state, c.words, d.Name(), d.Action(), d.Reason())
		}
	}
}

// TestAJobReplacesAJob: one that came to its end is good in whatever place it is, goes to its place without another
// run, and the one before goes.
func TestAJobReplacesAJob(t *testing.T) {
	box := func(id string, role replace.Role, replica int) replace.Container {
		return replace.Container{ID: id, Name: replace.Name("job", replica, role), Role: role, Replica: replica, State: replace.Exited, Begun: true, End: replace.EndOwn}
	}
	stale := func(c replace.Container) replace.Container {
		c.Differences = []diff.Difference{{Field: "env/A", Class: diff.Replace, Cause: diff.Declared, Desired: "2"}}
		return c
	}
	for _, startFirst := range []bool{false, true} {
		for name, c := range map[string]struct {
			seen []replace.Container
			want replace.Action
		}{
			"in its place": {[]replace.Container{box("b", replace.Main, 2), box("a", replace.Old, 1)}, replace.RemoveOld{Keep: "b", IDs: []string{"a"}}},
			"beside it":    {[]replace.Container{box("b", replace.New, 2), stale(box("a", replace.Main, 1))}, replace.Swap{Old: "a", New: "b"}},
			"cut short":    {[]replace.Container{box("b", replace.New, 2), box("a", replace.Old, 1)}, replace.Swap{Old: "a", New: "b"}},
		} {
			d := replace.Decide(replace.Want{Title: "job", StartFirst: startFirst}, replace.Seen{Containers: c.seen}, 1)
			if !reflect.DeepEqual(d.Action(), c.want) {
				t.Errorf("%s, start first %v: %s %+v (%s)", name, startFirst, d.Name(), d.Action(), d.Reason())
			}
		}
	}
}

// TestStoppedInItsTrial: a container that somebody stops, or the engine as it ends, is started again, and is no worse
// than before; one that ends by itself is.
func TestStoppedInItsTrial(t *testing.T) {
	for end, action := range map[replace.End]string{replace.EndOrdered: "start", replace.EndOwn: "restore"} {
		main := replace.Container{ID: "b", Name: "web", Role: replace.Main, Replica: 2, State: replace.Exited, Begun: true, End: end, ExitCode: 137}
		old := replace.Container{ID: "a", Name: "web.1.old", Role: replace.Old, Replica: 1, State: replace.Exited, Begun: true}
		d := replace.Decide(replace.Want{Title: "web"}, replace.Seen{Containers: []replace.Container{main, old}}, 1)
		if d.Action() == nil || d.Action().ActionName() != action {
			t.Errorf("%s: %s %v (%s)", end, d.Name(), d.Action(), d.Reason())
		}
	}
}
