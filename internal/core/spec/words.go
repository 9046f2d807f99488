package spec

import "github.com/steadyfleet/steady/internal/core/prose"

const explain = "`steady explain HOST KIND/NAME` says why, and when it is tried again"

// Meanings are the states of resources: first those that most kinds have, then those of workspaces
// and of images.
var Meanings = []prose.Meaning{
	{Word: string(Waiting), Means: "it waits for its turn, or for a resource that it needs", Next: explain},
	{Word: string(Applying), Means: "it is being changed", Next: "Ready or Error"},
	{Word: string(Ready), Means: "it is as declared", Next: "nothing"},
	{Word: string(Drifted), Means: "it is no longer as declared, and its repair waits", Next: "a grant to repair it; `steady why HOST` says for what it waits"},
	{Word: string(ErrorState), Means: "it is not as declared, and the last try failed", Next: explain + "; at once: `steady host retry HOST`"},
	{Word: string(Removing), Means: "it is no longer declared and is being removed", Next: "Removed"},
	{Word: string(Removed), Means: "it is gone", Next: "nothing"},
	{Word: string(Undeclared), Means: "it has the labels of the host and nobody declares it: it is reported, and left alone", Next: "declare it, or remove it by hand"},
	{Word: string(DeploymentPending), Means: "it waits for its turn, or for a resource that it needs", Next: explain},
	{Word: string(Deploying), Means: "its container is made or replaced", Next: "Starting"},
	{Word: string(Starting), Means: "its container runs and is not good yet: its healthcheck has not passed, or it is watched after a replacement", Next: "Running or Error"},
	{Word: string(RunningState), Means: "it runs as declared, and is healthy", Next: "nothing"},
	{Word: string(Snapshotting), Means: "it is being captured in a snapshot", Next: "Running"},
	{Word: string(Stopping), Means: "its container is being stopped", Next: "Stopped or Removed"},
	{Word: string(StoppedState), Means: "it is declared as stopped, or has run to its end", Next: "nothing"},
	{Word: string(ImagePending), Means: "its build or pull waits for its turn", Next: "Building"},
	{Word: string(ImageBuilding), Means: "it is built or pulled", Next: "Finished or Failed"},
	{Word: string(ImageFinished), Means: "it is there", Next: "nothing"},
	{Word: string(ImageFailed), Means: "its build or pull failed", Next: explain},
	{Word: string(ImageCancelled), Means: "its build or pull was cancelled", Next: "`steady host retry HOST image/NAME`"},
}
