package spec

import "github.com/steadyfleet/steady/reconcile/engine"

// CodeStarting is the reason of a workspace that runs and is not good yet: its
// healthcheck has not passed, it is watched after a replacement, or it runs to
// its end. A dependency on Started is met by it.
const CodeStarting engine.Code = "starting"

// CodeRunsToEnd is the reason of a workspace that runs to its end and is not there
// yet. A dependency on Started is met by it too.
const CodeRunsToEnd engine.Code = "runs-to-its-end"

// Reasons of a workspace whose container cannot work as it is.
const (
	CodeStartFailed engine.Code = "start-failed"
	CodeUnhealthy   engine.Code = "unhealthy"
	CodeRestarting  engine.Code = "restarts-again-and-again"
	CodeHookFailed  engine.Code = "hook-failed" // of a post_start command
)

// Reasons of a workspace that is as desired and does not run: it is declared as stopped or
// not declared any more, or it is at an end that is wanted.
const (
	CodeStopped   engine.Code = "stopped"
	CodeCompleted engine.Code = "completed"
)

// CodeStopping is the reason of a workspace with a container that was asked to stop and has not ended.
const CodeStopping engine.Code = "stopping"

// CodeSnapshotting is the reason of a workspace that runs and is being captured.
const CodeSnapshotting engine.Code = "snapshotting"

// State is how a resource stands, in the words shown to people.
type State string

// States of workspaces.
const (
	DeploymentPending State = "Deployment pending"
	Deploying         State = "Deploying"
	Starting          State = "Starting"
	RunningState      State = "Running"
	Stopping          State = "Stopping"
	StoppedState      State = "Stopped"
	Snapshotting      State = "Snapshotting"
	ErrorState        State = "Error"
)

// States of images; snapshots have Snapshotting too.
const (
	ImagePending   State = "Pending"
	ImageBuilding  State = "Building"
	ImageFinished  State = "Finished"
	ImageFailed    State = "Failed"
	ImageCancelled State = "Cancelled"
)

// States of networks, volumes and routes.
const (
	Waiting  State = "Waiting"
	Applying State = "Applying"
	Ready    State = "Ready"
	Removing State = "Removing"
	Removed  State = "Removed"
	// Undeclared is of what carries a host's labels and nobody declares.
	Undeclared State = "Undeclared"
	// Drifted is of files and systems that are no longer as declared, and whose
	// repair waits.
	Drifted State = "Drifted"
)

// CodeCancelled is the reason of a build or pull that was cancelled.
const CodeCancelled engine.Code = "cancelled"

// Stage is where the framework has a resource.
type Stage struct {
	Kind   string
	Phase  engine.Phase
	Code   engine.Code
	Action string // name of the act that began or ended
}

// Good reports whether a resource is as it should be, stopped on purpose included.
// What is a leftover on the engine and what only differs while its repair waits is
// no failure either.
func (s Stage) Good() bool {
	switch s.Phase {
	case engine.Converged, engine.Degraded, engine.Drifted, engine.Deleted, "":
		return true
	}
	return s.Code == CodeStopped || s.Code == CodeCompleted || s.Code == CodeRunsToEnd
}

// Broken reports whether a resource was given up, or is seen to be unable to work as
// it is.
func (s Stage) Broken() bool {
	switch s.Phase {
	case engine.Failed, engine.Orphaned:
		return true
	}
	switch s.Code {
	case CodeStartFailed, CodeUnhealthy, CodeRestarting, CodeHookFailed:
		return !s.Good()
	}
	return false
}

// StateOf words a stage of a kind of the table for people.
func (t *Table) StateOf(s Stage) State {
	k := t.Kind(s.Kind)
	switch {
	case s.Phase == engine.Deleted:
		return Removed
	case k != nil && k.State != nil:
		return k.State(s)
	case k == nil && s.Phase == engine.Drifted:
		return Drifted
	}
	return s.plain()
}

func (s Stage) plain() State {
	switch s.Phase {
	case engine.Drifted, engine.Converged, engine.Degraded:
		return Ready
	case engine.Retrying, engine.Failed, engine.Orphaned:
		return ErrorState
	case engine.Acting, engine.Verifying:
		return Applying
	case engine.Deleting:
		return Removing
	}
	return Waiting
}

func (s Stage) snapshot() State {
	if s.Phase == engine.Acting || s.Phase == engine.Verifying {
		return Snapshotting
	}
	return s.plain()
}

func (s Stage) workspace() State {
	switch s.Phase {
	case engine.Converged, engine.Degraded, engine.Drifted:
		switch s.Code {
		case CodeStopped, CodeCompleted:
			return StoppedState
		case CodeSnapshotting:
			return Snapshotting
		}
		return RunningState
	case engine.Retrying, engine.Failed, engine.Orphaned:
		return ErrorState
	case engine.Deleting:
		return Stopping
	case engine.Acting, engine.Verifying:
		switch s.Action {
		case "start", "post_start", "swap", "promote", "restore", "unpause":
			return Starting
		case "stop", "remove":
			return Stopping
		}
		return Deploying
	case engine.Waiting:
		switch {
		case s.Code == CodeStopping:
			return Stopping
		case s.Code == CodeStarting || s.Code == CodeRunsToEnd:
			return Starting
		case s.Broken():
			return ErrorState
		}
	}
	return DeploymentPending
}

func (s Stage) image() State {
	switch s.Phase {
	case engine.Converged, engine.Degraded, engine.Drifted:
		return ImageFinished
	case engine.Acting, engine.Verifying:
		return ImageBuilding
	case engine.Retrying:
		return ImageFailed
	}
	switch {
	case s.Code == CodeCancelled:
		return ImageCancelled
	case s.Phase == engine.Orphaned || s.Phase == engine.Failed:
		return ImageFailed
	}
	return ImagePending
}
