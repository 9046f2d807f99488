package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/steadyfleet/steady/internal/agent/state"
	"github.com/steadyfleet/steady/internal/agent/verify"
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/testkit"
	"github.com/steadyfleet/steady/internal/testkit/testfleet"
	"github.com/steadyfleet/steady/internal/trust"
	"github.com/steadyfleet/steady/internal/wire"
)

// clockWorld is one host whose wall clock somebody else turns. The true time goes
// by on its own timeline; documents are signed at true times.
type clockWorld struct {
	t        *rapid.T
	tb       testing.TB
	releases []release // by version
	first    clock.Instant
	passed   clock.Duration // true time since first
	off      clock.Duration // of the wall clock
	shown    int            // which release the server shows

	disk     []byte // state of trust
	seen     state.SignedTime
	follower *verify.Follower
	floor    clock.Instant
	accepted uint64
	running  uint64 // the version that was activated last
}

var errAbsent = errors.New("there is no such document")

const freshFor = clock.Hour

func (w *clockWorld) now() clock.Instant     { return w.first.Add(w.passed) }
func (w *clockWorld) ownTime() clock.Instant { return clock.Instant(clock.Day).Add(w.passed) }
func (w *clockWorld) wall() clock.Instant {
	return w.seen.Wall(max(0, w.now().Add(w.off)), w.ownTime())
}

// Trust and Manifest are the server, which shows whatever it likes of what was
// signed.
func (w *clockWorld) Trust(_ context.Context, file string) ([]byte, error) {
	switch file {
	case wire.TrustTimestamp:
		return w.releases[w.shown].stamp, nil
	case wire.TrustResolved:
		return w.releases[w.shown].resolved, nil
	}
	return nil, errAbsent
}

func (w *clockWorld) Manifest(context.Context, string) (wire.HostManifest, error) {
	r := w.releases[w.shown]
	return wire.HostManifest{Envelope: r.envelope, Leaf: r.leaf(w.tb, "web-1")}, nil
}

// boot starts the process from what is on disk.
func (w *clockWorld) boot() {
	var s trust.State
	testkit.Must(w.t, json.Unmarshal(w.disk, &s))
	w.seen = w.seen.After(s.Floor, w.ownTime())
	f, err := verify.New(verify.Options{Fleet: testFleet, Host: "web-1", Source: w, Wall: w.wall,
		Missing: func(err error) bool { return errors.Is(err, errAbsent) },
		Save: func(_ context.Context, s trust.State) (err error) {
			w.seen = w.seen.After(s.Floor, w.ownTime())
			w.disk, err = json.Marshal(s)
			return err
		}}, s)
	testkit.Must(w.t, err)
	w.follower = f
}

// offer has the server show a release and ask the host to activate it.
func (w *clockWorld) offer(i int) error {
	w.shown = i
	r := w.releases[i]
	_, err := w.follower.Plan(context.Background(), r.manifest.Rollout(), r.digest)
	if err != nil {
		return err
	}
	if age := w.now().Sub(r.stampedAt); age > freshFor+2*trust.Slack {
		w.t.Fatalf("version %d is activated %s after it was signed, %s are allowed (the wall clock is off by %s)", r.version, age, freshFor, w.off)
	}
	if r.version < w.accepted {
		w.t.Fatalf("version %d is activated after %d was accepted", r.version, w.accepted)
	}
	w.accepted, w.running = max(w.accepted, r.version), r.version
	return nil
}

func (w *clockWorld) check() {
	f := w.follower.Floor()
	if f < w.floor {
		w.t.Fatalf("the floor fell from %s to %s", w.floor, f)
	}
	if w.floor = f; f > w.now().Add(trust.Slack) {
		w.t.Fatalf("the floor is %s, ahead of the true time %s", f, w.now())
	}
}

// TestT37ClockAttack turns a host's wall clock ten years back and ahead and to and
// fro, with restarts, time going by, and a server that shows what it likes. The
// floor never falls, nothing older than was accepted and nothing stale by the true
// time is activated, and what runs changes by an activation alone. Once the clock is
// right again the newest release is taken: a jump only delays.
func TestT37ClockAttack(t *testing.T) {
	tb, keys := t, newSigners()
	root := testkit.Value(keys.First())(t)
	first := testfleet.Now()
	hosts, target := []string{"web-1"}, map[string]digest.Digest{"web-1": digest.Of([]byte("bundle"))}
	sign := func(version uint64, at clock.Instant) release {
		return keys.release(t, plan{version: version, ref: fmt.Sprintf("r%d", version), hosts: hosts, targets: target,
			policy: defaultPolicy(), window: freshFor, issued: at})
	}
	const every, count = 40 * clock.Minute, 6
	var all []release // signed one by one, as true time goes by
	for i := range count {
		all = append(all, sign(uint64(i+1), first.Add(every*clock.Duration(i))))
	}
	state := testkit.Value(trust.Begin(testFleet, root, ""))(t)
	disk := testkit.Value(json.Marshal(state))(t)
	jumps := []clock.Duration{0, -3650 * clock.Day, 3650 * clock.Day, -2 * clock.Hour, 2 * clock.Hour}
	rapid.Check(t, func(t *rapid.T) {
		w := &clockWorld{t: t, tb: tb, first: first, disk: disk}
		w.releases = all
		w.boot()
		if err := w.offer(0); err != nil { // before it nothing signed is known of time
			t.Fatal(err)
		}
		signed := func() int { return min(count, 1+int(w.passed/every)) }
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			switch rapid.IntRange(0, 4).Draw(t, "step") {
			case 0:
				w.off = rapid.SampledFrom(jumps).Draw(t, "jump")
			case 1:
				w.boot()
			case 2:
				w.passed += rapid.SampledFrom([]clock.Duration{clock.Minute, 20 * clock.Minute, 2 * clock.Hour}).Draw(t, "passes")
			default:
				before := w.running
				if err := w.offer(rapid.IntRange(0, signed()-1).Draw(t, "shown")); err != nil && w.running != before {
					t.Fatal("a refusal changed what runs")
				}
			}
			w.check()
		}
		w.off = 0
		if rapid.Bool().Draw(t, "restart") {
			w.boot()
		}
		// The fleet signs again, and the host goes on.
		fresh := keys.release(w.tb, plan{version: count + 1, ref: "last", hosts: hosts, targets: target, policy: defaultPolicy(), window: freshFor, issued: w.now()})
		w.releases = append(all[:count:count], fresh)
		if err := w.offer(count); err != nil {
			t.Fatalf("with the clock right again: %v", err)
		}
		w.check()
	})
}
