// Package probe looks at a host the way a release asks: by HTTP, by TCP, by a
// command. A probe that errs or times out has failed.
package probe

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/host"
	"github.com/steadyfleet/steady/internal/system"
)

const (
	// MaxReason bounds what is said about a failure, in bytes.
	MaxReason = 512
	// maxBody bounds what is read of an answer.
	maxBody = 1 << 20
)

// Result is one look.
type Result struct {
	Name   string
	Pass   bool
	Reason string // why it failed; empty when it passed
	// Unknown says that nothing can be said now: it neither passed nor failed.
	Unknown bool
	// Results are what evidence says of single controls.
	Results []host.SubResult
}

// Env is where commands run, and how resources are looked at.
type Env struct {
	Dir string
	Env []string
	// Resources fails with what the bundle declares and is not as declared, or with
	// ErrUnknown.
	Resources func(ctx context.Context) error
}

// ErrUnknown says that a look tells nothing.
var ErrUnknown = errors.New("it cannot be evaluated now")

// RunOnce runs one probe once.
func RunOnce(ctx context.Context, p fleet.Probe, env Env) Result {
	if p.Exec == nil { // commands have a timeout that kills their children
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, p.Timeout.Std())
		defer cancel()
	}
	if p.Evidence != nil {
		return lookAtEvidence(p)
	}
	err := look(ctx, p, env)
	switch {
	case err == nil:
		return Result{Name: p.Name, Pass: true}
	case errors.Is(err, ErrUnknown):
		return Result{Name: p.Name, Unknown: true}
	}
	reason := err.Error()
	if ctx.Err() == context.DeadlineExceeded {
		reason = fmt.Sprintf("timed out after %s: %s", p.Timeout, reason)
	}
	return Result{Name: p.Name, Reason: system.Scrub(reason, MaxReason)}
}

func look(ctx context.Context, p fleet.Probe, env Env) error {
	switch {
	case p.HTTP != nil:
		return lookHTTP(ctx, p.HTTP)
	case p.TCP != nil:
		c, err := (&net.Dialer{}).DialContext(ctx, "tcp", p.TCP.Address)
		if err != nil {
			return err
		}
		return c.Close()
	case p.Exec != nil:
		out, err := system.Run(ctx, system.Command{Argv: p.Exec.Command, Dir: env.Dir, Env: env.Env, Timeout: p.Timeout})
		if err != nil {
			return err
		}
		if out.TimedOut || out.ExitCode != p.Exec.ExpectExitCode {
			return fmt.Errorf("expected exit code %d: %s", p.Exec.ExpectExitCode, out)
		}
		return nil
	case p.Resources != nil && env.Resources != nil:
		return env.Resources(ctx)
	}
	return fmt.Errorf("the probe names neither http, tcp, exec, evidence nor resources")
}

func lookHTTP(ctx context.Context, p *fleet.HTTPProbe) error {
	origin, err := url.Parse(p.URL)
	if err != nil {
		return err
	}
	t := &http.Transport{DisableKeepAlives: true, Proxy: nil, MaxResponseHeaderBytes: 64 << 10}
	defer t.CloseIdleConnections()
	c := &http.Client{Transport: t, CheckRedirect: func(req *http.Request, via []*http.Request) error {
		if req.URL.Scheme != origin.Scheme || req.URL.Host != origin.Host || len(via) >= 5 {
			return http.ErrUseLastResponse // the redirect itself is the answer
		}
		return nil
	}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.URL, nil)
	if err != nil {
		return err
	}
	req.Header.Set("User-Agent", "steady-probe")
	res, err := c.Do(req)
	if err != nil {
		return err
	}
	body, err := io.ReadAll(io.LimitReader(res.Body, maxBody))
	_ = res.Body.Close()
	if res.StatusCode != p.ExpectStatus {
		return fmt.Errorf("expected status %d, got %d", p.ExpectStatus, res.StatusCode)
	}
	if err != nil {
		return err
	}
	if p.BodyContains != "" && !bytes.Contains(body, []byte(p.BodyContains)) {
		return fmt.Errorf("the body does not contain %q", p.BodyContains)
	}
	return nil
}

// Set is probes that run together, from one StartProbes to the next.
type Set struct {
	Probes []fleet.Probe
	Env    Env
	// Round is given back with every result, so that one of an older set can be
	// told from the present one's.
	Round int64
}

// Runner runs one set at a time.
type Runner struct {
	sets    chan Set
	results func(ctx context.Context, round int64, r Result)
}

// NewRunner makes a runner that hands results over, from several goroutines.
func NewRunner(results func(ctx context.Context, round int64, r Result)) *Runner {
	return &Runner{sets: make(chan Set, 1), results: results}
}

// Start replaces the set. Each of its probes is looked at at once. It must be
// called from one goroutine.
func (r *Runner) Start(s Set) {
	select {
	case <-r.sets: // never taken: replaced
	default:
	}
	r.sets <- s
}

// round is one set while it runs.
type round struct {
	set    Set
	due    []time.Time // zero: disabled or under way
	looks  context.Context
	cancel context.CancelFunc
}

func newRound(ctx context.Context, s Set) *round {
	n := &round{set: s, due: make([]time.Time, len(s.Probes))}
	n.looks, n.cancel = context.WithCancel(ctx)
	for i := range n.due {
		if s.Probes[i].Mode != fleet.Disabled {
			n.due[i] = time.Now()
		}
	}
	return n
}

// Run runs probes until ctx ends, and waits for those that are under way.
func (r *Runner) Run(ctx context.Context) error {
	done := make(chan ended)
	running := 0
	now := newRound(ctx, Set{})
	settle := func() {
		now.cancel()
		for ; running > 0; running-- {
			<-done
		}
	}
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		wait := time.Hour
		for i, at := range now.due {
			if at.IsZero() {
				continue
			}
			if left := time.Until(at); left > 0 {
				wait = min(wait, left)
				continue
			}
			now.due[i] = time.Time{}
			running++
			go r.look(now.looks, now.set, i, done)
		}
		timer.Reset(wait)
		select {
		case <-ctx.Done():
			settle()
			return nil
		case <-timer.C:
		case e := <-done:
			running--
			now.due[e.probe] = e.began.Add(now.set.Probes[e.probe].Interval.Std())
		case next := <-r.sets:
			settle()
			now = newRound(ctx, next)
		}
	}
}

type ended struct {
	probe int
	began time.Time
}

func (r *Runner) look(ctx context.Context, s Set, i int, done chan<- ended) {
	began := time.Now()
	res := RunOnce(ctx, s.Probes[i], s.Env)
	if ctx.Err() == nil && !res.Unknown { // a look that was called off says nothing either
		r.results(ctx, s.Round, res)
	}
	done <- ended{i, began}
}
