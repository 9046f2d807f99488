package nodetest_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/steadyfleet/steady/nodesdk"
	"github.com/steadyfleet/steady/nodesdk/nodetest"
)

// whole is a driver without a fault, of a device in memory.
type whole struct {
	mu     sync.Mutex
	items  map[string]json.RawMessage
	broken bool
}

func (w *whole) Snapshot(context.Context) (nodesdk.State, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.broken {
		return nodesdk.State{}, errors.New("the device does not answer")
	}
	s := nodesdk.State{Complete: true}
	for id, c := range w.items { // order-free
		s.Items = append(s.Items, nodesdk.Item{Kind: "camera", ID: id, Config: c})
	}
	return s, nil
}

func (w *whole) Apply(_ context.Context, op nodesdk.Op) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.broken {
		return errors.New("the device does not answer")
	}
	if op.Delete {
		delete(w.items, op.ID)
	} else {
		w.items[op.ID] = op.Config
	}
	return nil
}

func (w *whole) Normalize(it nodesdk.Item) nodesdk.Item { return it }

// faulty is it with a fault. What is nil is as it should be.
type faulty struct {
	*whole
	snapshot  func(w *whole, ctx context.Context) (nodesdk.State, error)
	apply     func(w *whole, op nodesdk.Op) error
	normalize func(nodesdk.Item) nodesdk.Item
}

func (f *faulty) Snapshot(ctx context.Context) (nodesdk.State, error) {
	if f.snapshot != nil {
		return f.snapshot(f.whole, ctx)
	}
	return f.whole.Snapshot(ctx)
}

func (f *faulty) Apply(ctx context.Context, op nodesdk.Op) error {
	if f.apply != nil {
		return f.apply(f.whole, op)
	}
	return f.whole.Apply(ctx, op)
}

func (f *faulty) Normalize(it nodesdk.Item) nodesdk.Item {
	if f.normalize != nil {
		return f.normalize(it)
	}
	return it
}

// changed decodes a config, changes it, and encodes it again. Numbers are floats in between.
func changed(config json.RawMessage, change func(map[string]any)) json.RawMessage {
	var m map[string]any
	if json.Unmarshal(config, &m) != nil {
		return config
	}
	change(m)
	out, _ := json.Marshal(m)
	return out
}

// set has the device store another config than the one that is given.
func set(change func(was, is json.RawMessage) json.RawMessage) func(*whole, nodesdk.Op) error {
	return func(w *whole, op nodesdk.Op) error {
		if !op.Delete {
			w.mu.Lock()
			was := w.items[op.ID]
			w.mu.Unlock()
			op.Config = change(was, op.Config)
		}
		return w.Apply(context.Background(), op)
	}
}

func normal(change func(map[string]any)) func(nodesdk.Item) nodesdk.Item {
	return func(it nodesdk.Item) nodesdk.Item {
		it.Config = changed(it.Config, change)
		return it
	}
}

var calls int

// broken are drivers with one fault each, and the case that finds it.
var broken = map[string]struct {
	faulty
	noBreak bool
	finds   string
}{
	"merges": {faulty: faulty{apply: set(func(was, is json.RawMessage) json.RawMessage {
		return changed(is, func(m map[string]any) {
			var old map[string]any
			_ = json.Unmarshal(was, &old)
			for k, v := range old { // order-free: each by itself
				if _, there := m[k]; !there {
					m[k] = v
				}
			}
		})
	})}, finds: "edits-replace"},
	"drops what it does not know": {faulty: faulty{normalize: normal(func(m map[string]any) {
		for k := range m { // order-free: each by itself
			if k != "port" && k != "name" {
				delete(m, k)
			}
		}
	})}, finds: "Normalize-keeps-what-it-does-not-know"},
	"swallows errors of reading": {faulty: faulty{snapshot: func(w *whole, ctx context.Context) (nodesdk.State, error) {
		if ctx.Err() != nil {
			return nodesdk.State{Complete: true}, nil
		}
		return w.Snapshot(ctx)
	}}, noBreak: true, finds: "reading-that-is-cut-short"},
	"heeds no context and cannot be broken": {noBreak: true, finds: "reading-that-is-cut-short"},
	"takes a broken device for an empty one": {faulty: faulty{snapshot: func(w *whole, ctx context.Context) (nodesdk.State, error) {
		s, err := w.Snapshot(ctx)
		s.Complete = true
		if err != nil {
			err = nil
		}
		return s, err
	}}, finds: "unreadable-device"},
	"lists nothing": {faulty: faulty{snapshot: func(*whole, context.Context) (nodesdk.State, error) {
		return nodesdk.State{Complete: true}, nil
	}}, finds: "what-is-made-is-read"},
	"lists an object twice": {faulty: faulty{snapshot: func(w *whole, ctx context.Context) (nodesdk.State, error) {
		s, err := w.Snapshot(ctx)
		s.Items = append(s.Items, s.Items...)
		return s, err
	}}, finds: "what-is-made-is-read"},
	"lists another kind": {faulty: faulty{snapshot: func(w *whole, ctx context.Context) (nodesdk.State, error) {
		s, err := w.Snapshot(ctx)
		for i := range s.Items {
			s.Items[i].Kind = "cam"
		}
		return s, err
	}}, finds: "what-is-made-is-read"},
	"never answers": {faulty: faulty{snapshot: func(*whole, context.Context) (nodesdk.State, error) { select {} }}, finds: "what-is-made-is-read"},
	"panics":        {faulty: faulty{snapshot: func(*whole, context.Context) (nodesdk.State, error) { panic("nil map") }}, finds: "what-is-made-is-read"},
	"forgets":       {faulty: faulty{apply: func(*whole, nodesdk.Op) error { return nil }}, finds: "what-is-made-is-read"},
	"forgets deletions": {faulty: faulty{apply: func(w *whole, op nodesdk.Op) error {
		if op.Delete {
			return nil
		}
		return w.Apply(context.Background(), op)
	}}, finds: "create,-read,-replace,-delete"},
	"loses null": {faulty: faulty{apply: set(func(_, is json.RawMessage) json.RawMessage {
		var m map[string]json.RawMessage
		_ = json.Unmarshal(is, &m)
		for k, v := range m { // order-free: each by itself
			if string(v) == "null" {
				delete(m, k)
			}
		}
		out, _ := json.Marshal(m)
		return out
	})}, finds: "every-kind-of-value"},
	"rounds integers":             {faulty: faulty{apply: set(func(_, is json.RawMessage) json.RawMessage { return changed(is, func(map[string]any) {}) })}, finds: "every-kind-of-value"},
	"rounds integers in its form": {faulty: faulty{normalize: normal(func(map[string]any) {})}, finds: "Normalize-keeps-what-it-does-not-know"},
	"reorders lists": {faulty: faulty{apply: set(func(_, is json.RawMessage) json.RawMessage {
		var m map[string]json.RawMessage
		_ = json.Unmarshal(is, &m)
		for k, v := range m { // order-free: each by itself
			var list []json.RawMessage
			if json.Unmarshal(v, &list) == nil && len(list) > 1 {
				slices.Reverse(list)
				m[k], _ = json.Marshal(list)
			}
		}
		out, _ := json.Marshal(m)
		return out
	})}, finds: "every-kind-of-value"},
	"is not idempotent": {faulty: faulty{normalize: func(it nodesdk.Item) nodesdk.Item {
		it.Config = json.RawMessage(strings.Replace(string(it.Config), `{"`, `{"x`, 1))
		return it
	}}, finds: "Normalize-is-pure-and-idempotent"},
	"is not pure": {faulty: faulty{normalize: func(it nodesdk.Item) nodesdk.Item {
		calls++
		it.Config = json.RawMessage(strings.Replace(string(it.Config), `{`, `{"calls":`+strings.Repeat("1", 1+calls%9)+`,`, 1))
		return it
	}}, finds: "Normalize-is-pure-and-idempotent"},
	"cannot delete what is not there": {faulty: faulty{apply: func(w *whole, op nodesdk.Op) error {
		w.mu.Lock()
		_, there := w.items[op.ID]
		w.mu.Unlock()
		if op.Delete && !there {
			return errors.New("404")
		}
		return w.Apply(context.Background(), op)
	}}, finds: "create-and-delete-are-idempotent"},
	"writes objects of others": {faulty: faulty{apply: func(w *whole, op nodesdk.Op) error {
		w.mu.Lock()
		for id := range w.items { // order-free: all of them
			w.items[id] = json.RawMessage(`{"port":1}`)
		}
		w.mu.Unlock()
		return w.Apply(context.Background(), op)
	}}, finds: "other-objects-stay"},
	"deletes objects of others": {faulty: faulty{apply: func(w *whole, op nodesdk.Op) error {
		if op.Delete {
			w.mu.Lock()
			defer w.mu.Unlock()
			clear(w.items)
			return nil
		}
		return w.Apply(context.Background(), op)
	}}, finds: "other-objects-stay"},
}

func harness(f faulty, noBreak bool, patience time.Duration) nodetest.Harness {
	return nodetest.Harness{
		Edits: 3, Patience: patience,
		Start: func(*testing.T) *nodetest.Device {
			w := &whole{items: map[string]json.RawMessage{}}
			mine := f
			mine.whole = w
			d := &nodetest.Device{
				Driver: &mine, Collections: []nodesdk.Collection{{Kind: "camera"}}, NoRevisions: true,
				EditByAPI: func(_, id string, config json.RawMessage) error {
					return w.Apply(context.Background(), nodesdk.Op{ID: id, Config: config, Delete: config == nil})
				},
				Break: func() (func() error, error) {
					set := func(broken bool) { w.mu.Lock(); defer w.mu.Unlock(); w.broken = broken }
					set(true)
					return func() error { set(false); return nil }, nil
				},
			}
			if noBreak {
				d.Break = nil
			}
			return d
		},
		Examples: []nodetest.Example{
			{Kind: "camera", ID: "a", Config: json.RawMessage(`{"port":1,"name":"a"}`), Edited: json.RawMessage(`{"port":2,"name":"a"}`)},
			{Kind: "camera", ID: "b", Config: json.RawMessage(`{"port":3}`), Edited: json.RawMessage(`{"port":4}`)},
		},
	}
}

// only is the fault that a child of TestBrokenDriversAreFound runs.
const only = "NODETEST_BROKEN"

func TestBroken(t *testing.T) {
	name := os.Getenv(only)
	b, is := broken[name]
	if !is {
		return // it is for the children of TestBrokenDriversAreFound
	}
	nodetest.Run(t, harness(b.faulty, b.noBreak, 2*time.Second))
}

// TestWholeDriver: a driver without a fault passes.
func TestWholeDriver(t *testing.T) { nodetest.Run(t, harness(faulty{}, false, 0)) }

// TestBrokenDriversAreFound: each fault is found by the case that is about it, in words, and the suite
// ends by itself.
func TestBrokenDriversAreFound(t *testing.T) {
	for name, b := range broken {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			child(t, name, "^TestBroken$/^"+b.finds+"$", b.finds)
		})
	}
	for _, name := range []string{"lists nothing", "forgets", "is not idempotent"} { // with every case after the one that finds it
		t.Run("all of what "+name, func(t *testing.T) {
			t.Parallel()
			child(t, name, "^TestBroken$", broken[name].finds)
		})
	}
}

// child runs cases on a broken driver in a process of its own, which has to fail in the one that finds the fault.
func child(t *testing.T, name, run, finds string) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run="+run, "-test.timeout=4m")
	cmd.Env = append(os.Environ(), only+"="+name)
	out, err := cmd.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "--- FAIL: TestBroken/"+finds) {
		t.Errorf("%v, and not that %s fails:\n%s", err, finds, out)
	}
	if strings.Contains(string(out), "goroutine ") || strings.Contains(string(out), "test timed out") {
		t.Errorf("the suite did not end by itself:\n%s", out)
	}
}
