package container

import (
	"cmp"
	"encoding/json"

	"github.com/steadyfleet/steady/internal/core/digest"
)

// Deployment is a workspace with what it names resolved to the engine's names:
// all that its manager needs to know.
type Deployment struct {
	Workspace Workspace `json:"workspace"`
	Uses      Uses      `json:"uses"`
}

// Uses is what a workspace names, as the engine names it, by the name in the
// set.
type Uses struct {
	Image      string            `json:"image"` // a reference
	Networks   map[string]string `json:"networks,omitempty"`
	Volumes    map[string]string `json:"volumes,omitempty"`
	Workspaces map[string]string `json:"workspaces,omitempty"` // shared or linked
}

// Titled gives the engine's name of a thing that is not external.
type Titled func(title string) string

// EngineName is the network's name on the engine.
func (n *Network) EngineName(t Titled) string {
	return cmp.Or(n.External, t(cmp.Or(n.Title, n.Name)))
}

// EngineName is the volume's name on the engine.
func (v *Volume) EngineName(t Titled) string {
	return cmp.Or(v.External, t(cmp.Or(v.Title, v.Name)))
}

// EngineName is the workspace's name on the engine.
func (w *Workspace) EngineName(t Titled) string { return t(cmp.Or(w.Title, w.Name)) }

// EngineRef is how the engine names what workspaces run from. A built image is
// named by what it is built from, so that the one of the next generation can be
// prepared, and the one of the last comes back, beside the one that runs; Ref is
// then a further name of it.
func (i *Image) EngineRef(t Titled) string {
	if i.Build == nil {
		return i.Ref
	}
	raw, err := json.Marshal(i.Build)
	if err != nil {
		panic("container: a build of strings and numbers did not encode: " + err.Error())
	}
	return t(i.Name) + ":" + digest.Of(raw).Short()
}

// Names lists the further names that a built image is given.
func (i *Image) Names() []string {
	if i.Build == nil {
		return nil
	}
	if i.Ref == "" {
		return i.Build.Tags
	}
	return append([]string{i.Ref}, i.Build.Tags...)
}

// EngineRef is how the engine names the image of the snapshot.
func (s *Snapshot) EngineRef(t Titled) string {
	return cmp.Or(s.Ref, t("snapshot-"+s.Name)+":steady")
}
