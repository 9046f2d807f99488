package convert

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/moby/moby/api/types/container"

	"github.com/steadyfleet/steady/internal/core/diff"
	"github.com/steadyfleet/steady/internal/core/spec"
)

// Hooks are the commands of a container, as its label tells them.
type Hooks struct {
	PostStart []spec.Hook `json:"postStart,omitempty"`
	PreStop   []spec.Hook `json:"preStop,omitempty"`
}

// HooksOf reads the commands of a container; one with another label has none.
func HooksOf(c *container.InspectResponse) Hooks {
	var out Hooks
	if c.Config == nil || json.Unmarshal([]byte(c.Config.Labels[LabelHooks]), &out) != nil {
		return Hooks{}
	}
	return out
}

// hooksOf spells the commands; empty without any.
func hooksOf(w *spec.Workspace) string {
	if len(w.PostStart)+len(w.PreStop) == 0 {
		return ""
	}
	return compact(Hooks{w.PostStart, w.PreStop})
}

// desiredLinks writes the links on the engine's own bridge; those on networks
// belong to the connection.
func desiredLinks(f diff.Form, d *spec.Deployment) error {
	if !d.Workspace.Bridged() {
		return nil
	}
	for _, l := range d.Workspace.Links {
		title, known := d.Uses.Workspaces[l.Target]
		if !known {
			return fmt.Errorf("workspace %s: workspace %s is not declared: declare it, or leave out the link", d.Workspace.Name, l.Target)
		}
		f["link/"+l.Alias] = title
	}
	return nil
}

// hostLinks asks for the links on the engine's own bridge.
func hostLinks(d *spec.Deployment) []string {
	var out []string
	if d.Workspace.Bridged() {
		for _, l := range d.Workspace.Links {
			out = append(out, d.Uses.Workspaces[l.Target]+":"+l.Alias)
		}
	}
	return out
}

// observedLinks reads /TARGET:/CONTAINER/ALIAS. A target that was replaced has another
// name, and takes the link along when it goes: either way the container is made
// again, because an engine links to a container and not to a name.
func observedLinks(f diff.Form, c *container.InspectResponse) {
	for _, l := range c.HostConfig.Links {
		target, alias, _ := strings.Cut(strings.TrimPrefix(l, "/"), ":")
		f["link/"+alias[strings.LastIndexByte(alias, '/')+1:]] = target
	}
}
