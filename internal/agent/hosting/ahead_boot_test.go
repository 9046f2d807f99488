package hosting

import (
	"context"
	"database/sql"
	"encoding/json"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/steadyfleet/steady/internal/agent/state"
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/deploy"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/spec"
	"github.com/steadyfleet/steady/internal/testkit"
	"github.com/steadyfleet/steady/internal/wire"
)

// machine is one whose wall clock can be set at any time.
type machine struct {
	boot  string
	since clock.Duration
	wall  clock.Instant
}

func (m *machine) Boot() (string, clock.Duration, error) { return m.boot, m.since, nil }
func (m *machine) Wall() clock.Instant                   { return m.wall }

func (m *machine) run(d clock.Duration) { m.since, m.wall = m.since+d, m.wall.Add(d) }

// A host that is cut off and boots with its wall clock set back ends what it was to end: time
// that it ran counts all the same, and the newest signed time counts as much as the clock.
func TestEndsHoldOverABootWithTheClockSetBack(t *testing.T) {
	const noon = clock.Instant(1_800_000_000_000)
	m := &machine{boot: "a", wall: noon}
	kept, _, err := state.BeginTimeline(m)
	testkit.Must(t, err)
	own := testkit.Value(kept.Resume(m, noon))(t)
	signed := state.SignedTime{}.After(noon, own.Now())
	end := noon.Add(clock.Hour)
	// left is what an agent that starts now leaves the entry.
	left := func() clock.Duration {
		h := &Hosting{o: Options{Now: own.Now, Wall: func() clock.Instant { return signed.Wall(m.Wall(), own.Now()) }}}
		got := Admit(AdmitInput{Doc: wire.Managed{Entries: []wire.ManagedEntry{{Kind: "volume", Name: "v", Spec: json.RawMessage(`{}`), NotAfter: end}}},
			Delegation: &fleet.Delegation{Kinds: []string{"volume"}}, Ahead: h.clockAhead()})
		return got.Layer.Until[0].NotAfter.Sub(own.Now())
	}
	expect := func(what string, want clock.Duration) {
		t.Helper()
		if got := left(); got != want {
			t.Errorf("%s: %s are left, expected %s", what, got, want)
		}
	}
	expect("at admission", clock.Hour)
	m.run(20 * clock.Minute)
	expect("cut off", 40*clock.Minute)

	last := own.Now()
	kept, *m = own.Doc(), machine{boot: "b", wall: noon.Add(-30 * clock.Day)} // off for ten minutes
	own = testkit.Value(kept.Resume(m, last))(t)
	expect("booted with the clock set back", 40*clock.Minute)
	m.run(20 * clock.Minute)
	expect("in the second boot", 20*clock.Minute)
	m.wall = noon.Add(50 * clock.Minute)
	expect("once the clock is set right", 10*clock.Minute)
	m.wall = noon.Add(-clock.Day)
	signed = signed.After(noon.Add(55*clock.Minute), own.Now())
	expect("by what was signed meanwhile", 5*clock.Minute)
}

type delegating struct {
	Agent
	kinds []string
}

func (d delegating) Delegation() *fleet.Delegation                 { return &fleet.Delegation{Kinds: d.kinds} }
func (d delegating) Declared(context.Context) ([]*spec.Set, error) { return nil, nil }
func (d delegating) Parked() bool                                  { return false }

// A clock that is set while no server answers is followed all the same.
func TestClockIsFollowedWhileCutOff(t *testing.T) {
	store, kept := openRows(t)
	synctest.Test(t, func(t *testing.T) {
		var off atomic.Int64
		now := func() clock.Instant { return clock.FromTime(time.Now()) }
		h := &Hosting{o: Options{Agent: delegating{kinds: []string{"volume"}}, Store: store, Rows: kept, Log: slog.New(slog.DiscardHandler), Now: now,
			Wall: func() clock.Instant { return now().Add(clock.Duration(off.Load())) }}, changed: make(chan struct{}, 1)}
		h.tuned.Store(&tuned{})
		h.asks.Store(&map[spec.ID]deploy.Request{})
		testkit.Must(t, store.Tx(t.Context(), func(tx *sql.Tx) error {
			return state.Put(t.Context(), tx, keyManaged, managedDoc{Doc: wire.Managed{Version: 1}})
		}))
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- h.admitAgain(ctx) }()
		ahead := func() clock.Duration {
			h.admitting.Lock()
			defer h.admitting.Unlock()
			return h.ahead
		}
		synctest.Wait()
		off.Store(int64(3 * clock.Day))
		time.Sleep(clockEvery)
		synctest.Wait()
		if got := ahead(); got != -3*clock.Day {
			t.Errorf("ends are told by a difference of %s, expected %s", got, -3*clock.Day)
		}
		stop()
		testkit.Must(t, <-ended)
	})
}
