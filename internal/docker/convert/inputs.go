package convert

import (
	"fmt"

	"github.com/moby/moby/api/types/image"

	"github.com/steadyfleet/steady/internal/core/secret"
	"github.com/steadyfleet/steady/internal/core/spec"
)

// Labels on a container that report what inspect does not show.
const (
	// LabelSecretEnv lists the environment names that hold secrets, with commas.
	LabelSecretEnv = Prefix + "secret-env"
	// LabelFiles is a JSON object of the files that the bundle writes and the container
	// mounts: their digests by target.
	LabelFiles = Prefix + "files"
	// LabelContents is a JSON object of the contents put in, by target.
	LabelContents = Prefix + "contents"
	// LabelHooks is a JSON object of the commands around starts and stops.
	LabelHooks = Prefix + "hooks"
)

// FieldContent, with a target, is the field of a content that is put in.
const FieldContent = "content"

// FieldFile, with a target, is a file that the bundle writes and the container mounts.
const FieldFile = "bundle-file"

// Inputs is what a form needs beside the declaration: what names mean on the
// engine at this moment.
type Inputs struct {
	// Name is the container's name on the engine, as it is to be in the end.
	Name string `json:"name"`
	// API is the version agreed with the engine, such as 1.41.
	API string `json:"api"`
	// Image is what the workspace's reference means now.
	Image *image.InspectResponse `json:"image"`
	// Networks gives the ID of each network by its name on the engine.
	Networks map[string]string `json:"networks,omitempty"`
	// Containers gives the ID of each container whose namespaces are shared, by
	// its name on the engine.
	Containers map[string]string `json:"containers,omitempty"`
	// Secrets gives the keyed digest of each named secret's value.
	Secrets map[string]string `json:"secrets,omitempty"`
	// Variables gives the same of each value as an environment variable has it, see secret.Variable.
	// Records of before this field lack it.
	Variables map[string]string `json:"variables,omitempty"`
	// NoSwap means that the engine's kernel cannot bound swap.
	NoSwap bool `json:"noSwap,omitempty"`
	// Wanted is the deployment that is compared with; it tells which of the values
	// that engines choose were asked for. Nil: none.
	Wanted *spec.Deployment `json:"-"`
	// Digest gives "hmac:" and the hexadecimal keyed digest of a value; Keyed makes
	// one. Nil hides values entirely.
	Digest func(value string) string `json:"-"`
}

// network gives the ID of a network by its name in the set.
func (in *Inputs) network(d *spec.Deployment, name string) (title, id string, err error) {
	title, known := d.Uses.Networks[name]
	if !known {
		return "", "", fmt.Errorf("workspace %s: network %s is not declared: declare it, or leave it out", d.Workspace.Name, name)
	}
	id, known = in.Networks[title]
	if !known {
		return "", "", fmt.Errorf("workspace %s: the engine has no network %s: it has to be made first", d.Workspace.Name, title)
	}
	return title, id, nil
}

func (in *Inputs) digest(v string) string {
	if in.Digest == nil {
		return "hidden"
	}
	return in.Digest(v)
}

// option is a value of an option, a label or a variable as it may be shown.
func (in *Inputs) option(name, value string) string {
	if secret.Likely(name, value) {
		return in.digest(value)
	}
	return plain(value)
}
