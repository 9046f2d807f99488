package container

import "cmp"

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
	Workspaces map[string]string `json:"workspaces,omitempty"` // whose namespaces are shared
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

// EngineRef is how the engine names the image.
func (i *Image) EngineRef(t Titled) string { return cmp.Or(i.Ref, t(i.Name)+":steady") }

// EngineRef is how the engine names the image of the snapshot.
func (s *Snapshot) EngineRef(t Titled) string {
	return cmp.Or(s.Ref, t("snapshot-"+s.Name)+":steady")
}
