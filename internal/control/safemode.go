package control

import (
	"context"

	"github.com/steadyfleet/steady/internal/core/plan"
	"github.com/steadyfleet/steady/internal/core/server"
)

// SafeMode says why nothing but ways back is granted, or is empty.
func (c *Control) SafeMode() string {
	if b := c.safeBlock.Load(); b != nil {
		return b.Message
	}
	return ""
}

// RestoreWait lists what the server waits for since it began. It may only be used by what
// View runs.
func (c *Control) RestoreWait() server.RestoreWait { return c.core.RestoreWait(c.now()) }

// EndSafeMode has the server go on without the events that hosts owe it, and returns for
// what it waited.
func (c *Control) EndSafeMode(ctx context.Context, actor, reason string) (w server.RestoreWait, err error) {
	if err := c.View(ctx, func(*plan.State) { w = c.RestoreWait() }); err != nil {
		return w, err
	}
	return w, c.submit(ctx, c.operations, server.EndSafeMode{Actor: actor, Reason: reason})
}

// noteAhead tells the reducer that a host claims to have been acknowledged more than
// the log holds; its next heartbeat says so again.
func (c *Control) noteAhead(name string, incarnation, need uint64) {
	c.tell(&input{Input: server.Ahead{Host: name, Incarnation: incarnation, Need: need}})
}

// carryOut does what a turn asks for besides its entries.
func (c *Control) carryOut(effects []server.Effect) {
	for _, e := range effects {
		switch e := e.(type) {
		case server.SafeModeChanged:
			if e.Host != "" {
				c.cfg.Log.Warn("a host knows a longer log than the server; nothing but ways back is granted until it has sent it", "host", e.Host, "holds", e.Logged, "knows", e.Claimed)
			}
			c.safeBlock.Store(c.core.Block(c.now()))
		case server.NodeLimited:
			c.limited(e)
		case server.TermDoubted:
			c.cfg.Log.Warn("a host says again and again that it has seen a higher term; the term is not raised for it now", "host", e.Host)
		case server.HistoryLost:
			c.cfg.Log.Error("a host never sent the events that it reports as acknowledged; going on without", "host", e.Host)
		}
	}
}

// Explain begins to answer why hosts of the state wait, and tells what the server itself
// waits for. It may only be used by what View runs, on the state that it is given.
func (c *Control) Explain(*plan.State) *plan.Explainer { return c.core.Explain(c.now()) }
