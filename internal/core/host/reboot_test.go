package host_test

import (
	"errors"
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/host"
)

// reboots checks S23: a host begins a reboot only under a claimed grant for what
// is staged, or on its way back, and never a second time for one activation.
func (h *history) reboots(t *rapid.T, before, s *host.State, in host.Input, effects []host.Effect) {
	for _, e := range effects {
		if _, ok := e.(host.BeginReboot); !ok {
			continue
		}
		switch {
		case s.Phase == host.Deferred && s.Reboot != "" && !s.Rebooted:
		case s.Phase == host.Failed && s.Reverting && !s.Rebooted:
		default:
			t.Fatalf("S23: reboots on %s in %+v", in.Kind(), *s)
		}
	}
	if before.Phase != host.Deferred || s.Phase != host.Activating {
		return
	}
	if b, ok := in.(host.Booted); ok && b.BootID == before.BootID {
		t.Fatalf("S23: goes on in the boot %q that it staged in", b.BootID)
	}
}

// TestWrongBundleAfterARebootGoesBack boots into something else than what was staged.
func TestWrongBundleAfterARebootGoesBack(t *testing.T) {
	plan := fleet.HostPlan{Target: fresh, Policy: fleet.Policy{OnHealthFailure: fleet.RollbackAndHalt}}
	s := host.State{Phase: host.Activating, Rebooted: true, From: old, Target: fresh}
	next, _, err := host.Step(s, host.Activated{Observed: old}, 5000, &plan)
	if err != nil || next.Phase != host.Failed || next.Cause != host.WrongGeneration || !next.Reverting {
		t.Fatalf("%+v, %v", next, err)
	}
}

// TestRebootInputsOutsideTheirPhase are refused and change nothing.
func TestRebootInputsOutsideTheirPhase(t *testing.T) {
	plan := fleet.HostPlan{Target: fresh}
	for _, in := range []host.Input{host.RebootClaimed{}, host.RebootFailed{}, host.RevertDeferred{}} {
		s := host.State{Phase: host.Pending, Current: old}
		next, _, err := host.Step(s, in, 1, &plan)
		if illegal := (*host.IllegalError)(nil); !errors.As(err, &illegal) || !reflect.DeepEqual(s, next) {
			t.Errorf("%s: %v", in.Kind(), err)
		}
	}
}
