package documents

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"strconv"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/trust"
	"github.com/steadyfleet/steady/internal/wire"
)

// Files of a release that the server looks at by name.
const (
	RosterFile    = "roster.json"
	TimestampFile = wire.TrustTimestamp
	ResolvedFile  = wire.TrustResolved
)

var rootPattern = regexp.MustCompile(`^[1-9][0-9]{0,15}\.root\.json$`)

// RootFile names a version of the root in a release.
func RootFile(version uint64) string { return strconv.FormatUint(version, 10) + ".root.json" }

// Trust is the fold of the events of trust: roots, floors, marks and pins, and where
// the documents of releases are. What it folds was verified before it was recorded. It
// is the reducer's alone; the maps of its state may be shared with views and are never
// changed. It implements server.Fold.
type Trust struct {
	State trust.State
	// Roots holds the envelope of every root that was trusted, by version: a host
	// that was away follows them one by one.
	Roots   map[uint64]digest.Digest
	library *Library
}

// NewTrust returns the fold before the first event. It shares the places of documents
// with library, which reads them.
func NewTrust(library *Library) *Trust { return &Trust{library: library} }

// Name implements server.Fold.
func (m *Trust) Name() string { return "trust" }

// Next implements server.Fold: nothing is decided by time.
func (m *Trust) Next(clock.Instant) ([]event.Entry, error) { return nil, nil }

// Due implements server.Fold.
func (m *Trust) Due() clock.Instant { return 0 }

// saved is the fold in a snapshot.
type saved struct {
	Places map[digest.Digest]Place  `json:"places"`
	Trust  trust.State              `json:"trust"`
	Roots  map[uint64]digest.Digest `json:"roots,omitempty"`
}

// Snapshot implements server.Fold.
func (m *Trust) Snapshot() (json.RawMessage, error) {
	return json.Marshal(saved{m.library.Places(), m.State, m.Roots})
}

// Restore implements server.Fold.
func (m *Trust) Restore(raw json.RawMessage) error {
	var s saved
	if err := json.Unmarshal(raw, &s); err != nil {
		return err
	}
	m.State, m.Roots = s.Trust, s.Roots
	m.library.Restore(s.Places)
	return nil
}

// Apply implements server.Fold.
func (m *Trust) Apply(e event.Entry) error {
	if !ChangesTrust(e.Type) {
		return nil
	}
	ev, err := event.Decode(e)
	if err != nil {
		return err
	}
	return m.fold(ev)
}

func (m *Trust) fold(ev event.Event) error {
	switch ev := ev.(type) {
	case event.RootTrusted:
		env, err := m.stored(ev.Root)
		if err != nil {
			return err
		}
		m.State.Root = env
		m.Roots = cloned(m.Roots)
		m.Roots[ev.Version] = ev.Root
		return m.raise(env, true)
	case event.TimestampAccepted:
		env, err := m.stored(ev.Envelope)
		if err != nil {
			return err
		}
		m.State.Floor = max(m.State.Floor, ev.IssuedAt)
		return m.raise(env, true)
	case event.ReleaseAccepted:
		m.library.Learn(ev)
		for _, name := range []string{ResolvedFile, RosterFile, wire.TrustRevocations} {
			raw, err := m.stored(ev.Envelopes[name])
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			if err := m.raise(raw, name == ResolvedFile); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
		return m.pin(ev)
	}
	return nil
}

func (m *Trust) stored(d digest.Digest) ([]byte, error) {
	return m.library.Blob(context.Background(), d)
}

// raise lifts the mark of a document's type.
func (m *Trust) raise(raw []byte, enveloped bool) error {
	if enveloped {
		e, err := trust.ParseEnvelope(raw)
		if err != nil {
			return err
		}
		raw = e.Payload
	}
	var doc fleet.Document // the head of what was read strictly when it was verified
	if err := json.Unmarshal(raw, &doc); err != nil {
		return err
	}
	m.State.Marks = cloned(m.State.Marks)
	m.State.Marks[doc.Type] = trust.Mark{Epoch: doc.Epoch, Version: doc.Version, Digest: digest.Of(raw)}
	return nil
}

// pin ties the names of a release's rollouts to their manifests.
func (m *Trust) pin(ev event.ReleaseAccepted) error {
	pins := cloned(m.State.Pins)
	for _, ch := range ev.Channels {
		for _, ref := range ch.Manifests {
			if pins[ref.Rollout].Digest == ref.Digest {
				continue
			}
			env, err := m.stored(ev.Envelopes[EnvelopeFile(ref.Rollout)])
			if err != nil {
				return fmt.Errorf("manifest of %s: %w", ref.Rollout, err)
			}
			e, err := trust.ParseEnvelope(env)
			if err != nil {
				return fmt.Errorf("manifest of %s: %w", ref.Rollout, err)
			}
			var doc fleet.Document
			if err := json.Unmarshal(e.Payload, &doc); err != nil {
				return fmt.Errorf("manifest of %s: %w", ref.Rollout, err)
			}
			pins[ref.Rollout] = trust.Mark{Epoch: doc.Epoch, Version: ref.Version, Digest: ref.Digest}
		}
	}
	m.State.Pins = pins
	return nil
}

// cloned copies a map that may be shared with a view.
func cloned[K comparable, V any](m map[K]V) map[K]V {
	if m == nil {
		return map[K]V{}
	}
	return maps.Clone(m)
}
