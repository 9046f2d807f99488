package convert

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/moby/moby/api/types/container"

	"github.com/steadyfleet/steady/internal/core/diff"
)

// Observed is the normal form of a container as an engine shows it, without the
// agent's own labels and what it does of its own in every container. How it runs
// is in Run.
func Observed(c *container.InspectResponse, in Inputs) diff.Form {
	f := diff.Form{"name": strings.TrimPrefix(c.Name, "/"), "image": c.Image}
	// An engine that shows no settings shows a container without any, which differs.
	cfg, h := c.Config, c.HostConfig
	if cfg == nil {
		cfg = &container.Config{}
	}
	if h == nil {
		h = &container.HostConfig{}
	}
	whole := *c
	whole.Config, whole.HostConfig = cfg, h

	running(f, cfg.Entrypoint, cfg.Cmd, cfg.WorkingDir, cfg.User, cfg.StopSignal)
	setBool(f, "tty", cfg.Tty)
	setBool(f, "stdin", cfg.OpenStdin)
	if cfg.StopTimeout != nil {
		f["stop-grace"] = strconv.Itoa(*cfg.StopTimeout) + "s"
	}
	observedEnv(f, cfg, &in)
	labels(f, cfg.Labels, &in)
	observedHost(f, &whole, &in)
	health(f, cfg.Healthcheck)
	set(f, "hooks", cfg.Labels[LabelHooks])
	observedPorts(f, cfg.ExposedPorts, h.PortBindings)
	observedMounts(f, &whole, byTarget(cfg.Labels[LabelContents]))
	for target, file := range byTarget(cfg.Labels[LabelFiles]) {
		f[FieldFile+"/"+target] = file
	}
	observedNetworks(f, &whole, &in)
	set(f, "network-mode", observedMode(string(h.NetworkMode)))
	observedLinks(f, &whole)
	var dns []string
	for _, a := range h.DNS {
		dns = append(dns, a.String())
	}
	host(f, h, dns, &in)
	return f
}

// observedEnv hides the values of the names that the container says are secret,
// and of those that the deployment at hand says.
func observedEnv(f diff.Form, cfg *container.Config, in *Inputs) {
	// A name alone takes away the image's variable.
	env := environ(slices.DeleteFunc(slices.Clone(cfg.Env), func(line string) bool { return !strings.Contains(line, "=") }))
	pairs(f, "env", env, in)
	for _, name := range secretNames(cfg.Labels, in) {
		if v, there := env[name]; there {
			f["env/"+name] = in.digest(v)
		}
	}
}

func secretNames(labels map[string]string, in *Inputs) []string {
	names := strings.Split(labels[LabelSecretEnv], ",")
	if in.Wanted != nil {
		for _, e := range in.Wanted.Workspace.Env {
			if e.Secret != "" {
				names = append(names, e.Name)
			}
		}
	}
	return names
}

// observedHost writes a host name that was asked for. Engines fill in the start
// of the ID, or that of the host or the container whose network is shared.
func observedHost(f diff.Form, c *container.InspectResponse, in *Inputs) {
	set(f, "domainname", c.Config.Domainname)
	name, mode := c.Config.Hostname, string(c.HostConfig.NetworkMode)
	borrowed := mode == "host" || strings.HasPrefix(mode, "container:") || c.HostConfig.UTSMode == "host"
	wanted := in.Wanted != nil && in.Wanted.Workspace.Hostname != ""
	switch {
	case len(name) == 12 && strings.HasPrefix(c.ID, name), borrowed && !wanted:
	default:
		set(f, "hostname", name)
	}
}

// byTarget reads a label that lists what was put in or mounted.
func byTarget(label string) map[string]string {
	out := map[string]string{}
	if err := json.Unmarshal([]byte(label), &out); err != nil {
		return nil // none, or a label that is not the agent's: they differ
	}
	return out
}
