package hosting

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strconv"

	"github.com/steadyfleet/steady/internal/agent/measure"
	"github.com/steadyfleet/steady/internal/system"
	"github.com/steadyfleet/steady/internal/wire"
)

// about says which engine the host has, and why it is of no use.
func (h *Hosting) about(ctx context.Context) (*wire.Engine, []string) {
	if h.docker == nil {
		return nil, nil
	}
	v, i, err := h.docker.About(ctx)
	if err != nil {
		return &wire.Engine{Problem: system.Scrub(err.Error(), 512)}, nil
	}
	cgroup, err := strconv.Atoi(i.CgroupVersion)
	if err != nil {
		cgroup = 1 // engines before 20.10 do not say, and know no other
	}
	gpus, err := h.docker.GPUs(i)
	if err != nil {
		h.o.Log.Debug("what the host has for GPUs in containers cannot be read", "error", err)
	}
	e := &wire.Engine{
		Name: "docker", Version: v.Engine, API: v.API, OS: v.OS, Arch: v.Arch, Kernel: i.KernelVersion,
		Storage: i.Driver, Cgroup: cgroup, Containers: i.Containers, Running: i.ContainersRunning,
	}
	if gpus.Any() {
		e.GPUs = &gpus
	}
	return e, slices.Sorted(maps.Keys(i.Runtimes))
}

// capabilities names what this agent can do on this host.
func (h *Hosting) capabilities() []string {
	out := []string{"settings"}
	if h.docker != nil {
		out = append(out, "exec", "image-build", "logs", "managed", "plan", "route", "snapshot", "workspace")
	}
	return out
}

// measure adds a sample. What an engine does not tell is left out.
func (h *Hosting) measure(ctx context.Context, b *wire.Heartbeat) error {
	chosen := h.chosen()
	if !chosen.Host && !chosen.GPU && !chosen.Workspaces {
		return nil
	}
	in := measure.Input{Runtimes: b.Runtimes}
	if b.Engine != nil && b.Engine.Problem == "" {
		in.Engine = &measure.Engine{Version: b.Engine.Version, APIVersion: b.Engine.API, StorageDriver: b.Engine.Storage}
	}
	if h.docker != nil && chosen.Workspaces && in.Engine != nil {
		targets, err := h.docker.Targets(ctx)
		if err != nil {
			h.o.Log.Debug("containers could not be listed for measuring", "error", err)
		}
		for _, t := range targets {
			in.Targets = append(in.Targets, measure.Target{Name: t.Name, PID: t.PID, ContainerID: t.ID})
		}
	}
	raw, err := json.Marshal(h.metrics.Collect(ctx, h.o.Now(), in))
	if err != nil {
		return err
	}
	if len(raw) <= wire.MaxMetrics {
		b.Metrics = raw
	}
	return nil
}
