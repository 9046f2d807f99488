package watch

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/steadyfleet/steady/internal/api/operator"
	"github.com/steadyfleet/steady/internal/cli/command"
	"github.com/steadyfleet/steady/internal/cli/exit"
	"github.com/steadyfleet/steady/internal/cli/term"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/spec"
)

// ResourceServer is what waiting needs of the operator's client.
type ResourceServer interface {
	Resources(ctx context.Context, host string) (operator.HostResources, error)
	Follower
}

// Target is a resource of a host and what is waited for.
type Target struct {
	Host string
	spec.ID
	// Version is that of the managed layer which set the resource last or asked for
	// something of it: reports of an earlier one are of another declaration.
	Version uint64
	// New says that it was changed or asked for just now: what was reported before
	// the wait began and tells no version is of another declaration.
	New bool
	// Gone waits until the resource is no longer there.
	Gone bool
	// Needs are what the host sets first: with one of them in error it waits for
	// that, and says nothing of itself.
	Needs []spec.ID
}

// String names it with its host.
func (t *Target) String() string { return t.ID.String() + " on " + t.Host }

// Outcome is where a target stands at the end.
type Outcome struct {
	Target
	State  string
	Detail string
	OK     bool
	Fresh  bool // said since the start
}

// errorStays is how long an error has to stay before it counts: the host tries
// again by itself, at first within seconds.
const errorStays = 5 * time.Second

// WaitFlags are those of commands that can wait.
type WaitFlags struct {
	Wait    bool
	Timeout time.Duration
}

// Add adds them to a command.
func (f *WaitFlags) Add(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&f.Wait, "wait", false, "wait until the host has done it; code 1 if that ends in an error")
	cmd.Flags().DurationVar(&f.Timeout, "timeout", 10*time.Minute, "how long --wait waits")
}

// OutcomeView shows the targets whenever one of them moved; changed is the one that did,
// nil at the start. It may take its time, until ctx ends.
type OutcomeView func(ctx context.Context, all []Outcome, changed *Outcome) error

// For waits until every target is where it is to be or ended in an error, from
// the events after a sequence number on. The error is nil when all are.
func (f *WaitFlags) For(ctx context.Context, s ResourceServer, after uint64, targets []Target, show OutcomeView) ([]Outcome, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, f.Timeout, errLate)
	defer cancel()
	w := &wait{events: make(chan operator.Event, 64), show: show, broken: make(chan error, 1)}
	for _, t := range targets {
		w.all = append(w.all, progress{Outcome: Outcome{Target: t}})
	}
	if err := w.known(ctx, s); err != nil {
		return nil, err
	}
	for _, h := range w.hosts() {
		go func() {
			err := feed(ctx, s, operator.EventQuery{About: operator.AboutHost(h), After: after, Tail: after == 0}, w.events)
			select {
			case w.broken <- err:
			default:
			}
		}()
	}
	err := w.run(ctx)
	return w.outcomes(), err
}

var errLate = errors.New("it took too long")

type progress struct {
	Outcome
	since time.Time // of the state, here
}

type wait struct {
	all    []progress
	events chan operator.Event
	broken chan error
	show   OutcomeView
}

func (w *wait) hosts() []string {
	hosts := map[string]bool{}
	for i := range w.all {
		hosts[w.all[i].Host] = true
	}
	return slices.Sorted(maps.Keys(hosts))
}

func (w *wait) outcomes() []Outcome {
	out := make([]Outcome, 0, len(w.all))
	for i := range w.all {
		out = append(out, w.all[i].Outcome)
	}
	return out
}

// known takes what the server knows at the start.
func (w *wait) known(ctx context.Context, s ResourceServer) error {
	for _, h := range w.hosts() {
		r, err := s.Resources(ctx, h)
		if err != nil {
			return err
		}
		for i := range w.all {
			p := &w.all[i]
			if p.Host != h {
				continue
			}
			at := slices.IndexFunc(r.Resources, func(x operator.Resource) bool { return x.Kind == p.Kind && x.Name == p.Name })
			switch {
			case at >= 0 && r.Resources[at].State != "":
				x := &r.Resources[at]
				p.update(x.State, x.Message, p.about(x.Version, x.Layer, true))
			case p.Gone: // the host never had it
				p.update(string(spec.Removed), "", true)
			}
		}
	}
	return nil
}

// about reports whether what a host said of a version is about what is waited for
// or newer; before is what it said before the wait began. An agent that tells no
// versions is believed of its managed layer.
func (t *Target) about(version uint64, layer string, before bool) bool {
	switch {
	case t.Version == 0 || t.Gone: // a removal has the version of what it removed
		return !before || !t.New
	case version == 0 && t.New:
		return !before && layer == event.LayerManaged
	}
	return version == 0 || version >= t.Version
}

// update notes a state. Once something was said of what is waited for, older news
// changes nothing.
func (p *progress) update(state, detail string, fresh bool) {
	if p.Fresh && !fresh {
		return
	}
	if p.State != state || p.Detail != detail {
		p.since = time.Now()
	}
	p.State, p.Detail, p.Fresh = state, detail, fresh
	ended, good := Ended(state)
	p.OK = fresh && ended && good && p.Gone == (state == string(spec.Removed))
}

// failed reports whether it ended in an error that stayed.
func (p *progress) failed(now time.Time) bool {
	ended, good := Ended(p.State)
	return p.Fresh && ended && !good && now.Sub(p.since) >= errorStays
}

// finished reports whether the host is done with one of the targets, as far as it
// can be.
func (w *wait) finished(p *progress, now time.Time) bool {
	return p.OK || p.failed(now) || w.blocked(p, now, 0) != nil
}

// blocked is the target in error that another one waits for, nil if there is
// none. What is needed in a circle needs nothing.
func (w *wait) blocked(p *progress, now time.Time, depth int) *progress {
	if p.OK || p.Gone || depth > len(w.all) {
		return nil
	}
	for i := range w.all {
		n := &w.all[i]
		switch {
		case n.Host != p.Host || !slices.Contains(p.Needs, n.ID) || n.OK:
		case n.failed(now):
			return n
		default:
			if first := w.blocked(n, now, depth+1); first != nil {
				return first
			}
		}
	}
	return nil
}

// Ended reports whether a state is one that stays, and whether it is a good one.
func Ended(state string) (ended, good bool) {
	switch spec.State(state) {
	case spec.RunningState, spec.StoppedState, spec.ImageFinished, spec.Ready, spec.Removed:
		return true, true
	case spec.ErrorState, spec.ImageFailed, spec.ImageCancelled:
		return true, false
	}
	return false, false
}

func (w *wait) run(ctx context.Context) error {
	tick := time.NewTicker(250 * time.Millisecond)
	defer tick.Stop()
	if err := w.show(ctx, w.outcomes(), nil); err != nil {
		return err
	}
	for {
		if w.done() {
			return w.verdict(ctx)
		}
		select {
		case e := <-w.events:
			if err := w.receive(ctx, e); err != nil {
				return err
			}
		case <-tick.C:
		case err := <-w.broken:
			if ctx.Err() == nil {
				return err
			}
		case <-ctx.Done():
			if errors.Is(context.Cause(ctx), errLate) {
				return exit.With(exit.Failed, fmt.Errorf("%s; the hosts go on: steady host resources HOST --watch follows them", w.late()))
			}
			return ctx.Err()
		}
	}
}

func (w *wait) done() bool {
	now := time.Now()
	for i := range w.all {
		if !w.finished(&w.all[i], now) {
			return false
		}
	}
	return len(w.events) == 0
}

func (w *wait) receive(ctx context.Context, e operator.Event) error {
	var r event.ResourceReported
	if e.Type != r.EventType() || json.Unmarshal(e.Body, &r) != nil {
		return nil
	}
	for i := range w.all {
		p := &w.all[i]
		if p.Host != e.Subject.Host() || p.ID.String() != r.Resource {
			continue
		}
		p.update(r.State, r.Message, p.about(r.Version, r.Layer, false))
		if err := w.show(ctx, w.outcomes(), &p.Outcome); err != nil {
			return err
		}
	}
	return nil
}

// verdict is nil when all are where they are to be. It shows what nothing was
// heard of: why it failed before, or what it waits for.
func (w *wait) verdict(ctx context.Context) error {
	var result error
	now := time.Now()
	for i := range w.all {
		p := &w.all[i]
		if p.OK {
			continue
		}
		result = exit.Silently(exit.Failed)
		if n := w.blocked(p, now, 0); n != nil {
			p.Detail = n.ID.String() + " is " + n.State
		}
		if err := w.show(ctx, w.outcomes(), &p.Outcome); err != nil {
			return err
		}
	}
	return result
}

func (w *wait) late() string {
	var words []string
	now := time.Now()
	for i := range w.all {
		if p := &w.all[i]; !w.finished(p, now) {
			state := p.State
			if !p.Fresh {
				state = "not reported"
			}
			words = append(words, p.String()+" is "+state)
		}
	}
	return "not done in time: " + strings.Join(words, ", ")
}

// plainOutcomes prints a line whenever something moved.
func plainOutcomes(w io.Writer) OutcomeView {
	last := map[string]string{}
	return func(_ context.Context, _ []Outcome, o *Outcome) error {
		if o == nil {
			return nil
		}
		line := outcomeLine(term.Screen{}, o)
		if last[o.String()] == line {
			return nil
		}
		last[o.String()] = line
		_, err := fmt.Fprintln(w, line)
		return err
	}
}

func outcomeLine(s term.Screen, o *Outcome) string {
	line := "  " + o.String() + ": " + s.Paint(StateColor(o.State), cmp.Or(o.State, "waits for the host"))
	if o.Detail != "" {
		line += ": " + term.Printable(o.Detail)
	}
	return line
}

// StateColor is that of a state.
func StateColor(state string) term.Color {
	switch ended, good := Ended(state); {
	case good:
		return term.Good
	case ended:
		return term.Bad
	case state == "":
		return term.Faint
	}
	return term.Busy
}

// OutcomesFor is the view that fits the output of a command: lines that move on a
// terminal, lines elsewhere, and nothing beside data.
func OutcomesFor(e *command.Env, table bool) OutcomeView {
	screen := e.Screen()
	switch {
	case !table:
		return func(context.Context, []Outcome, *Outcome) error { return nil }
	case !screen.TTY:
		return plainOutcomes(e.Out)
	}
	frame := term.NewFrame(e.Out, screen)
	return func(_ context.Context, all []Outcome, _ *Outcome) error {
		lines := make([]string, 0, len(all))
		for i := range all {
			lines = append(lines, outcomeLine(screen, &all[i]))
		}
		return frame.Draw(lines)
	}
}
