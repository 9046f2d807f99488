package system

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	"github.com/steadyfleet/steady/internal/core/container"
	"github.com/steadyfleet/steady/internal/core/deploy"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/fleet"
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
}

// Same reports whether two values ask for the same run.
func (g Generation) Same(o Generation) bool {
	g.Keep, o.Keep = "", ""
	return g == o
}

// GenerationObserved is the content of the bundles that a generation names.
type GenerationObserved struct {
	Bundle fleet.Bundle
	Keep   *container.Set // containers of the bundle that may come back
	Asks   map[container.ID]deploy.Ask
}

// FileDesired is what is desired of one file.
type FileDesired struct {
	File fleet.File `json:"file"`
	Run  string     `json:"run"`
}

// Codes of generations.
const (
	CodePartFailed engine.Code = "part_failed"
	CodeUndoing    engine.Code = "undoing_steps"
	CodeRemoving   engine.Code = "removing_files"
	CodeWriting    engine.Code = "writing_files"
	CodeRunning    engine.Code = "running_steps"
	CodeSystem     engine.Code = "switching_system"
	CodeDeploying  engine.Code = "deploying_containers"
)

type generations struct{ host Host }

// Observe reads the bundles that the digests name. The parts observe themselves.
func (g *generations) Observe(ctx context.Context, r engine.Resource[Generation]) (GenerationObserved, error) {
	var o GenerationObserved
	if g.host.Asks != nil {
		o.Asks = g.host.Asks()
	}
	if r.Desired.Bundle != "" {
		b, err := g.host.Content.Bundle(ctx, r.Desired.Bundle)
		if err != nil {
			return o, err
		}
		o.Bundle = *b
	}
	if r.Desired.Keep == "" {
		return o, nil
	}
	keep, err := g.host.Content.Bundle(ctx, r.Desired.Keep)
	if err != nil {
		return o, err
	}
	o.Keep = keep.Containers
	return o, nil
}

// Act has nothing to do: a generation only moves its parts.
func (g *generations) Act(context.Context, engine.Resource[Generation], engine.Action) error {
	return fmt.Errorf("a generation has no action of its own")
}

// Decide takes the next stage of the switch.
func (g *generations) Decide(v engine.View[Generation, GenerationObserved]) engine.Decision {
	if v.Resource.Retire {
		return engine.IsConverged(engine.Reason{})
	}
	s := newSwitch(v)
	s.title = g.host.Title
	if d, ok := s.undo(); ok {
		return d
	}
	if d, ok := s.files(); ok {
		return d
	}
	if d, ok := s.system(); ok {
		return d
	}
	if d, ok := s.containers(); ok {
		return d
	}
	if d, ok := s.steps(); ok {
		return d
	}
	return engine.IsConverged(engine.Reason{})
}

// part is a child with its desired state decoded.
type part struct {
	engine.Child
	run      string
	bundle   digest.Digest
	nix      bool
	released bool
}

type switching struct {
	want   Generation
	bundle fleet.Bundle
	keep   *container.Set
	asks   map[container.ID]deploy.Ask
	title  container.Titled
	parts  map[engine.Ref]part
	order  []engine.Ref // of the children as given
}

func newSwitch(v engine.View[Generation, GenerationObserved]) *switching {
	s := &switching{want: v.Resource.Desired, bundle: v.Observed.Bundle, keep: v.Observed.Keep, asks: v.Observed.Asks, parts: map[engine.Ref]part{}}
	for _, c := range v.Children {
		p := part{Child: c}
		var d struct {
			Run      string          `json:"run"`
			Bundle   digest.Digest   `json:"bundle"`
			Nix      json.RawMessage `json:"nix"`
			Released bool            `json:"released"`
		}
		// What does not decode is of another version: it is of no run.
		if json.Unmarshal(c.Desired, &d) == nil {
			p.run, p.bundle, p.nix, p.released = d.Run, d.Bundle, len(d.Nix) > 0, d.Released
		}
		s.parts[c.Ref] = p
		s.order = append(s.order, c.Ref)
	}
	return s
}

// gone reports whether a part that is to go needs no more waiting: it is gone,
// or its removal was given up, which is reported on its own.
func (p part) gone() bool {
	return p.Phase.Terminal() || (p.Retire && p.Phase == engine.Failed)
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
		if ref.Kind != KindSystem || p.run == s.want.Run && !p.Retire && !p.released || p.gone() {
			continue
		}
		if p.nix {
			// A system that the next bundle has too is switched, not undone in between.
			if again := s.bundle.Nix != nil && s.bundle.Nix.Name == ref.ID; again && !p.Retire {
				continue
			}
			if last == nil || p.Order >= last.Order {
				last = &p
			}
			continue
		}
		left := s.want.Revert && p.bundle == s.want.Leaving
		if !left && declared[ref.ID] && !p.Retire {
			continue
		}
		if last == nil || p.Order >= last.Order {
			last = &p
		}
	}
	if last == nil {
		return engine.Decision{}, false
	}
	d := engine.Wait(0, engine.Because(CodeUndoing, "undoing step "+last.Ref.ID))
	if last.nix && !s.want.Revert && !last.released && !last.Retire {
		return s.release(last), true
	}
	if !last.Retire {
		d = d.With(engine.Retire(last.Ref))
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
		if ref.Kind != KindFile || declared[ref.ID] && !p.Retire || p.gone() {
			continue
		}
		waiting = true
		if !p.Retire {
			retire = append(retire, engine.Retire(ref))
		}
	}
	if waiting {
		return engine.Wait(0, engine.Because(CodeRemoving, "removing files that are no longer declared")).With(retire...), true
	}
	var write []engine.Intent
	pending, bad := false, (*part)(nil)
	for i := range s.bundle.Files {
		f := s.bundle.Files[i]
		in := engine.Upsert(engine.Ref{Kind: KindFile, ID: f.Path}, FileDesired{File: f, Run: s.want.Run})
		s.settle(in, &write, &pending, &bad)
	}
	return s.stage(bad, pending, engine.Because(CodeWriting, "writing files"), write)
}

// system switches the Nix system: before containers and steps, which run on it.
func (s *switching) system() (engine.Decision, bool) {
	n := s.bundle.Nix
	if n == nil {
		return engine.Decision{}, false
	}
	var set []engine.Intent
	pending, bad := false, (*part)(nil)
	in := engine.Upsert(engine.Ref{Kind: KindSystem, ID: n.Name}, SystemDesired{Nix: n, Bundle: s.want.Bundle, Run: s.want.Run})
	s.settle(in, &set, &pending, &bad)
	return s.stage(bad, pending, engine.Because(CodeSystem, "switching system "+n.Name), set)
}

// release lets go of a Nix system that a newer bundle does not have: what runs is
// left, for what was there before it may be years old.
func (s *switching) release(p *part) engine.Decision {
	var d SystemDesired
	why := engine.Because(CodeUndoing, "letting go of system "+p.Ref.ID)
	if err := json.Unmarshal(p.Desired, &d); err != nil {
		return engine.Wait(0, why).With(engine.Retire(p.Ref))
	}
	d.Released = true
	return engine.Wait(0, why).With(engine.Upsert(p.Ref, d).InOrder(p.Order))
}

// steps runs one step after the other.
func (s *switching) steps() (engine.Decision, bool) {
	for i := range s.bundle.Exec {
		e := s.bundle.Exec[i]
		var run []engine.Intent
		pending, bad := false, (*part)(nil)
		in := engine.Upsert(engine.Ref{Kind: KindSystem, ID: e.Name},
			SystemDesired{Exec: e, Bundle: s.want.Bundle, Run: s.want.Run}).InOrder(1 + i)
		s.settle(in, &run, &pending, &bad)
		if d, ok := s.stage(bad, pending, engine.Because(CodeRunning, "running step "+e.Name), run); ok {
			return d, true
		}
	}
	return engine.Decision{}, false
}

// settle looks at one declared part: an intent if it is not set as wanted,
// pending while it is on its way, bad when it has failed.
func (s *switching) settle(in engine.Intent, intents *[]engine.Intent, pending *bool, bad **part) {
	p, ok := s.parts[in.Ref]
	switch {
	case !ok || p.Retire || p.Phase.Terminal() || p.Order != in.Order || !bytes.Equal(p.Desired, in.Desired):
		*intents = append(*intents, in)
		*pending = true
	case p.Phase == engine.Failed:
		if *bad == nil {
			*bad = &p
		}
	case p.Phase != engine.Converged:
		*pending = true
	}
}

// stage decides on a stage that is not complete.
func (s *switching) stage(bad *part, pending bool, why engine.Reason, intents []engine.Intent) (engine.Decision, bool) {
	switch {
	case bad != nil:
		words := bad.Ref.String() + ": " + bad.Reason.Message()
		return engine.Fail(engine.Because(CodePartFailed, words)).With(intents...), true
	case pending:
		return engine.Wait(0, why).With(intents...), true
	}
	return engine.Decision{}, false
}

// CodeNeedsReboot is the reason of a part that is staged and waits for a reboot; its
// words name what cannot be switched while it runs.
const CodeNeedsReboot engine.Code = "needs_reboot"
