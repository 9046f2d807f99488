package compliance

import (
	"fmt"
	"slices"
	"strings"

	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/spec"
)

// Host is what a control sees of a host.
type Host struct {
	Name    string   `cel:"name"`
	Channel string   `cel:"channel"`
	Tags    []string `cel:"tags"`
	// Delegated lists the kinds that the server may set without a signature.
	Delegated []string `cel:"delegated"`
}

// Bundle is what a control sees of what a host runs.
type Bundle struct {
	Name       string       `cel:"name"`
	Containers []*Container `cel:"containers"`
	Files      []*File      `cel:"files"`
	Commands   []string     `cel:"commands"` // names of the steps that activate it
	Probes     []*Probe     `cel:"probes"`
}

// Container is one container. Memory is in bytes and CPUs in thousandths; zero is
// no limit, and PIDs is -1 or zero without one.
type Container struct {
	Name            string   `cel:"name"`
	Image           string   `cel:"image"` // the reference; empty for one that is built without a name
	Pinned          bool     `cel:"pinned"`
	Built           bool     `cel:"built"`
	User            string   `cel:"user"`
	Privileged      bool     `cel:"privileged"`
	CapAdd          []string `cel:"capAdd"`
	CapDrop         []string `cel:"capDrop"`
	SecurityOptions []string `cel:"securityOptions"`
	ReadOnlyRoot    bool     `cel:"readOnlyRoot"`
	NetworkMode     string   `cel:"networkMode"`
	Networks        []string `cel:"networks"`
	PID             string   `cel:"pid"`
	IPC             string   `cel:"ipc"`
	UTS             string   `cel:"uts"`
	UserNamespace   string   `cel:"userNamespace"`
	Devices         []string `cel:"devices"` // paths on the host
	Mounts          []*Mount `cel:"mounts"`
	Ports           []*Port  `cel:"ports"`
	Memory          int64    `cel:"memory"`
	MilliCPUs       int64    `cel:"milliCPUs"`
	CPUShares       int64    `cel:"cpuShares"`
	PIDs            int64    `cel:"pids"`
	Restart         string   `cel:"restart"`
	RestartMax      int64    `cel:"restartMax"`
	Healthcheck     bool     `cel:"healthcheck"`
}

// Mount is one mount; Source is a path of the host for type bind.
type Mount struct {
	Type        string `cel:"type"`
	Source      string `cel:"source"`
	Target      string `cel:"target"`
	ReadOnly    bool   `cel:"readOnly"`
	Propagation string `cel:"propagation"`
}

// Port is a port that is published on the host.
type Port struct {
	HostIP   string `cel:"hostIP"`
	HostPort int64  `cel:"hostPort"`
	Port     int64  `cel:"port"`
	Protocol string `cel:"protocol"`
}

// File is one file below the agent's root folder; Mode is its permission bits.
type File struct {
	Path  string `cel:"path"`
	Mode  int64  `cel:"mode"`
	Owner string `cel:"owner"`
}

// Probe is one check of the host.
type Probe struct {
	Name string `cel:"name"`
	Mode string `cel:"mode"`
	Kind string `cel:"kind"` // http, tcp, exec, evidence or resources
}

// views makes what controls see, each once.
type views struct {
	m       *fleet.Manifest
	roster  map[string]fleet.RosterHost
	bundles map[digest.Digest]fleet.Bundle
	made    map[string]*Bundle
}

func newViews(m *fleet.Manifest, roster map[string]fleet.RosterHost, bundles map[digest.Digest]fleet.Bundle) *views {
	return &views{m: m, roster: roster, bundles: bundles, made: map[string]*Bundle{}}
}

// key names what a host runs and how it is probed.
func (v *views) key(l *fleet.Leaf) string { return string(l.Target) + fmt.Sprint(l.Probes) }

func (v *views) host(l *fleet.Leaf) *Host {
	r := v.roster[l.Host]
	h := &Host{Name: l.Host, Channel: v.m.Channel, Tags: list(r.Tags), Delegated: list(r.Managed)}
	return h
}

func (v *views) bundle(l *fleet.Leaf) *Bundle {
	key := v.key(l)
	if b := v.made[key]; b != nil {
		return b
	}
	src := v.bundles[l.Target]
	b := &Bundle{Name: src.Name, Containers: []*Container{}, Files: []*File{}, Commands: []string{}, Probes: []*Probe{}}
	for _, f := range src.Files {
		b.Files = append(b.Files, &File{f.Path, int64(f.Mode), f.Owner})
	}
	for _, e := range src.Exec {
		b.Commands = append(b.Commands, e.Name)
	}
	for _, i := range l.Probes {
		p := &v.m.Probes[i]
		b.Probes = append(b.Probes, &Probe{p.Name, string(p.Mode), strings.Join(p.Kinds(), " ")})
	}
	if src.Containers != nil {
		for i := range src.Containers.Workspaces {
			b.Containers = append(b.Containers, viewOf(&src.Containers.Workspaces[i], src.Containers))
		}
	}
	v.made[key] = b
	return b
}

func viewOf(w *spec.Workspace, set *spec.Set) *Container {
	c := &Container{
		Name: w.Name, User: w.User, Privileged: w.Security.Privileged, CapAdd: list(w.Security.CapAdd), CapDrop: list(w.Security.CapDrop),
		SecurityOptions: list(w.Security.Options), ReadOnlyRoot: w.Security.ReadOnly, NetworkMode: w.NetworkMode, Networks: []string{},
		PID: w.Namespaces.PID, IPC: w.Namespaces.IPC, UTS: w.Namespaces.UTS, UserNamespace: w.Namespaces.User,
		Devices: []string{}, Mounts: []*Mount{}, Ports: []*Port{},
		Memory: w.Limits.Memory, MilliCPUs: milliCPUs(&w.Limits), CPUShares: w.Limits.CPUShares,
		Restart: w.Restart.Policy, RestartMax: int64(w.Restart.Max), Healthcheck: w.Health != nil && !w.Health.Disable && len(w.Health.Test) > 0,
	}
	if w.Limits.PIDs != nil {
		c.PIDs = *w.Limits.PIDs
	}
	for _, n := range w.Networks {
		c.Networks = append(c.Networks, n.Network)
	}
	for i := range w.Devices {
		c.Devices = append(c.Devices, w.Devices[i].Host)
	}
	for _, m := range w.Mounts {
		c.Mounts = append(c.Mounts, &Mount{string(m.Type), source(m, set), m.Target, m.ReadOnly, m.Propagation})
	}
	for _, p := range w.Ports {
		c.Ports = append(c.Ports, &Port{p.HostIP, int64(p.HostPort), int64(p.Port), p.Protocol})
	}
	if i := slices.IndexFunc(set.Images, func(im spec.Image) bool { return im.Name == w.Image }); i >= 0 {
		im := &set.Images[i]
		c.Image, c.Built = im.Ref, im.Build != nil
		c.Pinned = strings.Contains(im.Ref, "@sha256:") || im.Build != nil || im.Load != nil // the bundle's own digest pins these
	}
	return c
}

// source is a path of the host also where a declared volume hides one.
func source(m spec.Mount, set *spec.Set) string {
	if i := slices.IndexFunc(set.Volumes, func(v spec.Volume) bool { return v.Name == m.Source }); m.Type == spec.MountVolume && i >= 0 {
		if device := set.Volumes[i].Options["device"]; strings.HasPrefix(device, "/") {
			return device
		}
	}
	return m.Source
}

func milliCPUs(l *spec.Limits) int64 {
	switch {
	case l.NanoCPUs > 0:
		return max(1, l.NanoCPUs/1_000_000)
	case l.CPUQuota > 0:
		period := l.CPUPeriod
		if period == 0 {
			period = 100_000 // the kernel's own, in µs
		}
		return max(1, l.CPUQuota*1000/period)
	}
	return 0
}

func list(v []string) []string { return append([]string{}, v...) }
