package control_test

import (
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/steadyfleet/steady/internal/control"
	"github.com/steadyfleet/steady/internal/control/refusal"
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/plan"
	"github.com/steadyfleet/steady/internal/identity"
	"github.com/steadyfleet/steady/internal/store"
	"github.com/steadyfleet/steady/internal/store/sqlite"
	"github.com/steadyfleet/steady/internal/trust"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

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

func root(t testing.TB, fleetName string) []byte {
	t.Helper()
	_, key, err := ed25519.GenerateKey(nil)
	must(t, err)
	s, err := trust.NewSigner(key)
	must(t, err)
	spec := map[trust.Role]trust.RoleSpec{}
	for _, role := range trust.Roles() {
		_, pub, err := ed25519.GenerateKey(nil)
		must(t, err)
		spec[role] = trust.RoleSpec{Keys: []ed25519.PublicKey{pub.Public().(ed25519.PublicKey)}, Threshold: 1}
	}
	spec[trust.RoleRoot] = trust.RoleSpec{Keys: []ed25519.PublicKey{s.Public()}, Threshold: 1}
	now := clock.FromTime(time.Now())
	r, err := trust.NewRoot(fleet.Document{Fleet: fleetName, Epoch: 1, Version: 1, IssuedAt: now}, now.Add(clock.Day), spec)
	must(t, err)
	env, err := trust.SignRoot(r, s)
	must(t, err)
	return env
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
	s, err := sqlite.Open(context.Background(), filepath.Join(dir, "store"), sqlite.Options{})
	must(t, err)
	t.Cleanup(func() { must(t, s.Close()) })
	ca, err := identity.CreateAuthority(dir, identity.Hosts, "acme", time.Now())
	must(t, err)
	r := &runtime{disk: &disk{Store: s}, conf: control.Config{Fleet: "acme", DataDir: dir, HostCA: ca, Root: root(t, "acme")}}
	r.conf.Store = r.disk
	r.start(t)
	return r
}

func (r *runtime) start(t *testing.T) {
	t.Helper()
	conf := r.conf
	c, err := control.Open(context.Background(), conf)
	must(t, err)
	ctx, stop := context.WithCancel(context.Background())
	r.Control, r.stop, r.ran = c, stop, make(chan error, 1)
	go func() { r.ran <- c.Run(ctx) }()
	t.Cleanup(func() { stop(); <-c.Stopped() })
}

func (r *runtime) state(t *testing.T) string {
	t.Helper()
	var raw []byte
	var failed error
	must(t, r.View(context.Background(), func(s *plan.State) { raw, failed = json.Marshal(s) }))
	must(t, failed)
	return string(raw)
}

// F8: what could not be committed is not acknowledged and leaves no trace in the
// state, and the server goes on when there is room again.
func TestF8FullDiskChangesNothing(t *testing.T) {
	r, ctx := open(t), context.Background()
	_, _, err := r.AddOperator(ctx, "one", "viewer", clock.Hour, "test")
	must(t, err)
	before, head := r.state(t), r.Head()
	for _, full := range []error{store.ErrFull, store.ErrBusy} {
		r.disk.set(full)
		if _, _, err := r.AddOperator(ctx, "two", "viewer", clock.Hour, "test"); !errors.Is(err, refusal.ErrUnavailable) {
			t.Fatalf("with %v: %v", full, err)
		}
		if got := r.state(t); got != before || r.Head() != head {
			t.Fatalf("with %v the state went from\n%s\nto\n%s", full, before, got)
		}
		r.disk.set(nil)
		for {
			_, _, err = r.AddOperator(ctx, "three", "viewer", clock.Hour, "test")
			if !errors.Is(err, refusal.ErrUnavailable) {
				break
			}
		}
		must(t, err)
		before, head = r.state(t), r.Head()
	}
	r.stop()
	must(t, <-r.ran)
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
		if _, _, err := r.AddOperator(ctx, "one", "viewer", clock.Hour, "test"); !errors.Is(err, refusal.ErrUnavailable) {
			t.Errorf("with %v: %v", cause, err)
		}
		if err := <-r.ran; !errors.Is(err, cause) {
			t.Errorf("the server ended with %v, expected %v", err, cause)
		}
		r.disk.set(nil)
		if _, _, err := r.AddOperator(ctx, "two", "viewer", clock.Hour, "test"); !errors.Is(err, refusal.ErrUnavailable) {
			t.Errorf("a stopped server answered %v", err)
		}
		if err := r.View(ctx, func(*plan.State) { t.Error("a stopped server read its state") }); !errors.Is(err, refusal.ErrUnavailable) {
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
			if err := r.Operate(ctx, plan.Pause, "none", "x", "y"); !errors.As(err, &verb) {
				results <- errors.Join(errors.New("expected a refusal"), err)
				return
			}
			results <- nil
		}()
	}
	for range cap(results) {
		must(t, <-results)
	}
	n := 0
	must(t, r.View(ctx, func(s *plan.State) { n = len(s.Operators) }))
	if n != cap(results)/2 {
		t.Errorf("%d operators of %d were made", n, cap(results)/2)
	}
}

func TestFirstStartNeedsARoot(t *testing.T) {
	r := open(t)
	r.stop()
	must(t, <-r.ran)
	conf := r.conf
	conf.Root = nil
	if _, err := control.Open(context.Background(), conf); err != nil {
		t.Errorf("a later start: %v", err)
	}
	dir := t.TempDir()
	s, err := sqlite.Open(context.Background(), dir, sqlite.Options{})
	must(t, err)
	defer func() { must(t, s.Close()) }()
	conf.Store, conf.DataDir = s, dir
	if _, err := control.Open(context.Background(), conf); err == nil {
		t.Error("a first start without a root")
	}
	conf.Root = root(t, "other")
	if _, err := control.Open(context.Background(), conf); trust.CodeOf(err) != trust.WrongFleet {
		t.Errorf("another fleet's root: %v", err)
	}
}
