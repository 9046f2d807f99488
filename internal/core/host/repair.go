package host

import (
	"slices"
	"strconv"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
)

// Between rollouts a host repairs drift of what it runs. What does not stop
// anything it repairs by itself; the rest it reports, and waits for a grant of
// purpose Repair, so that a common cause does not stop a whole tier at once. A
// claimed one opens a window in which such repairs may begin.

// Bounds of reports.
const (
	// MaxRepairNames is how many resources a report names at most.
	MaxRepairNames = 16
	// RepairEvery is the least time between two reports of what is needed.
	RepairEvery = 30 * clock.Second
)

// RepairNeed is drift that waits for a grant.
type RepairNeed struct {
	Manifest digest.Digest `json:"manifest"` // of the machine
	Bundle   digest.Digest `json:"bundle"`   // that runs
	// Resources are kind/id in order, the first MaxRepairNames; More counts the
	// rest.
	Resources []string `json:"resources"`
	More      int      `json:"more,omitempty"`
	Reason    string   `json:"reason"` // of the first
}

func (n *RepairNeed) same(o *RepairNeed) bool {
	return n.Manifest == o.Manifest && n.Bundle == o.Bundle && n.More == o.More && slices.Equal(n.Resources, o.Resources)
}

// Repairs is where a host stands with the repairs that need a grant.
type Repairs struct {
	// Need is as last reported; nil when nothing waits.
	Need *RepairNeed `json:"need,omitempty"`
	// Told is when a need was last reported, Again when a change that came too
	// soon after it is reported.
	Told  clock.Instant `json:"told,omitempty"`
	Again clock.Instant `json:"again,omitempty"`
	// Names are all resources that wait, or waited when the window opened.
	Names []string `json:"names,omitempty"`
	// Grant is claimed while a window is open. Nothing begins in it after Until;
	// it is Closing then, until what began has ended.
	Grant   string        `json:"grant,omitempty"`
	Until   clock.Instant `json:"until,omitempty"`
	Closing bool          `json:"closing,omitempty"`
	// Last is the grant of the window before.
	Last string `json:"last,omitempty"`
}

// Open reports whether a repair may begin now.
func (r *Repairs) Open(now clock.Instant) bool {
	return r.Grant != "" && !r.Closing && !r.Until.Reached(now)
}

// Due is when Drifted must be called although nothing happened, or zero.
func (r *Repairs) Due() clock.Instant {
	switch {
	case r.Grant == "":
		return r.Again
	case r.Closing:
		return 0
	}
	return r.Until
}

// Drift is what is seen of repairs that need a grant.
type Drift struct {
	// Held are the resources whose repair is held back, kind/id in order, and
	// Reason that of the first.
	Held   []string
	Reason string
	// Pending says that a repair of the window is on its way, Running that an act
	// of one has begun and not ended. Failed are those of the window given up.
	Pending, Running bool
	Failed           []string
}

// NeedRepair reports what waits for a grant; it replaces what was reported.
type NeedRepair struct{ RepairNeed }

// EndRepair reports that nothing waits any more or that a window is closed:
// Grant is that of the window, empty if there was none.
type EndRepair struct {
	Grant  string
	OK     bool
	Detail string
}

// OpenRepair lets held repairs begin. It is repeated after a restart.
type OpenRepair struct {
	Grant string
	Until clock.Instant
}

// Run calls the variant's method.
func (e NeedRepair) Run(h Effects) error { return h.NeedRepair(e) }
func (e EndRepair) Run(h Effects) error  { return h.EndRepair(e) }
func (e OpenRepair) Run(h Effects) error { return h.OpenRepair(e) }

// Settled reports whether the host is between rollouts: only then a repair
// needs a grant of its own. A host in flight holds its slot already.
func (s *State) Settled() bool { return s.Phase == Converged || s.Phase == Reverted }

// Drifted takes what is seen now. It is called when that may have changed and
// when Due says so, in any order with everything else.
func (a *Agent) Drifted(d Drift, now clock.Instant) []Effect {
	r := &a.Repairs
	switch {
	case !a.Machine.Settled():
		return a.dropRepairs()
	case r.Grant != "":
		return a.window(d, now)
	case len(d.Held) > 0:
		return a.need(d, now)
	}
	r.Again, r.Names = 0, nil
	if r.Need == nil {
		return nil
	}
	r.Need = nil
	return []Effect{EndRepair{OK: true, Detail: "nothing is held back any more"}}
}

// need reports what is held back, when that is news and not too soon.
func (a *Agent) need(d Drift, now clock.Instant) []Effect {
	r := &a.Repairs
	n := RepairNeed{Manifest: a.Machine.Manifest, Bundle: a.Machine.Current, Reason: d.Reason,
		Resources: slices.Clone(d.Held[:min(len(d.Held), MaxRepairNames)])}
	n.More = len(d.Held) - len(n.Resources)
	r.Names = slices.Clone(d.Held)
	switch next := r.Told.Add(RepairEvery); {
	case r.Need != nil && r.Need.same(&n):
		r.Again = 0
		return nil
	case r.Told != 0 && !next.Reached(now):
		r.Again = next
		return nil
	}
	r.Need, r.Told, r.Again = &n, now, 0
	return []Effect{NeedRepair{n}}
}

// window goes on with an open window, or closes it once its repairs are over or
// its time is, and no act of it runs any more.
func (a *Agent) window(d Drift, now clock.Instant) []Effect {
	r := &a.Repairs
	r.Closing = r.Closing || r.Until.Reached(now)
	if d.Running || !r.Closing && (d.Pending || len(d.Held) > 0) {
		return nil
	}
	end := EndRepair{Grant: r.Grant, OK: true, Detail: "repaired"}
	switch {
	case len(d.Failed) > 0:
		end.OK, end.Detail = false, count(d.Failed)+" could not be repaired"
	case len(d.Held) > 0:
		end.OK, end.Detail = false, "the time was over before "+count(d.Held)+" were repaired"
	case d.Pending:
		end.OK, end.Detail = false, "the time was over before the repair was seen to work"
	}
	*r = Repairs{Told: r.Told, Last: r.Grant}
	effects := []Effect{end}
	if len(d.Held) > 0 {
		effects = append(effects, a.need(d, now)...)
	}
	return effects
}

func count(names []string) string {
	if len(names) == 1 {
		return names[0]
	}
	return strconv.Itoa(len(names)) + " resources (" + names[0] + " first)"
}

// dropRepairs forgets what waited: the host goes to another generation, which
// repairs everything on its way.
func (a *Agent) dropRepairs() []Effect {
	r := &a.Repairs
	grant, told := r.Grant, r.Need != nil
	*r = Repairs{Told: r.Told, Last: r.Last}
	if grant != "" {
		r.Last = grant
	}
	if grant == "" && !told {
		return nil
	}
	return []Effect{EndRepair{Grant: grant, Detail: "the host went on in " + a.Machine.Rollout + ": " + string(a.Machine.Phase)}}
}

// grantedRepair takes an offer to repair what the host runs now. There is
// nothing to prepare: what a repair needs was prepared for the activation. With
// nothing to repair any more it is claimed all the same and its window closed at
// once, since the server may have committed the claim already.
func (a *Agent) grantedRepair(o Offer) []Effect {
	m := &a.Machine
	switch {
	case m.Manifest != o.Plan.Manifest:
		return decline(o, DeclineOtherRollout, "the host is not in that rollout")
	case !m.Settled():
		return decline(o, DeclineBusy, "the host is "+string(m.Phase)+" in "+m.Rollout)
	case a.Repairs.Grant != "":
		return decline(o, DeclineBusy, "the host is being repaired under "+a.Repairs.Grant)
	case a.Overrides.Quarantined(a.Plan.Channel, m.Current, a.Plan.Host) != nil:
		return decline(o, DeclineOverride, a.Overrides.Quarantined(a.Plan.Channel, m.Current, a.Plan.Host).Words())
	}
	o.Prepared = true
	a.Offer = &o
	return []Effect{Claim{Offer: o}}
}

// RepairAnswered takes the server's answer to the claim of a Repair grant, and
// opens the window, which lasts as long as an activation may.
func (a *Agent) RepairAnswered(grant string, accepted bool, now clock.Instant) []Effect {
	o, r := a.Offer, &a.Repairs
	if o == nil || o.Grant != grant || o.Purpose != Repair {
		return nil
	}
	a.Offer = nil
	if !accepted {
		return nil
	}
	r.Grant, r.Until, r.Closing = grant, now.Add(a.Plan.Policy.ActivationDeadline), false
	if !a.Machine.Settled() {
		return a.dropRepairs()
	}
	return []Effect{OpenRepair{Grant: grant, Until: r.Until}}
}
