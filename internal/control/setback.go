package control

import (
	"context"
	"encoding/json"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/server"
	"github.com/steadyfleet/steady/internal/store"
	"github.com/steadyfleet/steady/internal/wire"
)

// SetBack is why everything is refused, or nil.
func (c *Control) SetBack() *server.SetBack { return setBackOf(c.cfg.Store) }

func setBackOf(s store.Store) *server.SetBack {
	b := s.SetBack()
	if b == nil {
		return nil
	}
	return &server.SetBack{Logged: b.Log.Seq, Acknowledged: b.Acknowledged.Seq, Reason: b.Reason}
}

// Admits refuses everybody while the log lacks what was acknowledged: a host or a token may
// have been revoked by what is lost.
func (c *Control) Admits() error {
	if b := c.SetBack(); b != nil {
		return wire.Refuse(wire.ErrUnavailable, "%v", b)
	}
	return nil
}

// reopen makes up for what the start on a log that was set back left out.
func (c *Control) reopen() error {
	c.cfg.Log.Warn("the owner of the data folder ended the safe mode; going on without what is lost")
	if err := c.begin(context.Background()); err != nil {
		return err
	}
	c.publishAll()
	return nil
}

// SafeModeEnd is the word of the owner of a data folder that its server goes on although its
// log was set back.
type SafeModeEnd struct {
	ID     string `json:"id"` // of the request
	Actor  string `json:"actor"`
	Reason string `json:"reason"`
}

// Request has the server that runs on a data folder go on, and returns once it does.
func (e SafeModeEnd) Request(ctx context.Context, dir string) error {
	return safeModeFiles.ask(ctx, dir, e.ID, e)
}

// Append records it in the log of a server that does not run. The caller has the lock of the data folder.
func (e SafeModeEnd) Append(ctx context.Context, log store.Store, now clock.Instant) error {
	ev, err := setBackOf(log).End(e.Actor, e.Reason)
	if err != nil {
		return err
	}
	return appendStopped(ctx, log, log.EndSetBack, "safe-mode end", ev, now)
}

// endSafeMode takes the owner's word in a running server.
func (c *Control) endSafeMode(ctx context.Context, raw []byte) (id string, err error) {
	var e SafeModeEnd
	if err := json.Unmarshal(raw, &e); err != nil {
		return "", err
	}
	return e.ID, c.submit(ctx, c.operations, server.EndSafeMode{Actor: e.Actor, Reason: e.Reason, Owner: true})
}
