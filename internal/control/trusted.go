package control

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"

	"github.com/steadyfleet/steady/internal/control/documents"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/plan"
	"github.com/steadyfleet/steady/internal/trust"
	"github.com/steadyfleet/steady/internal/wire"
)

// Files of a release that the server looks at by name.
const (
	rosterFile    = "roster.json"
	timestampFile = wire.TrustTimestamp
	resolvedFile  = wire.TrustResolved
)

var rootPattern = regexp.MustCompile(`^[1-9][0-9]{0,15}\.root\.json$`)

func rootFile(version uint64) string { return strconv.FormatUint(version, 10) + ".root.json" }

// learn folds what the events of trust say into the library and into what trust
// remembers. What they name was verified before they were recorded.
func (c *Control) learn(ev event.Event) error {
	switch ev := ev.(type) {
	case event.RootTrusted:
		env, err := c.stored(ev.Root)
		if err != nil {
			return err
		}
		c.trust.Root = env
		return c.raise(env, true)
	case event.TimestampAccepted:
		env, err := c.stored(ev.Envelope)
		if err != nil {
			return err
		}
		c.trust.Floor = max(c.trust.Floor, ev.IssuedAt)
		return c.raise(env, true)
	case event.ReleaseAccepted:
		c.library.Learn(ev)
		for _, name := range []string{resolvedFile, rosterFile, wire.TrustRevocations} {
			raw, err := c.stored(ev.Envelopes[name])
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			if err := c.raise(raw, name == resolvedFile); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
		return c.pin(ev)
	}
	return nil
}

func (c *Control) stored(d digest.Digest) ([]byte, error) {
	return c.library.Blob(context.Background(), d)
}

// raise lifts the mark of a document's type.
func (c *Control) raise(raw []byte, enveloped bool) error {
	if enveloped {
		e, err := trust.ParseEnvelope(raw)
		if err != nil {
			return err
		}
		raw = e.Payload
	}
	var doc fleet.Document
	if err := decodeHead(raw, &doc); err != nil {
		return err
	}
	c.trust.Marks = cloned(c.trust.Marks)
	c.trust.Marks[doc.Type] = trust.Mark{Epoch: doc.Epoch, Version: doc.Version, Digest: digest.Of(raw)}
	return nil
}

// pin ties the names of a release's rollouts to their manifests.
func (c *Control) pin(ev event.ReleaseAccepted) error {
	pins := cloned(c.trust.Pins)
	for _, ch := range ev.Channels {
		for _, m := range ch.Manifests {
			if pins[m.Rollout].Digest == m.Digest {
				continue
			}
			env, err := c.stored(ev.Envelopes[documents.EnvelopeFile(m.Rollout)])
			if err != nil {
				return fmt.Errorf("manifest of %s: %w", m.Rollout, err)
			}
			e, err := trust.ParseEnvelope(env)
			if err != nil {
				return fmt.Errorf("manifest of %s: %w", m.Rollout, err)
			}
			var doc fleet.Document
			if err := decodeHead(e.Payload, &doc); err != nil {
				return fmt.Errorf("manifest of %s: %w", m.Rollout, err)
			}
			pins[m.Rollout] = trust.Pin{Epoch: doc.Epoch, Version: m.Version, Digest: m.Digest}
		}
	}
	c.trust.Pins = pins
	return nil
}

// decodeHead reads the head of a document that was read strictly when it was
// verified; the rest of it, critical or not, is not needed here.
func decodeHead(payload []byte, into *fleet.Document) error { return json.Unmarshal(payload, into) }

// cloned copies a map that may be shared with a published state.
func cloned[K comparable, V any](m map[K]V) map[K]V {
	if m == nil {
		return map[K]V{}
	}
	return maps.Clone(m)
}

// publicView is what requests read of the fleet without the reducer. It is
// never changed once published.
type publicView struct {
	verifier         trust.Verifier
	files            map[string]digest.Digest // of the trust route
	timestampVersion uint64
	release          plan.Release
	rosterDigest     digest.Digest
	roster           map[string]fleet.RosterHost // nil before the first release
	operators        map[[sha256.Size]byte]Operator
}

func isPublic(eventType string) bool {
	switch eventType {
	case event.RootTrusted{}.EventType(), event.ReleaseAccepted{}.EventType(), event.TimestampAccepted{}.EventType(),
		event.OperatorTokenAdded{}.EventType(), event.OperatorTokenRevoked{}.EventType():
		return true
	}
	return false
}

// publishPublic makes the committed state of the fleet visible to requests. A
// part that cannot be read keeps its last value.
func (c *Control) publishPublic() {
	s, old := c.state, c.public.Load()
	if old == nil {
		old = &publicView{}
	}
	v := &publicView{files: map[string]digest.Digest{}, timestampVersion: s.Timestamp.Version, release: s.Release,
		rosterDigest: old.rosterDigest, roster: old.roster, verifier: old.verifier,
		operators: make(map[[sha256.Size]byte]Operator, len(s.Operators))}
	for name, d := range s.Release.Envelopes {
		if name == resolvedFile || name == wire.TrustRevocations || rootPattern.MatchString(name) {
			v.files[name] = d
		}
	}
	v.files[rootFile(s.Root.Version)] = s.Root.Root
	if s.Timestamp.Envelope != "" {
		v.files[timestampFile] = s.Timestamp.Envelope
	}
	for id, o := range s.Operators {
		v.operators[[sha256.Size]byte(o.Hash)] = Operator{ID: id, Name: o.Name, Role: o.Role}
	}
	if verifier, err := trust.NewVerifier(c.cfg.Fleet, c.trust); err != nil {
		c.cfg.Log.Error("the trusted root cannot be used", "err", err)
	} else {
		v.verifier = verifier
	}
	if s.Release.Roster != "" && s.Release.Roster != v.rosterDigest {
		if roster, err := c.roster(s.Release.Roster); err != nil {
			c.cfg.Log.Error("the roster cannot be read", "err", err)
		} else {
			v.rosterDigest, v.roster = s.Release.Roster, roster
		}
	}
	c.public.Store(v)
}

func (c *Control) roster(d digest.Digest) (map[string]fleet.RosterHost, error) {
	raw, err := c.stored(d)
	if err != nil {
		return nil, err
	}
	var r fleet.Roster
	if err := trust.Decode(raw, trust.MaxList, &r); err != nil {
		return nil, err
	}
	return r.Hosts, nil
}

func (c *Control) publishAll() {
	for _, name := range slices.Sorted(maps.Keys(c.state.Hosts)) {
		c.hosts.Publish(c.state.Hosts[name])
	}
	c.publishPublic()
}

// TrustFile returns a file of the trust route with its digest.
func (c *Control) TrustFile(name string) (digest.Digest, error) {
	d, ok := c.public.Load().files[name]
	if !ok {
		return "", refusef(ErrNotFound, "there is no trust file %q", name)
	}
	return d, nil
}

// Roots returns what a new host begins with: the trusted root's envelope and its
// digest, the epoch, and the newest accepted version per document type.
func (c *Control) Roots() (root []byte, rootDigest digest.Digest, epoch uint64, versions map[string]uint64, err error) {
	v := c.public.Load().verifier
	s := v.State()
	e, err := trust.ParseEnvelope(s.Root)
	if err != nil {
		return nil, "", 0, nil, err
	}
	versions = map[string]uint64{}
	for docType, m := range s.Marks {
		if m.Epoch == v.Epoch() && docType != trust.TypeRoot {
			versions[docType] = m.Version
		}
	}
	return s.Root, digest.Of(e.Payload), v.Epoch(), versions, nil
}

// Roster returns the hosts of the newest release; the map is shared and must not
// be changed.
func (c *Control) Roster() map[string]fleet.RosterHost { return c.public.Load().roster }
