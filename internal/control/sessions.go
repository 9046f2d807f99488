package control

import (
	"context"

	"github.com/steadyfleet/steady/internal/control/sessions"
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/managed"
	"github.com/steadyfleet/steady/internal/core/plan"
	"github.com/steadyfleet/steady/internal/core/server"
	"github.com/steadyfleet/steady/internal/core/spec"
	"github.com/steadyfleet/steady/internal/wire"
)

// sessionServer is the server as sessions see it.
type sessionServer struct{ *Control }

// ViewState implements sessions.Server.
func (s sessionServer) ViewState(ctx context.Context, read func(*server.State)) error {
	return s.View(ctx, func(*plan.State) { read(s.state) })
}

// Record implements sessions.Server.
func (s sessionServer) Record(ctx context.Context, host string, decide func(*server.State, clock.Instant) ([]event.Event, error)) error {
	return s.record(ctx, s.normal, host, decide)
}

// maxExecTail bounds what of a failed command's output goes into its error.
const maxExecTail = 1 << 10

// Exec implements sessions.Server, as far as the host's declaration allows commands.
func (s sessionServer) Exec(ctx context.Context, host, workspace string, argv []string, actor string) error {
	known, err := s.secretsOn(ctx, host)
	if err != nil {
		return err
	}
	st, err := s.OpenStream(ctx, host, wire.StreamExec, managed.ID(spec.KindWorkspace, workspace), wire.StreamArgs{Argv: argv}, actor)
	if err != nil {
		return err
	}
	defer st.Close()
	return withoutSecrets(known.Secrets, st.Run(ctx, maxExecTail))
}

// Sessions runs sessions on this server.
func (c *Control) Sessions() *sessions.Runner { return c.sessions }

func (c *Control) runSessions(ctx context.Context) {
	if err := c.sessions.Run(ctx); err != nil && ctx.Err() == nil {
		c.cfg.Log.Error("sessions are not reconciled until the server is restarted", "err", err)
	}
}
