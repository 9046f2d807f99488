package dockerapi

// This file turns a failed call to the engine into what the loop has to
// know of it: to wait, to try again, or to give up.

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/steadyfleet/steady/reconcile"
	"github.com/steadyfleet/steady/reconcile/engine"
)

// Codes of failed calls.
const (
	CodeUnavailable engine.Code = "engine-unavailable"
	CodeUnknown     engine.Code = "outcome-unknown"
	CodeInUse       engine.Code = "in-use"
	CodeRefused     engine.Code = "engine-refused"
	CodeDenied      engine.Code = "registry-denied"
)

// NoGrace is the cleanup grace of what is removed from an engine: it is tried until it is gone, since what is given up
// would run on.
const NoGrace = 10 * 365 * 24 * time.Hour

// Of sorts an error of a call. An engine that does not answer, an outcome that
// nobody knows and a thing in use are waited for and never counted; what is
// refused or denied is given up until something changes; the rest is tried again.
// Errors that say already what they are, and those of other origin, stay.
func ErrorOf(ctx context.Context, err error) error {
	e, ok := errors.AsType[*Error](err)
	switch {
	case err == nil || !ok:
		return err
	case ctx.Err() != nil && errors.Is(context.Cause(ctx), context.DeadlineExceeded): // of an observation
		return reconcile.Blocked(engine.NewReason(CodeUnavailable, fmt.Sprintf("%s: the container engine at %s gave no answer in time: see what holds it up (journalctl -u docker), or restart it (systemctl restart docker)",
			strings.TrimSpace(e.Call+" "+e.Object), e.Socket)))
	case ctx.Err() != nil:
		return errors.Join(context.Cause(ctx), err)
	case Unavailable(err):
		return reconcile.Blocked(engine.NewReason(CodeUnavailable, e.Error()))
	case Unknown(err):
		return reconcile.Blocked(engine.NewReason(CodeUnknown, e.Error()))
	case Conflict(err), Refused(err) && strings.Contains(e.Error(), "is ambiguous"):
		// Of two networks of one name the second is about to go.
		return reconcile.Blocked(engine.NewReason(CodeInUse, e.Error()))
	case Denied(err):
		return reconcile.Terminal(CodeDenied, err)
	case Refused(err):
		return reconcile.Terminal(CodeRefused, err)
	}
	return err
}
