package replace

import "github.com/steadyfleet/steady/reconcile/engine"

// Action is one step. Containers are named by their ids: an action that finds
// them in other roles than it was decided for changes nothing.
type Action interface {
	engine.Action
	// Carry calls the method of h that goes with the action.
	Carry(h Handler) error
}

// Handler carries out every kind of action.
type Handler interface {
	Create(Create) error
	Start(Start) error
	Note(Note) error
	RunHooks(RunHooks) error
	Stop(Stop) error
	Unpause(Unpause) error
	Adjust(Adjust) error
	Rename(Rename) error
	Swap(Swap) error
	Promote(Promote) error
	Restore(Restore) error
	RemoveOld(RemoveOld) error
	Discard(Discard) error
	Remove(Remove) error
}

type (
	// Create makes a container: the workspace's own one if Replaces is empty, else
	// one beside the container that it is to replace, whose anonymous volumes it
	// takes over. With Run it also starts it, if the engine made it as asked.
	Create struct {
		Replica  int      `json:"replica"`
		Run      bool     `json:"run,omitempty"` // not with Replaces
		Replaces string   `json:"replaces,omitempty"`
		Nonce    string   `json:"nonce,omitempty"`
		MadeFor  []string `json:"madeFor,omitempty"`
		Repeats  int      `json:"repeats,omitempty"`
		Live     bool     `json:"live,omitempty"` // what it replaces runs
	}
	// Start starts a container. Restart stops it first, for the nonce of a verb.
	Start struct {
		ID      string `json:"id"`
		Restart string `json:"restart,omitempty"`
	}
	// Note notes that what is desired ran to its end, in this container.
	Note struct {
		ID string `json:"id"`
	}
	// RunHooks runs the commands that follow the start of a container.
	RunHooks struct {
		ID string `json:"id"`
	}
	// Stop stops containers, takes the restart policy away so that no start of the engine
	// brings them back, and keeps them. Replaced says that another one has taken their
	// place already, Ordered that they are declared not to run.
	Stop struct {
		IDs      []string `json:"ids"`
		Replaced bool     `json:"replaced,omitempty"`
		Ordered  bool     `json:"ordered,omitempty"`
	}
	// Unpause lets a frozen container go on.
	Unpause struct {
		ID string `json:"id"`
	}
	// Adjust changes a container in place until the fields are as desired.
	Adjust struct {
		ID     string   `json:"id"`
		Fields []string `json:"fields"`
	}
	// Rename gives a container the workspace's name.
	Rename struct {
		ID string `json:"id"`
	}
	// Swap stops Old (if any runs) and gives its name to New, and starts New if
	// Run is set. Live says that Old runs in its place until then.
	Swap struct {
		Old  string `json:"old"`
		New  string `json:"new"`
		Run  bool   `json:"run"`
		Live bool   `json:"live,omitempty"`
	}
	// Promote gives the name of Old to New, which runs and is good, lets requests
	// go to New, and leaves Old running.
	Promote struct {
		Old string `json:"old"`
		New string `json:"new"`
	}
	// Restore puts Old in the place of Bad, which goes. With a Cause it fails
	// after that, so that the attempt counts.
	Restore struct {
		Bad   string `json:"bad"`
		Old   string `json:"old"`
		Run   bool   `json:"run"`
		Cause string `json:"cause,omitempty"`
	}
	// RemoveOld removes what Keep has replaced, without volumes.
	RemoveOld struct {
		Keep string   `json:"keep"`
		IDs  []string `json:"ids"`
		Run  bool     `json:"run"` // Keep has to run
	}
	// Discard removes containers that are not in use, without volumes. With a
	// Cause it fails after that, so that the attempt counts.
	Discard struct {
		IDs   []string `json:"ids"`
		Cause string   `json:"cause,omitempty"`
	}
	// Remove removes every container of the workspace, their anonymous volumes,
	// and what is noted of it.
	Remove struct {
		IDs []string `json:"ids"`
	}
)

// ActionName names the actions.
func (Create) ActionName() string    { return "create" }
func (Start) ActionName() string     { return "start" }
func (Note) ActionName() string      { return "note" }
func (RunHooks) ActionName() string  { return "post_start" }
func (Stop) ActionName() string      { return "stop" }
func (Unpause) ActionName() string   { return "unpause" }
func (Adjust) ActionName() string    { return "adjust" }
func (Rename) ActionName() string    { return "rename" }
func (Swap) ActionName() string      { return "swap" }
func (Promote) ActionName() string   { return "promote" }
func (Restore) ActionName() string   { return "restore" }
func (RemoveOld) ActionName() string { return "remove_old" }
func (Discard) ActionName() string   { return "discard" }
func (Remove) ActionName() string    { return "remove" }

// Carry implements Action.
func (a Create) Carry(h Handler) error    { return h.Create(a) }
func (a Start) Carry(h Handler) error     { return h.Start(a) }
func (a Note) Carry(h Handler) error      { return h.Note(a) }
func (a RunHooks) Carry(h Handler) error  { return h.RunHooks(a) }
func (a Stop) Carry(h Handler) error      { return h.Stop(a) }
func (a Unpause) Carry(h Handler) error   { return h.Unpause(a) }
func (a Adjust) Carry(h Handler) error    { return h.Adjust(a) }
func (a Rename) Carry(h Handler) error    { return h.Rename(a) }
func (a Swap) Carry(h Handler) error      { return h.Swap(a) }
func (a Promote) Carry(h Handler) error   { return h.Promote(a) }
func (a Restore) Carry(h Handler) error   { return h.Restore(a) }
func (a RemoveOld) Carry(h Handler) error { return h.RemoveOld(a) }
func (a Discard) Carry(h Handler) error   { return h.Discard(a) }
func (a Remove) Carry(h Handler) error    { return h.Remove(a) }

// An action disrupts if it stops or replaces what runs and serves. What ends a
// replacement that has begun does not: nothing would be gained by leaving it half
// done, and going back or clearing away is part of it.

// Disrupts reports whether it begins the replacement of a container that runs.
func (a Create) Disrupts() bool { return a.Replaces != "" && a.Live }

// Disrupts reports whether it stops the container first.
func (a Start) Disrupts() bool { return a.Restart != "" }

// StartsOnly reports whether it starts what is stopped and does nothing else.
func (a Start) StartsOnly() bool { return a.Restart == "" }

// StartsOnly is true: the container is paused.
func (a Unpause) StartsOnly() bool { return true }

// Disrupts reports whether it stops what is in use, and nobody ordered that.
func (a Stop) Disrupts() bool { return !a.Replaced && !a.Ordered }

// Disrupts reports whether it stops a container that still has its place.
func (a Swap) Disrupts() bool { return a.Live }

// Disrupts reports whether it takes a container: nothing is left.
func (a Remove) Disrupts() bool { return len(a.IDs) > 0 }
