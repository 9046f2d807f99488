package operations

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/steadyfleet/steady/internal/api/operator"
	"github.com/steadyfleet/steady/internal/control/documents"
	"github.com/steadyfleet/steady/internal/core/access"
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/health"
	"github.com/steadyfleet/steady/internal/core/plan"
	"github.com/steadyfleet/steady/internal/core/server"
)

// Inputs of routes, by what their path names.
type (
	bodyIn[B any]    struct{ Body B }
	rolloutIn[B any] struct {
		Rollout string `path:"rollout" maxLength:"200"`
		Body    B
	}
	hostIn[B any] struct {
		Host string `path:"host" maxLength:"63"`
		Body B
	}
	verbIn struct {
		Rollout string `path:"rollout" maxLength:"200"`
		Verb    string `path:"verb" enum:"pause,resume,cancel"`
		Body    operator.Verb
	}
	bundleIn struct {
		Channel string `path:"channel" maxLength:"63"`
		Bundle  string `path:"bundle" maxLength:"71"`
		Body    operator.Verb
	}
	idIn[B any] struct {
		ID   string `path:"id" maxLength:"64"`
		Body B
	}
)

// changing registers what operators decide: a verb is a row.
func (h *Handler) changing() {
	verb(h, "operate-rollout", "/rollouts/{rollout}/{verb}", "Pause, resume or cancel a rollout",
		func(s *plan.State, in *verbIn, actor string, now clock.Instant) ([]event.Entry, error) {
			return plan.Operate(s, plan.Verb(in.Verb), in.Rollout, in.Body.Reason, actor, now)
		})
	verb(h, "promote-wave", "/rollouts/{rollout}/promote", "Open the next wave of a rollout although a gate blocks it",
		func(s *plan.State, in *rolloutIn[operator.Promotion], actor string, now clock.Instant) ([]event.Entry, error) {
			return plan.Promote(s, in.Rollout, in.Body.Wave, in.Body.Reason, actor, now)
		})
	add(h, post("retry-rollout", "/rollouts/{rollout}/retry", "Try a rollout again that failed for a cause outside of it"), operating, h.retryRollout)
	verb(h, "add-quarantine", "/quarantine/{channel}/{bundle}/add", "Refuse a bundle on a channel",
		func(s *plan.State, in *bundleIn, actor string, now clock.Instant) ([]event.Entry, error) {
			return plan.AddQuarantine(s, in.Channel, strings.TrimSpace(in.Bundle), in.Body.Reason, actor, now)
		})
	verb(h, "clear-quarantine", "/quarantine/{channel}/{bundle}/clear", "Allow a bundle again on a channel",
		func(s *plan.State, in *bundleIn, actor string, now clock.Instant) ([]event.Entry, error) {
			return plan.ClearQuarantine(s, in.Channel, strings.TrimSpace(in.Bundle), in.Body.Reason, actor, now)
		})
	verb(h, "unfreeze-host", "/hosts/{host}/unfreeze", "End the freeze of a host",
		func(s *plan.State, in *hostIn[operator.Verb], actor string, now clock.Instant) ([]event.Entry, error) {
			return plan.Unfreeze(s, in.Host, in.Body.Reason, actor, now)
		})
	verb(h, "revoke-host", "/hosts/{host}/revoke", "End the certificates of a host",
		func(s *plan.State, in *hostIn[operator.Verb], actor string, now clock.Instant) ([]event.Entry, error) {
			return plan.Revoke(s, in.Host, in.Body.Reason, actor, now)
		})
	verb(h, "decommission-host", "/hosts/{host}/decommission", "Revoke a host and retire it",
		func(s *plan.State, in *hostIn[operator.Verb], actor string, now clock.Instant) ([]event.Entry, error) {
			return plan.Decommission(s, in.Host, in.Body.Reason, actor, now)
		})
	add(h, post("freeze-host", "/hosts/{host}/freeze", "Give a host no grants for a while"), operating, h.freeze)
	add(h, huma.Operation{OperationID: "foresee-release", Method: http.MethodPost, Path: "/releases/foresee",
		Summary: "Say which hosts would not run what a release gives them", MaxBodyBytes: 16 << 20}, releasing,
		func(ctx context.Context, in *bodyIn[operator.Gives]) (out []plan.Refusing, err error) {
			return out, h.c.View(ctx, func(s *plan.State) { out = append([]plan.Refusing{}, plan.Foresee(s, in.Body.Given)...) })
		})
	add(h, huma.Operation{OperationID: "list-missing-content", Method: http.MethodPost, Path: "/content/missing",
		Summary: "Say which archives of store paths the server does not have", MaxBodyBytes: 32 << 20}, releasing, h.missingContent)
	do(h, post("reconcile", "/reconcile", "Evaluate every rollout and host now"), operating,
		func(ctx context.Context, _ *none) error { return h.c.Operate(ctx, nil) })
	add(h, post("end-safe-mode", "/safe-mode/end", "Go on without the events that hosts owe the server"), admin,
		func(ctx context.Context, in *bodyIn[operator.Verb]) (server.RestoreWait, error) {
			return h.c.EndSafeMode(ctx, actor(ctx), in.Body.Reason)
		})
	add(h, huma.Operation{OperationID: "create-token", Method: http.MethodPost, Path: "/tokens", Summary: "Make an operator token",
		DefaultStatus: http.StatusCreated, MaxBodyBytes: 64 << 10}, admin, h.createToken)
	do(h, post("revoke-token", "/tokens/{id}/revoke", "Withdraw an operator token"), admin,
		func(ctx context.Context, in *idIn[operator.TokenRevocation]) error {
			return h.c.RevokeOperator(ctx, in.ID, in.Body.Force, actor(ctx))
		})
	add(h, post("push-override", "/overrides", "Bring an override that an operator signed"), operating, h.pushOverride)
	add(h, huma.Operation{OperationID: "push-roots", Method: http.MethodPost, Path: "/roots",
		Summary: "Push roots that follow the trusted one", MaxBodyBytes: operator.MaxRootsBody}, admin, h.pushRoots)
}

// retryRollout answers with what the event of it says of the hosts.
func (h *Handler) retryRollout(ctx context.Context, in *rolloutIn[operator.Verb]) (out operator.Retried, err error) {
	return out, h.c.Operate(ctx, func(s *plan.State, now clock.Instant) ([]event.Entry, error) {
		entries, err := plan.Retry(s, in.Rollout, in.Body.Reason, actor(ctx), now)
		for _, e := range entries {
			if e.Type == (event.RolloutRetried{}).EventType() {
				err = json.Unmarshal(e.Body, &out)
			}
		}
		return entries, err
	})
}

func (h *Handler) freeze(ctx context.Context, in *hostIn[operator.Freeze]) (out operator.Frozen, err error) {
	return out, h.c.Operate(ctx, func(s *plan.State, now clock.Instant) ([]event.Entry, error) {
		out.Until = now.Add(in.Body.For)
		return plan.Freeze(s, in.Host, out.Until, in.Body.Reason, actor(ctx), now)
	})
}

func (h *Handler) createToken(ctx context.Context, in *bodyIn[operator.NewToken]) (operator.MadeToken, error) {
	life := cmp.Or(in.Body.Life, access.DefaultLife)
	o, secret, err := h.c.AddOperator(ctx, in.Body.Name, string(in.Body.Role), life, actor(ctx))
	return operator.MadeToken{Token: operator.Token{ID: o.ID, Name: o.Name, Role: in.Body.Role, CreatedAt: o.Expires.Add(-life), Expires: o.Expires}, Secret: secret}, err
}

func (h *Handler) pushRoots(ctx context.Context, in *bodyIn[operator.Roots]) (operator.RootsPushed, error) {
	p, err := h.c.PushRoots(ctx, in.Body.Roots, actor(ctx))
	out := operator.RootsPushed{Version: p.Version, Epoch: p.Epoch, Accepted: p.Accepted, ReleaseValid: p.ReleaseErr == nil}
	switch {
	case p.ReleaseErr == nil:
	case p.Ended:
		out.Next = "steady release build && steady release sign && steady release push"
	default:
		out.Next = "steady release sign && steady release push"
	}
	return out, err
}

// pushTimeout bounds how long a packed release may take to arrive.
const pushTimeout = time.Hour

func (h *Handler) push(w http.ResponseWriter, r *http.Request) {
	rc := http.NewResponseController(w)
	_ = rc.SetReadDeadline(time.Now().Add(pushTimeout))
	_ = rc.SetWriteDeadline(time.Now().Add(pushTimeout))
	if r.Header.Get("Content-Encoding") != "" {
		h.problem(w, refused(http.StatusUnsupportedMediaType, "a release is accepted only as a plain tar, without Content-Encoding"))
		return
	}
	rule := documents.FollowsNewest
	if r.URL.Query().Get("restored") == "true" {
		rule = documents.DescendsOfNewest
	}
	pushed, err := h.c.PushRelease(r.Context(), r.Body, rule, actor(r.Context()))
	if err != nil {
		h.problem(w, h.refusal(err))
		return
	}
	writeJSON(w, operator.Pushed{Version: pushed.Version, Ref: pushed.Ref, Outcome: pushed.Outcome})
}

// newest hands out the newest release. What fails in the middle cuts the answer off.
func (h *Handler) newest(w http.ResponseWriter, r *http.Request) {
	began := false
	err := h.c.Newest(r.Context(), w, func() {
		began = true
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(pushTimeout))
		w.Header().Set("Content-Type", "application/x-tar")
	})
	switch {
	case err != nil && began:
		h.log.Warn("the newest release was not handed out whole", "err", err)
		panic(http.ErrAbortHandler)
	case err != nil:
		h.problem(w, h.refusal(err))
	}
}

func writeJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v) // the caller is gone
}

func (h *Handler) metrics(w http.ResponseWriter, r *http.Request) {
	promhttp.HandlerFor(h.c.Metrics(), promhttp.HandlerOpts{MaxRequestsInFlight: 4}).ServeHTTP(w, r)
}

func (h *Handler) health(w http.ResponseWriter, _ *http.Request) { writeHealth(w, h.c.Dead()) }

func (h *Handler) ready(w http.ResponseWriter, r *http.Request) {
	writeHealth(w, h.c.Unready(r.Context()))
}

func writeHealth(w http.ResponseWriter, reasons []health.ServerProblem) {
	answer := operator.Health{Status: "ok", Reasons: reasons}
	if len(reasons) > 0 {
		answer.Status = "unavailable"
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	writeJSON(w, answer)
}

func (h *Handler) openAPI(w http.ResponseWriter, _ *http.Request) { writeJSON(w, h.api.OpenAPI()) }
