package trust

import (
	"errors"
	"fmt"
)

// Code says which check refused a document.
type Code string

// The codes. The first four are what an agent reports; see Error.Report.
const (
	ManifestMissing      Code = "ManifestMissing"
	ManifestVerifyFailed Code = "ManifestVerifyFailed"
	ManifestMismatch     Code = "ManifestMismatch"
	Stale                Code = "Stale"

	Malformed    Code = "Malformed"    // not what its type asks for, or over a cap
	RootInvalid  Code = "RootInvalid"  // no trusted root, or one that breaks the chain
	Rollback     Code = "Rollback"     // older than what was accepted before
	Equivocation Code = "Equivocation" // same version or name, other content
	WrongFleet   Code = "WrongFleet"
	WrongHost    Code = "WrongHost"
	NotListed    Code = "NotListed" // its signed parent does not name it
	Expired      Code = "Expired"
	FutureDated  Code = "FutureDated" // issued later than now plus the slack
)

// Error is a refusal. Words name the cause and are meant for people.
type Error struct {
	Code    Code
	Message string
}

func (e *Error) Error() string { return string(e.Code) + ": " + e.Message }

// Report returns the one of ManifestMissing, ManifestVerifyFailed,
// ManifestMismatch and Stale that an agent reports for this refusal.
func (e *Error) Report() string {
	switch e.Code {
	case ManifestMissing:
		return string(ManifestMissing)
	case Stale, Expired, FutureDated:
		return string(Stale)
	case ManifestMismatch, Rollback, Equivocation, WrongFleet, WrongHost, NotListed:
		return string(ManifestMismatch)
	default:
		return string(ManifestVerifyFailed)
	}
}

// CodeOf returns the code of a refusal anywhere in err's chain, or "".
func CodeOf(err error) Code {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Code
	}
	return ""
}

func refuse(code Code, format string, args ...any) error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}
