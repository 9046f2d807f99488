package replace

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/diff"
	"github.com/steadyfleet/steady/internal/core/spec"
)

// Default times of an update.
const (
	DefaultMonitor    = 5 * clock.Second
	DefaultHealthWait = 2 * clock.Minute
)

// Role is what a container is to its workspace.
type Role string

// The roles. A stray carries the labels and a name that is none of the
// workspace's: somebody renamed it, or the declaration did.
const (
	Main      Role = "main"
	New       Role = "new"
	Old       Role = "old"
	Unmanaged Role = "stray"
)

// Name is the engine's name of a container in a role, without a leading slash.
func Name(title string, replica int, r Role) string {
	if r == New || r == Old {
		return title + "." + strconv.Itoa(replica) + "." + string(r)
	}
	return title
}

// IsReplacement reports whether a name is one that a container has while it replaces another
// or is replaced; see Name.
func IsReplacement(name string) bool {
	parts := strings.Split(name, ".")
	if len(parts) < 3 {
		return false
	}
	replica, err := strconv.Atoi(parts[len(parts)-2])
	role := Role(parts[len(parts)-1])
	return err == nil && replica > 0 && (role == New || role == Old)
}

// RoleOf reads the role from a container's name, the declared title, the title
// that it was made for and its replica.
func RoleOf(name, title, madeFor string, replica int) Role {
	for _, t := range []string{title, madeFor} {
		for _, r := range []Role{New, Old} {
			if name == Name(t, replica, r) {
				return r
			}
		}
	}
	if name == title {
		return Main
	}
	return Unmanaged
}

// State is a container's state on the engine.
type State string

// The states, as engines name them.
const (
	Created    State = "created"
	Running    State = "running"
	Paused     State = "paused"
	Restarting State = "restarting"
	Removing   State = "removing"
	Exited     State = "exited"
	Dead       State = "dead"
)

// Health is the result of a healthcheck; empty without one.
type Health string

// The results.
const (
	HealthStarting Health = "starting"
	Healthy        Health = "healthy"
	Unhealthy      Health = "unhealthy"
)

// End is how a container that has ended came to it, as far as the engine's events tell.
type End string

// The ends. An engine that was started anew, or events that were lost, leave it unknown.
const (
	EndUnknown End = ""
	EndOwn     End = "own"     // its process ended by itself
	EndOrdered End = "ordered" // a signal ended it
)

// Container is one container that belongs to the workspace.
type Container struct {
	ID       string `json:"id"`
	Name     string `json:"name"`
	Role     Role   `json:"role"`
	Replica  int    `json:"replica"`
	Replaces string `json:"replaces,omitempty"`
	// ReplacesIdle says that the one which it replaces did not run.
	ReplacesIdle bool   `json:"replacesIdle,omitempty"`
	Image        string `json:"image"` // id

	State    State          `json:"state"`
	Begun    bool           `json:"begun,omitempty"` // was started at least once
	ExitCode int            `json:"exitCode,omitempty"`
	End      End            `json:"end,omitempty"`
	Error    string         `json:"error,omitempty"` // of the engine, when a start failed
	Tail     string         `json:"tail,omitempty"`  // last lines of the log of one that failed
	Health   Health         `json:"health,omitempty"`
	Check    string         `json:"check,omitempty"`    // how the last health check ended that did not pass
	Restarts int            `json:"restarts,omitempty"` // by the engine, since it was started
	Revives  bool           `json:"revives,omitempty"`  // a start of the engine may start it: it has a restart policy
	Ran      clock.Duration `json:"-"`                  // running for so long
	// StopGrace is how long the engine waits between the signal to stop and the one to kill.
	StopGrace clock.Duration `json:"-"`
	// Stopping describes the stop that is under way, and StopsBy is when the engine kills it at the latest;
	// empty without one.
	Stopping string         `json:"stopping,omitempty"`
	StopsBy  clock.Instant  `json:"stopsBy,omitempty"`
	Rested   clock.Duration `json:"-"`                // ended so long ago
	Starts   int            `json:"starts,omitempty"` // that soon ended, in a row
	Age      clock.Duration `json:"-"`                // since it was made

	// HookPending says that the commands which follow a start have not ended well
	// since this one; HookError is how they failed, HookRested ago.
	HookPending bool           `json:"hookPending,omitempty"`
	HookError   string         `json:"hookError,omitempty"`
	HookRested  clock.Duration `json:"-"`

	// Fulfilled and Restarted are the nonces of the last verbs that it fulfils: by
	// being made, and by being started again.
	Fulfilled string `json:"fulfilled,omitempty"`
	Restarted string `json:"restarted,omitempty"`

	// Differences from what is desired.
	Differences []diff.Difference `json:"differences,omitempty"`
	// MadeFor are the marks of the differences that it was made to cure, and
	// Repeats how often in a row one was made for the same.
	MadeFor []string `json:"madeFor,omitempty"`
	Repeats int      `json:"repeats,omitempty"`
}

// Seen is what is on the engine.
type Seen struct {
	Containers []Container `json:"containers"`
	// Foreign is a container of somebody else that has the workspace's name.
	Foreign string `json:"taken,omitempty"`
	// Missing is what a container cannot be made without, such as "image app:1";
	// Lacking is the part of it that one which is there cannot be started without.
	Missing        []string `json:"missing,omitempty"`
	MissingToStart []string `json:"lacking,omitempty"`
	// Uncompared says that nothing is known of how a container is to be, for want of what is missing.
	Uncompared bool `json:"uncompared,omitempty"`
	// Done says that what is desired was run to its end before.
	Done bool `json:"done,omitempty"`
	// Written are the targets of copies of the bundle's files that containers wrote.
	Written []string `json:"written,omitempty"`
	// Stays is why the workspace could not be removed when that was tried last, and StaysUntil when it is tried
	// again at the latest.
	Stays      string        `json:"stays,omitempty"`
	StaysUntil clock.Instant `json:"staysUntil,omitempty"`
	// PreStop is how the commands before the last stop failed.
	PreStop string `json:"preStop,omitempty"`
	// Refused is what the engine cannot do of what is desired: nothing is made.
	Refused []diff.Difference `json:"refused,omitempty"`
}

// Want is what is desired, as far as steps depend on it.
type Want struct {
	Title     string
	Run       spec.RunState
	Restart   spec.Restart
	Suspended bool
	Delete    bool
	// Halted says that the host is disabled: nothing runs, and nothing goes.
	Halted bool
	// Snapshotting says that it is being captured, for which the engine may pause it.
	Snapshotting bool
	ReportOnly   bool
	// HasConverged says that what is desired has converged before, so that a
	// difference is a change from outside.
	HasConverged bool
	Verb         string
	Nonce        string
	StartFirst   bool
	Monitor      clock.Duration // 0: DefaultMonitor
	HealthWait   clock.Duration // 0: DefaultHealthWait
	noted        bool           // what is desired ran to its end before: Decide sets it
}

// The verbs.
const (
	Redeploy = "redeploy" // replace the container
	Restart  = "restart"  // stop and start it
)

func (w *Want) monitor() clock.Duration    { return cmp.Or(w.Monitor, DefaultMonitor) }
func (w *Want) healthWait() clock.Duration { return cmp.Or(w.HealthWait, DefaultHealthWait) }

// runs reports whether the container is to run for good.
func (w *Want) runs() bool { return w.Run == "" || w.Run == spec.Running }

// ends reports whether an end with code 0 is what is wanted, or at least no failure: no restart policy
// starts the container again after it.
func (w *Want) ends() bool {
	return w.Run == spec.Once || w.runs() && slices.Contains([]string{"", "no", "on-failure"}, w.Restart.Policy)
}

// done reports whether a container is at an end that is wanted. A service that was ordered to end, or of which it is
// not known, is to run, unless it came to its end before.
func (w *Want) done(c *Container) bool {
	return c.State == Exited && c.ExitCode == 0 && w.ends() && (w.Run == spec.Once || w.noted || c.End == EndOwn)
}

// spent reports whether a job failed and its restart policy has it not run again.
func (w *Want) spent(c *Container) bool {
	tries := w.Restart.Policy != "on-failure" || w.Restart.Max > 0 && c.Restarts >= w.Restart.Max
	return w.Run == spec.Once && c.State == Exited && c.ExitCode != 0 && c.End == EndOwn && tries
}

// live reports whether processes of the container may run.
func (c *Container) live() bool {
	return c.State == Running || c.State == Paused || c.State == Restarting
}

// reviving reports whether it runs, or may without the agent. One that is being removed is past.
func (c *Container) reviving() bool {
	return c.live() || c.Revives && c.State != Removing && c.State != Dead
}

// hookDue reports that the commands after the start are to be run: for the first
// time, or again where the container stays.
func (c *Container) hookDue(again bool) bool {
	return c.State == Running && c.HookPending && (c.HookError == "" || again && c.HookRested >= hookPause)
}

// startFailed reports that the engine could not start it. Such a container stays
// in the state created, with an exit code.
func (c *Container) startFailed() bool {
	return c.State == Created && (c.Error != "" || c.ExitCode != 0)
}

// forgotten reports that the engine can never start the container again: it ended
// after it had the program started and before it had written that down, or before it
// had cleared away after it, and finds what it left in its own way.
func (c *Container) forgotten() bool {
	has := func(parts ...string) bool {
		return !slices.ContainsFunc(parts, func(p string) bool { return !strings.Contains(c.Error, p) })
	}
	return !c.live() && (has("id already in use") || has("task ", ": already exists") || has("start shim: mkdir ", ": file exists"))
}

// cast is the containers by role; new and old ones the newest first.
type cast struct {
	main   *Container
	news   []*Container
	olds   []*Container
	strays []*Container
	top    int // highest replica
}

func castOf(all []Container) cast {
	var out cast
	for i := range all {
		c := &all[i]
		out.top = max(out.top, c.Replica)
		switch {
		case c.State == Removing: // as good as gone; its name frees itself
		case c.Role == Main && out.main == nil:
			out.main = c
		case c.Role == New:
			out.news = append(out.news, c)
		case c.Role == Old:
			out.olds = append(out.olds, c)
		default:
			out.strays = append(out.strays, c)
		}
	}
	for _, l := range [][]*Container{out.news, out.olds, out.strays} {
		slices.SortFunc(l, func(a, b *Container) int {
			return cmp.Or(cmp.Compare(b.Replica, a.Replica), strings.Compare(a.ID, b.ID))
		})
	}
	if out.main != nil {
		// One that was renamed although another replaced it is past.
		out.olds, out.strays = append(out.olds, out.strays...), nil
	}
	return out
}

func ids(l []*Container) []string {
	out := make([]string, len(l))
	for i, c := range l {
		out[i] = c.ID
	}
	return out
}
