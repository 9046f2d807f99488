package documents

import (
	"errors"
	"fmt"

	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/plan"
	"github.com/steadyfleet/steady/internal/trust"
	"github.com/steadyfleet/steady/internal/wire"
)

// View is what requests read of the fleet without the reducer. It is never
// changed once published.
type View struct {
	Verifier         trust.Verifier
	Files            map[string]digest.Digest // of the trust route
	TimestampVersion uint64
	Release          plan.Release
	Roster           map[string]fleet.RosterHost // nil before the first release

	rosterDigest digest.Digest
}

// ChangesTrust reports whether an event of a type changes the view.
func ChangesTrust(eventType string) bool {
	switch eventType {
	case event.RootTrusted{}.EventType(), event.ReleaseAccepted{}.EventType(), event.TimestampAccepted{}.EventType():
		return true
	}
	return false
}

// View projects the committed state of a fleet. A part that cannot be read keeps
// the value it has in old, which may be nil, and is told of in the error.
func (m *Trust) View(fleetName string, s *plan.State, old *View) (*View, error) {
	if old == nil {
		old = &View{}
	}
	v := &View{Files: map[string]digest.Digest{}, TimestampVersion: s.Timestamp.Version, Release: s.Release,
		rosterDigest: old.rosterDigest, Roster: old.Roster, Verifier: old.Verifier}
	for name, d := range s.Release.Envelopes {
		if name == ResolvedFile || name == wire.TrustRevocations || rootPattern.MatchString(name) {
			v.Files[name] = d
		}
	}
	for version, d := range m.Roots { // order-free: it only fills a map
		v.Files[RootFile(version)] = d
	}
	v.Files[RootFile(s.Root.Version)] = s.Root.Root
	if s.Timestamp.Envelope != "" {
		v.Files[TimestampFile] = s.Timestamp.Envelope
	}
	var failed []error
	if verifier, err := trust.NewVerifier(fleetName, m.State); err != nil {
		failed = append(failed, fmt.Errorf("the trusted root cannot be used: %w", err))
	} else {
		v.Verifier = verifier
	}
	if s.Release.Roster != "" && s.Release.Roster != v.rosterDigest {
		if roster, err := m.roster(s.Release.Roster); err != nil {
			failed = append(failed, fmt.Errorf("the roster cannot be read: %w", err))
		} else {
			v.rosterDigest, v.Roster = s.Release.Roster, roster
		}
	}
	return v, errors.Join(failed...)
}

func (m *Trust) roster(d digest.Digest) (map[string]fleet.RosterHost, error) {
	raw, err := m.stored(d)
	if err != nil {
		return nil, err
	}
	var r fleet.Roster
	if err := trust.Decode(raw, trust.MaxList, &r); err != nil {
		return nil, err
	}
	return r.Hosts, nil
}

// Roots returns what a new host begins with: the trusted root's envelope and its
// digest, the epoch, and the newest accepted version per document type.
func (v *View) Roots() (root []byte, rootDigest digest.Digest, epoch uint64, versions map[string]uint64, err error) {
	s := v.Verifier.State()
	e, err := trust.ParseEnvelope(s.Root)
	if err != nil {
		return nil, "", 0, nil, err
	}
	epoch, versions = v.Verifier.Epoch(), map[string]uint64{}
	for docType, m := range s.Marks {
		if m.Epoch == epoch && docType != trust.TypeRoot {
			versions[docType] = m.Version
		}
	}
	return s.Root, digest.Of(e.Payload), epoch, versions, nil
}
