package workspaces

import (
	"fmt"
	"math"
	"path"
	"strconv"
	"strings"

	"github.com/steadyfleet/steady/internal/core/imageref"
	"github.com/steadyfleet/steady/internal/core/spec"
)

// ofHost begins an image that the host has.
const ofHost = "image/"

func (o *createOptions) addImage(p *parts) error {
	switch name, known := strings.CutPrefix(o.image, ofHost); {
	case known:
		p.w.Image = name
	case strings.HasPrefix(o.image, spec.SnapshotImage):
		p.w.Image = o.image
	default:
		if _, err := imageref.Parse(o.image); err != nil {
			return fmt.Errorf("--image: %w", err)
		}
		p.w.Image = p.w.Name
		p.add(spec.KindImage, p.w.Name, &spec.Image{Name: p.w.Name, Ref: o.image, Pull: &spec.Pull{Policy: spec.PullPolicy(o.pull)}})
		return nil
	}
	if o.pull != "" {
		return fmt.Errorf("--pull %s: %s is not pulled here; leave out --pull", o.pull, o.image)
	}
	return nil
}

func (o *createOptions) addEnv(p *parts) error {
	for _, e := range o.env {
		name, value, err := describe("env", e)
		if err != nil {
			return err
		}
		p.w.Env = append(p.w.Env, spec.Env{Name: name, Value: value})
	}
	for _, e := range o.secretEnv {
		name, secret, err := describe("secret-env", e)
		if err != nil {
			return err
		}
		p.w.Env = append(p.w.Env, spec.Env{Name: name, Secret: secret})
	}
	for _, l := range o.labels {
		name, value, err := describe("label", l)
		if err != nil {
			return err
		}
		if p.w.Labels == nil {
			p.w.Labels = map[string]string{}
		}
		p.w.Labels[name] = value
	}
	return nil
}

func (o *createOptions) addPorts(p *parts) error {
	for _, text := range o.ports {
		port, err := parsePort(text)
		if err != nil {
			return err
		}
		p.w.Ports = append(p.w.Ports, port)
	}
	return nil
}

// parsePort reads [[IP:]HOSTPORT:]PORT[/PROTOCOL]. An address with colons is in
// brackets.
func parsePort(text string) (port spec.Port, err error) {
	bad := fmt.Errorf("--port %q: expected [[IP:]HOSTPORT:]PORT[/udp], such as 8080:80", text)
	rest, protocol, _ := strings.Cut(text, "/")
	port.Protocol = protocol
	if protocol == "" {
		port.Protocol = "tcp"
	}
	at := strings.LastIndexByte(rest, ':')
	if port.Port, err = portNumber(rest[at+1:]); err != nil {
		return port, bad
	}
	if at < 0 {
		return port, nil
	}
	rest = rest[:at]
	at = strings.LastIndexByte(rest, ':')
	if strings.HasSuffix(rest, "]") { // an address alone
		return port, bad
	}
	if text := rest[at+1:]; text != "" {
		if port.HostPort, err = portNumber(text); err != nil {
			return port, bad
		}
	}
	if at >= 0 {
		port.HostIP = strings.Trim(rest[:at], "[]")
	}
	return port, nil
}

func portNumber(s string) (int, error) {
	n, err := strconv.ParseUint(s, 10, 16)
	if err == nil && n == 0 {
		err = strconv.ErrRange
	}
	return int(n), err
}

func (o *createOptions) addMounts(p *parts) error {
	for _, text := range o.volumes {
		m, err := parseMount(text)
		if err != nil {
			return err
		}
		p.w.Mounts = append(p.w.Mounts, m)
		if m.Type == spec.MountVolume {
			p.add(spec.KindVolume, m.Source, &spec.Volume{Name: m.Source})
		}
	}
	return nil
}

// parseMount reads NAME:/PATH[:ro], /HOSTPATH:/PATH[:ro] or /PATH.
func parseMount(text string) (m spec.Mount, err error) {
	bad := fmt.Errorf("--volume %q: expected NAME:/PATH, /HOSTPATH:/PATH or /PATH, and :ro behind it for one that is only read", text)
	words := strings.Split(text, ":")
	if last := words[len(words)-1]; len(words) > 1 && (last == "ro" || last == "rw") {
		m.ReadOnly, words = last == "ro", words[:len(words)-1]
	}
	m.Target = words[len(words)-1]
	switch {
	case len(words) > 2 || !path.IsAbs(m.Target) || words[0] == "":
		return m, bad
	case len(words) == 1:
		m.Type = spec.MountAnonymous
	case path.IsAbs(words[0]):
		m.Type, m.Source = spec.MountBind, words[0]
	default:
		m.Type, m.Source = spec.MountVolume, words[0]
	}
	return m, nil
}

func (o *createOptions) addNetworks(p *parts) error {
	at := map[string]int{}
	for _, text := range o.networks {
		name, alias, aliased := strings.Cut(text, "=")
		i, twice := at[name]
		if !twice {
			i = len(p.w.Networks)
			at[name] = i
			p.w.Networks = append(p.w.Networks, spec.Attachment{Network: name})
			p.add(spec.KindNetwork, name, &spec.Network{Name: name})
		}
		if aliased {
			p.w.Networks[i].Aliases = append(p.w.Networks[i].Aliases, alias)
		}
	}
	return nil
}

func (o *createOptions) addLimits(p *parts) (err error) {
	if o.memory != "" {
		if p.w.Limits.Memory, err = spec.ParseSize(o.memory); err != nil {
			return fmt.Errorf("--memory: %w", err)
		}
	}
	if o.cpus == "" {
		return nil
	}
	n, err := strconv.ParseFloat(o.cpus, 64)
	if err != nil || !(n > 0) || n > 100_000 {
		return fmt.Errorf("--cpus %q: expected a number of CPUs such as 1.5", o.cpus)
	}
	p.w.Limits.NanoCPUs = int64(math.Round(n * 1e9))
	return nil
}

func (o *createOptions) addRestart(p *parts) error {
	policy, most, bounded := strings.Cut(o.restart, ":")
	p.w.Restart.Policy = policy
	if !bounded {
		return nil
	}
	n, err := strconv.Atoi(most)
	if err != nil || n < 1 || policy != "on-failure" {
		return fmt.Errorf("--restart %q: expected no, always, unless-stopped, on-failure or on-failure:MAX", o.restart)
	}
	p.w.Restart.Max = n
	return nil
}

func (o *createOptions) addGPUs(p *parts) error {
	if o.gpus == "" {
		return nil
	}
	n := -1
	if o.gpus != "all" {
		var err error
		if n, err = strconv.Atoi(o.gpus); err != nil || n < 1 {
			return fmt.Errorf("--gpus %q: expected all, or a number", o.gpus)
		}
	}
	p.w.GPUs = []spec.GPU{{Count: n, Capabilities: []string{"gpu"}}}
	return nil
}

// addRoutes makes a route for each [HOSTNAME][/PATH]:PORT, named like the
// workspace.
func (o *createOptions) addRoutes(p *parts) error {
	for i, text := range o.routes {
		at := strings.LastIndexByte(text, ':')
		if at < 0 {
			return fmt.Errorf("--route %q: expected [HOSTNAME][/PATH]:PORT, such as app.example/api:8080", text)
		}
		port, err := portNumber(text[at+1:])
		if err != nil {
			return fmt.Errorf("--route %q: its port is %q: expected 1 to 65535", text, text[at+1:])
		}
		r := spec.Route{Name: p.w.Name, Workspace: p.w.Name, Port: port}
		if i > 0 {
			r.Name = fmt.Sprintf("%s-%d", p.w.Name, i+1)
		}
		r.Host, r.Path = text[:at], ""
		if slash := strings.IndexByte(text[:at], '/'); slash >= 0 {
			r.Host, r.Path = text[:slash], text[slash:at]
		}
		p.add(spec.KindRoute, r.Name, &r)
	}
	return nil
}
