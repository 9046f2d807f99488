package replay

import (
	"fmt"
	"slices"
	"strings"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/gate"
	"github.com/steadyfleet/steady/internal/core/host"
	"github.com/steadyfleet/steady/internal/core/plan"
	"github.com/steadyfleet/steady/internal/core/rollout"
)

// View is what a state says, for people and programs.
type View struct {
	Seq      uint64        `json:"seq"`
	At       clock.Instant `json:"at"`
	Release  string        `json:"release,omitempty"`
	Channels []Channel     `json:"channels"`
	Rollouts []Rollout     `json:"rollouts"`
	Hosts    []Host        `json:"hosts"`
}

// Channel is a release train at that instant.
type Channel struct {
	Name        string `json:"name"`
	Rollout     string `json:"rollout,omitempty"` // the latest
	Converged   string `json:"converged,omitempty"`
	Pending     string `json:"pending,omitempty"`
	Quarantined int    `json:"quarantined"`
}

// Rollout is one rollout at that instant.
type Rollout struct {
	Name     string         `json:"name"`
	Manifest string         `json:"manifest"`
	Status   string         `json:"status"`
	Reason   string         `json:"reason,omitempty"`
	Wave     string         `json:"wave,omitempty"` // the last that is open
	Members  map[string]int `json:"members,omitempty"`
	Tried    int            `json:"tried,omitempty"`  // members that were given the target
	Failed   int            `json:"failed,omitempty"` // those of them that failed or refused it, whatever they run now
	Block    string         `json:"block,omitempty"`
	OpenedAt clock.Instant  `json:"openedAt"`
	EndedAt  clock.Instant  `json:"endedAt,omitempty"`
}

// Host is one host at that instant.
type Host struct {
	Name   string `json:"name"`
	Online bool   `json:"online"`
	// Presence is that of a host that is declared: the log alone does not say which are.
	Presence gate.HostPresence `json:"presence"`
	Phase    string            `json:"phase"`
	Rollout  string            `json:"rollout,omitempty"`
	Runs     string            `json:"runs,omitempty"`
	Grant    string            `json:"grant,omitempty"`
}

// ViewAt makes a view of a state.
func ViewAt(s *plan.State, seq uint64, at clock.Instant) View {
	v := View{Seq: seq, At: at, Release: s.Release.Ref, Channels: []Channel{}, Rollouts: []Rollout{}, Hosts: []Host{}}
	for _, name := range s.ChannelNames() {
		c := s.Channels[name]
		row := Channel{Name: name, Quarantined: len(c.Quarantine)}
		if r := s.Rollouts[c.Latest]; r != nil {
			row.Rollout = r.Name
		}
		if r := s.Rollouts[c.Converged]; r != nil {
			row.Converged = r.Name
		}
		if len(c.Manifests) > 0 && c.Manifests[0].Digest != c.Latest {
			row.Pending = c.Manifests[0].Rollout
		}
		v.Channels = append(v.Channels, row)
	}
	for _, d := range slices.Backward(s.Order) {
		if r := s.Rollouts[d]; r != nil {
			v.Rollouts = append(v.Rollouts, lookRollout(s, r, at))
		}
	}
	for _, name := range s.HostNames() {
		h := s.Hosts[name]
		row := Host{Name: name, Online: h.Online, Presence: h.Presence(true), Phase: string(h.Machine.Phase), Rollout: h.Machine.Rollout, Runs: h.Machine.Current.Short()}
		if row.Phase == "" {
			row.Phase = string(host.Pending)
		}
		if h.Machine.Current == "" {
			row.Runs = ""
		}
		if h.Grant != nil {
			row.Grant = string(h.Grant.Purpose)
		}
		v.Hosts = append(v.Hosts, row)
	}
	return v
}

func lookRollout(s *plan.State, r *rollout.Rollout, at clock.Instant) Rollout {
	row := Rollout{Name: r.Name, Manifest: string(r.Manifest), Status: plan.Status(r), Reason: r.Reason, OpenedAt: r.OpenedAt, EndedAt: r.EndedAt}
	if b := plan.FirstBlock(s, r, at); b != nil {
		row.Block = b.Message
	}
	if r.Plan == nil {
		return row
	}
	row.Wave, row.Members = r.Plan.Header.Waves[r.Cursor].Name, map[string]int{}
	row.Tried, row.Failed = r.Total().Tried, r.Total().Failures
	for status, n := range r.Total().By {
		if n > 0 {
			row.Members[rollout.Status(status).String()] = n
		}
	}
	return row
}

// Difference is one thing that two views say otherwise.
type Difference struct {
	What   string `json:"what"`
	Before string `json:"before"`
	After  string `json:"after"`
}

// Diff compares two views, in the order of channels, rollouts and hosts. What one
// of them lacks is empty there.
func Diff(a, b View) []Difference {
	out := []Difference{}
	compare(&out, "release", []View{a}, []View{b}, func(View) string { return "" }, func(v View) string { return v.Release })
	compare(&out, "channel", a.Channels, b.Channels, func(c Channel) string { return c.Name }, Channel.words)
	compare(&out, "rollout", a.Rollouts, b.Rollouts, func(r Rollout) string { return r.Name + " " + r.Manifest }, Rollout.Message)
	compare(&out, "host", a.Hosts, b.Hosts, func(h Host) string { return h.Name }, Host.words)
	return out
}

func compare[T any](out *[]Difference, kind string, a, b []T, name, words func(T) string) {
	before, seen := map[string]string{}, map[string]bool{}
	for _, x := range a {
		before[name(x)] = words(x)
	}
	add := func(n, was, is string) {
		if was != is {
			short, _, _ := strings.Cut(n, " ")
			*out = append(*out, Difference{strings.TrimSpace(kind + " " + short), was, is})
		}
	}
	for _, x := range b {
		n := name(x)
		seen[n] = true
		add(n, before[n], words(x))
	}
	for _, x := range a {
		if n := name(x); !seen[n] {
			add(n, before[n], "")
		}
	}
}

func (c Channel) words() string {
	words := "at " + c.Rollout
	if c.Rollout == "" {
		words = "without a rollout"
	}
	if c.Pending != "" {
		words += ", " + c.Pending + " waits"
	}
	if c.Converged != "" {
		words += ", converged on " + c.Converged
	}
	if c.Quarantined > 0 {
		words += fmt.Sprintf(", %d quarantined", c.Quarantined)
	}
	return words
}

// Message says where a rollout stands.
func (r Rollout) Message() string {
	words := r.Status
	if r.Wave != "" {
		words += " at wave " + r.Wave
	}
	var parts []string
	for status := rollout.Waiting; status <= rollout.Absent; status++ {
		if n := r.Members[status.String()]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, status))
		}
	}
	if len(parts) > 0 {
		words += ": " + strings.Join(parts, ", ")
	}
	return words
}

func (h Host) words() string {
	words := h.Phase
	if h.Rollout != "" {
		words += " in " + h.Rollout
	}
	if h.Grant != "" {
		words += ", granted (" + h.Grant + ")"
	}
	if h.Runs != "" {
		words += ", runs " + h.Runs
	}
	if h.Presence != gate.Online {
		words += ", " + string(h.Presence)
	}
	return words
}
