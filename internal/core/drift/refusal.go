package drift

import "fmt"

// Refusal says why nothing was decided, and what would change that.
type Refusal struct {
	Code    string
	Message string
}

func (r *Refusal) Error() string { return r.Message }

// Codes of a Refusal.
const (
	CodeUnknown   = "unknown"   // there is no such thing
	CodeInvalid   = "invalid"   // whatever the state is
	CodeConflict  = "conflict"  // it does not fit the state
	CodeForbidden = "forbidden" // of the identity of nodes
	CodePort      = "port-conflict"
)

func refuse(code, format string, args ...any) error {
	return &Refusal{code, fmt.Sprintf(format, args...)}
}
