package control

import (
	"context"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/health"
	"github.com/steadyfleet/steady/internal/core/plan"
	"github.com/steadyfleet/steady/internal/core/server"
	"github.com/steadyfleet/steady/internal/store"
	"github.com/steadyfleet/steady/internal/trust"
)

// Moment is what the log came to at a record. It answers as Control does of today, and
// leaves out what only the running server knows: measurements, contacts, and what it waits for.
type Moment struct {
	c      *Control
	seq    uint64
	head   store.Head
	now    clock.Instant
	roster map[string]fleet.RosterHost
	root   trust.Root
	read   *folded // while View runs
}

// At is the moment of a record. Folding up to it takes a share of a processor, and its turn.
func (c *Control) At(ctx context.Context, seq uint64) (*Moment, error) {
	m := &Moment{c: c, seq: seq}
	return m, c.pastAt(ctx, seq, func(f *folded) error {
		v, err := c.past.viewOf(f)
		if err == nil {
			m.head, m.now, m.roster, m.root = f.head, f.at, v.Roster, v.Verifier.RootDocument()
		}
		return err
	})
}

func (c *Control) pastAt(ctx context.Context, seq uint64, read func(*folded) error) error {
	ctx, stop := c.untilStopping(ctx)
	defer stop()
	return c.past.at(ctx, seq, read)
}

// View runs read on the state; see Control.View.
func (m *Moment) View(ctx context.Context, read func(*plan.State)) error {
	return m.c.pastAt(ctx, m.seq, func(f *folded) error {
		m.read = f
		defer func() { m.read = nil }()
		read(f.state.Plan)
		return nil
	})
}

// Head is the record.
func (m *Moment) Head() store.Head { return m.head }

// Now is when it was committed.
func (m *Moment) Now() clock.Instant { return m.now }

// Roster is that of the newest release at that time.
func (m *Moment) Roster() map[string]fleet.RosterHost { return m.roster }

// Root was trusted at that time.
func (m *Moment) Root() trust.Root { return m.root }

// Hosts says where every host stood.
func (m *Moment) Hosts(ctx context.Context) (f plan.Fleet, err error) {
	return f, m.View(ctx, func(s *plan.State) { f = new(plan.Overview).Read(s, m.roster) })
}

// Explain answers from the state alone. It may only be used by what View runs, as the
// following methods.
func (m *Moment) Explain(s *plan.State) *plan.Explainer { return plan.Explain(s, m.now) }

// Assess says how a host was.
func (m *Moment) Assess(s *plan.State, host string) health.Assessment {
	return assess(m.read.state, s, host, m.now)
}

// Totals counts hosts and resources by how they were.
func (m *Moment) Totals(s *plan.State) health.Totals { return totals(m.read.state, s, m.now) }

// Unfinished are the resources of a host that were not as they should be.
func (m *Moment) Unfinished(host string) (list []event.DegradedResource, more int) {
	return m.read.state.Health.Hosts[host].Unfinished()
}

// RestoreWait, Sample, LastSeen, SafeMode and AgentVersions are of the running server alone.
func (m *Moment) RestoreWait() (none server.RestoreWait) { return none }

// Sample is not kept.
func (m *Moment) Sample(string) *Sample { return nil }

// LastSeen is not kept.
func (m *Moment) LastSeen(string) clock.Instant { return 0 }

// SafeMode is not kept.
func (m *Moment) SafeMode() string { return "" }

// AgentVersions is not kept.
func (m *Moment) AgentVersions() map[string]int { return nil }
