package server

import (
	"fmt"
	"slices"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/plan"
)

// View is what requests of a host are answered from: a projection of committed state,
// never changed once made.
type View struct {
	Incarnation        uint64 // zero before enrolment
	EventKey           []byte
	Serial, PrevSerial string
	IssuedAt           clock.Instant // of Serial
	RevokedBefore      clock.Instant
	Seq                uint64
	Chain              []byte
	Online             bool
	Forked, Parked     bool
	Grant              *plan.Grant // a copy; nil when there is nothing to offer
	// Changes counts all that the host has to fetch: its managed layer, whose version
	// Layer is, its settings and signed overrides.
	Changes uint64
	Layer   uint64
}

// View projects a host; one that the log has yet to name is not enrolled. What did not
// change is shared with old, which may be nil.
func (s *State) View(name string, old *View) *View {
	h := s.Plan.Hosts[name]
	if h == nil {
		return &View{}
	}
	v := &View{Incarnation: h.Incarnation, EventKey: h.EventKey, Serial: h.Serial, PrevSerial: h.PrevSerial, IssuedAt: h.IssuedAt, RevokedBefore: h.RevokedBefore,
		Seq: h.Seq, Chain: h.ChainHash, Online: h.Online, Forked: h.Forked, Parked: h.Parked != "", Changes: s.Plan.Signed}
	if s.Managed != nil {
		m := s.Managed.Hosts[name]
		v.Changes += m.News()
		if m != nil {
			v.Layer = m.Version
		}
	}
	switch {
	case h.Grant == nil:
	case old != nil && old.Grant != nil && *old.Grant == *h.Grant:
		v.Grant = old.Grant
	default:
		g := *h.Grant
		v.Grant = &g
	}
	return v
}

// Wakes reports whether a host that waits has to be answered since its view is no longer
// old, which may be nil.
func (v *View) Wakes(old *View) bool {
	return old == nil || v.Grant != old.Grant || v.RevokedBefore != old.RevokedBefore || v.Serial != old.Serial || v.Changes != old.Changes
}

// Revoked refuses certificates from before the host's revocation.
func (v *View) Revoked(issued clock.Instant) error {
	if issued < v.RevokedBefore {
		return fmt.Errorf("its certificates issued before %s are revoked", v.RevokedBefore)
	}
	return nil
}

// Certificate is what a verified certificate of a host says.
type Certificate struct {
	Serial           string
	Incarnation      uint64 // zero where it does not say
	Issued, NotAfter clock.Instant
	Key              digest.Digest
}

// Admit refuses a certificate of the named host that is not in use. This server's authority
// signed it, so the server issued it once: one that is newer than the newest of the log is
// of a time that the log lacks, and is in use once lacked is recorded.
func (v *View) Admit(name string, c Certificate) (lacked *event.CertificateRenewed, err error) {
	again := "; make a token with steady token create " + name + " and enrol the host again with it"
	switch {
	case c.Issued < v.RevokedBefore:
		err = fmt.Errorf("the certificates of host %s issued before %s are revoked%s", name, v.RevokedBefore, again)
	case v.Incarnation != 0 && c.Serial != "" && (c.Serial == v.Serial || c.Serial == v.PrevSerial):
	case c.Incarnation > v.Incarnation:
		err = fmt.Errorf("host %s presents the certificate of its incarnation %d, and the log of this server ends with %d: the log was restored from a backup, and the host enrolled later%s", name, c.Incarnation, v.Incarnation, again)
	case v.Incarnation == 0:
		err = fmt.Errorf("host %s never enrolled with this server%s", name, again)
	case c.Incarnation != v.Incarnation || c.Issued <= v.IssuedAt:
		err = fmt.Errorf("certificate %s of host %s is not in use: it was replaced by a newer one, or this server never issued it%s", c.Serial, name, again)
	default:
		lacked = &event.CertificateRenewed{Serial: c.Serial, Presented: v.Serial, NotAfter: c.NotAfter, KeyDigest: c.Key, Issued: c.Issued}
	}
	return lacked, err
}

// Offer is the grant that the host is to be told of, or nil.
func (v *View) Offer(now clock.Instant) *plan.Grant {
	if g := v.Grant; g != nil && (g.Claimed || !g.Expires.Reached(now)) {
		return g
	}
	return nil
}

// Publication is what a commit changed of what requests read.
type Publication struct {
	// Public: the documents and roots of the fleet, and the operators' tokens.
	Public bool
	// Hosts whose views changed; with All it is every host.
	Hosts []string
	All   bool
	// Nodes that something was decided for, or may be asked for something else.
	Nodes []string
}

// Committed says what has to be published after a commit, the public part first: a host
// that its grant wakes asks at once for the documents that list it. Signed counts the
// changes of overrides that were published before.
func (s *Server) Committed(entries []event.Entry, signed uint64, t Time) (p Publication) {
	p.All = s.Plan.Signed != signed
	s.overview.Note(entries)
	reopened := s.setBack != nil && len(entries) > 0
	if reopened { // what ends it is all that is decided
		s.setBack = nil
		s.open(t, true)
	}
	seen := map[string]bool{}
	for i := range entries {
		p.Public = p.Public || isPublic(entries[i].Type)
		if !reopened && entries[i].Type == (event.SafeModeEnded{}).EventType() {
			s.safe.end(t.Now)
		}
		if event.IsOfNodes(entries[i].Type) {
			p.Nodes = append(p.Nodes, s.State.Nodes.NamesIn(&entries[i])...)
			continue
		}
		name := entries[i].Host()
		if name == "" || seen[name] || s.Plan.Hosts[name] == nil {
			continue
		}
		seen[name] = true
		s.presence.add(s.Plan.Hosts[name], t.Now)
		p.Hosts = append(p.Hosts, name)
	}
	if p.All {
		p.Hosts = s.Plan.HostNames()
	}
	slices.Sort(p.Nodes)
	p.Nodes = slices.Compact(p.Nodes)
	return p
}

// Fleet says where every host stands; roster are those of the newest release.
func (s *Server) Fleet(roster map[string]fleet.RosterHost) plan.Fleet {
	return s.overview.Read(s.Plan, roster)
}

// isPublic reports whether an event of a type changes what all hosts and operators read.
func isPublic(eventType string) bool {
	switch eventType {
	case event.OperatorTokenAdded{}.EventType(), event.OperatorTokenRevoked{}.EventType(),
		event.RootTrusted{}.EventType(), event.ReleaseAccepted{}.EventType(), event.TimestampAccepted{}.EventType():
		return true
	}
	return false
}
