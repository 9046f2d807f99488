package control

import (
	"encoding/json"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/prose"
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
	Server       string // the address at which the host reaches this server
	Resolved     uint64 // version of the newest snapshot that it accepted
	// Metrics is nil when the host sent none, or too many hosts sent much.
	Metrics json.RawMessage
	Sums    Sums
	Bin     wire.Bin
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
	maxItems  = 64
	maxLength = 128
)

// keep keeps a heartbeat's sample in place of the one before.
func (d *directory) keep(h *contact, m *wire.Heartbeat, now clock.Instant) {
	s := &Sample{At: now, AgentVersion: prose.Line(truncated(m.AgentVersion)), Server: prose.Line(truncated(m.Server)), Resolved: m.Resolved, Uptime: m.Uptime, Pending: max(m.Pending, 0), Runtimes: firstFew(m.Runtimes), Capabilities: firstFew(m.Capabilities)}
	if m.Bin != nil {
		s.Bin = binOf(m.Bin)
	}
	if m.Engine != nil {
		e := *m.Engine
		for _, p := range []*string{&e.Name, &e.Version, &e.API, &e.OS, &e.Arch, &e.Kernel, &e.Storage} {
			*p = truncated(*p)
		}
		e.Problem = e.Problem[:min(len(e.Problem), 1<<10)]
		if e.GPUs != nil {
			g := *e.GPUs
			g.Driver, g.CDI = truncated(g.Driver), firstFew(g.CDI)
			e.GPUs = &g
		}
		s.Engine = &e
	}
	if len(m.Metrics) > 0 && len(m.Metrics) <= wire.MaxMetrics && string(m.Metrics) != "null" {
		var l load
		s.Metrics = m.Metrics
		s.Sums, l = sums(m.Metrics)
		h.loads.add(now, l)
	}
	if d.sampled.Add(int64(len(s.Metrics))) > maxSamples {
		d.sampled.Add(-int64(len(s.Metrics)))
		s.Metrics = nil
	}
	if old := h.sample.Swap(s); old != nil {
		d.sampled.Add(-int64(len(old.Metrics)))
	}
}

// eachSample calls f with the sample of every host that is online.
func (d *directory) eachSample(f func(name string, s *Sample)) {
	d.mu.RLock()
	defer d.mu.RUnlock()
	for name, h := range d.m {
		if s := h.sample.Load(); s != nil && h.View().Online {
			f(name, s)
		}
	}
}

func truncated(s string) string { return s[:min(len(s), maxLength)] }

func firstFew(items []string) []string {
	out := make([]string, 0, min(len(items), maxItems))
	for _, w := range items[:min(len(items), maxItems)] {
		out = append(out, truncated(w))
	}
	return out
}

// sums reads the numbers that are added up. What is absent, or not as expected,
// counts as nothing: metrics are for people.
func sums(raw json.RawMessage) (s Sums, l load) {
	var m struct {
		Host struct {
			CPUCount          int64  `json:"cpuCount"`
			CPUPermille       *int64 `json:"cpuPermille"`
			MemTotalBytes     int64  `json:"memTotalBytes"`
			MemAvailableBytes *int64 `json:"memAvailableBytes"`
		} `json:"host"`
		GPUs       []struct{} `json:"gpus"`
		Workspaces []struct {
			CPUPermille int64 `json:"cpuPermille"`
			MemBytes    int64 `json:"memBytes"`
		} `json:"workspaces"`
	}
	l = load{unmeasured, unmeasured}
	if json.Unmarshal(raw, &m) != nil {
		return s, l
	}
	s.CPUs, s.Memory, s.MemoryUsed = m.Host.CPUCount*1000, m.Host.MemTotalBytes, m.Host.MemTotalBytes
	if used := m.Host.CPUPermille; used != nil {
		s.CPUsUsed = m.Host.CPUCount * *used
		l.cpu = perMille(float64(*used))
	}
	if free := m.Host.MemAvailableBytes; free != nil {
		s.MemoryUsed -= *free
		if s.Memory > 0 {
			l.memory = perMille(1000 * float64(s.MemoryUsed) / float64(s.Memory))
		}
	}
	s.GPUs, s.Workspaces = int64(len(m.GPUs)), int64(len(m.Workspaces))
	for _, w := range m.Workspaces {
		s.WorkspacesCPUUsed += w.CPUPermille
		s.WorkspacesMemory += w.MemBytes
	}
	return s, l
}

// perMille is a share that a host says, within what can be.
func perMille(n float64) int16 { return int16(min(max(n, 0), 1000)) }
