package reconcile

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/steadyfleet/steady/reconcile/engine"
)

// kind is a reconciler with its types erased.
type kind interface {
	policy() *engine.Policy
	setPolicy(p *engine.Policy)
	listed() bool // resources are observed together
	// check fails if raw is not desired state of the kind as it is written now, and else gives its version.
	check(raw json.RawMessage) (version int, err error)
	version() int
	// observe returns a *O, which is used again after release.
	observe(ctx context.Context, in engine.Input, fresh bool, now func() time.Time) (any, error)
	release(observed any)
	decide(in engine.Input, observed any, check bool) (engine.Decision, error)
	encode(in engine.Input, observed any) (json.RawMessage, error) // the view that decide has
	act(ctx context.Context, in engine.Input, a engine.Action) error
	acted()
	orphans(ctx context.Context) ([]engine.Ref, error)
	drop(ref engine.Ref)
}

type typedKind[D, O any] struct {
	decoder[D]
	m   Reconciler[D, O]
	p   atomic.Pointer[engine.Policy]
	all *listing[O] // nil if the reconciler cannot list

	seen sync.Pool // of *O

	mu      sync.Mutex
	decoded map[engine.Ref]decoded[D]
}

// decoded is what is desired of a resource, and the bytes it was read from.
type decoded[D any] struct {
	from    *byte
	length  int
	desired D
}

// unknown is the policy of kinds that nobody registered.
var unknown = engine.Policy{}.WithDefaults()

// policyOf is the policy of a kind; nil is one that nobody registered.
func policyOf(k kind) *engine.Policy {
	if k == nil {
		return &unknown
	}
	return k.policy()
}

func (k *typedKind[D, O]) policy() *engine.Policy     { return k.p.Load() }
func (k *typedKind[D, O]) setPolicy(p *engine.Policy) { k.p.Store(p) }
func (k *typedKind[D, O]) listed() bool               { return k.all != nil }

func (k *typedKind[D, O]) acted() {
	if k.all != nil {
		k.all.drop()
	}
}

// resource decodes the row for the reconciler.
func (k *typedKind[D, O]) resource(in engine.Input) (r engine.Resource[D], err error) {
	row := &in.Snap.Row
	r = bare[D](in)
	if r.Desired, err = k.read(row.Desired, row.DesiredVersion()); err != nil {
		return r, Terminal(engine.CodeBadDesired, fmt.Errorf("what is desired of %s cannot be read: %w", row.Ref, err))
	}
	return r, nil
}

func (k *typedKind[D, O]) check(raw json.RawMessage) (int, error) {
	_, err := k.read(raw, k.version())
	return k.version(), err
}

// bare is a resource without what is desired of it.
func bare[D any](in engine.Input) engine.Resource[D] {
	row := &in.Snap.Row
	return engine.Resource[D]{
		Ref: row.Ref, Parent: row.Parent, Generation: row.Generation, Delete: row.Delete,
		Status: row.Status(), Revision: row.Revision, NotAfter: row.NotAfter(),
	}
}

// shared is resource for those who only read: the same bytes are decoded once.
func (k *typedKind[D, O]) shared(in engine.Input) (engine.Resource[D], error) {
	raw := in.Snap.Row.Desired
	if len(raw) == 0 {
		return bare[D](in), nil
	}
	k.mu.Lock()
	last, ok := k.decoded[in.Snap.Row.Ref]
	k.mu.Unlock()
	if ok && last.from == &raw[0] && last.length == len(raw) {
		r := bare[D](in)
		r.Desired = last.desired
		return r, nil
	}
	r, err := k.resource(in)
	if err == nil {
		k.mu.Lock()
		k.decoded[in.Snap.Row.Ref] = decoded[D]{&raw[0], len(raw), r.Desired}
		k.mu.Unlock()
	}
	return r, err
}

func (k *typedKind[D, O]) drop(ref engine.Ref) {
	k.mu.Lock()
	delete(k.decoded, ref)
	k.mu.Unlock()
	if k.all != nil {
		k.all.forget(ref)
	}
}

func (k *typedKind[D, O]) observe(ctx context.Context, in engine.Input, fresh bool, now func() time.Time) (any, error) {
	if k.all != nil && !fresh {
		o, found, err := k.all.get(ctx, in.Snap.Row.Ref, in.Snap.Row.Generation, now)
		if err != nil {
			return nil, err
		}
		if found {
			return k.hold(o), nil
		}
	}
	r, err := k.shared(in)
	if err != nil {
		return nil, err
	}
	var o O
	err = protect("Observe", func() error {
		o, err = k.m.Observe(ctx, r)
		return err
	})
	if err == nil && k.all != nil {
		k.all.observedAlone(r.Ref, r.Generation)
	}
	return k.hold(o), err
}

// hold keeps what was observed where it need not be allocated anew for each turn.
func (k *typedKind[D, O]) hold(o O) *O {
	p, ok := k.seen.Get().(*O)
	if !ok {
		p = new(O)
	}
	*p = o
	return p
}

func (k *typedKind[D, O]) release(observed any) {
	if p, ok := observed.(*O); ok && p != nil {
		var none O
		*p = none
		k.seen.Put(p)
	}
}

// view is what Decide gets.
func (k *typedKind[D, O]) view(in engine.Input, observed any) (engine.View[D, O], error) {
	r, err := k.shared(in)
	v := engine.View[D, O]{Resource: r, Events: in.Snap.Events, Now: in.Now}
	if p, ok := observed.(*O); ok {
		v.Observed = *p
	}
	for i := range in.Snap.Children {
		if c := &in.Snap.Children[i]; c.Phase != engine.Deleted {
			v.Children = append(v.Children, c.ChildView())
		}
	}
	return v, err
}

func (k *typedKind[D, O]) encode(in engine.Input, observed any) (json.RawMessage, error) {
	v, err := k.view(in, observed)
	if err != nil {
		return nil, err
	}
	return json.Marshal(v)
}

func (k *typedKind[D, O]) decide(in engine.Input, observed any, check bool) (d engine.Decision, err error) {
	v, err := k.view(in, observed)
	if err != nil {
		return d, err
	}
	if !check {
		err = protect("Decide", func() error { d = k.m.Decide(v); return nil })
		return d, err
	}
	if fresh, err := k.resource(in); err == nil && !reflect.DeepEqual(fresh.Desired, v.Resource.Desired) {
		return d, fmt.Errorf("observing %s changed what is desired of it", v.Resource.Ref)
	}
	return DecideTwice(k.m, v)
}

// DecideTwice decides a view twice, and fails unless the decisions agree and the view stays as it
// is. A view that does not encode as JSON is not compared.
func DecideTwice[D, O any](m Reconciler[D, O], v engine.View[D, O]) (d engine.Decision, err error) {
	ref := v.Resource.Ref
	before, _ := json.Marshal(v)
	err = protect("Decide", func() error { d = m.Decide(v); return nil })
	if err != nil {
		return d, err
	}
	var again engine.Decision
	err = protect("Decide", func() error { again = m.Decide(v); return nil })
	after, _ := json.Marshal(v)
	switch {
	case err != nil:
		return d, err
	case !reflect.DeepEqual(d, again):
		return d, fmt.Errorf("deciding %s is not a function: it gave %s (%s), then %s (%s) on the same view", ref, d.Name(), d.Reason(), again.Name(), again.Reason())
	case string(before) != string(after):
		return d, fmt.Errorf("deciding %s changed its view", ref)
	}
	return d, nil
}

func (k *typedKind[D, O]) act(ctx context.Context, in engine.Input, a engine.Action) error {
	r, err := k.resource(in)
	if err != nil {
		return err
	}
	return protect("Act", func() error { return k.m.Act(ctx, r, a) })
}

func (k *typedKind[D, O]) orphans(ctx context.Context) (refs []engine.Ref, err error) {
	p, ok := k.m.(OrphanLister)
	if !ok {
		return nil, nil
	}
	err = protect("Orphans", func() error { refs, err = p.Orphans(ctx); return err })
	return refs, err
}

// panicError is a recovered panic of a reconciler.
type panicError struct {
	in    string
	value any
	stack []byte
}

func (e *panicError) Error() string { return fmt.Sprintf("panic in %s: %v", e.in, e.value) }

// protect turns a panic of f into an error.
func protect(in string, f func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &panicError{in: in, value: v, stack: debug.Stack()}
		}
	}()
	return f()
}

func isPanic(err error) bool {
	_, is := errors.AsType[*panicError](err)
	return is
}

// exited is the error of a call that ended its goroutine.
func exited(in string) error {
	return &panicError{in: in, value: "runtime.Goexit: it ended the goroutine that it was called in", stack: debug.Stack()}
}

// apart runs f in a goroutine of its own, so that neither a panic in it nor a Goexit ends its
// caller's, and gives the error.
func apart(in string, f func() error) <-chan error {
	done := make(chan error, 1)
	go func() {
		err := exited(in)
		defer func() { done <- err }()
		err = protect(in, f)
	}()
	return done
}

// classify turns an error of Observe or Act into an outcome.
func classify(err error, code engine.Code) engine.Outcome {
	var (
		blocked  *blockedError
		terminal *terminalError
		panicked *panicError
	)
	switch {
	case err == nil:
		return engine.Outcome{}
	case errors.As(err, &blocked):
		return engine.Outcome{Class: engine.Blocked, Reason: blocked.reason, Error: err.Error()}
	case errors.As(err, &terminal):
		return engine.Outcome{Class: engine.Permanent, Reason: engine.NewReason(terminal.code, err.Error()), Error: err.Error()}
	case errors.As(err, &panicked):
		code = engine.CodePanic
	}
	return engine.Outcome{Class: engine.Transient, Reason: engine.NewReason(code, err.Error()), Error: err.Error()}
}
