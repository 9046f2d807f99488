// Package spec holds what is declared of containers on a host: networks,
// volumes, images, workspaces, snapshots and routes. A Set is read from a
// Compose file into a signed bundle, or set resource by resource in the managed
// layer. Values are canonical: integers only, sets sorted and without repeats,
// order kept where it means something. The package knows no engine.
//
// Everything that is to be said of a kind is a row of the Table in kinds.go and the
// methods of its Resource, one file for each kind: its form, what it needs and takes,
// what is wrong with it, and what the signed bounds of the managed layer let it be.
package spec

import (
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
)

// Blob is content that travels beside a bundle.
type Blob struct {
	Digest digest.Digest `json:"digest"`
	Size   int64         `json:"size"`
}

// Desired is what the owner asks of one resource's reconciler. A Run with another
// name has the resource observed again; it never changes what is wanted.
type Desired[S any] struct {
	Spec S      `json:"spec"`
	Run  string `json:"run"`
	// Suspended keeps what exists and stops what runs: the resource belongs to the
	// generation that was left, which may come back.
	Suspended bool `json:"suspended,omitempty"`
	// Verb asks for something once, such as redeploy; Nonce tells one asking from
	// the next.
	Verb  string `json:"verb,omitempty"`
	Nonce string `json:"nonce,omitempty"`
	// Version is that of the managed layer which set this or asked for Verb; 0:
	// none did. It is for reports alone.
	Version uint64 `json:"version,omitempty"`
	// BrokenBefore says that the resource did not work when this run began, which does
	// not change it: the run does not fail for it.
	BrokenBefore bool `json:"brokenBefore,omitempty"`
}

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

// Known is the table of the kinds that there are: those below, and what is registered.
var Known = &Table{}

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
