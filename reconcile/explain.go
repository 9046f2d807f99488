package reconcile

import (
	"encoding/json"

	"github.com/steadyfleet/steady/reconcile/engine"
)

// Explanation answers "why is this resource where it is?".
type Explanation struct {
	Row       engine.Row          `json:"row"`
	Status    engine.Status       `json:"status"`
	Deadlines engine.Deadlines    `json:"deadlines"`
	Observed  json.RawMessage     `json:"observed,omitempty"` // as of the last turn of this process
	SeenAt    engine.Instant      `json:"seenAt,omitempty"`   // when that was
	Decision  string              `json:"decision,omitempty"` // converged, do create, wait, fail
	Reason    engine.Reason       `json:"reason"`             // of that decision
	BlockedBy []Block             `json:"blockedBy,omitempty"`
	Acting    bool                `json:"acting"`            // a turn is running now
	Overdue   bool                `json:"overdue"`           // its act has not returned although its deadline passed
	NextWake  engine.Instant      `json:"nextWake"`          // 0: waits for a trigger
	Causes    []engine.Cause      `json:"causes,omitempty"`  // of the last turn
	History   []engine.Transition `json:"history,omitempty"` // newest last, at most 10
}

// Block is one thing that a resource waits for.
type Block struct {
	Ref    engine.Ref     `json:"ref"` // itself, a child or its parent
	Reason engine.Reason  `json:"reason"`
	Until  engine.Instant `json:"until,omitempty"` // earliest instant it can clear by itself
}

// Stats counts what the loop did since it was made.
type Stats struct {
	Turns      int64 `json:"turns"`
	NoOps      int64 `json:"noops"` // turns that recorded nothing
	Acts       int64 `json:"acts"`
	ActErrors  int64 `json:"actErrors"`
	Panics     int64 `json:"panics"`
	Conflicts  int64 `json:"conflicts"`  // turns dropped because the row changed
	Superseded int64 `json:"superseded"` // acts cancelled because desired changed
	StoreErrs  int64 `json:"storeErrors"`
	Unknown    int64 `json:"unknown"` // turns for a ref without row or manager
	Queued     int   `json:"queued"`
	Running    int   `json:"running"`
}
