package watch

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/steadyfleet/steady/internal/api/operator"
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/host"
	"github.com/steadyfleet/steady/internal/core/plan"
	"github.com/steadyfleet/steady/internal/core/prose"
	"github.com/steadyfleet/steady/internal/core/rollout"
)

// Probe is the last that was heard of a probe of a host.
type Probe struct {
	Name   string `json:"name"`
	Pass   bool   `json:"pass"`
	Reason string `json:"reason,omitempty"`
	// Observed is of a probe that only observes: that it fails holds nothing.
	Observed bool `json:"observed,omitempty"`
	// FailingSince is on the server's clock; zero while it passes or is not known.
	FailingSince clock.Instant `json:"failingSince,omitempty"`
}

// Host is one host of a rollout.
type Host struct {
	Name   string  `json:"name"`
	Wave   int     `json:"wave"`
	Status string  `json:"status"`
	Phase  string  `json:"phase,omitempty"` // of its machine, as far as heard
	Online bool    `json:"online"`
	Probes []Probe `json:"probes,omitempty"` // sorted by name
	// Message says why it waits or how it failed.
	Message string `json:"message,omitempty"`
	// Progress, Unready and MoreUnready are as the server said last.
	Progress    *plan.Progress           `json:"progress,omitempty"`
	Unready     []event.DegradedResource `json:"unready,omitempty"`
	MoreUnready int                      `json:"moreUnready,omitempty"`
}

// Wave is one stage of a rollout.
type Wave struct {
	Name string         `json:"name"`
	Soak clock.Duration `json:"soak"`
	Open bool           `json:"open"`
}

// Rollout is a rollout as last heard of. It is a fold over what the server says
// and over events; both may be repeated.
type Rollout struct {
	Name    string `json:"rollout"`
	Phase   string `json:"phase"`
	Status  string `json:"status"`
	Reason  string `json:"reason,omitempty"`
	Blocked string `json:"held,omitempty"`
	// Next is what comes next, and when.
	Next string `json:"next,omitempty"`
	// Now is the server's clock when it was asked last.
	Now     clock.Instant `json:"now"`
	Waves   []Wave        `json:"waves"`
	Hosts   []Host        `json:"hosts"`
	index   map[string]int
	applied string // phase of the last event of a move
}

// Ended reports whether the rollout gives out nothing more.
func (r *Rollout) Ended() bool { return rollout.Phase(r.Phase).Ended() }

// Converged reports whether the rollout ended well.
func (r *Rollout) Converged() bool { return rollout.Phase(r.Phase) == rollout.Terminal }

// Refresh takes over what the server says. An ended rollout comes without waves
// and members: the last known ones stay.
func (r *Rollout) Refresh(d operator.RolloutDetail) {
	r.Name, r.Phase, r.Status, r.Reason = d.Name, d.Phase, d.Status, d.Reason
	r.Now, r.Next = d.Now, ""
	if d.Step != nil {
		r.Next = d.Step.Message
	}
	if d.Blocked == "" || r.Blocked == "" {
		r.Blocked = d.Blocked // an event has said it in words already
	}
	if len(d.Waves) > 0 {
		r.Waves = r.Waves[:0]
		for _, w := range d.Waves {
			r.Waves = append(r.Waves, Wave{Name: w.Name, Soak: w.Soak, Open: w.Open})
		}
	}
	for _, m := range d.Members {
		h := r.host(m.Host)
		h.Wave, h.Status, h.Online = m.Wave, m.Status, m.Online
		h.refresh(m)
	}
}

// refresh takes over how far a host in flight is.
func (h *Host) refresh(m operator.Member) {
	h.Progress, h.Unready, h.MoreUnready = m.Progress, m.Unready, m.MoreUnready
	if m.Progress == nil {
		return
	}
	h.Phase, h.Probes = string(m.Progress.Phase), nil
	for _, p := range m.Progress.Probes {
		if p.Seen {
			h.Probes = append(h.Probes, Probe{Name: p.Name, Pass: p.Passing, Reason: p.Reason, Observed: p.Mode == fleet.Observe, FailingSince: p.FailingSince})
		}
	}
}

func (r *Rollout) host(name string) *Host {
	if i, ok := r.index[name]; ok {
		return &r.Hosts[i]
	}
	if r.index == nil {
		r.index = map[string]int{}
	}
	r.index[name] = len(r.Hosts)
	r.Hosts = append(r.Hosts, Host{Name: name, Online: true})
	return &r.Hosts[len(r.Hosts)-1]
}

// Apply folds one event.
func (r *Rollout) Apply(e operator.Event) {
	ev, err := event.DecodeBody(e.Type, e.Body)
	if err != nil {
		return // a newer server's event; what it means comes with Refresh
	}
	var of struct{ Rollout string }
	if json.Unmarshal(e.Body, &of) != nil || of.Rollout != r.Name {
		return
	}
	switch v := ev.(type) {
	case event.HostStepped:
		r.host(e.Subject.Host()).step(v)
	case event.Granted:
		h := r.host(e.Subject.Host())
		h.Wave, h.Status, h.Message = v.Wave, rollout.Offered.String(), ""
		if v.Wave < len(r.Waves) {
			r.Waves[v.Wave].Open = true
		}
	case event.RolloutMoved:
		r.applied, r.Phase, r.Status, r.Reason = v.To, v.To, v.To, v.Reason
	case event.RolloutReverting:
		r.Status, r.Reason = "reverting", v.Reason
	case event.WaveBlocked:
		r.Blocked = v.Reason
	case event.WavePromoted, event.WaveForced:
		r.Blocked = ""
	case event.BreakGlassUsed:
		r.Blocked = ""
		for i := range r.Waves {
			r.Waves[i].Open = true
		}
	}
}

// statusOf maps the phase of a host's machine to a member's status.
var statusOf = map[host.Phase]rollout.Status{
	host.Activating: rollout.Claimed, host.Soaking: rollout.Claimed, host.Deferred: rollout.Claimed,
	host.Converged: rollout.Converged, host.Failed: rollout.Broken, host.Reverted: rollout.RolledBack,
}

func (h *Host) step(v event.HostStepped) {
	if v.To == host.Activating && v.From != host.Activating {
		h.Probes, h.Message = nil, ""
	}
	h.Phase = string(v.To)
	if s, ok := statusOf[v.To]; ok {
		h.Status = s.String()
	}
	if v.Cause != "" {
		h.Message = prose.Failure(string(v.Cause), v.Detail)
	}
	p, ok := operator.ProbeOf(v)
	if !ok {
		return
	}
	i, found := slices.BinarySearchFunc(h.Probes, p.Name, func(q Probe, name string) int { return strings.Compare(q.Name, name) })
	if !found {
		h.Probes = slices.Insert(h.Probes, i, Probe{})
	}
	h.Probes[i] = Probe{Name: p.Name, Pass: p.Pass, Reason: p.Reason}
}

// waits reports whether a host has not been given its grant yet.
func (h *Host) waits() bool {
	return h.Status == rollout.Waiting.String() || h.Status == rollout.Refused.String()
}

// done reports whether a host runs the target.
func (h *Host) done() bool {
	return h.Status == rollout.Converged.String() || h.Status == rollout.AtTarget.String()
}

// Progress counts a wave's hosts: done (converged, or at the target before),
// busy (granted and on its way), bad (failed, refused or reverted), all.
func (r *Rollout) Progress(wave int) (done, busy, bad, all int) {
	for i := range r.Hosts {
		h := &r.Hosts[i]
		if h.Wave != wave {
			continue
		}
		all++
		switch h.Status {
		case rollout.Converged.String(), rollout.AtTarget.String():
			done++
		case rollout.Offered.String(), rollout.Claimed.String():
			busy++
		case rollout.Broken.String(), rollout.Refused.String(), rollout.RolledBack.String():
			bad++
		}
	}
	return done, busy, bad, all
}
