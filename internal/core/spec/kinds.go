package spec

import "github.com/steadyfleet/steady/internal/core/clock"

// The kinds.
const (
	KindNetwork   = "network"
	KindVolume    = "volume"
	KindImage     = "image"
	KindWorkspace = "workspace"
	KindSnapshot  = "snapshot"
	KindRoute     = "route"
)

// Kinds names every kind in the order of what depends on what.
var Kinds []string

// Builtin is the table of the kinds that there are: those below, and what is registered.
var Builtin = &Table{}

func init() { // a variable's own initializer may not lead back to it
	retry := []Verb{{Name: VerbRetry}}
	Register(
		Kind{Name: KindNetwork, List: "networks", Most: 200, Progress: 2 * clock.Minute, Verbs: retry,
			Storage: In(func(s *Set) *[]Network { return &s.Networks })},
		Kind{Name: KindVolume, List: "volumes", Most: 1_000, Progress: 2 * clock.Minute, Verbs: retry,
			Storage: In(func(s *Set) *[]Volume { return &s.Volumes })},
		Kind{Name: KindImage, List: "images", Most: 1_000, Progress: 30 * clock.Minute,
			Verbs:   []Verb{{VerbBuild, "rebuild"}, {VerbCancel, VerbCancel}, {VerbRetry, VerbRetry}},
			Fetched: true, State: Stage.image, Storage: In(func(s *Set) *[]Image { return &s.Images })},
		Kind{Name: KindWorkspace, List: "workspaces", Most: MaxWorkspaces, Progress: 5 * clock.Minute,
			Verbs:   []Verb{{VerbRedeploy, VerbRedeploy}, {VerbRestart, VerbRestart}, {VerbRetry, ""}, {VerbStart, ""}, {VerbStop, ""}},
			Removal: StopsFirst, State: Stage.workspace, Desired: deployment,
			Storage: In(func(s *Set) *[]Workspace { return &s.Workspaces })},
		Kind{Name: KindSnapshot, List: "snapshots", Most: 1_000, Progress: 30 * clock.Minute, Verbs: retry,
			State: Stage.snapshot, Storage: In(func(s *Set) *[]Snapshot { return &s.Snapshots })},
		Kind{Name: KindRoute, List: "routes", Most: 10_000, Progress: 2 * clock.Minute, Verbs: retry,
			Removal: AtOnce, Storage: In(func(s *Set) *[]Route { return &s.Routes })},
	)
}

func deployment(s *Set, r Resource, t NameMapper) any {
	w := r.(*Workspace)
	return Deployment{Workspace: *w, Uses: s.Uses(w, t)}
}
