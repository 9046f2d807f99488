package wire

import (
	"errors"
	"fmt"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/spec"
)

// Kinds of refusals; errors wrap one of these with a message for people.
var (
	// ErrUnavailable: nothing was done; try again later.
	ErrUnavailable = errors.New("the server cannot commit anything now; try again later")
	// ErrTooMuch: the caller is above its rate; try again after Refusal.After.
	ErrTooMuch = errors.New("too much at a time; try again later")
	// ErrForbidden: this caller may not, whatever it sends.
	ErrForbidden = errors.New("forbidden")
	// ErrInvalid: the request itself is wrong.
	ErrInvalid = errors.New("invalid request")
	// ErrConflict: the request does not fit the state.
	ErrConflict = errors.New("conflict")
	// ErrNotFound: there is no such thing.
	ErrNotFound = errors.New("not found")
)

// Refusal is how the server refuses a request. It matches its Kind, one of the errors above.
type Refusal struct {
	Kind     error
	Message  string
	After    clock.Duration // when to try again, if known
	Problems spec.Problems  // where in the resource that was sent, if they are known
}

func (e *Refusal) Error() string { return e.Message }

// Unwrap returns the kind.
func (e *Refusal) Unwrap() error { return e.Kind }

// Refuse returns a refusal of a kind, as a *Refusal.
func Refuse(kind error, format string, args ...any) error {
	return &Refusal{Kind: kind, Message: fmt.Sprintf(format, args...)}
}
