package control

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/steadyfleet/steady/internal/control/documents"
	"github.com/steadyfleet/steady/internal/control/fetch"
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/plan"
	"github.com/steadyfleet/steady/internal/core/server"
	"github.com/steadyfleet/steady/internal/core/warning"
	"github.com/steadyfleet/steady/internal/store"
	"github.com/steadyfleet/steady/internal/trust"
	"github.com/steadyfleet/steady/internal/wire"
)

// watchSources looks at the sources of releases while the reducer runs.
func (c *Control) watchSources(ctx context.Context) {
	c.forgetSources(ctx)
	c.sources.Run(ctx, intakeOf{c})
}

// forgetSources ends the troubles of sources that are configured no more.
func (c *Control) forgetSources(ctx context.Context) {
	names := c.sources.Names()
	err := c.record(ctx, c.normal, "", func(s *server.State, _ clock.Instant) (events []event.Event, _ error) {
		for _, name := range slices.Sorted(maps.Keys(s.Plan.Sources)) {
			if !slices.Contains(names, name) {
				events = append(events, s.Plan.SourceNews(warning.SourceReport{Source: name, Gone: true})...)
			}
		}
		return events, nil
	})
	if err != nil && ctx.Err() == nil {
		c.cfg.Log.Warn("what was wrong with earlier release sources was not forgotten", "err", err)
	}
}

// intakeOf is the server as sources see it.
type intakeOf struct{ *Control }

// Leads implements fetch.Intake: a server that another one has replaced learns of
// it at its next append, and must not ask for releases until then.
func (c intakeOf) Leads(ctx context.Context) error {
	if err := c.Admits(); err != nil {
		return err
	}
	head, err := c.cfg.Store.Head(ctx)
	if err != nil {
		return fmt.Errorf("read the end of the log: %w", err)
	}
	if head.Term > c.Head().Term {
		return fmt.Errorf("nothing is checked: %w", store.ErrFenced)
	}
	return nil
}

// AcceptRelease implements fetch.Intake: what a source brings goes the way of a
// push.
func (c intakeOf) AcceptRelease(ctx context.Context, dir, source string) (fetch.Release, error) {
	pushed, err := c.acceptFolder(ctx, dir, documents.DescendsOfNewest, warning.SourceActor(source), func(cause error) error {
		if base, is := errors.AsType[*documents.BaseError](cause); is {
			return &fetch.RefusedError{Check: OtherBase, Detail: c.otherBase(ctx, base)}
		}
		return &fetch.RefusedError{Check: cmp.Or(string(trust.CodeOf(cause)), string(trust.Malformed)), Detail: cause.Error()}
	})
	return fetch.Release{Version: pushed.Version, Ref: pushed.Ref, Same: pushed.Outcome == Unchanged}, err
}

// OtherBase is the check that refuses a release for its base.
const OtherBase = "OtherBase"

// ReportSource implements fetch.Intake.
func (c intakeOf) ReportSource(ctx context.Context, r warning.SourceReport) error {
	return c.record(ctx, c.normal, "", func(s *server.State, _ clock.Instant) ([]event.Event, error) {
		news := s.Plan.SourceNews(r)
		for _, ev := range news {
			c.cfg.Log.Warn("release source", "source", r.Source, "event", ev.EventType(), "detail", detailOf(ev))
		}
		return news, nil
	})
}

func detailOf(ev event.Event) string {
	switch ev := ev.(type) {
	case event.SourceFailed:
		return ev.Cause + ": " + ev.Detail
	case event.VerifyFailed:
		return ev.Check + ": " + ev.Detail
	case event.SourceRecovered:
		return ev.What + ": " + ev.Reason
	}
	return ""
}

// SourceState is where a source of releases stands.
type SourceState struct {
	fetch.Status
	Trouble warning.Source
}

// Sources returns where every source of releases stands, as configured.
func (c *Control) Sources(ctx context.Context) ([]SourceState, error) {
	var out []SourceState
	err := c.View(ctx, func(s *plan.State) {
		for _, status := range c.sources.Status() {
			out = append(out, SourceState{status, s.Sources[status.Name]})
		}
	})
	return out, err
}

// MaxHook bounds the body of a request to look at the sources, in bytes.
const MaxHook = 1 << 20

// hookRate is how many requests to look at the sources are taken; more are refused.
var hookRate = server.RateLimit{Burst: 30, Tokens: 1, Per: clock.Second}

// AllowHook reports whether another request to look at the sources is taken now.
func (c *Control) AllowHook() bool {
	c.hooks.Lock()
	defer c.hooks.Unlock()
	return c.hooks.Spend(hookRate, 1, c.now()) == 0
}

// Hook looks at the sources soon, if signature is "sha256=" and the HMAC-SHA256 of
// the body under the shared secret, in hexadecimal. Nothing in the body is read.
func (c *Control) Hook(body []byte, signature string) error {
	refused := wire.Refuse(wire.ErrForbidden, "the signature of the body is not valid, or the server has no secret to check it with (steady server --release-hook-secret)")
	given, ok := strings.CutPrefix(signature, "sha256=")
	mac, err := hex.DecodeString(given)
	if !ok || err != nil || len(c.cfg.HookSecret) == 0 {
		return refused
	}
	want := hmac.New(sha256.New, c.cfg.HookSecret)
	want.Write(body)
	if !hmac.Equal(mac, want.Sum(nil)) {
		return refused
	}
	c.sources.CheckNow()
	return nil
}
