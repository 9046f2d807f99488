package agent

import (
	"errors"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/gate"
	"github.com/steadyfleet/steady/internal/core/host"
)

// A signed override takes a host out of the fleet as the declaration does, without a
// rollout: the host takes nothing more, ends what it is in the middle of, and goes to the
// generation in which nothing runs. Its machine stays where it was from then on.

// Removal is a signed removal of this incarnation of the host.
type Removal struct {
	Override  digest.Digest   `json:"override"`
	ID        string          `json:"id"`
	Reason    string          `json:"reason"`
	Epoch     uint64          `json:"epoch"`
	Version   uint64          `json:"version"`
	Workloads fleet.Workloads `json:"workloads"`
	// Begun is when the host began to take its workloads away; zero while it ends what it
	// was in the middle of.
	Begun clock.Instant `json:"begun,omitempty"`
	// Reported is what was last reported of it.
	Reported *event.WorkloadsRemoved `json:"reported,omitempty"`
}

// begun reports whether nothing that the machine asks for is done any more.
func (r *Removal) begun() bool { return r != nil && r.Begun != 0 }

// empties reports whether what ran is taken away.
func (r *Removal) empties() bool { return r.begun() && r.Workloads != fleet.Keep }

func (r *Removal) message() string {
	return "a signed override, " + r.ID + ", removes this host from the fleet: " + r.Reason
}

// errRemoved drops what the machine of a removed host is given.
var errRemoved = errors.New("the host is removed from the fleet, and its machine does not move")

// remove takes a signed removal of this host. A later one takes the place of an earlier one.
func (t *turn) remove(o *gate.AcceptedOverride) {
	s := t.s
	if s.Removal != nil && s.Removal.Version >= o.Version {
		return
	}
	s.Removal = &Removal{Override: o.Digest, ID: o.ID, Reason: o.Reason, Epoch: o.Epoch, Version: o.Version, Workloads: o.Workloads}
	if s.Offer != nil && !s.Offer.Prepared {
		t.giveBack(host.DeclineOverride, s.Removal.message())
	}
}

// leave begins with a removal once nothing is under way that has to end first.
func (t *turn) leave() {
	s := t.s
	m, r := &s.Machine, s.Removal
	underWay := m.Phase == host.Activating || m.Phase == host.Soaking || m.Reverting || s.Offer != nil || s.Repairs.Grant != ""
	if r == nil || r.begun() || underWay || s.Unconfirmed() || s.Parked != nil {
		return
	}
	begun := *r
	begun.Begun, t.Save = t.now, true
	s.Removal = &begun
	if !begun.empties() {
		t.removed(event.WorkloadsRemoved{OK: true})
		return
	}
	t.dropRepairs()
	_ = t.StartProbes(host.StartProbes{}) // never fails
	s.Generation = Generation{Run: "removal " + begun.ID, Wipe: begun.Workloads == fleet.Wipe}
	if !s.Generation.Wipe {
		s.Generation.Keep = s.Machine.Current
	}
	t.goOnLeaving()
}

// goOnLeaving has the workloads taken away, also after a restart.
func (t *turn) goOnLeaving() {
	if t.s.Removal.empties() {
		g := t.s.Generation
		t.Desired = &g
		t.emit(Leave{g})
	}
}

// removed reports what came of it, when that is news.
func (t *turn) removed(e event.WorkloadsRemoved) {
	r := *t.s.Removal
	e.Override, e.Workloads = r.Override, r.Workloads
	if r.Reported != nil && *r.Reported == e {
		return
	}
	r.Reported = &e
	t.s.Removal = &r
	t.report(e)
}

// left takes how far the generation has come in which nothing runs.
func (t *turn) left(in *GenerationObserved) {
	switch in.Outcome {
	case Complete:
		t.removed(event.WorkloadsRemoved{OK: true})
	case Broken:
		t.removed(event.WorkloadsRemoved{Detail: in.Detail})
	}
}

// AllowVolumeDelete reports whether volumes that nothing declares go with their data.
func (s *State) AllowVolumeDelete() bool {
	return s.Plan.AllowVolumeDelete || s.Removal.empties() && s.Removal.Workloads == fleet.Wipe
}
