package system

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/steadyfleet/steady/internal/core/deploy"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/prose"
	"github.com/steadyfleet/steady/internal/core/spec"
	"github.com/steadyfleet/steady/reconcile/engine"
)

// Generation is what is desired of a host: one run towards one bundle. A run
// with another name observes every part again and runs every step again.
type Generation struct {
	Bundle  digest.Digest `json:"bundle"` // empty: nothing runs
	Run     string        `json:"run"`
	Revert  bool          `json:"revert,omitempty"`
	Leaving digest.Digest `json:"leaving,omitempty"` // the bundle abandoned by a revert
	// Keep is the bundle that may come back: what it alone has of containers is
	// stopped and kept.
	Keep digest.Digest `json:"keep,omitempty"`
	// Wipe says that nothing may be left of the bundles before; Bundle is empty then.
	Wipe bool `json:"wipe,omitempty"`
}

// Same reports whether two values ask for the same run.
func (g Generation) Same(o Generation) bool {
	g.Keep, o.Keep = "", ""
	return g == o
}

// GenerationObserved is the content of the bundles that a generation names.
type GenerationObserved struct {
	Bundle   fleet.Bundle
	Keep     *fleet.Bundle // that may come back; nil for none
	Requests map[spec.ID]deploy.Request
}

// FileDesired is what is desired of one file.
type FileDesired struct {
	File fleet.File `json:"file"`
	Run  string     `json:"run"`
	// BrokenBefore is as in spec.Desired.
	BrokenBefore bool `json:"brokenBefore,omitempty"`
}

// Codes of generations.
const (
	CodePartFailed engine.Code = "part-failed"
	CodeUndoing    engine.Code = "undoing-steps"
	CodeRemoving   engine.Code = "removing-files"
	CodeWriting    engine.Code = "writing-files"
	CodeRunning    engine.Code = "running-steps"
	CodeSystem     engine.Code = "switching-system"
	CodeDeploying  engine.Code = "deploying-containers"
	CodeWiping     engine.Code = "wiping"

	CodeBrokenBefore engine.Code = "broken-before"
)

type generations struct{ host Host }

// Observe reads the bundles that the digests name. The parts observe themselves.
func (g *generations) Observe(ctx context.Context, r engine.Resource[Generation]) (GenerationObserved, error) {
	var o GenerationObserved
	if g.host.Requests != nil {
		o.Requests = g.host.Requests()
	}
	if r.Desired.Bundle != "" {
		b, err := g.host.Content.Bundle(ctx, r.Desired.Bundle)
		if err != nil {
			return o, err
		}
		o.Bundle = *b
	}
	o.Bundle.Wipe = o.Bundle.Wipe || r.Desired.Wipe
	if r.Desired.Keep == "" || o.Bundle.Wipe {
		return o, nil
	}
	keep, err := g.host.Content.Bundle(ctx, r.Desired.Keep)
	if err != nil {
		return o, err
	}
	o.Keep = keep
	return o, nil
}

// Act has nothing to do: a generation only moves its parts.
func (g *generations) Act(context.Context, engine.Resource[Generation], engine.Action) error {
	return fmt.Errorf("a generation has no action of its own")
}

// stages are those of a switch, in order; each gives a decision until it is complete.
var stages = []func(*switching) (engine.Decision, bool){
	(*switching).undo, (*switching).files, (*switching).system, (*switching).containers, (*switching).steps, (*switching).wiped,
}

// Decide takes the next stage of the switch.
func (g *generations) Decide(v engine.View[Generation, GenerationObserved]) engine.Decision {
	if v.Resource.Delete {
		return engine.IsConverged(engine.Reason{})
	}
	s := newSwitch(v)
	s.title = g.host.Title
	for _, stage := range stages {
		if d, ok := stage(s); ok {
			return d
		}
	}
	return engine.IsConverged(s.rest)
}

// part is a child with its desired state decoded.
type part struct {
	engine.Child
	run      string
	bundle   digest.Digest
	nix      bool
	released bool
	excused  bool // it did not work before the run that set it
}

type switching struct {
	want   Generation
	bundle fleet.Bundle
	keep   *fleet.Bundle
	asks   map[spec.ID]deploy.Request
	title  spec.NameMapper
	parts  map[engine.Ref]part
	order  []engine.Ref  // of the children as given
	rest   engine.Reason // what is left that does not work, and did not before
}

func newSwitch(v engine.View[Generation, GenerationObserved]) *switching {
	s := &switching{want: v.Resource.Desired, bundle: v.Observed.Bundle, keep: cmp.Or(v.Observed.Keep, &fleet.Bundle{}), asks: v.Observed.Requests, parts: map[engine.Ref]part{}}
	for _, c := range v.Children {
		p := part{Child: c}
		var d struct {
			Run      string          `json:"run"`
			Bundle   digest.Digest   `json:"bundle"`
			Nix      json.RawMessage `json:"nix"`
			Released bool            `json:"released"`
			Excused  bool            `json:"brokenBefore"`
		}
		// What does not decode is of another version: it is of no run.
		if json.Unmarshal(c.Desired, &d) == nil {
			p.run, p.bundle, p.nix, p.released, p.excused = d.Run, d.Bundle, len(d.Nix) > 0, d.Released, d.Excused
		}
		s.parts[c.Ref] = p
		s.order = append(s.order, c.Ref)
	}
	return s
}

// gone reports whether a part that is to go needs no more waiting: it is gone,
// or its removal was given up, which is reported on its own.
func (p part) gone() bool {
	return p.Phase.Terminal() || (p.Delete && p.Phase == engine.Failed)
}

// undo leaves steps, the last one first.
func (s *switching) undo() (engine.Decision, bool) {
	declared := map[string]bool{}
	for _, e := range s.bundle.Exec {
		declared[e.Name] = true
	}
	var last *part
	for _, ref := range s.order {
		p := s.parts[ref]
		if ref.Kind != KindSystem || p.run == s.want.Run && !p.Delete && !p.released || p.gone() {
			continue
		}
		again := declared[ref.ID] && !(s.want.Revert && p.bundle == s.want.Leaving)
		if p.nix { // a system that the next bundle has too is switched, not undone in between
			again = s.bundle.Nix != nil && s.bundle.Nix.Name == ref.ID
		}
		if (!again || p.Delete) && (last == nil || p.Order >= last.Order) {
			last = &p
		}
	}
	if last == nil {
		return engine.Decision{}, false
	}
	d := engine.Wait(engine.NewReason(CodeUndoing, "undoing step "+last.Ref.ID))
	if last.nix && !s.want.Revert && !last.released && !last.Delete {
		return s.release(last), true
	}
	if !last.Delete {
		d = d.With(engine.Delete(last.Ref))
	}
	return d, true
}

// files removes what is not declared, then writes what is.
func (s *switching) files() (engine.Decision, bool) {
	declared := make(map[string]bool, len(s.bundle.Files))
	for i := range s.bundle.Files {
		declared[s.bundle.Files[i].Path] = true
	}
	var retire []engine.Intent
	waiting := false
	for _, ref := range s.order {
		p := s.parts[ref]
		if ref.Kind != KindFile || declared[ref.ID] && !p.Delete || p.gone() {
			continue
		}
		waiting = true
		if !p.Delete {
			retire = append(retire, engine.Delete(ref))
		}
	}
	if waiting {
		return engine.Wait(engine.NewReason(CodeRemoving, "removing files that are no longer declared")).With(retire...), true
	}
	write := make([]engine.Intent, len(s.bundle.Files))
	for i, f := range s.bundle.Files {
		d := FileDesired{File: f, Run: s.want.Run}
		d.BrokenBefore = s.fileBroken(f)
		write[i] = engine.Upsert(engine.Ref{Kind: KindFile, ID: f.Path}, d)
	}
	return s.stage(engine.NewReason(CodeWriting, "writing files"), write...)
}

// fileBroken reports whether a file, which the run does not change, could not be written before it either.
func (s *switching) fileBroken(f fleet.File) bool {
	p, ok := s.parts[engine.Ref{Kind: KindFile, ID: f.Path}]
	var was FileDesired
	if !ok || p.Delete || p.Phase.Terminal() || json.Unmarshal(p.Desired, &was) != nil || was.File != f {
		return false
	}
	return deploy.BrokenBefore(p.Child, was.Run, was.BrokenBefore, s.want.Run, slices.Contains(s.keep.Files, f))
}

// brokenBefore notes a part for which the run does not fail.
func (s *switching) brokenBefore(c engine.Child) {
	s.rest = engine.NewReason(CodeBrokenBefore, c.Ref.String()+" did not work before this release, which does not change it: "+c.Reason.Text())
}

// system switches the Nix system: before containers and steps, which run on it.
func (s *switching) system() (engine.Decision, bool) {
	n := s.bundle.Nix
	if n == nil {
		return engine.Decision{}, false
	}
	return s.stage(engine.NewReason(CodeSystem, "switching system "+n.Name),
		engine.Upsert(engine.Ref{Kind: KindSystem, ID: n.Name}, SystemDesired{Nix: n, Bundle: s.want.Bundle, Run: s.want.Run}))
}

// wiped waits until nothing is left of a host that is wiped. What cannot be removed is a
// failure: nobody is told that data is gone which is not.
func (s *switching) wiped() (engine.Decision, bool) {
	if !s.bundle.Wipe {
		return engine.Decision{}, false
	}
	left := 0
	for _, ref := range s.order {
		switch p := s.parts[ref]; {
		case p.Phase.Terminal():
		case p.Delete && p.Phase == engine.Failed:
			return engine.Fail(engine.NewReason(CodePartFailed, ref.String()+" cannot be removed: "+p.Reason.Text())), true
		default:
			left++
		}
	}
	if left == 0 {
		return engine.Decision{}, false
	}
	return engine.Wait(engine.NewReason(CodeWiping, prose.Count(left, "resource")+" to be removed")), true
}

// release lets go of a Nix system that a newer bundle does not have: what runs is
// left, for what was there before it may be years old.
func (s *switching) release(p *part) engine.Decision {
	var d SystemDesired
	why := engine.NewReason(CodeUndoing, "letting go of system "+p.Ref.ID)
	if err := json.Unmarshal(p.Desired, &d); err != nil {
		return engine.Wait(why).With(engine.Delete(p.Ref))
	}
	d.Released = true
	return engine.Wait(why).With(engine.Upsert(p.Ref, d).WithOrder(p.Order))
}

// steps runs one step after the other.
func (s *switching) steps() (engine.Decision, bool) {
	for i := range s.bundle.Exec {
		e := s.bundle.Exec[i]
		step := engine.Upsert(engine.Ref{Kind: KindSystem, ID: e.Name}, SystemDesired{Exec: e, Bundle: s.want.Bundle, Run: s.want.Run}).WithOrder(1 + i)
		if d, ok := s.stage(engine.NewReason(CodeRunning, "running step "+e.Name), step); ok {
			return d, true
		}
	}
	return engine.Decision{}, false
}

// stage decides on the declared parts of one stage, of which an intent is given for
// each that is not set as wanted: it fails with the first that failed, and waits while
// one is on its way.
func (s *switching) stage(why engine.Reason, parts ...engine.Intent) (engine.Decision, bool) {
	var intents []engine.Intent
	pending, bad := false, (*part)(nil)
	for _, in := range parts {
		p, ok := s.parts[in.Ref]
		switch {
		case !ok || p.Delete || p.Phase.Terminal() || p.Order != in.Order || !bytes.Equal(p.Desired, in.Desired):
			intents = append(intents, in)
			pending = true
		case p.excused && p.Phase != engine.Converged:
			s.brokenBefore(p.Child)
		case p.Phase == engine.Failed && bad == nil:
			bad = &p
		case p.Phase != engine.Failed && p.Phase != engine.Converged:
			pending = true
		}
	}
	switch {
	case bad != nil:
		message := bad.Ref.String() + ": " + bad.Reason.Text()
		return engine.Fail(engine.NewReason(CodePartFailed, message)).With(intents...), true
	case pending:
		return engine.Wait(why).With(intents...), true
	}
	return engine.Decision{}, false
}

// CodeNeedsReboot is the reason of a part that is staged and waits for a reboot; its
// message names what cannot be switched while it runs.
const CodeNeedsReboot engine.Code = "needs-reboot"

// containers sets container resources in the order of what they need. Intents
// are given whatever else happens, so that a failure holds up nothing that does
// not need what failed.
func (s *switching) containers() (engine.Decision, bool) {
	if s.title == nil { // a host without an engine; Prepare has refused such bundles
		return engine.Decision{}, false
	}
	children := make([]engine.Child, 0, len(s.order))
	for _, ref := range s.order {
		children = append(children, s.parts[ref].Child)
	}
	p := deploy.Next(deploy.Want{Set: s.bundle.Containers, Keep: s.keep.Containers, Run: s.want.Run, Title: s.title, Requests: s.asks}, children)
	switch {
	case len(p.Failed) > 0:
		bad := p.Failed[0]
		return engine.Fail(engine.NewReason(CodePartFailed, bad.Ref.String()+": "+bad.Reason.Text())).With(p.Intents...), true
	case !p.Done():
		return engine.Wait(engine.NewReason(CodeDeploying, "deploying "+p.Message())).With(p.Intents...), true
	case len(p.Broken) > 0:
		s.brokenBefore(p.Broken[0])
	}
	return engine.Decision{}, false
}
