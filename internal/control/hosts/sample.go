package hosts

import (
	"encoding/json"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/wire"
)

// Sample is what a host last said of itself in a heartbeat. It is never changed
// once kept, and no decision reads it.
type Sample struct {
	At           clock.Instant // on the server's clock
	AgentVersion string
	Uptime       int64 // seconds
	Pending      int   // events that the host could not deliver yet
	Runtimes     []string
	Engine       *wire.Engine
	Capabilities []string
	// Metrics is nil when the host sent none, or too many hosts sent much.
	Metrics json.RawMessage
	Sums    Sums
}

// Sums are the numbers of a sample that are added up over the fleet.
type Sums struct {
	CPUs              int64 // per mille of a CPU
	CPUsUsed          int64 // per mille of a CPU
	Memory            int64 // bytes
	MemoryUsed        int64
	GPUs              int64
	Workspaces        int64
	WorkspacesCPUUsed int64 // per mille of a CPU
	WorkspacesMemory  int64 // bytes
}

// maxSamples bounds the samples of all hosts together, in bytes.
const maxSamples = 256 << 20

// Bounds of what is kept of a heartbeat besides metrics.
const (
	maxWords  = 64
	maxLength = 128
)

// Keep keeps a heartbeat's news in place of the one before.
func (d *Directory) Keep(h *Host, m *wire.Heartbeat, now clock.Instant) {
	s := &Sample{At: now, AgentVersion: short(m.AgentVersion), Uptime: m.Uptime, Pending: max(m.Pending, 0), Runtimes: few(m.Runtimes), Capabilities: few(m.Capabilities)}
	if m.Engine != nil {
		e := *m.Engine
		for _, p := range []*string{&e.Name, &e.Version, &e.API, &e.OS, &e.Arch, &e.Kernel, &e.Storage} {
			*p = short(*p)
		}
		e.Problem = e.Problem[:min(len(e.Problem), 1<<10)]
		if e.GPUs != nil {
			g := *e.GPUs
			g.Driver, g.CDI = short(g.Driver), few(g.CDI)
			e.GPUs = &g
		}
		s.Engine = &e
	}
	if len(m.Metrics) > 0 && len(m.Metrics) <= wire.MaxMetrics && string(m.Metrics) != "null" {
		s.Metrics, s.Sums = m.Metrics, sums(m.Metrics)
	}
	if d.held.Add(int64(len(s.Metrics))) > maxSamples {
		d.held.Add(-int64(len(s.Metrics)))
		s.Metrics = nil
	}
	if old := h.sample.Swap(s); old != nil {
		d.held.Add(-int64(len(old.Metrics)))
	}
}

// Sample returns what the host last said of itself, or nil.
func (h *Host) Sample() *Sample { return h.sample.Load() }

// EachSample calls f with the sample of every host that is online.
func (d *Directory) EachSample(f func(name string, s *Sample)) {
	d.mu.RLock()
	defer d.mu.RUnlock()
	for name, h := range d.m {
		if s := h.Sample(); s != nil && h.View().Online {
			f(name, s)
		}
	}
}

func short(s string) string { return s[:min(len(s), maxLength)] }

func few(words []string) []string {
	out := make([]string, 0, min(len(words), maxWords))
	for _, w := range words[:min(len(words), maxWords)] {
		out = append(out, short(w))
	}
	return out
}

// sums reads the numbers that are added up. What is absent, or not as expected,
// counts as nothing: metrics are for people.
func sums(raw json.RawMessage) (s Sums) {
	var m struct {
		Host struct {
			CPUCount          int64 `json:"cpuCount"`
			CPUPermille       int64 `json:"cpuPermille"`
			MemTotalBytes     int64 `json:"memTotalBytes"`
			MemAvailableBytes int64 `json:"memAvailableBytes"`
		} `json:"host"`
		GPUs       []struct{} `json:"gpus"`
		Workspaces []struct {
			CPUPermille int64 `json:"cpuPermille"`
			MemBytes    int64 `json:"memBytes"`
		} `json:"workspaces"`
	}
	if json.Unmarshal(raw, &m) != nil {
		return s
	}
	s.CPUs, s.CPUsUsed = m.Host.CPUCount*1000, m.Host.CPUCount*m.Host.CPUPermille
	s.Memory, s.MemoryUsed = m.Host.MemTotalBytes, m.Host.MemTotalBytes-m.Host.MemAvailableBytes
	s.GPUs, s.Workspaces = int64(len(m.GPUs)), int64(len(m.Workspaces))
	for _, w := range m.Workspaces {
		s.WorkspacesCPUUsed += w.CPUPermille
		s.WorkspacesMemory += w.MemBytes
	}
	return s
}
