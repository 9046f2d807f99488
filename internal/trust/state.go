package trust

import (
	"bytes"
	"cmp"
	"maps"
	"slices"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/fleet"
)

// State is all that trust remembers. It is plain data that survives JSON
// unchanged. Calls return a new State and leave the old one as it was; persist
// the new one atomically, best in one transaction with the bytes that were
// accepted, before anything acts on the result.
type State struct {
	// Root is the newest trusted root envelope, as received.
	Root []byte `json:"root"`
	// Marks holds the highest accepted document per type.
	Marks map[string]Mark `json:"marks"`
	// Pins holds the manifest accepted at first sight per rollout name.
	Pins map[string]Mark `json:"pins"`
	// Floor is the latest signed time seen: wall time is never assumed to be
	// earlier. Milliseconds since the Unix epoch; it does not go back.
	Floor clock.Instant `json:"floor"`
}

// Mark is a high-water mark, or what a rollout name is tied to. Epochs count first. An empty digest (from AtLeast)
// accepts any content of exactly this version.
type Mark struct {
	Epoch   uint64        `json:"epoch"`
	Version uint64        `json:"version"`
	Digest  digest.Digest `json:"digest"`
}

func (s State) clone() State {
	s.Root = bytes.Clone(s.Root)
	s.Marks = maps.Clone(s.Marks)
	s.Pins = maps.Clone(s.Pins)
	if s.Marks == nil {
		s.Marks = map[string]Mark{}
	}
	if s.Pins == nil {
		s.Pins = map[string]Mark{}
	}
	return s
}

// Now returns wall time, or the floor when the clock shows something earlier.
func (s State) Now(wall clock.Instant) clock.Instant { return max(wall, s.Floor) }

// AtLeast raises the marks to the given versions of an epoch, as an enrolment
// token asks, so that a new host cannot be given old documents. Marks that are
// higher already stay.
func (s State) AtLeast(epoch uint64, versions map[string]uint64) State {
	s = s.clone()
	for docType, version := range versions {
		m := s.Marks[docType]
		if epoch > m.Epoch || (epoch == m.Epoch && version > m.Version) {
			s.Marks[docType] = Mark{Epoch: epoch, Version: version}
		}
	}
	return s
}

// NeverBelow keeps what an earlier state of the same fleet had that is higher: marks, pins,
// the floor, and the root where both have one that can be read.
func (s State) NeverBelow(fleetName string, old State) State {
	s = s.clone()
	for docType, m := range old.Marks { // order-free: each has its own place
		if now := s.Marks[docType]; cmp.Or(cmp.Compare(m.Epoch, now.Epoch), cmp.Compare(m.Version, now.Version)) >= 0 {
			s.Marks[docType] = m
		}
	}
	for name, m := range old.Pins { // order-free: each has its own place
		s.Pins[name] = m
	}
	s.Floor = max(s.Floor, old.Floor)
	before, errOld := NewVerifier(fleetName, old)
	now, errNew := NewVerifier(fleetName, s)
	if errOld == nil && errNew == nil && before.RootVersion() > now.RootVersion() {
		s.Root = bytes.Clone(old.Root)
	}
	return s
}

// Prune drops the oldest pins beyond limit, sparing those whose manifest is in
// keep: what runs, what a revert goes to, and what the snapshot lists. A
// dropped manifest can no longer be recalled.
func (s State) Prune(limit int, keep ...digest.Digest) State {
	s = s.clone()
	var names []string
	for name, pin := range s.Pins {
		if !slices.Contains(keep, pin.Digest) {
			names = append(names, name)
		}
	}
	slices.SortFunc(names, func(a, b string) int {
		x, y := s.Pins[a], s.Pins[b]
		return cmp.Or(cmp.Compare(x.Epoch, y.Epoch), cmp.Compare(x.Version, y.Version), cmp.Compare(a, b))
	})
	for len(s.Pins) > limit && len(names) > 0 {
		delete(s.Pins, names[0])
		names = names[1:]
	}
	return s
}

// advance accepts a document at or above its type's mark.
func (s State) advance(doc fleet.Document, d digest.Digest) (State, error) {
	m := s.Marks[doc.Type]
	switch c := cmp.Or(cmp.Compare(doc.Epoch, m.Epoch), cmp.Compare(doc.Version, m.Version)); {
	case c < 0:
		return s, refuse(Rollback, "this is older than what was accepted before: %s has version %d of epoch %d, and version %d of epoch %d was accepted; take the newest release",
			doc.Type, doc.Version, doc.Epoch, m.Version, m.Epoch)
	case c == 0 && m.Digest != "" && m.Digest != d:
		return s, refuse(Equivocation, "%s version %d was accepted as %s and is now %s",
			doc.Type, doc.Version, m.Digest.Short(), d.Short())
	case c == 0 && m.Digest == d:
		return s, nil
	}
	s = s.clone()
	s.Marks[doc.Type] = Mark{Epoch: doc.Epoch, Version: doc.Version, Digest: d}
	return s, nil
}

// pin ties the manifest to its rollout name, or checks that it is the one.
func (s State) pin(m *fleet.Manifest, d digest.Digest) (State, error) {
	old, ok := s.Pins[m.Rollout()]
	switch {
	case ok && old.Digest == d:
		return s, nil
	case ok && m.Epoch <= old.Epoch:
		return s, refuse(Equivocation, "rollout %s was seen as manifest %s and is now %s; release under another ref",
			m.Rollout(), old.Digest.Short(), d.Short())
	}
	s = s.clone()
	s.Pins[m.Rollout()] = Mark{Epoch: m.Epoch, Version: m.Version, Digest: d}
	return s, nil
}
