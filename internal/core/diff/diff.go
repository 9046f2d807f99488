// Package diff compares what is desired of a resource with what was observed,
// field by field, in one versioned normal form on both sides. For each field that
// differs it says what curing it takes and what caused it.
package diff

// Version of the normal form. A baseline keeps the raw documents of its time, so
// that a newer version computes its forms again and compares like with like.
const Version = 1

// Form is a resource in normal form: a canonical value by field path. An entry
// of a set is a field of its own (env/PATH, mount//data), so that sets compare as
// sets; a list whose order means something is one value. A field that is not set
// is absent.
type Form map[string]string

// Class is what curing a difference takes.
type Class string

// The classes, least first.
const (
	None    Class = "none"
	InPlace Class = "in place"
	Replace Class = "replace"
	Blocked Class = "blocked" // the engine cannot do it here
)

// Cause is why a field differs.
type Cause string

// The causes.
const (
	Declared Cause = "declared"        // what is desired changed
	Outside  Cause = "changed outside" // somebody changed it on the engine
	Unknown  Cause = "unknown"         // differs, and nothing is known of how it was made
)

// Difference is one field that is not as desired.
type Difference struct {
	Field    string `json:"field"`
	Class    Class  `json:"class"`
	Cause    Cause  `json:"cause"`
	Desired  string `json:"desired,omitempty"`
	Observed string `json:"observed,omitempty"`
	Why      string `json:"why,omitempty"` // of the class, for people
}

// Baseline is what was asked for when the resource was made and what the engine
// showed right after, both in the normal form of this version.
type Baseline struct {
	Desired  Form
	Observed Form
}

// Rules say of a kind which class a changed field has. Want and seen are empty
// when absent; the words say why. OwnsExtra says whether a field that is not
// desired and not in any baseline is a difference (an additional network) or a
// default of the engine that is none of our business. Default is what the engine
// has for a field that is not set, or empty: setting it to just that changes
// nothing.
type Rules interface {
	Class(field, want, seen string) (Class, string)
	OwnsExtra(field string) bool
	Default(field string) string
}
