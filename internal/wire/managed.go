package wire

import (
	"encoding/json"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/spec"
)

// Managed is a host's managed layer, whole. A host takes of it what its signed
// declaration delegates and keeps the rest of it off, saying so.
type Managed struct {
	Version uint64         `json:"version"`
	Entries []ManagedEntry `json:"entries"` // sorted by kind and name
	// Retries are the newest of what operators had the host try again, oldest first.
	Retries []Retry `json:"retries,omitempty"`
}

// Retry has the host begin anew with a resource that it gave up, or with all where
// none is named. Nonce tells one from the next.
type Retry struct {
	Resource string `json:"resource,omitempty"` // kind/name
	Nonce    string `json:"nonce"`
}

// ManagedEntry is one resource of the layer, or a verb asked of a resource that
// a bundle declares; then Spec is empty.
type ManagedEntry struct {
	Kind string `json:"kind"`
	Name string `json:"name"`
	// Spec is the resource of core/spec as JSON.
	Spec json.RawMessage `json:"spec,omitempty"`
	// Verb asks for something once; Nonce tells one asking from the next.
	Verb  string `json:"verb,omitempty"`
	Nonce string `json:"nonce,omitempty"`
	// Version is that of the layer which set the entry last, Asked that which
	// asked for Verb; 0 is unknown. The host repeats them in what it reports.
	Version   uint64 `json:"version,omitempty"`
	Requested uint64 `json:"requested,omitempty"`
	// NotAfter ends the entry, cut off or not; zero is no end.
	NotAfter clock.Instant `json:"notAfter,omitempty"`
	// StopFrom is from when what runs may be asked to stop, so that it is gone by NotAfter;
	// zero is NotAfter.
	StopFrom clock.Instant `json:"stopFrom,omitempty"`
	Actor    string        `json:"actor"`
	// Owner is whose the entry is; empty is the operators. A host takes what its declaration
	// lets that owner set.
	Owner spec.Owner `json:"owner,omitempty"`
	// Envelope is the entry as an operator signed it, for hosts that require it.
	Envelope json.RawMessage `json:"envelope,omitempty"`
}

// SessionSecrets are the secrets of sessions that a host is to have now, by what its layer names.
type SessionSecrets struct {
	Secrets map[string]string `json:"secrets"`
}

// StreamKind is what a stream carries.
type StreamKind string

// The kinds. Logs and output flow from the host; a plan answers with one
// PlanAnswer on stdout.
const (
	StreamLogs   StreamKind = "logs"   // of a workspace
	StreamExec   StreamKind = "exec"   // in a workspace
	StreamPlan   StreamKind = "plan"   // what a spec would do
	StreamOutput StreamKind = "output" // of an image's build or pull
	// StreamOrphans lists what carries the host's labels and nobody declares;
	// StreamPrune removes it, but for volumes. The resource is "host/NAME".
	StreamOrphans StreamKind = "orphans"
	StreamPrune   StreamKind = "prune"
	// StreamDiscard removes a kept volume of a session that is over; the resource is "volume/ID".
	StreamDiscard StreamKind = "discard"
)

// StreamRequest asks an agent to open a stream.
type StreamRequest struct {
	ID       string     `json:"id"`
	Kind     StreamKind `json:"kind"`
	Resource string     `json:"resource"` // "workspace/web"
	Actor    string     `json:"actor"`
	Args     StreamArgs `json:"args"`
}

// StreamArgs are the arguments of every kind of stream.
type StreamArgs struct {
	// Logs and output.
	Follow bool          `json:"follow,omitempty"`
	Tail   int           `json:"tail,omitempty"` // last lines; 0: all
	Since  clock.Instant `json:"since,omitempty"`
	After  int64         `json:"after,omitempty"` // of output: the number of the last line that is known; 0: none
	// Exec.
	Argv    []string `json:"argv,omitempty"`
	Stdin   bool     `json:"stdin,omitempty"`
	TTY     bool     `json:"tty,omitempty"`
	Rows    int      `json:"rows,omitempty"`
	Cols    int      `json:"cols,omitempty"`
	User    string   `json:"user,omitempty"`
	WorkDir string   `json:"workdir,omitempty"`
	// Plan: the resource as it would be set; empty asks what removing it does.
	Spec json.RawMessage `json:"spec,omitempty"`
}

// PlanAnswer says what setting a resource would do, field by field.
type PlanAnswer struct {
	Resource string `json:"resource"`
	// Does is none, create, in place, replace, remove, blocked or refused.
	Does   string      `json:"does"`
	Why    string      `json:"why,omitempty"` // of blocked and refused
	Fields []PlanField `json:"fields"`
}

// PlanField is one field that differs.
type PlanField struct {
	Field    string `json:"field"`
	Class    string `json:"class"` // none, in place, replace or blocked
	Cause    string `json:"cause,omitempty"`
	Desired  string `json:"desired,omitempty"`
	Observed string `json:"observed,omitempty"`
	Why      string `json:"why,omitempty"`
}
