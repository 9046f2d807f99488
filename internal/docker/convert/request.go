package convert

import (
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/network"
)

// CreateInputs is what a request to make a container needs beside Inputs.
type CreateInputs struct {
	Inputs
	// As names the container now, when it is made beside an old one; empty: Name.
	As string
	// Labels are the agent's own: owner, replica and what is replaced.
	Labels map[string]string
	// Idle leaves out the restart policy: the container gets it when it is started.
	Idle bool
	// Values gives each secret that stands in the environment.
	Values map[string]string
	// Anonymous names the volume to keep at a target that has one without a name:
	// AnonymousVolumes of the old container.
	Anonymous map[string]string
	// Files gives the host's file of each content by target, to be mounted
	// read-only. A content that is not there has to be copied in before the start.
	Files map[string]string
}

// Request makes a container: create it with the First endpoint, connect the Rest
// in order, copy Copies in, and start it only then.
type Request struct {
	Name     string
	Config   *container.Config
	Host     *container.HostConfig
	Platform string // os/arch[/variant]; empty: the image's
	MAC      string // of the container itself, for engines below API 1.44
	// First is nil for a container without a network of its own.
	First *Endpoint
	Rest  []Endpoint
	// Copies are targets of contents that Files does not have.
	Copies []string
}

// Networking is the endpoint that the container is made with.
func (r *Request) Networking() *network.NetworkingConfig {
	if r.First == nil {
		return nil
	}
	return &network.NetworkingConfig{EndpointsConfig: map[string]*network.EndpointSettings{r.First.Network: r.First.Settings}}
}

// Endpoint joins a container to a network. A connection that is made again needs
// all of Settings: the engine forgets aliases and addresses.
type Endpoint struct {
	Network  string // the engine's name
	ID       string
	Settings *network.EndpointSettings
}

// Changes is what an update of a container in place asks for; nil leaves it.
type Changes struct {
	Resources *container.Resources
	Restart   *container.RestartPolicy
}
