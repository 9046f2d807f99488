package control_test

import (
	"context"
	"encoding/json"
	"errors"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/steadyfleet/steady/internal/control"
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/plan"
	"github.com/steadyfleet/steady/internal/identity"
	"github.com/steadyfleet/steady/internal/store"
	"github.com/steadyfleet/steady/internal/store/embedded"
	"github.com/steadyfleet/steady/internal/testkit"
	"github.com/steadyfleet/steady/internal/testkit/testfleet"
	"github.com/steadyfleet/steady/internal/trust"
	"github.com/steadyfleet/steady/internal/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// disk is a real store whose appends fail on demand.
type disk struct {
	store.Store
	fail atomic.Pointer[error]
}

func (d *disk) Append(ctx context.Context, expect, term uint64, entries []event.Entry) (store.Head, error) {
	if err := d.fail.Load(); err != nil {
		return store.Head{}, *err
	}
	return d.Store.Append(ctx, expect, term, entries)
}

func (d *disk) set(err error) {
	if err == nil {
		d.fail.Store(nil)
		return
	}
	d.fail.Store(&err)
}

// runtime is a server without edges on a disk that can fail.
type runtime struct {
	*control.Control
	disk *disk
	ran  chan error
	stop context.CancelFunc
	conf control.Config
}

func open(t *testing.T) *runtime {
	t.Helper()
	dir := t.TempDir()
	s := testkit.Value(embedded.Open(context.Background(), filepath.Join(dir, "store"), embedded.Options{}))(t)
	t.Cleanup(func() { testkit.Must(t, s.Close()) })
	ca := testkit.Value(identity.CreateAuthority(identity.FileKeys{}, dir, identity.Hosts, testfleet.Name, time.Now()))(t)
	r := &runtime{disk: &disk{Store: s}, conf: control.Config{Fleet: testfleet.Name, DataDir: dir, HostCA: ca, Root: testkit.Value(testfleet.NewKeys("").First())(t)}}
	r.conf.Store = r.disk
	r.start(t)
	return r
}

func (r *runtime) start(t *testing.T) {
	t.Helper()
	conf := r.conf
	c := testkit.Value(control.Open(context.Background(), conf))(t)
	ctx, stop := context.WithCancel(context.Background())
	r.Control, r.stop, r.ran = c, stop, make(chan error, 1)
	go func() { r.ran <- c.Run(ctx) }()
	t.Cleanup(func() { stop(); <-c.Stopped() })
}

func (r *runtime) state(t *testing.T) string {
	t.Helper()
	var raw []byte
	var failed error
	testkit.Must(t, r.View(context.Background(), func(s *plan.State) { raw, failed = json.Marshal(s) }))
	testkit.Must(t, failed)
	return string(raw)
}

// F8: what could not be committed is not acknowledged and leaves no trace in the
// state, and the server goes on when there is room again.
func TestF8FullDiskChangesNothing(t *testing.T) {
	r, ctx := open(t), context.Background()
	_, _, err := r.AddOperator(ctx, "one", "viewer", clock.Hour, "test")
	testkit.Must(t, err)
	before, head := r.state(t), r.Head()
	for _, full := range []error{store.ErrFull, store.ErrBusy} {
		r.disk.set(full)
		if _, _, err := r.AddOperator(ctx, "two", "viewer", clock.Hour, "test"); !errors.Is(err, wire.ErrUnavailable) {
			t.Fatalf("with %v: %v", full, err)
		}
		if got := r.state(t); got != before || r.Head() != head {
			t.Fatalf("with %v the state went from\n%s\nto\n%s", full, before, got)
		}
		r.disk.set(nil)
		for {
			_, _, err = r.AddOperator(ctx, "three", "viewer", clock.Hour, "test")
			if !errors.Is(err, wire.ErrUnavailable) {
				break
			}
		}
		testkit.Must(t, err)
		before, head = r.state(t), r.Head()
	}
	r.stop()
	testkit.Must(t, <-r.ran)
	r.start(t)
	if got := r.state(t); got != before {
		t.Errorf("after a restart:\n%s\nbefore:\n%s", got, before)
	}
}

// F9, S33: the first failure of unknown outcome ends the process, and nobody is
// acknowledged.
func TestF9BrokenDiskEndsTheServer(t *testing.T) {
	for _, cause := range []error{&store.FatalError{Op: "append", Err: syscall.EIO}, store.ErrFenced, store.ErrConflict} {
		r, ctx := open(t), context.Background()
		r.disk.set(cause)
		if _, _, err := r.AddOperator(ctx, "one", "viewer", clock.Hour, "test"); !errors.Is(err, wire.ErrUnavailable) {
			t.Errorf("with %v: %v", cause, err)
		}
		if err := <-r.ran; !errors.Is(err, cause) {
			t.Errorf("the server ended with %v, expected %v", err, cause)
		}
		r.disk.set(nil)
		if _, _, err := r.AddOperator(ctx, "two", "viewer", clock.Hour, "test"); !errors.Is(err, wire.ErrUnavailable) {
			t.Errorf("a stopped server answered %v", err)
		}
		if err := r.View(ctx, func(*plan.State) { t.Error("a stopped server read its state") }); !errors.Is(err, wire.ErrUnavailable) {
			t.Errorf("a stopped server answered %v", err)
		}
	}
}

// A refused input takes nobody with it that came in the same round.
func TestRefusalsAreTheirOwn(t *testing.T) {
	r, ctx := open(t), context.Background()
	results := make(chan error, 200)
	for i := range cap(results) {
		go func() {
			if i%2 == 0 {
				_, _, err := r.AddOperator(ctx, "op", "viewer", clock.Hour, "test")
				results <- err
				return
			}
			var verb *plan.VerbError
			if err := r.Operate(ctx, func(s *plan.State, now clock.Instant) ([]event.Entry, error) {
				return plan.Operate(s, plan.Pause, "none", "x", "y", now)
			}); !errors.As(err, &verb) {
				results <- errors.Join(errors.New("expected a refusal"), err)
				return
			}
			results <- nil
		}()
	}
	for range cap(results) {
		testkit.Must(t, <-results)
	}
	n := 0
	testkit.Must(t, r.View(ctx, func(s *plan.State) { n = len(s.Operators) }))
	if n != cap(results)/2 {
		t.Errorf("%d operators of %d were made", n, cap(results)/2)
	}
}

func TestFirstStartNeedsARoot(t *testing.T) {
	r := open(t)
	r.stop()
	testkit.Must(t, <-r.ran)
	conf := r.conf
	conf.Root = nil
	if _, err := control.Open(context.Background(), conf); err != nil {
		t.Errorf("a later start: %v", err)
	}
	dir := t.TempDir()
	s := testkit.Value(embedded.Open(context.Background(), dir, embedded.Options{}))(t)
	defer func() { testkit.Must(t, s.Close()) }()
	conf.Store, conf.DataDir = s, dir
	if _, err := control.Open(context.Background(), conf); err == nil {
		t.Error("a first start without a root")
	}
	head := testfleet.Head(1, 1)
	head.Fleet = "other"
	conf.Root = testkit.Value(testfleet.NewKeys("").Root(head))(t)
	if _, err := control.Open(context.Background(), conf); trust.CodeOf(err) != trust.WrongFleet {
		t.Errorf("another fleet's root: %v", err)
	}
}
