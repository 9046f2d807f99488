// Package refusal is how the server says no: a kind that callers tell apart, and
// words for people. It knows no request and no state, and decides nothing.
package refusal

import (
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/steadyfleet/steady/internal/core/clock"
)

// Kinds of refusals; errors wrap one of these with words for people.
var (
	// ErrUnavailable: nothing was done; try again later.
	ErrUnavailable = errors.New("the server cannot commit anything now; try again later")
	// ErrTooMuch: the caller is above its rate; try again after Error.After.
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

// Error is a refused request. It matches its Kind, one of the errors above.
type Error struct {
	Kind  error
	Words string
	After clock.Duration // when to try again, if known
}

func (e *Error) Error() string { return e.Words }

// Unwrap returns the kind.
func (e *Error) Unwrap() error { return e.Kind }

// Newf returns a refusal of a kind, as an *Error.
func Newf(kind error, format string, args ...any) error {
	return &Error{Kind: kind, Words: fmt.Sprintf(format, args...)}
}

// Once tells what was refused for the first time, so that what callers repeat does
// not fill the log. It forgets all when it holds too much. The zero value is ready.
type Once struct {
	mu sync.Mutex
	m  map[string]struct{}
}

const maxOnce = 4096

// First reports whether a key is new.
func (o *Once) First(key string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if _, seen := o.m[key]; seen {
		return false
	}
	if o.m == nil || len(o.m) >= maxOnce {
		o.m = map[string]struct{}{}
	}
	o.m[key] = struct{}{}
	return true
}

// Forget makes everything with a prefix news again.
func (o *Once) Forget(prefix string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for k := range o.m {
		if strings.HasPrefix(k, prefix) {
			delete(o.m, k)
		}
	}
}
