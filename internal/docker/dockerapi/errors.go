package dockerapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/moby/moby/api/types/jsonstream"
	"github.com/moby/moby/client"
)

// Kind sorts a failed call by what the caller may do next.
type Kind int

// The kinds of failure.
const (
	// KindFailed: the engine tried and failed, or answered what cannot be
	// read. Trying again may help.
	KindFailed Kind = iota
	// KindRefused: the engine, or the client before it, says no to this input.
	// The same call will be refused again.
	KindRefused
	// KindDenied: a registry does not accept the credentials, or the engine not the caller.
	KindDenied
	// KindNotFound: the object, or one that it needs, does not exist.
	KindNotFound
	// KindConflict: the name is taken, or the object is in use or in another state.
	KindConflict
	// KindUnavailable: no answer at all: nothing listens, or what listens hangs.
	KindUnavailable
	// KindInterrupted: the answer began and was lost, or the caller gave up.
	KindInterrupted
)

// Error is a failed call to the engine.
type Error struct {
	Call   string // what was asked, such as "create container"
	Object string // of which object: name, ID or reference; may be empty
	Kind   Kind
	Status int           // HTTP status of the answer, 0 without one
	Socket string        // URL of the engine
	After  time.Duration // the limit that ran out, 0 if none did
	Err    error
}

// Error names the call, the object, the cause and the next step.
func (e *Error) Error() string {
	what := e.Call
	if e.Object != "" {
		what += " " + e.Object
	}
	switch {
	case e.Kind == KindUnavailable && e.After > 0:
		return fmt.Sprintf("%s: the container engine at %s gave no answer within %s: see what holds it up (journalctl -u docker), or restart it (systemctl restart docker)", what, e.Socket, e.After)
	case e.Kind == KindUnavailable:
		return fmt.Sprintf("%s: the container engine at %s does not answer: start it (systemctl start docker): %v", what, e.Socket, e.Err)
	case e.Kind == KindInterrupted && e.After > 0:
		return fmt.Sprintf("%s: the container engine at %s made no progress for %s: see its log (journalctl -u docker)", what, e.Socket, e.After)
	case e.Kind == KindDenied:
		return fmt.Sprintf("%s: access denied: check the credentials of the registry on this host: %v", what, e.Err)
	}
	return fmt.Sprintf("%s: %v", what, e.Err)
}

// Unwrap gives the error of the client.
func (e *Error) Unwrap() error { return e.Err }

// Unknown reports that nobody knows whether the call took effect: it ran out of
// time, was given up, or the engine could not be reached. Look before asking again.
func Unknown(err error) bool { return is(err, KindUnavailable) || is(err, KindInterrupted) }

// Unavailable reports that the engine did not answer at all: it is down or hangs.
func Unavailable(err error) bool { return is(err, KindUnavailable) }

// NotFound reports that the object, or one that it needs, does not exist.
func NotFound(err error) bool { return is(err, KindNotFound) }

// Conflict reports that a name is taken, or that the object is in use or in a
// state that does not allow the call.
func Conflict(err error) bool { return is(err, KindConflict) }

// Refused reports that the same call will be refused again.
func Refused(err error) bool { return is(err, KindRefused) }

// Denied reports that credentials were missing or wrong.
func Denied(err error) bool { return is(err, KindDenied) }

func is(err error, kind Kind) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && e.Kind == kind
}

// failed reports what an error of the client means.
func (e *Engine) failed(ctx context.Context, c *call, limit time.Duration, err error) error {
	out := &Error{Call: c.name, Object: c.object, Socket: e.socket, Status: int(c.status.Load()), Err: err}
	inner, streamed := errors.AsType[*jsonstream.Error](err)
	switch {
	case streamed:
		out.Status = inner.Code
		out.Kind = kindOf(inner.Code, inner.Message)
	case out.Status >= 400:
		out.Kind = kindOf(out.Status, err.Error())
	case ctx.Err() != nil:
		out.Kind = KindUnavailable
		if out.Status != 0 || c.long && c.sent.Load() {
			out.Kind = KindInterrupted
		}
		if errors.Is(context.Cause(ctx), errDeadline) {
			out.After = limit
			out.Err = errors.Join(errDeadline, err)
		} else {
			out.Kind = KindInterrupted
			out.Err = fmt.Errorf("given up: %w", ctx.Err())
		}
	case client.IsErrConnectionFailed(err):
		out.Kind = KindUnavailable
	case out.Status != 0:
		out.Kind = KindInterrupted
		out.Err = fmt.Errorf("the answer of the container engine broke off: %w", err)
	case c.sent.Load():
		out.Kind = KindUnavailable
	case errors.Is(err, context.DeadlineExceeded):
		out.Kind = KindUnavailable
		out.After = e.timeout
	default:
		out.Kind = KindRefused
	}
	return out
}

// denied are words of registries that engines pass on under other statuses.
var denied = []string{"unauthorized", "authentication required", "no basic auth credentials", "access denied", "access to the resource is denied"}

func kindOf(status int, message string) Kind {
	message = strings.ToLower(message)
	for _, d := range denied {
		if strings.Contains(message, d) {
			return KindDenied
		}
	}
	switch {
	case status == http.StatusUnauthorized, status == http.StatusForbidden && strings.Contains(message, "denied"):
		return KindDenied
	case status == http.StatusNotFound:
		return KindNotFound
	case status == http.StatusConflict, status == http.StatusForbidden:
		// 403 is how engines report that a network still has endpoints.
		return KindConflict
	case status >= 400 && status < 500 && status != http.StatusRequestTimeout && status != http.StatusTooManyRequests:
		return KindRefused
	}
	return KindFailed
}
