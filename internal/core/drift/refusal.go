package drift

import (
	"fmt"

	"github.com/steadyfleet/steady/internal/core/clock"
)

// Refusal says why nothing was decided, and what would change that.
type Refusal struct {
	Code    string
	Message string
	// Cause is for operators alone: whoever is refused may be a stranger.
	Cause string
	// After is when to try again, of CodeTooMuch.
	After clock.Duration
}

func (r *Refusal) Error() string { return r.Message }

// Codes of a Refusal.
const (
	CodeUnknown   = "unknown"   // there is no such thing
	CodeInvalid   = "invalid"   // whatever the state is
	CodeConflict  = "conflict"  // it does not fit the state
	CodeForbidden = "forbidden" // of the identity of nodes
	CodePort      = "port-conflict"
	CodeNumber    = "number"   // a number that nothing explains
	CodeTooMuch   = "too-much" // a node has used its share
)

func refuse(code, format string, args ...any) error {
	return &Refusal{Code: code, Message: fmt.Sprintf(format, args...)}
}
