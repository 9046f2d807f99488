package plan

import (
	"fmt"
	"strings"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/host"
	"github.com/steadyfleet/steady/internal/core/rollout"
)

// Replayed is what only a host's own signed chain tells, since the log was restored from a
// backup: see event.LogRestored. What the server would know of it by itself is filled in
// here, so that the host counts as what it is.
type Replayed struct {
	To uint64 `json:"to"`
	// At is when the server learned of it, first in its Process: a log is restored while no
	// process has it, so that what one learns later is of the same restore.
	At      clock.Instant `json:"at"`
	Process string        `json:"process,omitempty"`
	// Acting says that the machine acts on a claim that the log lacks, also after To.
	Acting bool `json:"acting,omitempty"`
	// Times counts how often the host had it said.
	Times int `json:"times,omitempty"`
}

// maxReplays is how often a host of one incarnation is believed that the log was set back:
// more often than anybody restores a backup.
const maxReplays = 8

// actsOn is the grant that an input begins to act on, with its purpose, or is empty.
func actsOn(in host.Input) (grant string, purpose host.Purpose) {
	switch in := in.(type) {
	case host.Claimed:
		return in.Grant, host.Update
	case host.RevertClaimed:
		return in.Grant, host.Rollback
	case host.RebootClaimed:
		return in.Grant, host.Reboot
	}
	return "", ""
}

// hasClaim reports whether the log has the claim of a grant that a host acts on.
func (h *Host) hasClaim(grant string) bool {
	return h.Grant != nil && h.Grant.ID == grant && h.Grant.Claimed
}

// claims reports whether an input begins what the log has a claim of.
func (h *Host) claims(in host.Input) bool {
	grant, _ := actsOn(in)
	return h.hasClaim(grant)
}

// lacksClaim reports whether an event shows that the host was acknowledged a claim
// that the log lacks and no process of the present run can have taken.
func (s *State) lacksClaim(h *Host, seq uint64, ev event.Event) bool {
	if seq <= h.Replayed.To || h.Replayed.Times >= maxReplays {
		return false // that is known, or not believed
	}
	var grant string
	switch ev := ev.(type) {
	case event.HostStepped:
		in, err := ev.HostInput()
		if err != nil {
			return false
		}
		purpose := host.Update
		if grant, purpose = actsOn(in); purpose == host.Reboot && h.Machine.AtRest() {
			return false // it booted by itself, and answers a grant that ended with that
		}
	case event.RepairOver:
		grant = ev.Grant
	}
	if run := RunOf(grant); grant == "" || run != "" && run == s.run {
		return false
	}
	return !h.hasClaim(grant) && h.Machine.Grant != grant && h.Machine.Reboot != grant
}

// logRestored says that the log lacks what a host was acknowledged up to an event.
func (s *State) logRestored(h *Host, to uint64) event.LogRestored {
	_, process, _ := strings.Cut(s.run, ".")
	return event.LogRestored{Incarnation: h.Incarnation, From: h.Seq, To: to, Process: process}
}

// replayedClaim makes up for the claim that the log lacks of what a host begins to act on.
// When it was is not known: what is measured from it counts from when the server learned
// of it.
func (s *State) replayedClaim(h *Host, in host.Input) {
	grant, purpose := actsOn(in)
	if grant == "" {
		return
	}
	unseen := h.Seq <= h.Replayed.To && !h.hasClaim(grant)
	if purpose != host.Reboot { // which goes on with what was claimed before
		h.Replayed.Acting = unseen
	}
	if !unseen {
		return
	}
	manifest := h.Machine.Manifest
	if c, update := in.(host.Claimed); update {
		manifest = c.Manifest
	}
	s.began(h, manifest, purpose, h.Replayed.At)
	if r := s.Rollouts[manifest]; r != nil {
		r.Granted = r.Granted || purpose == host.Update
		r.SetMark(h.Name, func(m *rollout.Mark) { m.Claimed = true })
	}
}

// overtaken reports whether a host of an open wave left a rollout for one that the log
// lacks, and nobody is left who could prove it: it had ended then. While others are, that
// host's word ends nothing.
func (s *State) overtaken(r *rollout.Rollout) bool {
	if r.Total().By[rollout.Ahead] == 0 {
		return false
	}
	if e := s.proof(r); e.InFlight > 0 || e.Ready > 0 || e.Converged >= e.Needed() {
		return false
	}
	for i := range r.Members {
		if leaf := &r.Plan.Leaves[i]; r.Members[i].Status == rollout.Ahead && leaf.Wave <= r.Cursor && s.Rollouts[s.host(leaf.Host).Machine.Manifest] == nil {
			return true
		}
	}
	return false
}

func channelOf(rollout string) string {
	channel, _, _ := strings.Cut(rollout, "@")
	return channel
}

// Lacks reports whether a host runs a release that the server lacks: one that is newer
// than the newest that it accepted.
func (s *State) Lacks(h *Host) bool {
	newest := fleet.ReleaseVersion{Epoch: s.Release.Epoch, Version: s.Release.Version}
	return newest.Before(h.Machine.Release) && s.Rollouts[h.Machine.Manifest] == nil
}

// lacked says of a host that runs a release which the server lacks what to do about it; it
// is empty of others.
func (s *State) lacked(h *Host) string {
	if !s.Lacks(h) {
		return ""
	}
	return fmt.Sprintf("is on %s of release version %d, which this server lacks: its log was restored; push the newest release: steady release push", h.Machine.Rollout, h.Machine.Release.Version)
}

// LackedRelease names the hosts that run a release which the server lacks, by name, with
// the newest of those releases.
func (s *State) LackedRelease() (hosts []string, newest fleet.ReleaseVersion) {
	for _, name := range s.HostNames() {
		if h := s.Hosts[name]; s.Lacks(h) {
			hosts = append(hosts, name)
			if newest.Before(h.Machine.Release) {
				newest = h.Machine.Release
			}
		}
	}
	return hosts, newest
}

// unknownPlan stands for a plan that the server lacks: what the input itself says of it.
func unknownPlan(in host.Input) *fleet.HostPlan {
	if c, claimed := in.(host.Claimed); claimed {
		return &fleet.HostPlan{Manifest: c.Manifest, Rollout: c.Rollout, Wave: c.Wave, Target: c.Target}
	}
	return &fleet.HostPlan{}
}

// foldHead reads up to where the server acknowledged a host, or was set back to.
func (s *State) foldHead(at clock.Instant, h *Host, ev event.Event) {
	switch ev := ev.(type) {
	case event.HostHead:
		h.ChainHash = ev.Hash
		h.Clock.observe(at)
		s.reported(h, at)
	case event.LogRestored:
		if ev.Process == "" || ev.Process != h.Replayed.Process {
			h.Replayed.At, h.Replayed.Process = at, ev.Process
		}
		h.Replayed.To = ev.To
		h.Replayed.Times++
	}
}
