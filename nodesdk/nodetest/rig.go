package nodetest

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/steadyfleet/steady/nodesdk"
)

// rig is a device with its node, connected to a peer.
type rig struct {
	*testing.T
	h      *Harness
	device *Device
	driver *tampered
	peer   *Peer
	dir    string
	op     uint64
	s      *Session
	log    *logged
	stop   func()
}

func newRig(t *testing.T, h *Harness, d *Device) *rig {
	t.Helper()
	r := &rig{T: t, h: h, device: d, dir: t.TempDir(), log: &logged{}}
	var err error
	if r.peer, err = NewPeer(); err != nil {
		t.Fatal(err)
	}
	r.driver = &tampered{Driver: r.device.Driver}
	r.run()
	t.Cleanup(func() {
		r.stop()
		_ = r.peer.Close()
	})
	return r
}

// run starts the node, and waits for its session.
func (r *rig) run() {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		ended <- nodesdk.Run(ctx, nodesdk.Config{
			Driver: r.driver.wrapped(), DriverName: "nodetest", Program: "nodetest", Name: "node", Collections: r.device.Collections,
			StateDir: r.dir, Server: r.peer.Address, RootCAs: r.peer.RootCAs, Poll: 100 * time.Millisecond, Timeout: r.patience(),
			Log: slog.New(slog.NewTextHandler(r.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
		})
	}()
	r.stop = sync.OnceFunc(func() {
		cancel()
		select {
		case err := <-ended:
			if err != nil {
				r.Errorf("the node ended with %v", err)
			}
		case <-time.After(r.patience()):
			r.Errorf("the node did not end within %s: a call of the driver does not heed its context", r.patience())
		}
	})
	r.connected()
}

func (r *rig) patience() time.Duration { return cmp.Or(r.h.Patience, Patience) }

func (r *rig) ctx() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), r.patience())
}

// read has the driver read by itself.
func (r *rig) read(ctx context.Context) (s nodesdk.State, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("Snapshot panics: %v", p)
		}
	}()
	return r.device.Driver.Snapshot(ctx)
}

func (r *rig) connected() {
	r.Helper()
	ctx, cancel := r.ctx()
	defer cancel()
	s, err := r.peer.Session(ctx)
	if err != nil {
		r.Fatalf("the node did not connect within %s, which it does after its first Snapshot: %v; its log:\n%s", r.patience(), err, r.log.text())
	}
	r.s = s
}

func (r *rig) snapshot() *nodesdk.Snapshot {
	r.Helper()
	ctx, cancel := r.ctx()
	defer cancel()
	a, err := r.s.Request(ctx, nodesdk.Request{Snapshot: &nodesdk.SnapshotRequest{}})
	if err != nil || a.Snapshot == nil {
		r.Fatalf("no snapshot within %s: %+v, %v", r.patience(), a, err)
	}
	return a.Snapshot
}

// whole is a snapshot that has to be complete.
func (r *rig) whole() map[string]nodesdk.Object {
	r.Helper()
	s := r.snapshot()
	if !s.Complete {
		r.Fatalf("the snapshot is not complete: %s", s.Error)
	}
	out := map[string]nodesdk.Object{}
	for _, o := range s.Objects {
		out[o.Kind+" "+o.ID] = o
	}
	return out
}

func (r *rig) has(kind, id string) *nodesdk.Object {
	r.Helper()
	if o, there := r.whole()[kind+" "+id]; there {
		return &o
	}
	return nil
}

// must is an object that has to be there.
func (r *rig) must(e Example) *nodesdk.Object {
	r.Helper()
	o := r.has(e.Kind, e.ID)
	if o == nil {
		r.Fatalf("Snapshot lacks %s %s, which the device accepted", e.Kind, e.ID)
	}
	return o
}

// operation is the next one for an object that has the ETag.
func (r *rig) operation(kind, id string, config json.RawMessage, etag string) nodesdk.Apply {
	r.op++
	return nodesdk.Apply{Op: r.op, Term: 1, Kind: kind, ID: id, Delete: config == nil, Config: config, IfMatch: etag}
}

func (r *rig) apply(a nodesdk.Apply) *nodesdk.Applied {
	r.Helper()
	ctx, cancel := r.ctx()
	defer cancel()
	answer, err := r.s.Request(ctx, nodesdk.Request{Apply: &a})
	if err != nil || answer.Applied == nil {
		r.Fatalf("no answer to %s %s within %s: %+v, %v", a.Kind, a.ID, r.patience(), answer, err)
	}
	if answer.Applied.Op != a.Op {
		r.Fatalf("the answer is to operation %d, not %d", answer.Applied.Op, a.Op)
	}
	return answer.Applied
}

// expect fails unless an operation ended so.
func (r *rig) expect(what string, got *nodesdk.Applied, want ...nodesdk.Outcome) *nodesdk.Applied {
	r.Helper()
	for _, w := range want {
		if got.Outcome == w {
			return got
		}
	}
	r.Fatalf("%s ended as %s (%s %s), expected %v", what, got.Outcome, got.Code, got.Error, want)
	return nil
}

// create makes an example.
func (r *rig) create(e Example) *nodesdk.Object {
	r.Helper()
	got := r.expect("the creation of "+e.ID, r.apply(r.operation(e.Kind, e.ID, e.Config, "")), nodesdk.OutcomeApplied)
	if got.Object == nil || got.Object.ETag == "" || got.Object.Op != r.op {
		r.Fatalf("the creation of %s is answered with %+v", e.ID, got.Object)
	}
	return got.Object
}

// changed waits until the node reports a change by somebody else.
func (r *rig) changed() {
	r.Helper()
	ctx, cancel := r.ctx()
	defer cancel()
	for {
		select {
		case m := <-r.s.Events:
			if m.Type == nodesdk.TypeChanged {
				return
			}
		case <-ctx.Done():
			r.Fatalf("the node did not report the change within %s", r.patience())
		}
	}
}

// logged is the node's log.
type logged struct {
	mu  sync.Mutex
	all strings.Builder
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.Write(p)
}

func (l *logged) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.String()
}

// tampered is the real driver, of which a case can disturb a call. What is not disturbed
// is the real one's.
type tampered struct {
	nodesdk.Driver
	mu    sync.Mutex
	apply func(ctx context.Context, op nodesdk.Op, real func() error) error
	read  func(s nodesdk.State, err error) (nodesdk.State, error)
}

func (t *tampered) disturb(apply func(context.Context, nodesdk.Op, func() error) error, read func(nodesdk.State, error) (nodesdk.State, error)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.apply, t.read = apply, read
}

func (t *tampered) Snapshot(ctx context.Context) (nodesdk.State, error) {
	s, err := t.Driver.Snapshot(ctx)
	t.mu.Lock()
	read := t.read
	t.mu.Unlock()
	if read != nil {
		return read(s, err)
	}
	return s, err
}

func (t *tampered) Apply(ctx context.Context, op nodesdk.Op) error {
	return t.around(ctx, op, func() error { return t.Driver.Apply(ctx, op) })
}

func (t *tampered) around(ctx context.Context, op nodesdk.Op, real func() error) error {
	t.mu.Lock()
	apply := t.apply
	t.mu.Unlock()
	if apply != nil {
		return apply(ctx, op, real)
	}
	return real()
}

// wrapped has the optional interfaces that the driver has.
func (t *tampered) wrapped() nodesdk.Driver {
	type parts struct {
		reader    nodesdk.Reader
		confirmer nodesdk.Confirmer
	}
	var p parts
	p.reader, _ = t.Driver.(nodesdk.Reader)
	p.confirmer, _ = t.Driver.(nodesdk.Confirmer)
	redactor, redacts := t.Driver.(nodesdk.Redactor)
	if !redacts {
		redactor = unredacted{}
	}
	validator, validates := t.Driver.(nodesdk.Validator)
	if !validates {
		validator = unvalidated{}
	}
	watcher, watches := t.Driver.(nodesdk.Watcher)
	if !watches {
		watcher = unwatched{}
	}
	base := optional{t, redactor, validator, watcher}
	switch {
	case p.reader != nil && p.confirmer != nil:
		return struct {
			optional
			nodesdk.Reader
			confirming
		}{base, p.reader, confirming{p.confirmer, t}}
	case p.reader != nil:
		return struct {
			optional
			nodesdk.Reader
		}{base, p.reader}
	case p.confirmer != nil:
		return struct {
			optional
			confirming
		}{base, confirming{p.confirmer, t}}
	}
	return base
}

type optional struct {
	*tampered
	nodesdk.Redactor
	nodesdk.Validator
	nodesdk.Watcher
}

// confirming disturbs the first half of a confirmed change.
type confirming struct {
	nodesdk.Confirmer
	t *tampered
}

func (c confirming) ApplyUnconfirmed(ctx context.Context, op nodesdk.Op, within time.Duration) error {
	return c.t.around(ctx, op, func() error { return c.Confirmer.ApplyUnconfirmed(ctx, op, within) })
}

// What a driver without an optional interface does.
type (
	unredacted  struct{}
	unvalidated struct{}
	unwatched   struct{}
)

func (unredacted) Redact(it nodesdk.Item, _ func(string) string) nodesdk.Item { return it }

func (unvalidated) Validate(context.Context, nodesdk.Item) ([]nodesdk.Problem, error) {
	return nil, errors.New("the driver cannot validate")
}

func (unwatched) Watch(ctx context.Context, _ func()) error {
	<-ctx.Done()
	return nil
}
