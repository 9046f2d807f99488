package operations

import (
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/steadyfleet/steady/internal/control"
	"github.com/steadyfleet/steady/internal/wire"
	"github.com/steadyfleet/steady/reconcile/engine"
)

// receiveTimeout is how long the body of an event may take.
const receiveTimeout = 10 * time.Second

// receive takes an event for a session. It is in the log when 202 is answered; one that was taken
// before is answered the same.
func (h *Handler) receive(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	status, outcome, err := h.takeEvent(w, r, name)
	h.c.CountEvent(name, outcome, err)
	if err == nil {
		w.WriteHeader(http.StatusAccepted)
		return
	}
	if status == 0 {
		h.problem(w, h.refusal(err))
		return
	}
	h.problem(w, refused(status, err.Error()))
}

// takeEvent returns the status of a refusal, 0 where that is for its kind to say, and its outcome for the metric.
func (h *Handler) takeEvent(w http.ResponseWriter, r *http.Request, name string) (status int, outcome string, err error) {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		token = ""
	}
	switch err := h.c.CheckEventToken(r.Context(), name, token); {
	case errors.Is(err, wire.ErrForbidden):
		return http.StatusUnauthorized, control.EventNoToken, err
	case err != nil:
		return 0, control.EventUnavailable, err
	}
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(receiveTimeout)) // HTTP/2 without it is bounded by the connection's
	e, err := readCloudEvent(w, r)
	switch {
	case errors.Is(err, errEventTooLarge):
		return http.StatusRequestEntityTooLarge, control.EventTooLarge, err
	case errors.Is(err, errMediaType):
		return http.StatusUnsupportedMediaType, control.EventMalformed, err
	case err != nil:
		return http.StatusBadRequest, control.EventMalformed, err
	}
	err = h.c.ReceiveEvent(r.Context(), name, e.Subject, engine.Event{Source: e.Source, ID: e.ID, Type: e.Type, Data: e.Data})
	switch {
	case err == nil:
		return http.StatusAccepted, control.EventAccepted, nil
	case errors.Is(err, wire.ErrInvalid):
		return http.StatusBadRequest, control.EventMalformed, err
	case errors.Is(err, wire.ErrNotFound):
		return 0, control.EventUnknown, err
	case errors.Is(err, wire.ErrConflict):
		return 0, control.EventOver, err
	case errors.Is(err, wire.ErrTooMuch):
		return 0, control.EventTooMany, err
	}
	return 0, control.EventUnavailable, err
}
