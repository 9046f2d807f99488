package container

import "github.com/steadyfleet/steady/reconcile/engine"

// CodeStarting is the reason of a workspace that runs and is not good yet: its
// healthcheck has not passed, it is watched after a replacement, or it runs to
// its end. A dependency on Started is met by it.
const CodeStarting engine.Code = "starting"

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
)
