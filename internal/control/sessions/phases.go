package sessions

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"syscall"
	"time"

	"github.com/steadyfleet/steady/internal/core/access"
	"github.com/steadyfleet/steady/internal/core/server"
	"github.com/steadyfleet/steady/internal/core/session"
	"github.com/steadyfleet/steady/reconcile"
	"github.com/steadyfleet/steady/reconcile/engine"
)

// Bounds of a job.
const (
	callTimeout    = 30 * time.Second
	commandTimeout = 10 * time.Minute // what takes longer ends its phase by an event
	maxAnswer      = 64 << 10
)

// phases carries out what is decided on phases.
type phases struct{ *Runner }

// Observe implements reconcile.Reconciler: all that is known of a phase is in its inbox.
func (phases) Observe(context.Context, engine.Resource[session.Phase]) (session.NeedsNothing, error) {
	return session.NeedsNothing{}, nil
}

// Decide implements reconcile.Reconciler.
func (phases) Decide(v engine.View[session.Phase, session.NeedsNothing]) engine.Decision {
	return session.DecidePhase(v)
}

// Act implements reconcile.Reconciler: it does the job, and notes in the phase's inbox that it was
// accepted. Whoever is called twice can tell by the key. An error of the last attempt is final.
func (p phases) Act(ctx context.Context, r engine.Resource[session.Phase], a engine.Action) (err error) {
	var attempt session.Attempt
	switch a := a.(type) {
	case session.MakeCall:
		if attempt = a.Attempt; a.Call.URL != "" {
			err = p.call(ctx, a)
		}
	case session.RunCommand:
		attempt, err = a.Attempt, p.run(ctx, r, a)
	default:
		return fmt.Errorf("unknown action %s", a.ActionName())
	}
	if err == nil {
		return p.loop.Deliver(ctx, r.Ref, engine.Event{Source: "steady", ID: attempt.Key, Type: session.AcceptedEvent})
	}
	if r, refused := errors.AsType[*refusedJob](err); refused {
		return reconcile.Terminal(r.code, err)
	}
	if _, waits := reconcile.IsBlocked(err); attempt.Last && !waits {
		return reconcile.Terminal(engine.CodeExhausted, &lastAttempt{attempt.N, err})
	}
	return err
}

// refusedJob is met by a job that no further attempt can do.
type refusedJob struct {
	code engine.Code
	error
}

func (e *refusedJob) Unwrap() error { return e.error }

// lastAttempt is the error of a last attempt.
type lastAttempt struct {
	n int
	error
}

func (e *lastAttempt) Error() string { return session.Exhausted(e.n, e.error.Error()) }
func (e *lastAttempt) Unwrap() error { return e.error }

// run runs a command in a workspace of the phase's part, on the host that has it now.
func (p phases) run(ctx context.Context, r engine.Resource[session.Phase], a session.RunCommand) error {
	host, away := "", false
	if err := p.srv.ViewState(ctx, func(s *server.State) {
		b, _ := s.Booked.Of(a.Pod)
		host = b.Host
		known := s.Plan.Hosts[host]
		away = known != nil && !known.Online
	}); err != nil {
		return err
	}
	switch {
	case host == "":
		return fmt.Errorf("pod %s has no host", a.Command.Pod)
	case away:
		return reconcile.Blocked(engine.NewReason(session.CodeAway, "host "+host+" is offline"))
	}
	return p.srv.Exec(ctx, host, a.Command.Workspace, a.Command.Argv, actor+" for "+r.Ref.ID)
}

func (p phases) call(ctx context.Context, c session.MakeCall) error {
	method := c.Call.Method
	if method == "" {
		method = http.MethodPost
	}
	req, err := http.NewRequestWithContext(ctx, method, c.Call.URL, bytes.NewReader(c.Call.Body))
	if err != nil {
		return &refusedJob{"bad-call", err}
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Idempotency-Key", c.Key)
	resp, err := p.client.Do(req)
	if err != nil {
		if errors.Is(err, errForbidden) {
			return &refusedJob{"forbidden-address", err}
		}
		return err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return fmt.Errorf("read the answer of %s: %w", c.Call.URL, err)
	}
	switch {
	case resp.StatusCode < 300:
		return nil
	case resp.StatusCode >= 400 && resp.StatusCode < 500 && resp.StatusCode != http.StatusTooManyRequests && resp.StatusCode != http.StatusRequestTimeout:
		return &refusedJob{"call-refused", fmt.Errorf("%s answered %s: %.200q", c.Call.URL, resp.Status, answer)}
	}
	return fmt.Errorf("%s answered %s: %.200q", c.Call.URL, resp.Status, answer)
}

// errForbidden is met by a call to an address of the server's own machine or link.
var errForbidden = errors.New(session.NotCalled)

// ownAddresses are those of the interfaces of this machine as it is now.
func ownAddresses() (own []netip.Addr, err error) {
	all, err := net.InterfaceAddrs()
	for _, a := range all {
		if p, err := netip.ParsePrefix(a.String()); err == nil {
			own = append(own, p.Addr().Unmap().WithZone(""))
		}
	}
	return own, err
}

// newClient makes calls, through no proxy and to no address of this machine or its link: what a name
// means is judged when it is dialled, so that it cannot change in between.
func newClient() *http.Client {
	dialer := &net.Dialer{Timeout: 10 * time.Second, Control: func(_, address string, _ syscall.RawConn) error {
		at, err := netip.ParseAddrPort(address)
		if err != nil {
			return err
		}
		own, err := ownAddresses()
		if err != nil {
			return err
		}
		if access.Inward(at.Addr(), own) {
			return fmt.Errorf("%s: %w", at.Addr().Unmap(), errForbidden)
		}
		return nil
	}}
	return &http.Client{
		Timeout:       callTimeout,
		Transport:     &http.Transport{DialContext: dialer.DialContext, Proxy: nil, MaxIdleConns: 16, IdleConnTimeout: time.Minute, TLSHandshakeTimeout: 10 * time.Second},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}
