package plan

import (
	"cmp"
	"maps"
	"slices"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/gate"
	"github.com/steadyfleet/steady/internal/core/warning"
)

// ExpiryFacts lists what of the state ends or fills up.
func (s *State) ExpiryFacts() []warning.Fact {
	var out []warning.Fact
	for _, name := range s.ChannelNames() {
		c := s.Channels[name]
		if s.Timestamp.IssuedAt != 0 {
			out = append(out, warning.Fact{Kind: warning.Timestamp, Name: name, Since: s.Timestamp.IssuedAt, Ends: s.Timestamp.IssuedAt.Add(c.FreshnessWindow)})
		}
		if r := s.Rollouts[cmp.Or(c.Active, c.Latest)]; r != nil && r.Plan != nil {
			for i := range r.Plan.Header.Windows {
				w := &r.Plan.Header.Windows[i]
				out = append(out, warning.Fact{Kind: warning.Window, Name: w.Name + " of channel " + name, Since: w.Zone.From, Ends: w.Zone.Until})
			}
		}
	}
	for _, name := range s.HostNames() {
		h := s.Hosts[name]
		if h.Incarnation != 0 && h.NotAfter != 0 && h.IdentityStatus() == "" {
			out = append(out, warning.Fact{Kind: warning.HostCertificate, Name: name, Since: h.IssuedAt, Ends: h.NotAfter})
		}
		if h.Freeze != nil && h.Freeze.Until != 0 {
			out = append(out, warning.Fact{Kind: warning.Freeze, Name: name, Ends: h.Freeze.Until})
		}
	}
	for _, id := range slices.Sorted(maps.Keys(s.Operators)) {
		if t := s.Operators[id]; t.Expires != 0 && t.Parent == "" { // logins are meant to end
			out = append(out, warning.Fact{Kind: warning.OperatorToken, Name: t.Name + " (" + id + ")", Since: t.CreatedAt, Ends: t.Expires})
		}
	}
	return append(out, warning.Fact{Kind: warning.Overrides, Used: int64(len(s.Overrides.Newest)), Limit: gate.MaxOverrides})
}

// ChangesExpiry reports whether an event changes what ExpiryFacts lists of
// timestamps, certificates, tokens and freezes: whoever folds these alone gets the same.
func ChangesExpiry(ev event.Event) bool {
	switch ev.(type) {
	case event.RootTrusted, event.ReleaseAccepted, event.TimestampAccepted, event.HostEnrolled, event.CertificateRenewed, event.HostRevoked,
		event.HostDecommissioned, event.HostForked, event.HostFrozen, event.HostUnfrozen, event.OperatorTokenAdded, event.OperatorTokenRevoked:
		return true
	}
	return false
}

// ExpiryNow is the instant to judge ExpiryFacts by: never behind what was signed
// and what the log shows since.
func (s *State) ExpiryNow(now clock.Instant) clock.Instant { return max(now, s.floor()) }

// Elapsed ties the newest timestamp to the server's own clock, as the log has it:
// when it was accepted, and the latest instant since.
type Elapsed struct {
	Accepted clock.Instant `json:"accepted"`
	Latest   clock.Instant `json:"latest"`
}

// observe learns from an entry that the server made; hosts have clocks of their own.
func (e *Elapsed) observe(entry event.Entry, ev event.Event) {
	switch ev.(type) {
	case event.TimestampAccepted: // a newer signed time makes up for a clock that was ahead
		e.Accepted, e.Latest = entry.At, entry.At
	default:
		if entry.HostSeq == 0 && !event.FromHost(entry.Type) {
			e.Latest = max(e.Latest, entry.At)
		}
	}
}

// floor is the least instant that it can be by what was signed and what the log
// shows since: a server that starts with its clock set back goes on from there.
func (s *State) floor() clock.Instant {
	return s.Timestamp.IssuedAt.Add(s.Elapsed.Latest.Sub(s.Elapsed.Accepted))
}
