package container

import (
	"slices"

	"github.com/steadyfleet/steady/reconcile/engine"
)

// CodeStarting is the reason of a workspace that runs and is not good yet: its
// healthcheck has not passed, it is watched after a replacement, or it runs to
// its end. A dependency on Started is met by it.
const CodeStarting engine.Code = "starting"

// CodeRunsToEnd is the reason of a workspace that runs to its end and is not there
// yet. A dependency on Started is met by it too.
const CodeRunsToEnd engine.Code = "runs_to_its_end"

// Reasons of a workspace whose container cannot work as it is.
const (
	CodeStartFailed engine.Code = "start_failed"
	CodeUnhealthy   engine.Code = "unhealthy"
	CodeRestarting  engine.Code = "restarts_again_and_again"
)

// CodeStopped is the reason of a workspace that is as desired and does not run:
// declared as stopped, parked, or at its end.
const CodeStopped engine.Code = "stopped"

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

// StateOf words a stage for people.
func StateOf(s Stage) State {
	switch s.Phase {
	case engine.Retired:
		return Removed
	case engine.Orphaned, engine.Failed:
		return s.failed()
	}
	switch s.Kind {
	case KindWorkspace:
		return s.workspace()
	case KindImage:
		return s.image()
	}
	switch s.Phase {
	case engine.Drifted:
		if !slices.Contains(Kinds, s.Kind) {
			return Drifted
		}
		return Ready
	case engine.Converged, engine.Degraded:
		return Ready
	case engine.Retrying:
		return ErrorState
	case engine.Acting, engine.Verifying:
		if s.Kind == KindSnapshot {
			return Snapshotting
		}
		return Applying
	case engine.Retiring:
		return Removing
	}
	return Waiting
}

func (s Stage) failed() State {
	switch {
	case s.Kind == KindImage && s.Code == CodeCancelled:
		return ImageCancelled
	case s.Kind == KindImage:
		return ImageFailed
	}
	return ErrorState
}

func (s Stage) workspace() State {
	switch s.Phase {
	case engine.Converged, engine.Degraded, engine.Drifted:
		switch s.Code {
		case CodeStopped:
			return StoppedState
		case CodeSnapshotting:
			return Snapshotting
		}
		return RunningState
	case engine.Retrying:
		return ErrorState
	case engine.Retiring:
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
		switch s.Code {
		case CodeStarting, CodeRunsToEnd:
			return Starting
		case CodeStartFailed, CodeUnhealthy, CodeRestarting:
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
	if s.Code == CodeCancelled {
		return ImageCancelled
	}
	return ImagePending
}
