package replace_test

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/diff"
	"github.com/steadyfleet/steady/internal/core/replace"
	"github.com/steadyfleet/steady/internal/core/spec"
	"github.com/steadyfleet/steady/reconcile/engine"
)

// messed is an engine in any state that crashes and people can bring about.
func messed(t *rapid.T) *sim {
	s := &sim{t: t, now: 1_000_000, fuse: -1}
	s.want = want(rapid.Bool().Draw(t, "start first"), spec.Running)
	for range rapid.IntRange(0, 3).Draw(t, "foreign") {
		s.next++
		s.boxes = append(s.boxes, &box{foreign: true, Container: replace.Container{ID: fmt.Sprint("f", s.next),
			Name: fmt.Sprint("web.90", s.next, ".old"), State: replace.Running}})
	}
	for range rapid.IntRange(0, 25).Draw(t, "moves") {
		switch rapid.IntRange(0, 8).Draw(t, "move") {
		case 0:
			s.of = version(rapid.IntRange(0, 9).Draw(t, "of"))
			s.want.HasConverged = false
		case 1:
			s.outside()
		case 2:
			s.want.Run = rapid.SampledFrom([]spec.RunState{spec.Running, spec.Running, spec.Stopped}).Draw(t, "run")
		case 3:
			s.now += 60_000
		case 4:
			s.want.Suspended = rapid.Bool().Draw(t, "suspended")
		case 5:
			s.restartEngine()
		default:
			s.fuse = rapid.IntRange(0, 6).Draw(t, "fuse")
			for range rapid.IntRange(1, 6).Draw(t, "turns") {
				if _, err := s.turn(); errors.Is(err, errCrash) {
					break
				}
			}
			s.fuse = -1
		}
	}
	s.want.Suspended = false
	return s
}

// settle takes turns until nothing is done any more.
func settle(s *sim, most int) engine.Decision {
	var d engine.Decision
	for range most {
		d, _ = s.turn()
		if d.Name() == "converged" || d.Name() == "fail" {
			return d
		}
	}
	return d
}

func ours(s *sim) (out []*box) {
	for _, b := range s.boxes {
		if !b.foreign {
			out = append(out, b)
		}
	}
	return out
}

// TestS36NoNeedlessReplace: whatever crashes and people left, it ends with one
// container, as declared, with its data, and then nothing is written any more.
func TestS36NoNeedlessReplace(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := messed(t)
		s.want.Run = rapid.SampledFrom([]spec.RunState{spec.Running, spec.Stopped}).Draw(t, "at last")
		s.of = version(rapid.SampledFrom([]int{0, 1, 2, 5}).Draw(t, "of at last"))
		data := map[int]bool{}
		for _, b := range ours(s) {
			data[b.data] = true
		}
		d := settle(s, 200)
		if d.Name() != "converged" {
			t.Fatalf("ends with %s %s:\n%s", d.Name(), d.Reason(), s)
		}
		left := ours(s)
		if len(left) != 1 || left[0].Name != "web" || left[0].of != s.of || left[0].limited || !left[0].joined {
			t.Fatalf("not one container as declared:\n%s", s)
		}
		if running := left[0].State == replace.Running; running != (s.want.Run == spec.Running) {
			t.Fatalf("runs: %v\n%s", running, s)
		}
		if left[0].HookPending && s.want.Run == spec.Running {
			t.Fatalf("its commands have not run:\n%s", s)
		}
		if len(data) > 0 && !data[left[0].data] {
			t.Fatalf("its data %d is none of %v:\n%s", left[0].data, data, s)
		}
		writes := s.writes
		s.now += 3_600_000
		if d := settle(s, 1); d.Name() != "converged" || s.writes != writes {
			t.Fatalf("a second look does %s %s", d.Name(), d.Reason())
		}
	})
}

// TestStoppedStaysStopped: once what is not to run is at rest, no start of the engine brings it back.
func TestStoppedStaysStopped(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := messed(t)
		switch rapid.SampledFrom([]string{"suspended", "halted", "declared"}).Draw(t, "why") {
		case "suspended":
			s.want.Suspended = true
		case "halted":
			s.want.Halted = true
		default:
			s.want.Run = spec.Stopped
			s.of = version(rapid.SampledFrom([]int{0, 1, 2, 5}).Draw(t, "of at last"))
		}
		s.want.HasConverged = true
		if d := settle(s, 200); d.Name() != "converged" {
			t.Fatalf("ends with %s %s:\n%s", d.Name(), d.Reason(), s)
		}
		writes := s.writes
		s.restartEngine()
		for _, b := range ours(s) {
			if live(b) {
				t.Fatalf("the engine started %s:\n%s", b.ID, s)
			}
		}
		if d := settle(s, 1); d.Name() != "converged" || s.writes != writes {
			t.Fatalf("a look after that does %s %s", d.Name(), d.Reason())
		}
	})
}

// TestS35Ownership: containers of others stay as they are, under any name, also
// when the workspace is retired. The engine fails the test on a removal.
func TestS35Ownership(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := messed(t)
		var before []replace.Container
		for _, b := range s.boxes {
			if b.foreign {
				before = append(before, b.Container)
			}
		}
		s.want.Delete = rapid.Bool().Draw(t, "retire")
		d := settle(s, 60)
		var after []replace.Container
		for _, b := range s.boxes {
			if b.foreign {
				after = append(after, b.Container)
			}
		}
		if !reflect.DeepEqual(before, after) {
			t.Fatalf("containers of others were %+v and are %+v", before, after)
		}
		if s.want.Delete && (d.Name() != "converged" || len(ours(s)) != 0) {
			t.Fatalf("retired: %s %s\n%s", d.Name(), d.Reason(), s)
		}
	})
}

// TestBadVersionGoesBack: a version that fails ends with the one before in
// place, running, with its data; the failure is an error, so that it is counted.
func TestBadVersionGoesBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := &sim{t: t, now: 1_000_000, fuse: -1, want: want(rapid.Bool().Draw(t, "start first"), spec.Running)}
		if d := settle(s, 50); d.Name() != "converged" {
			t.Fatalf("%s %s", d.Name(), d.Reason())
		}
		good := s.named("web")
		s.of = version(rapid.SampledFrom([]int{3, 4}).Draw(t, "bad"))
		failures := 0
		for range 60 {
			s.fuse = rapid.SampledFrom([]int{-1, -1, -1, 0, 1, 2, 3}).Draw(t, "fuse")
			d, err := s.turn()
			switch {
			case errors.Is(err, errCrash):
			case err != nil:
				failures++
				if b := s.named("web"); b != good || b.State != replace.Running {
					t.Fatalf("after %v the one before is not in place:\n%s", err, s)
				}
			case d.Name() == "fail" || d.Name() == "converged":
				t.Fatalf("%s %s", d.Name(), d.Reason())
			}
		}
		if failures == 0 {
			t.Fatalf("nothing failed:\n%s", s)
		}
		s.fuse = -1
		s.of = 0
		if d := settle(s, 60); d.Name() != "converged" || s.named("web") != good || len(s.boxes) != 1 {
			t.Fatalf("back to what was: %s %s\n%s", d.Name(), d.Reason(), s)
		}
	})
}

// TestDecideIsTotal: any mixture has a decision, the same each time.
func TestDecideIsTotal(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var s replace.Seen
		for i := range rapid.IntRange(0, 5).Draw(t, "n") {
			c := replace.Container{ID: fmt.Sprint("c", i), Replica: rapid.IntRange(1, 4).Draw(t, "replica"),
				Role:     rapid.SampledFrom([]replace.Role{replace.Main, replace.New, replace.Old, replace.Unmanaged}).Draw(t, "role"),
				State:    rapid.SampledFrom([]replace.State{"created", "running", "paused", "restarting", "removing", "exited", "dead"}).Draw(t, "state"),
				Health:   rapid.SampledFrom([]replace.Health{"", "starting", "healthy", "unhealthy"}).Draw(t, "health"),
				Begun:    rapid.Bool().Draw(t, "begun"),
				ExitCode: rapid.IntRange(0, 1).Draw(t, "exit"), Restarts: rapid.IntRange(0, 70).Draw(t, "restarts"),
				Starts: rapid.IntRange(0, 70).Draw(t, "starts")}
			for _, class := range rapid.SliceOfN(rapid.SampledFrom([]diff.Class{diff.InPlace, diff.Replace, diff.Blocked}), 0, 3).Draw(t, "differences") {
				c.Differences = append(c.Differences, diff.Difference{Field: "f/" + string(class), Class: class, Cause: diff.Outside})
			}
			s.Containers = append(s.Containers, c)
		}
		w := want(rapid.Bool().Draw(t, "start first"), rapid.SampledFrom([]spec.RunState{"", spec.Running, spec.Stopped, spec.Once}).Draw(t, "run"))
		w.HasConverged, w.ReportOnly = rapid.Bool().Draw(t, "settled"), rapid.Bool().Draw(t, "report only")
		w.Suspended, w.Delete = rapid.Bool().Draw(t, "suspended"), rapid.Bool().Draw(t, "retire")
		a, b := replace.Decide(w, s, 1), replace.Decide(w, s, 1)
		if !reflect.DeepEqual(a, b) || a.Reason() != b.Reason() {
			t.Fatalf("%v then %v", a, b)
		}
		if a.Name() != "converged" && a.Reason().Code == "" {
			t.Fatalf("%s has no reason", a.Name())
		}
		if w.ReportOnly && w.HasConverged && !w.Suspended && !w.Delete && a.Action() != nil {
			t.Fatalf("acts although it reports only: %s", a.Reason())
		}
	})
}

// TestReplaceStopsWhereItDoesNotHelp: what a container was made to cure and still
// shows is told, not cured for ever.
func TestReplaceStopsWhereItDoesNotHelp(t *testing.T) {
	stays := diff.Difference{Field: "shm-size", Class: diff.Replace, Cause: diff.Unknown, Desired: "1", Observed: "2"}
	seen := func(c replace.Container) replace.Seen {
		c.ID, c.Name, c.Role, c.State, c.Begun, c.Ran = "a", "web", replace.Main, replace.Running, true, 60_000
		c.Differences = []diff.Difference{stays}
		return replace.Seen{Containers: []replace.Container{c}}
	}
	d := replace.Decide(want(false, ""), seen(replace.Container{Replica: 1}), 1)
	made, ok := d.Action().(replace.Create)
	if !ok {
		t.Fatalf("%s %s", d.Name(), d.Reason())
	}
	d = replace.Decide(want(false, ""), seen(replace.Container{Replica: 2, MadeFor: made.MadeFor, Repeats: made.Repeats}), 1)
	if d.Name() != "fail" || d.Reason().Code != replace.CodeFutile || !strings.Contains(d.Reason().Message, "shm-size") {
		t.Errorf("%s %s", d.Name(), d.Reason())
	}
	// Somebody who changes it again and again is cured twice in a row.
	stays.Cause = diff.Outside
	repeats := 0
	for range 5 {
		d = replace.Decide(want(false, ""), seen(replace.Container{Replica: 2, MadeFor: made.MadeFor, Repeats: repeats}), 1)
		a, ok := d.Action().(replace.Create)
		if !ok {
			break
		}
		repeats = a.Repeats
	}
	if repeats != 2 || d.Reason().Code != replace.CodeFutile {
		t.Errorf("cured %d times, then %s %s", repeats, d.Name(), d.Reason())
	}
}

// TestVerbs: each asking is fulfilled once, also over a crash.
func TestVerbs(t *testing.T) {
	for _, verb := range []string{replace.Redeploy, replace.Restart} {
		s := &sim{t: nil, now: 1_000_000, fuse: -1, want: want(false, spec.Running)}
		settle(s, 50)
		first, started := s.named("web"), s.named("web").since
		s.want.Verb, s.want.Nonce = verb, "n1"
		settle(s, 50)
		now := s.named("web")
		if replaced := now != first; replaced != (verb == replace.Redeploy) || now.since == started {
			t.Errorf("%s: replaced %v, started %d then %d", verb, replaced, started, now.since)
		}
		writes := s.writes
		if d := settle(s, 5); d.Name() != "converged" || s.writes != writes {
			t.Errorf("%s twice: %s %s", verb, d.Name(), d.Reason())
		}
	}
	w := want(false, "")
	w.Verb = "dance"
	if d := replace.Decide(w, replace.Seen{}, 1); d.Reason().Code != replace.CodeUnknownVerb {
		t.Errorf("%s %s", d.Name(), d.Reason())
	}
}

// TestStartFirst names what forbids a start beside the container in place.
func TestStartFirst(t *testing.T) {
	check := &spec.Health{Test: []string{"CMD", "true"}}
	for name, c := range map[string]struct {
		w       spec.Workspace
		volumes []string
		checked bool
		want    bool
	}{
		"auto, checked":        {spec.Workspace{Health: check}, nil, true, true},
		"auto, not checked":    {spec.Workspace{}, nil, false, false},
		"declared":             {spec.Workspace{Update: spec.Update{Order: spec.StartFirst}}, []string{"/data"}, false, true},
		"declared stop":        {spec.Workspace{Update: spec.Update{Order: spec.StopFirst}}, nil, true, false},
		"fixed port":           {spec.Workspace{Update: spec.Update{Order: spec.StartFirst}, Ports: []spec.Port{{HostPort: 80, Port: 80}}}, nil, true, false},
		"random port":          {spec.Workspace{Ports: []spec.Port{{Port: 80}}}, nil, true, true},
		"writable volume":      {spec.Workspace{Mounts: []spec.Mount{{Type: spec.MountVolume, Target: "/data"}}}, nil, true, false},
		"read-only volume":     {spec.Workspace{Mounts: []spec.Mount{{Type: spec.MountVolume, Target: "/data", ReadOnly: true}}}, nil, true, true},
		"volume of the image":  {spec.Workspace{}, []string{"/data"}, true, false},
		"read-only over image": {spec.Workspace{Mounts: []spec.Mount{{Type: spec.MountVolume, Target: "/data", ReadOnly: true}}}, []string{"/data"}, true, true},
		"fixed address":        {spec.Workspace{Networks: []spec.Attachment{{Network: "n", IPv4: "10.0.0.2"}}}, nil, true, false},
		"once":                 {spec.Workspace{State: spec.Once}, nil, true, false},
	} {
		if got, why := replace.StartFirst(&c.w, c.volumes, c.checked); got != c.want || got == (why != "") {
			t.Errorf("%s: %v %q", name, got, why)
		}
	}
}

// TestCrashLoopWaits: a container that soon ends again and again is started at
// growing distances, and its end is told.
func TestCrashLoopWaits(t *testing.T) {
	last := clock.Instant(0)
	for starts := range 12 {
		s := replace.Seen{Containers: []replace.Container{{ID: "a", Name: "web", Role: replace.Main, Replica: 1,
			State: replace.Exited, Begun: true, ExitCode: 3, Starts: starts, Tail: "no such file"}}}
		d := replace.Decide(want(false, ""), s, 1000)
		if !strings.Contains(d.Reason().Message, "exit code 3") || !strings.Contains(d.Reason().Message, "no such file") {
			t.Errorf("%d: %s", starts, d.Reason())
		}
		until := clock.FromTime(d.Until())
		if starts >= 2 && (until <= 1000 || until < last) {
			t.Errorf("%d starts: waits until %d, before %d", starts, until, last)
		}
		last = until
	}
}

// TestOnce: it runs to its end, its dependents wait for that, and an exit code
// other than 0 is run again.
func TestOnce(t *testing.T) {
	w := want(false, spec.Once)
	c := replace.Container{ID: "a", Name: "web", Role: replace.Main, Replica: 1, State: replace.Running, Begun: true}
	one := func() replace.Seen { return replace.Seen{Containers: []replace.Container{c}} }
	if d := replace.Decide(w, one(), 1); d.Name() != "wait" || d.Reason().Code != spec.CodeRunsToEnd {
		t.Errorf("running: %s %s", d.Name(), d.Reason())
	}
	c.State = replace.Exited
	if d := replace.Decide(w, one(), 1); !reflect.DeepEqual(d.Action(), replace.Note{ID: "a"}) {
		t.Errorf("ended: %s %s", d.Name(), d.Reason())
	}
	noted := one()
	for noted.Done = true; ; noted.Containers = nil {
		if d := replace.Decide(w, noted, 1); d.Name() != "converged" || d.Reason().Code != spec.CodeCompleted {
			t.Errorf("ended before, with %d containers: %s %s", len(noted.Containers), d.Name(), d.Reason())
		}
		if noted.Containers == nil {
			break
		}
	}
	c.ExitCode, c.End = 2, replace.EndOwn
	if d := replace.Decide(w, one(), 1); d.Name() != "fail" {
		t.Errorf("failed, and no policy runs it again: %s %s", d.Name(), d.Reason())
	}
	c.End = replace.EndOrdered
	if d := replace.Decide(w, one(), 1); !reflect.DeepEqual(d.Action(), replace.Start{ID: "a"}) {
		t.Errorf("failed: %s %s", d.Name(), d.Reason())
	}
}

// TestRestartLoop: a container that the engine starts again and again is given a
// few tries, then it is a failure; it is good once it has run for long enough.
func TestRestartLoop(t *testing.T) {
	for _, c := range []struct {
		state    replace.State
		restarts int
		ran      int
		settled  bool
		want     string
		code     engine.Code
	}{
		{replace.Running, 0, 1_000, false, "converged", ""},
		{replace.Running, 1, 1_000, false, "wait", spec.CodeStarting},
		{replace.Restarting, 1, 0, false, "wait", spec.CodeStarting},
		{replace.Restarting, 5, 0, false, "fail", replace.CodeRestarting},
		{replace.Restarting, 5, 0, true, "wait", replace.CodeRestarting},
		{replace.Running, 5, 30_000, false, "fail", replace.CodeRestarting},
		{replace.Running, 5, 60_000, false, "converged", ""},
		{replace.Running, 5000, 60_000, true, "converged", ""},
	} {
		w := want(false, "")
		w.HasConverged = c.settled
		d := replace.Decide(w, replace.Seen{Containers: []replace.Container{{ID: "a", Name: "web", Role: replace.Main, Replica: 1,
			State: c.state, Begun: true, Restarts: c.restarts, Ran: clock.Duration(c.ran)}}}, 1)
		if d.Name() != c.want || d.Reason().Code != c.code {
			t.Errorf("%+v: %s %s", c, d.Name(), d.Reason())
		}
	}
}
