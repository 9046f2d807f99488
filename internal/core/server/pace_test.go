package server

import (
	"errors"
	"testing"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/rollout"
	"github.com/steadyfleet/steady/internal/testkit"
)

var errPlanned = errors.New("the channel is planned")

// asked answers whoever plans a channel that has something to open.
type asked struct{}

func (asked) Manifest(digest.Digest) (*rollout.Manifest, error) { return nil, errPlanned }

// Each channel is planned at least every reconcileInterval of its own, although nothing
// that is logged calls for it.
func TestReconcileIntervalOfEachChannel(t *testing.T) {
	for _, c := range []struct {
		channel string
		every   clock.Duration
	}{{"slow", clock.Hour}, {"fast", 2 * clock.Second}} {
		state := NewState(asked{})
		ev := event.ReleaseAccepted{Version: 1, Channels: []event.ChannelRelease{
			{Channel: "fast", FreshnessWindow: clock.Day, ReconcileInterval: 2 * clock.Second}, {Channel: "slow", FreshnessWindow: clock.Day, ReconcileInterval: clock.Hour}}}
		testkit.Value(state.Record("", 1000, ev))(t)
		testkit.Value(state.Record("", 1000, event.TimestampAccepted{Version: 1, IssuedAt: 1000}))(t)
		s := Begin(Config{}.WithDefaults(), state, 1, "n", nil, Time{Now: 1000}, false, nil)
		tick := func(now clock.Instant) error {
			at := Time{Now: now, Up: clock.Duration(now).Std()}
			if !s.TickDue(at) {
				return nil
			}
			defer s.Ticked(at, 0)
			return s.Step(&Turn{Time: at}, Tick{})
		}
		testkit.Must(t, tick(1000))
		// Nothing calls for a look at it: it is in no event.
		state.Plan.Channels[c.channel].Manifests = []fleet.ManifestRef{{Rollout: c.channel + "@1", Digest: digest.Of(nil), Version: 1}}
		due := clock.Instant(1000).Add(c.every)
		for now := clock.Instant(1500); now < due; now += 500 {
			testkit.Must(t, tick(now))
		}
		if err := tick(due); !errors.Is(err, errPlanned) {
			t.Errorf("channel %s was not planned after %s: %v", c.channel, c.every, err)
		}
	}
}

// What somebody waits for is due at once, also where it changed nothing that is logged.
func TestUrgentTickIsDueAtOnce(t *testing.T) {
	s := Begin(Config{OnReasonOnly: true}.WithDefaults(), NewState(asked{}), 1, "n", nil, Time{Now: 1000}, false, nil)
	at := Time{Now: 1000, Up: clock.Second.Std()}
	testkit.Must(t, s.Step(&Turn{Time: at}, Tick{}))
	s.Ticked(at, clock.Hour.Std())
	if s.TickDue(at) || s.Sleep(at) == 0 {
		t.Fatalf("after a tick the next one is due %t, after %s", s.TickDue(at), s.Sleep(at))
	}
	testkit.Must(t, s.Step(&Turn{Time: at}, Operator{}))
	if !s.TickDue(at) || s.Sleep(at) != 0 {
		t.Fatalf("a tick that somebody waits for is due %t, after %s", s.TickDue(at), s.Sleep(at))
	}
}
