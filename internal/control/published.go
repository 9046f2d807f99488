package control

import (
	"maps"
	"slices"

	"github.com/steadyfleet/steady/internal/control/refusal"
	"github.com/steadyfleet/steady/internal/control/trusted"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/fleet"
)

// isPublic reports whether an event of a type changes what all hosts and
// operators read.
func isPublic(eventType string) bool {
	switch eventType {
	case event.OperatorTokenAdded{}.EventType(), event.OperatorTokenRevoked{}.EventType():
		return true
	}
	return trusted.Changes(eventType)
}

// publishPublic makes the committed state of the fleet visible to requests.
func (c *Control) publishPublic() {
	view, err := c.memory.View(c.cfg.Fleet, c.state, c.public.Load())
	if err != nil {
		c.cfg.Log.Error("a part of the fleet keeps its last value", "err", err)
	}
	c.public.Store(view)
	c.publishOperators()
}

func (c *Control) publishAll() {
	c.publishSigned()
	for _, name := range slices.Sorted(maps.Keys(c.state.Hosts)) {
		c.hosts.Publish(c.state.Hosts[name], c.layer(name))
	}
	c.publishPublic()
}

// TrustFile returns a file of the trust route with its digest.
func (c *Control) TrustFile(name string) (digest.Digest, error) {
	d, ok := c.public.Load().Files[name]
	if !ok {
		return "", refusal.Newf(refusal.ErrNotFound, "there is no trust file %q", name)
	}
	return d, nil
}

// Roots returns what a new host begins with: the trusted root's envelope and its
// digest, the epoch, and the newest accepted version per document type.
func (c *Control) Roots() (root []byte, rootDigest digest.Digest, epoch uint64, versions map[string]uint64, err error) {
	return c.public.Load().Roots()
}

// Roster returns the hosts of the newest release; the map is shared and must not
// be changed.
func (c *Control) Roster() map[string]fleet.RosterHost { return c.public.Load().Roster }
