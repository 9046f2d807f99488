package operations

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/steadyfleet/steady/internal/api/operator"
	"github.com/steadyfleet/steady/internal/control"
	"github.com/steadyfleet/steady/internal/core/status"
	"github.com/steadyfleet/steady/internal/core/warning"
)

// Bounds of requests that nobody has vouched for yet.
const (
	maxHooks    = 4 // bodies that are read at a time
	hookTimeout = 10 * time.Second
)

func (h *Handler) sources(ctx context.Context, _ *none) ([]operator.Source, error) {
	all, err := h.c.Sources(ctx)
	rows := []operator.Source{}
	for _, s := range all {
		rows = append(rows, operator.Source{Name: s.Name, LastChecked: s.LastChecked, LastSuccess: s.LastSuccess, LastError: s.LastError,
			Version: s.Version, Ref: s.Ref, Unfetched: troubleRow(s.Trouble.Fetch), Refused: troubleRow(s.Trouble.Verify), Summary: sourceSummary(s)})
	}
	return rows, err
}

// sourceSummary is the trouble that is in the log, or that the last look at the source was no success
// or is still to come.
func sourceSummary(s control.SourceState) status.Summary {
	out := s.Trouble.Summary()
	switch {
	case out.Level.NeedsPerson():
	case s.LastChecked == 0:
		out.Word, out.Level = "starting", status.Busy
	case s.LastError != "":
		out.Word, out.Level, out.Reason = warning.SourceFailing, status.Warning, s.LastError
	}
	return out
}

func troubleRow(t *warning.SourceTrouble) *operator.SourceTrouble {
	if t == nil {
		return nil
	}
	return &operator.SourceTrouble{Cause: t.Cause, Detail: t.Detail, Since: t.At}
}

// hook looks at the sources now. The body only proves that the sender knows the
// secret; nothing in it is read.
func (h *Handler) hook(w http.ResponseWriter, r *http.Request) {
	signature := r.Header.Get("X-Hub-Signature-256")
	switch {
	case signature == "":
		h.problem(w, refused(http.StatusUnauthorized, "a webhook needs the header X-Hub-Signature-256"))
		return
	case !h.c.AllowHook():
		h.problem(w, refused(http.StatusTooManyRequests, "too many webhooks; the sources are checked anyway"))
		return
	}
	select {
	case h.hooks <- struct{}{}:
		defer func() { <-h.hooks }()
	default:
		h.problem(w, refused(http.StatusTooManyRequests, "too many webhooks at once"))
		return
	}
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(hookTimeout))
	raw, err := io.ReadAll(http.MaxBytesReader(w, r.Body, control.MaxHook))
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		h.problem(w, refused(http.StatusRequestEntityTooLarge, "the body of a webhook has more than is allowed; have it send less"))
		return
	}
	if err != nil {
		h.problem(w, refused(http.StatusBadRequest, "the body of the webhook did not arrive"))
		return
	}
	if err := h.c.Hook(raw, signature); err != nil {
		h.problem(w, refused(http.StatusUnauthorized, err.Error()))
		return
	}
	w.WriteHeader(http.StatusAccepted)
}
