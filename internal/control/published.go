package control

import (
	"context"

	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/plan"
	"github.com/steadyfleet/steady/internal/core/server"
	"github.com/steadyfleet/steady/internal/wire"
)

// publish makes what was committed visible to requests.
func (c *Control) publish(t *server.Turn) {
	if len(t.Events) == 0 {
		return
	}
	p := c.core.Committed(t.Events, c.signed.Load().changes, t.Time)
	if p.Public {
		c.publishPublic()
	}
	if p.All {
		c.publishOverrides()
	}
	c.publishHosts(p.Hosts)
	c.publishNodes(p.Nodes)
}

// publishPublic makes the committed state of the fleet visible to requests.
func (c *Control) publishPublic() {
	view, err := c.trust.View(c.cfg.Fleet, c.state.Plan, c.public.Load())
	if err != nil {
		c.cfg.Log.Error("a part of the fleet keeps its last value", "err", err)
	}
	c.public.Store(view)
	c.publishOperators()
}

func (c *Control) publishHosts(names []string) {
	for _, name := range names {
		h := c.hosts.get(name)
		p := &published{View: c.core.View(name, h.View())}
		if m := c.state.Managed.Hosts[name]; m != nil && m.Tuned > 0 {
			p.settings = wire.SettingsOf(m.Tuned, m.Settings)
		}
		h.publish(p)
	}
}

func (c *Control) publishAll() {
	c.publishOverrides()
	c.publishHosts(c.state.Plan.HostNames())
	c.publishAllNodes()
	c.publishPublic()
}

// Hosts says where every host stands.
func (c *Control) Hosts(ctx context.Context) (f plan.Fleet, err error) {
	return f, c.View(ctx, func(*plan.State) { f = c.core.Fleet(c.Roster()) })
}

// TrustFile returns a file of the trust route with its digest.
func (c *Control) TrustFile(name string) (digest.Digest, error) {
	d, ok := c.public.Load().Files[name]
	if !ok {
		return "", wire.Refuse(wire.ErrNotFound, "there is no trust file %q", name)
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
