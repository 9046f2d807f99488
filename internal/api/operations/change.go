package operations

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/steadyfleet/steady/internal/api/operator"
	"github.com/steadyfleet/steady/internal/core/access"
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/plan"
	"github.com/steadyfleet/steady/internal/core/readiness"
)

type verbIn struct {
	Rollout string `path:"rollout" maxLength:"200"`
	Verb    string `path:"verb" enum:"pause,resume,cancel"`
	Body    struct {
		Reason string `json:"reason" minLength:"1" maxLength:"1000" doc:"Why, for the log"`
	}
}

type clearIn struct {
	Channel string `path:"channel" maxLength:"63"`
	Bundle  string `path:"bundle" maxLength:"71"`
	Body    struct {
		Reason string `json:"reason" minLength:"1" maxLength:"1000" doc:"Why, for the log"`
	}
}

type tokenIn struct {
	Body struct {
		Name string         `json:"name" minLength:"1" maxLength:"63"`
		Role operator.Role  `json:"role" enum:"viewer,operator,releaser,admin"`
		Life clock.Duration `json:"life,omitempty" doc:"How long the token is good, in milliseconds; a year by default"`
	}
}

type idPath struct {
	ID string `path:"id" maxLength:"64"`
}

type revokeIn struct {
	ID   string `path:"id" maxLength:"64"`
	Body struct {
		Force bool `json:"force,omitempty" doc:"Also the token of the last admin"`
	}
}

// post describes a route that takes a small message.
func post(id, path, summary string, status int) huma.Operation {
	return huma.Operation{OperationID: id, Method: http.MethodPost, Path: path, Summary: summary, DefaultStatus: status, MaxBodyBytes: 64 << 10}
}

func (h *Handler) changing() {
	add(h, post("operate-rollout", "/rollouts/{rollout}/{verb}", "Pause, resume or cancel a rollout", http.StatusNoContent), operating, h.operate)
	add(h, post("clear-quarantine", "/quarantine/{channel}/{bundle}/clear", "Allow a bundle again on a channel", http.StatusNoContent), operating, h.clear)
	add(h, post("reconcile", "/reconcile", "Have the planner look at everything now", http.StatusNoContent), operating, h.reconcile)
	add(h, post("create-token", "/tokens", "Make an operator token", http.StatusCreated), admin, h.createToken)
	add(h, post("revoke-token", "/tokens/{id}/revoke", "Withdraw an operator token", http.StatusNoContent), admin, h.revokeToken)
}

func (h *Handler) operate(ctx context.Context, in *verbIn) (*none, error) {
	return &none{}, h.c.Operate(ctx, plan.Verb(in.Verb), in.Rollout, in.Body.Reason, actor(ctx))
}

func (h *Handler) clear(ctx context.Context, in *clearIn) (*none, error) {
	return &none{}, h.c.ClearQuarantine(ctx, in.Channel, in.Bundle, in.Body.Reason, actor(ctx))
}

func (h *Handler) reconcile(ctx context.Context, _ *none) (*none, error) {
	return &none{}, h.c.Reconcile(ctx)
}

func (h *Handler) createToken(ctx context.Context, in *tokenIn) (*body[operator.MadeToken], error) {
	life := cmp.Or(in.Body.Life, access.DefaultLife)
	o, secret, err := h.c.AddOperator(ctx, in.Body.Name, string(in.Body.Role), life, actor(ctx))
	return &body[operator.MadeToken]{operator.MadeToken{Token: operator.Token{ID: o.ID, Name: o.Name, Role: in.Body.Role, CreatedAt: o.Expires.Add(-life), Expires: o.Expires}, Secret: secret}}, err
}

func (h *Handler) revokeToken(ctx context.Context, in *revokeIn) (*none, error) {
	return &none{}, h.c.RevokeOperator(ctx, in.ID, in.Body.Force, actor(ctx))
}

// pushTimeout bounds how long a packed release may take to arrive.
const pushTimeout = time.Hour

func (h *Handler) push(w http.ResponseWriter, r *http.Request) {
	rc := http.NewResponseController(w)
	_ = rc.SetReadDeadline(time.Now().Add(pushTimeout))
	_ = rc.SetWriteDeadline(time.Now().Add(pushTimeout))
	if r.Header.Get("Content-Encoding") != "" {
		h.problem(w, refused(http.StatusUnsupportedMediaType, "a release is taken as a plain tar, without Content-Encoding"))
		return
	}
	pushed, err := h.c.PushRelease(r.Context(), r.Body, actor(r.Context()))
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
		w.Header().Set("Cache-Control", "no-store")
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

func writeHealth(w http.ResponseWriter, reasons []readiness.Reason) {
	answer := operator.Health{Status: "ok", Reasons: reasons}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	if len(reasons) > 0 {
		answer.Status = "unavailable"
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	_ = json.NewEncoder(w).Encode(answer) // the caller is gone
}

func (h *Handler) openAPI(w http.ResponseWriter, _ *http.Request) { writeJSON(w, h.api.OpenAPI()) }
