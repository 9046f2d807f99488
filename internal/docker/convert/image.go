package convert

import (
	"github.com/moby/moby/api/types/container"
)

// defaults are what an image says of its containers.
type defaults struct {
	env, entrypoint, command []string
	labels                   map[string]string
	exposed, volumes         map[string]struct{}
	dir, user, signal        string
	health                   *container.HealthConfig
}

// defaultsOf reads those of the image, if it has any.
func defaultsOf(in *Inputs) *defaults {
	if in.Image == nil || in.Image.Config == nil {
		return &defaults{}
	}
	c := in.Image.Config
	return &defaults{env: c.Env, entrypoint: c.Entrypoint, command: c.Cmd, labels: c.Labels, exposed: c.ExposedPorts,
		volumes: c.Volumes, dir: c.WorkingDir, user: c.User, signal: c.StopSignal, health: c.Healthcheck}
}
