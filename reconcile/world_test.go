package reconcile_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/steadyfleet/steady/reconcile/engine"
)

// world is what outlives every process of a test: the things that exist.
type world struct {
	mu      sync.Mutex
	content map[string]string
	faults  map[string][]fault // of the next acts, by leaf
	acts    map[string]int     // by leaf#generation
	active  map[engine.Ref]int // calls into reconcilers that run now
	overlap []string           // P1 violations
	seen    map[engine.Ref]int64
	hook    func(point string) error // called around each act: a crash point
}

type fault int

const (
	works         fault = iota
	fails               // an error, and nothing happens
	lies                // an error, although it happened
	nothing             // success, although nothing happened
	panics              //
	hangs               // until its context ends
	failsForEver        // like fails, and stays
	blockedAtDoor       // Blocked
)

func newWorld() *world {
	return &world{
		content: map[string]string{}, faults: map[string][]fault{}, acts: map[string]int{},
		active: map[engine.Ref]int{}, seen: map[engine.Ref]int64{},
		hook: func(string) error { return nil },
	}
}

// enter notes a call into a reconciler; the result ends it.
func (w *world) enter(ref engine.Ref, generation int64) func() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.active[ref]++
	if w.active[ref] > 1 {
		w.overlap = append(w.overlap, ref.String())
	}
	w.seen[ref] = max(w.seen[ref], generation)
	return func() {
		w.mu.Lock()
		w.active[ref]--
		w.mu.Unlock()
	}
}

func (w *world) next(leaf string) fault {
	fs := w.faults[leaf]
	if len(fs) == 0 {
		return works
	}
	if fs[0] != failsForEver {
		w.faults[leaf] = fs[1:]
	}
	return fs[0]
}

func (w *world) set(leaf, content string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.content[leaf] = content
}

func (w *world) get(leaf string) (string, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	s, ok := w.content[leaf]
	return s, ok
}

func (w *world) heal() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.faults = map[string][]fault{}
}

func (w *world) breakLeaf(leaf string, fs ...fault) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.faults[leaf] = append(w.faults[leaf], fs...)
}

func (w *world) names() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Sorted(maps.Keys(w.content))
}

// leaves manages things that have a content.
type leaves struct{ w *world }

type leaf struct {
	Content string `json:"content"`
}

// leafAction is the sealed sum of what can be done to a leaf.
type leafAction interface {
	engine.Action
	do(*world, string)
}

type write struct{ Content string }
type remove struct{}

func (write) ActionName() string                 { return "write" }
func (remove) ActionName() string                { return "remove" }
func (a write) do(w *world, name string)         { w.content[name] = a.Content }
func (remove) do(w *world, name string)          { delete(w.content, name) }
func (l leaves) label(id string, g int64) string { return fmt.Sprintf("%s#%d", id, g) }

type leafSeen struct {
	Exists  bool
	Content string
}

func (l leaves) Observe(_ context.Context, r engine.Resource[leaf]) (leafSeen, error) {
	defer l.w.enter(r.Ref, r.Generation)()
	s, ok := l.w.get(r.Ref.ID)
	return leafSeen{ok, s}, nil
}

func (l leaves) Decide(v engine.View[leaf, leafSeen]) engine.Decision {
	switch {
	case v.Resource.Delete && !v.Observed.Exists:
		return engine.IsConverged(engine.NewReason("gone", ""))
	case v.Resource.Delete:
		return engine.Do(remove{}, engine.NewReason("exists", ""))
	case !v.Observed.Exists || v.Observed.Content != v.Resource.Desired.Content:
		return engine.Do(write{v.Resource.Desired.Content}, engine.NewReason("differs", ""))
	}
	return engine.IsConverged(engine.NewReason("as-desired", ""))
}

var errBroken = errors.New("broken")

func (l leaves) Act(ctx context.Context, r engine.Resource[leaf], a engine.Action) error {
	defer l.w.enter(r.Ref, r.Generation)()
	if err := l.w.hook("before act"); err != nil {
		return err
	}
	if err := l.perform(ctx, r, a.(leafAction)); err != nil {
		return err
	}
	return l.w.hook("after act")
}

func (l leaves) perform(ctx context.Context, r engine.Resource[leaf], a leafAction) error {
	l.w.mu.Lock()
	l.w.acts[l.label(r.Ref.ID, r.Generation)]++
	f := l.w.next(r.Ref.ID)
	switch f {
	case works, lies:
		a.do(l.w, r.Ref.ID)
	}
	l.w.mu.Unlock()
	switch f {
	case fails, lies, failsForEver:
		return errBroken
	case panics:
		panic("as told")
	case hangs:
		<-ctx.Done()
		return ctx.Err()
	}
	pass(time.Millisecond)
	return nil
}

// trees manages parents of leaves: all leaves named, and no others.
type trees struct{ w *world }

type tree struct {
	Leaves  []string `json:"leaves"`
	Content string   `json:"content"`
}

func (t trees) Observe(_ context.Context, r engine.Resource[tree]) (struct{}, error) {
	defer t.w.enter(r.Ref, r.Generation)()
	return struct{}{}, nil
}

func (t trees) Decide(v engine.View[tree, struct{}]) engine.Decision {
	d := engine.IsConverged(engine.NewReason("as-desired", ""))
	for i, name := range v.Resource.Desired.Leaves {
		d = d.With(engine.Upsert(leafRef(name), leaf{v.Resource.Desired.Content}).WithOrder(i))
	}
	for _, c := range v.Children {
		if !slices.Contains(v.Resource.Desired.Leaves, c.Ref.ID) {
			d = d.With(engine.Delete(c.Ref))
		}
	}
	return d
}

func (trees) Act(context.Context, engine.Resource[tree], engine.Action) error {
	return errors.New("a tree never acts")
}

func leafRef(name string) engine.Ref { return engine.Ref{Kind: "leaf", ID: name} }
func treeRef(name string) engine.Ref { return engine.Ref{Kind: "tree", ID: name} }

func mustJSON(v any) string {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(raw)
}

// pass lets virtual time go by; it is called in synctest bubbles only.
func pass(d time.Duration) {
	time.Sleep(d) // in a bubble
}
