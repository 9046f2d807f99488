package replace_test

import (
	"errors"
	"fmt"
	"slices"

	"pgregory.net/rapid"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/diff"
	"github.com/steadyfleet/steady/internal/core/replace"
	"github.com/steadyfleet/steady/internal/core/spec"
	"github.com/steadyfleet/steady/reconcile/engine"
)

// version is what a container is made from, and what becomes of it.
type version int

func (v version) refused() bool { return v%5 == 3 }  // cannot be started
func (v version) ends() bool    { return v%5 == 4 }  // ends at once
func (v version) hooked() bool  { return v%2 == 1 }  // has commands that follow a start
func (v version) rejects() bool { return v%10 == 7 } // and they fail
func (v version) good() bool    { return !v.refused() && !v.ends() && !v.rejects() }

// box is a container of the simulated engine.
type box struct {
	replace.Container
	of      version
	data    int // its anonymous volume
	joined  bool
	limited bool // somebody changed a limit
	madeFor string
	at      clock.Instant // made
	since   clock.Instant // started or ended
	hookAt  clock.Instant // commands failed
	foreign bool
}

// sim is an engine with one workspace on it, and the promises that hold after
// every call.
type sim struct {
	t      *rapid.T
	boxes  []*box
	next   int
	now    clock.Instant
	want   replace.Want
	of     version
	fuse   int // calls until the agent dies; negative: never
	writes int
	byHand bool // somebody outside is acting
	two    bool // somebody outside started what did not run
}

var errCrash = errors.New("the agent died")

func (s *sim) call(string) error {
	if s.fuse == 0 {
		return errCrash
	}
	s.fuse--
	s.writes++
	return nil
}

func (s *sim) get(id string) *box {
	for _, b := range s.boxes {
		if b.ID == id {
			return b
		}
	}
	return nil
}

func (s *sim) named(name string) *box {
	for _, b := range s.boxes {
		if b.Name == name {
			return b
		}
	}
	return nil
}

func live(b *box) bool { return b.State == replace.Running || b.State == replace.Paused }

// seen is what an observation shows.
func (s *sim) seen() replace.Seen {
	var out replace.Seen
	for _, b := range s.boxes {
		if b.foreign {
			if b.Name == s.want.Title {
				out.Foreign = b.ID
			}
			continue
		}
		c := b.Container
		c.Role = replace.RoleOf(c.Name, s.want.Title, b.madeFor, c.Replica)
		c.Age = s.now.Sub(b.at)
		if c.State == replace.Running {
			c.Ran = s.now.Sub(b.since)
		} else {
			c.Rested = s.now.Sub(b.since)
		}
		c.HookRested = s.now.Sub(b.hookAt)
		c.Differences = nil
		if b.of != s.of {
			c.Differences = append(c.Differences, diff.Difference{Field: "image", Class: diff.Replace, Cause: diff.Declared,
				Desired: fmt.Sprint(s.of), Observed: fmt.Sprint(b.of)})
		}
		if b.limited {
			c.Differences = append(c.Differences, diff.Difference{Field: "limit/memory", Class: diff.Replace, Cause: diff.Outside, Observed: "64m"})
		}
		if !b.joined {
			c.Differences = append(c.Differences, diff.Difference{Field: "network/n", Class: diff.InPlace, Cause: diff.Outside, Desired: "id"})
		}
		out.Containers = append(out.Containers, c)
	}
	return out
}

// check holds the promises about what runs and what data there is.
func (s *sim) check(what string) {
	if s.byHand {
		return
	}
	running := 0
	for _, b := range s.boxes {
		if !b.foreign && live(b) {
			running++
		}
	}
	if running < 2 {
		s.two = false
	}
	if running > 1 && !s.want.StartFirst && !s.two {
		s.t.Fatalf("after %s %d containers run:\n%s", what, running, s)
	}
}

func (s *sim) String() string {
	out := fmt.Sprintf("want %+v of %d at %d\n", s.want, s.of, s.now)
	for _, b := range s.boxes {
		out += fmt.Sprintf("  %+v of %d data %d joined %v limited %v\n", b.Container, b.of, b.data, b.joined, b.limited)
	}
	return out
}

// Create implements replace.Handler.
func (s *sim) Create(a replace.Create) error {
	name, data := s.want.Title, 0
	if a.Replaces != "" {
		old := s.get(a.Replaces)
		if old == nil || old.Name != s.want.Title {
			return nil
		}
		name, data = replace.Name(s.want.Title, a.Replica, replace.New), old.data
	}
	if s.named(name) != nil {
		return nil
	}
	if err := s.call("create"); err != nil {
		return err
	}
	s.next++
	if data == 0 {
		data = s.next
	}
	b := &box{of: s.of, data: data, madeFor: s.want.Title, at: s.now, since: s.now, Container: replace.Container{
		ID: fmt.Sprint("c", s.next), Name: name, Replica: a.Replica, Replaces: a.Replaces, State: replace.Created,
		Fulfilled: a.Nonce, MadeFor: a.MadeFor, Repeats: a.Repeats}}
	b.Revives = a.Run
	s.boxes = append(s.boxes, b)
	s.check("create")
	if err := s.call("connect"); err != nil {
		return err
	}
	b.joined = true
	if a.Run {
		return s.start(b)
	}
	return nil
}

func (s *sim) start(b *box) error {
	if err := s.call("start"); err != nil {
		return err
	}
	if live(b) {
		return nil
	}
	b.Revives = true
	s.launch(b)
	s.check("start")
	if b.Error != "" {
		return errors.New(b.Error)
	}
	return nil
}

// launch is what becomes of a container that the agent or the engine starts.
func (s *sim) launch(b *box) {
	b.since = s.now
	switch {
	case b.of.refused() || !b.joined:
		b.State, b.ExitCode, b.Error = replace.Created, 127, "refused"
	case b.of.ends():
		b.State, b.ExitCode, b.Begun = replace.Exited, 1, true
	default:
		b.State, b.ExitCode, b.Error, b.Begun = replace.Running, 0, "", true
		b.HookPending, b.HookError = b.of.hooked(), ""
	}
}

// rest stops one that stays: the engine does not start it either.
func (s *sim) rest(b *box) error {
	if b == nil {
		return nil
	}
	if b.Revives {
		if err := s.call("update"); err != nil {
			return err
		}
		b.Revives = false
	}
	return s.stop(b)
}

// restartEngine ends everything, and starts what has a restart policy.
func (s *sim) restartEngine() {
	for _, b := range s.boxes {
		if live(b) {
			b.State, b.ExitCode, b.since = replace.Exited, 137, s.now
		}
		if b.Revives {
			s.launch(b)
		}
	}
	s.check("a start of the engine")
}

func (s *sim) stop(b *box) error {
	if b == nil || !live(b) {
		return nil
	}
	if err := s.call("stop"); err != nil {
		return err
	}
	b.State, b.ExitCode, b.since, b.Starts = replace.Exited, 143, s.now, 0
	return nil
}

func (s *sim) rename(b *box, r replace.Role) error {
	name := replace.Name(s.want.Title, b.Replica, r)
	if b.Name == name {
		return nil
	}
	if err := s.call("rename"); err != nil {
		return err
	}
	if s.named(name) != nil {
		return errors.New("the name is taken")
	}
	b.Name = name
	return nil
}

func (s *sim) remove(b *box) error {
	if err := s.call("remove"); err != nil {
		return err
	}
	if b.foreign {
		s.t.Fatalf("S35: a container of somebody else is removed:\n%s", s)
	}
	if live(b) {
		return errors.New("it runs")
	}
	s.boxes = slices.DeleteFunc(s.boxes, func(o *box) bool { return o == b })
	if !s.want.Delete && !slices.ContainsFunc(s.boxes, func(o *box) bool { return o.data == b.data && !o.foreign }) && b.Begun {
		s.t.Fatalf("the data %d of %s has no container any more:\n%s", b.data, b.ID, s)
	}
	return nil
}

// Start implements replace.Handler.
func (s *sim) Start(a replace.Start) error {
	b := s.get(a.ID)
	if b == nil || a.Restart == "" && live(b) || a.Restart != "" && b.Restarted == a.Restart {
		return nil
	}
	if a.Restart != "" {
		if err := s.stop(b); err != nil {
			return err
		}
	}
	again := b.State == replace.Exited
	err := s.start(b)
	if err == nil && again {
		b.Starts++
	}
	if err == nil && a.Restart != "" {
		b.Restarted = a.Restart
	}
	if s.get(b.Replaces) != nil && b.Error != "" {
		return nil
	}
	return err
}

// Note implements replace.Handler.
func (s *sim) Note(replace.Note) error { return s.call("note") }

// RunHooks implements replace.Handler.
func (s *sim) RunHooks(a replace.RunHooks) error {
	b := s.get(a.ID)
	if b == nil || b.State != replace.Running {
		return nil
	}
	if err := s.call("exec"); err != nil {
		return err
	}
	if b.of.rejects() {
		b.HookError, b.hookAt = "post_start failed", s.now
		return nil
	}
	b.HookPending = false
	return nil
}

// Stop implements replace.Handler.
func (s *sim) Stop(a replace.Stop) error {
	for _, id := range a.IDs {
		if err := s.rest(s.get(id)); err != nil {
			return err
		}
	}
	return nil
}

// Unpause implements replace.Handler.
func (s *sim) Unpause(a replace.Unpause) error {
	b := s.get(a.ID)
	if b == nil || b.State != replace.Paused {
		return nil
	}
	if err := s.call("unpause"); err != nil {
		return err
	}
	b.State = replace.Running
	return nil
}

// Adjust implements replace.Handler.
func (s *sim) Adjust(a replace.Adjust) error {
	b := s.get(a.ID)
	if b == nil {
		return nil
	}
	if err := s.call("connect"); err != nil {
		return err
	}
	b.joined = true
	return nil
}

// Rename implements replace.Handler.
func (s *sim) Rename(a replace.Rename) error {
	b := s.get(a.ID)
	if b == nil {
		return nil
	}
	return s.rename(b, replace.Main)
}

// Swap implements replace.Handler.
func (s *sim) Swap(a replace.Swap) error {
	n, o := s.get(a.New), s.get(a.Old)
	if n == nil {
		return nil
	}
	if err := s.rest(o); err != nil {
		return err
	}
	if o != nil {
		if err := s.rename(o, replace.Old); err != nil {
			return err
		}
	}
	if err := s.rename(n, replace.Main); err != nil {
		return err
	}
	if a.Run && !live(n) {
		if err := s.start(n); err != nil && n.Error == "" {
			return err
		}
	}
	return nil
}

// Promote implements replace.Handler.
func (s *sim) Promote(a replace.Promote) error {
	n, o := s.get(a.New), s.get(a.Old)
	if n == nil || n.State != replace.Running {
		return nil
	}
	if o != nil {
		if err := s.rename(o, replace.Old); err != nil {
			return err
		}
	}
	return s.rename(n, replace.Main)
}

// Restore implements replace.Handler.
func (s *sim) Restore(a replace.Restore) error {
	b, o := s.get(a.Bad), s.get(a.Old)
	if o == nil {
		return nil
	}
	if b != nil {
		if err := s.rest(b); err != nil {
			return err
		}
		if err := s.rename(b, replace.New); err != nil {
			return err
		}
	}
	if err := s.rename(o, replace.Main); err != nil {
		return err
	}
	if a.Run && !live(o) {
		if err := s.start(o); err != nil {
			return err
		}
	}
	if b != nil {
		if err := s.remove(b); err != nil {
			return err
		}
	}
	if a.Cause != "" {
		return errors.New(a.Cause)
	}
	return nil
}

// RemoveOld implements replace.Handler.
func (s *sim) RemoveOld(a replace.RemoveOld) error {
	keep := s.get(a.Keep)
	if keep == nil || keep.Name != s.want.Title || a.Run && keep.State != replace.Running {
		return nil
	}
	if a.Run && (!keep.of.good() || keep.HookPending || s.now.Sub(keep.since) < replace.DefaultMonitor) {
		s.t.Fatalf("the old one goes before the new one is good:\n%s", s)
	}
	return s.discard(a.IDs)
}

func (s *sim) discard(ids []string) error {
	for _, id := range ids {
		b := s.get(id)
		if b == nil {
			continue
		}
		if err := s.stop(b); err != nil {
			return err
		}
		if err := s.remove(b); err != nil {
			return err
		}
	}
	return nil
}

// Discard implements replace.Handler.
func (s *sim) Discard(a replace.Discard) error {
	if err := s.discard(a.IDs); err != nil {
		return err
	}
	if a.Cause != "" {
		return errors.New(a.Cause)
	}
	return nil
}

// Remove implements replace.Handler.
func (s *sim) Remove(a replace.Remove) error { return s.discard(a.IDs) }

// turn takes one turn; done when it neither acts nor waits.
func (s *sim) turn() (d engine.Decision, err error) {
	d = replace.Decide(s.want, s.seen(), s.now)
	if a, ok := d.Action().(replace.Action); ok {
		err = a.Carry(s)
		s.now += 100
		return d, err
	}
	if d.Name() == "wait" {
		s.now = max(clock.FromTime(d.Until()), s.now+1000)
	}
	return d, nil
}

// outside is somebody who acts on the engine by hand.
func (s *sim) outside() {
	s.byHand = true
	defer func() { s.byHand = false }()
	var mine []*box
	for _, b := range s.boxes {
		if !b.foreign {
			mine = append(mine, b)
		}
	}
	if len(mine) == 0 {
		return
	}
	b := rapid.SampledFrom(mine).Draw(s.t, "which")
	switch rapid.SampledFrom([]string{"stop", "start", "pause", "disconnect", "update", "rename", "remove"}).Draw(s.t, "by hand") {
	case "stop":
		if live(b) {
			b.State, b.ExitCode, b.since = replace.Exited, 137, s.now
		}
	case "start": // or the engine itself, when it comes up again
		if !live(b) && b.of.good() && b.joined {
			b.State, b.ExitCode, b.Begun, b.since = replace.Running, 0, true, s.now
			b.HookPending, b.HookError = b.of.hooked(), ""
			s.two = true
		}
	case "pause":
		if b.State == replace.Running {
			b.State = replace.Paused
		}
	case "disconnect":
		b.joined = false
	case "update":
		b.limited = true
	case "rename":
		b.Name = fmt.Sprint("by-hand-", s.next)
		s.next++
	case "remove":
		s.boxes = slices.DeleteFunc(s.boxes, func(o *box) bool { return o == b })
	}
}

func want(startFirst bool, run spec.RunState) replace.Want {
	return replace.Want{Title: "web", StartFirst: startFirst, Run: run}
}
