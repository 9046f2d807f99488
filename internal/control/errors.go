package control

import (
	"errors"
	"fmt"
)

// What a refused request can be told apart by; errors wrap one of these with
// words for people.
var (
	// ErrUnavailable: nothing was done; try again later.
	ErrUnavailable = errors.New("the server cannot commit anything now; try again later")
	// ErrForbidden: this caller may not, whatever it sends.
	ErrForbidden = errors.New("forbidden")
	// ErrInvalid: the request itself is wrong.
	ErrInvalid = errors.New("invalid request")
	// ErrConflict: the request does not fit the state.
	ErrConflict = errors.New("conflict")
	// ErrNotFound: there is no such thing.
	ErrNotFound = errors.New("not found")
)

// Refusal is a refused request. It matches its Kind, one of the errors above.
type Refusal struct {
	Kind  error
	Words string
}

func (e *Refusal) Error() string { return e.Words }

// Unwrap returns the kind.
func (e *Refusal) Unwrap() error { return e.Kind }

func refusef(kind error, format string, args ...any) error {
	return &Refusal{Kind: kind, Words: fmt.Sprintf(format, args...)}
}
