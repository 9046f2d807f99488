package convert

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"path"
	"slices"
	"strings"

	"github.com/moby/moby/api/types/container"

	"github.com/steadyfleet/steady/internal/core/diff"
	"github.com/steadyfleet/steady/internal/core/spec"
)

// Create writes the request that makes the container of a deployment.
func Create(d *spec.Deployment, in CreateInputs) (*Request, error) {
	if _, err := Workspace(d, in.Inputs); err != nil {
		return nil, err // also what the request would lack
	}
	w, img := &d.Workspace, defaultsOf(&in.Inputs)
	out := &Request{Name: cmp.Or(in.As, in.Name), Platform: w.Platform}
	ends, err := endpoints(d, in.Inputs)
	if err != nil {
		return nil, err
	}
	if len(ends) > 0 {
		out.First, out.Rest = &ends[0], ends[1:]
	}
	if mac := ownMAC(w, &in.Inputs); mac != "" && !byEndpoint(&in.Inputs) {
		out.MAC = macName(mac)
	} else if mac != "" {
		first, err := bridge(d, in.Inputs)
		if err != nil {
			return nil, err
		}
		out.First = &first
	}
	if out.Config, err = config(d, img, &in); err != nil {
		return nil, err
	}
	if out.Host, err = hostConfig(d, img, &in, out.First); err != nil {
		return nil, err
	}
	if out.Config.ExposedPorts, out.Host.PortBindings, err = portConfig(w); err != nil {
		return nil, err
	}
	for _, c := range w.Contents {
		if in.Files[c.Target] == "" {
			out.Copies = append(out.Copies, c.Target)
		}
	}
	if len(out.Copies) > 0 && w.Security.ReadOnly {
		return nil, fmt.Errorf("workspace %s: nothing can be copied to %s of a container with a read-only root: give the content as a file of the host", w.Name, out.Copies[0])
	}
	return out, nil
}

func config(d *spec.Deployment, img *defaults, in *CreateInputs) (*container.Config, error) {
	w := &d.Workspace
	entry, command := processConfig(w, img)
	env, secret, err := envConfig(w, in)
	if err != nil {
		return nil, err
	}
	own, err := ownLabels(d, in, secret)
	if err != nil {
		return nil, err
	}
	return &container.Config{
		// The reference, for people: if it comes to mean another image than that of
		// the inputs meanwhile, the container differs and is never started.
		Image: cmp.Or(d.Uses.Image, in.Image.ID), Hostname: w.Hostname, Domainname: w.Domainname, User: w.User, WorkingDir: w.WorkingDir,
		Entrypoint: entry, Cmd: command, Env: env, Tty: w.TTY, OpenStdin: w.StdinOpen,
		Labels: merged(w.Labels, own), StopSignal: w.StopSignal, StopTimeout: graceSeconds(w.StopGrace),
		Healthcheck: healthConfig(w.Health),
	}, nil
}

// processConfig asks for the entrypoint and command. Engines take an image's
// command in place of an empty one as long as no entrypoint is asked for; an
// entrypoint of one empty word is none.
func processConfig(w *spec.Workspace, img *defaults) (entry, command []string) {
	entry, command = slices.Clone(w.Entrypoint), slices.Clone(w.Command)
	empty := w.NoEntry || entry != nil && len(entry) == 0
	switch {
	case empty:
		if entry = []string{""}; command == nil {
			command = slices.Clone(img.command)
		}
	case entry == nil && (w.NoCommand || command != nil && len(command) == 0):
		entry = slices.Clone(img.entrypoint)
	}
	if w.NoCommand {
		command = nil
	}
	return entry, command
}

func envConfig(w *spec.Workspace, in *CreateInputs) (env, secret []string, err error) {
	for _, e := range w.Env {
		if e.Unset {
			env = append(env, e.Name)
			continue
		}
		v := e.Value
		if e.Secret != "" {
			known := false
			if v, known = in.Values[e.Secret]; !known {
				return nil, nil, fmt.Errorf("workspace %s: the host has no secret %s: put it into the host's secret store", w.Name, e.Secret)
			}
			secret = append(secret, e.Name)
		}
		env = append(env, e.Name+"="+v)
	}
	return env, secret, nil
}

func ownLabels(d *spec.Deployment, in *CreateInputs, secret []string) (map[string]string, error) {
	out := maps.Clone(in.Labels)
	if out == nil {
		out = map[string]string{}
	}
	// Empty ones as well: a label of the image must not speak for the container.
	out[LabelSecretEnv] = strings.Join(sorted(secret), ",")
	contents := map[string]string{}
	for _, c := range d.Workspace.Contents {
		v, err := content(d, c, &in.Inputs)
		if err != nil {
			return nil, err
		}
		contents[path.Clean(c.Target)] = v
	}
	out[LabelContents] = compact(contents)
	if files := filesOf(&d.Workspace); len(files) > 0 {
		out[LabelFiles] = compact(files)
	}
	out[LabelHooks] = hooksOf(&d.Workspace)
	return out, nil
}

func hostConfig(d *spec.Deployment, img *defaults, in *CreateInputs, first *Endpoint) (*container.HostConfig, error) {
	h := settings(&d.Workspace, &in.Inputs)
	err := setNamespaces(h, d, &in.Inputs)
	if err != nil {
		return nil, err
	}
	if first != nil {
		h.NetworkMode = container.NetworkMode(first.Network)
	}
	if in.Idle {
		h.RestartPolicy = container.RestartPolicy{Name: container.RestartPolicyDisabled}
	}
	if h.Binds, h.Mounts, err = mountConfig(d, img, in); err != nil {
		return nil, err
	}
	h.Tmpfs = tmpfsConfig(&d.Workspace)
	h.Links = hostLinks(d)
	for _, a := range d.Workspace.DNS {
		ip, err := netip.ParseAddr(a)
		if err != nil {
			return nil, fmt.Errorf("workspace %s: dns: %w", d.Workspace.Name, err)
		}
		h.DNS = append(h.DNS, ip)
	}
	return h, nil
}

// Refused lists what the engine cannot do of a deployment and would drop without
// a word. Nothing is made while it is not empty.
func Refused(d *spec.Deployment, in Inputs, rules diff.WorkspaceRules) ([]diff.Difference, error) {
	want, err := Workspace(d, in)
	if err != nil {
		return nil, err
	}
	var out []diff.Difference
	for _, f := range slices.Sorted(maps.Keys(want)) {
		why := rules.Lacks(f)
		if (f == "limit/cpu-count" || f == "limit/cpu-percent") && in.Image.Os != "windows" {
			why = "engines ignore this limit except on Windows: use limits of CPUs"
		}
		if why != "" {
			out = append(out, diff.Difference{Field: f, Class: diff.Blocked, Cause: diff.Declared, Desired: want[f], Why: why})
		}
	}
	if p := d.Workspace.Limits.CPUPerMille; p%10 != 0 {
		return nil, fmt.Errorf("workspace %s: a CPU limit of %d per mille: engines take whole percents: write a multiple of 10", d.Workspace.Name, p)
	}
	for _, m := range d.Workspace.Mounts {
		if (m.Recursive == "writable" || m.Recursive == "readonly") && !diff.AtLeast(in.API, 44) {
			out = append(out, diff.Difference{Field: "mount/" + path.Clean(m.Target), Class: diff.Blocked, Cause: diff.Declared, Desired: m.Recursive,
				Why: "recursive " + m.Recursive + " needs an engine with API 1.44, and this one has " + in.API + ": newer engines have it, or leave it out"})
		}
	}
	return out, nil
}
