package hosting

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"slices"
	"strconv"

	"github.com/steadyfleet/steady/internal/agent/measure"
	core "github.com/steadyfleet/steady/internal/core/agent"
	"github.com/steadyfleet/steady/internal/system"
	"github.com/steadyfleet/steady/internal/wire"
)

const engineName = "docker"

// engineFacts are what the engine said of itself last.
type engineFacts struct {
	answered bool // the last time too
	api      string
	dataRoot string
}

// Facts reads what the host is, its engine as the last heartbeat found it. It is called where
// heartbeats are made.
func (h *Hosting) Facts() (core.Measured, error) {
	f, err := measure.Facts(h.o.Machine)
	if err != nil {
		return core.Measured{}, err
	}
	dir := h.o.StateDir
	if h.docker != nil {
		f.Engine, f.EngineAPI = engineName, h.engine.api
		if h.engine.dataRoot != "" && h.o.local() {
			dir = h.engine.dataRoot
		}
	}
	f.Disk, err = h.metrics.DiskSize(dir)
	if errors.Is(err, fs.ErrNotExist) && dir != h.o.StateDir { // the engine has folders of its own
		f.Disk, err = 0, nil
	}
	return core.Measured{Facts: f, Silent: h.docker != nil && !h.engine.answered}, err
}

// about says which engine the host has, and why it is of no use.
func (h *Hosting) about(ctx context.Context) (*wire.Engine, []string) {
	if h.docker == nil {
		return nil, nil
	}
	v, i, err := h.docker.About(ctx)
	h.engine.answered = err == nil
	if err != nil {
		return &wire.Engine{Problem: system.Scrub(err.Error(), 512)}, nil
	}
	h.engine = engineFacts{answered: true, api: v.API, dataRoot: i.DockerRootDir}
	cgroup, err := strconv.Atoi(i.CgroupVersion)
	if err != nil {
		cgroup = 1 // engines before 20.10 do not say, and know no other
	}
	gpus, err := h.docker.GPUs(i)
	if err != nil {
		h.o.Log.Debug("what the host has for GPUs in containers cannot be read", "error", err)
	}
	e := &wire.Engine{
		Name: engineName, Version: v.Engine, API: v.API, OS: v.OS, Arch: v.Arch, Kernel: i.KernelVersion,
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
