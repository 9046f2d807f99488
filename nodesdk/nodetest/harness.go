package nodetest

import (
	"encoding/json"
	"os"
	"testing"
	"time"

	"github.com/steadyfleet/steady/nodesdk"
)

// Harness says how to try a driver.
type Harness struct {
	// Start starts a fresh real device without objects, and stops it when the test ends.
	Start func(t *testing.T) *Device
	// Examples are objects that the device accepts at the same time, at least two of a kind
	// unless it is Single.
	Examples []Example
	// Single says that the device has one object, whose name is given: a document.
	Single bool
	// Many returns the config of the nth of so many objects as Edits says, for which no two may share a port.
	// If it is nil, copies of the first example are used.
	Many func(n int) json.RawMessage
	// Edits is how many are made at once; 0 is Edits().
	Edits int
	// Patience is that of each wait; 0 is the constant Patience.
	Patience time.Duration
}

// Example is an object, and another config that the device accepts in its place.
type Example struct {
	Kind, ID string
	Config   json.RawMessage
	Edited   json.RawMessage
	// Secret is the member of Config, a path with slashes and with indices of lists, in which
	// the device keeps a secret; empty if it has none.
	Secret string
}

// Device is one that runs. What is nil does not apply to it.
type Device struct {
	Driver      nodesdk.Driver
	Collections []nodesdk.Collection

	// EditByFile and EditByAPI change an object as a person does, past the driver: they set
	// it to the config, or delete it if that is nil.
	EditByFile, EditByAPI func(kind, id string, config json.RawMessage) error
	// NoRevisions says that the device cannot compare what it replaces, so that an edit by
	// hand in the instant between the client's comparison and the change is not found.
	NoRevisions bool
	// Restart restarts the device with what it keeps; RestartEmpty as one that lost it all.
	Restart, RestartEmpty func() error
	// BusyPort makes a port of this machine busy, and returns an object that wants it.
	BusyPort func(t *testing.T) Example
	// Partial has the device apply the next operation in part or whole, and answer with an
	// error all the same.
	Partial func() error
	// Break has reads of the device fail or give a part only, until the returned function is
	// called.
	Break func() (repair func() error, err error)
}

// Edits is how many edits are made at once unless a harness says otherwise: 20, and 200 where the
// environment has STEADY_NIGHTLY. Each takes a slow device its time.
func Edits() int {
	if os.Getenv("STEADY_NIGHTLY") != "" {
		return 200
	}
	return 20
}

// Patience is how long a case waits each time for what comes at once, unless a harness says
// otherwise. Where nothing may come, the cases ask for something else that comes after it.
const Patience = 10 * time.Second

// unknown is the member that no device knows.
const unknown = "steadyUnknownField"
