// Package fault turns a failed call to the engine into what the loop has to
// know of it: to wait, to try again, or to give up.
package fault

import (
	"context"
	"errors"
	"strings"

	"github.com/steadyfleet/steady/internal/docker/daemon"
	"github.com/steadyfleet/steady/reconcile"
	"github.com/steadyfleet/steady/reconcile/engine"
)

// Codes of failed calls.
const (
	CodeUnavailable engine.Code = "engine_unavailable"
	CodeUnknown     engine.Code = "outcome_unknown"
	CodeInUse       engine.Code = "in_use"
	CodeRefused     engine.Code = "engine_refused"
	CodeDenied      engine.Code = "registry_denied"
)

// Of sorts an error of a call. An engine that does not answer, an outcome that
// nobody knows and a thing in use are waited for and never counted; what is
// refused or denied is given up until something changes; the rest is tried again.
// Errors that say already what they are, and those of other origin, stay.
func Of(ctx context.Context, err error) error {
	e, ok := errors.AsType[*daemon.Error](err)
	switch {
	case err == nil || !ok:
		return err
	case ctx.Err() != nil:
		return errors.Join(context.Cause(ctx), err)
	case daemon.Unavailable(err):
		return reconcile.Blocked(0, engine.Because(CodeUnavailable, e.Error()))
	case daemon.Unknown(err):
		return reconcile.Blocked(0, engine.Because(CodeUnknown, e.Error()))
	case daemon.Conflict(err), daemon.Refused(err) && strings.Contains(e.Error(), "is ambiguous"):
		// Of two networks of one name the second is about to go.
		return reconcile.Blocked(0, engine.Because(CodeInUse, e.Error()))
	case daemon.Denied(err):
		return reconcile.Terminal(CodeDenied, err)
	case daemon.Refused(err):
		return reconcile.Terminal(CodeRefused, err)
	}
	return err
}
