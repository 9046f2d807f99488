package control

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"
)

// measurements turns what hosts say of themselves into metrics: sums over the
// fleet, and per host only when that was asked for, because every host is a
// series of its own.
type measurements struct {
	c               *Control
	reporting, open *prometheus.Desc
	versions        *prometheus.Desc
	sums, perHost   []measure
}

// measure is one number of a sample.
type measure struct {
	desc *prometheus.Desc
	of   func(Sums) int64
	by   float64
}

func newMeasurements(c *Control) *measurements {
	m := &measurements{c: c,
		reporting: prometheus.NewDesc("steady_hosts_measured", "Hosts that are online and sent a heartbeat.", nil, nil),
		open:      prometheus.NewDesc("steady_host_streams", "Streams into hosts that are open or asked for.", nil, nil)}
	m.versions = prometheus.NewDesc("steady_agents", "Hosts that are online and sent a heartbeat, by the version of their agents.", []string{"version"}, nil)
	for _, n := range []struct {
		name, help string
		of         func(Sums) int64
		by         float64
	}{
		{"cpus", "CPUs", func(s Sums) int64 { return s.CPUs }, 1000},
		{"cpus_used", "CPUs in use", func(s Sums) int64 { return s.CPUsUsed }, 1000},
		{"memory_bytes", "Memory", func(s Sums) int64 { return s.Memory }, 1},
		{"memory_used_bytes", "Memory in use", func(s Sums) int64 { return s.MemoryUsed }, 1},
		{"gpus", "GPUs", func(s Sums) int64 { return s.GPUs }, 1},
		{"workspaces", "Workspaces that are measured", func(s Sums) int64 { return s.Workspaces }, 1},
		{"workspaces_cpus_used", "CPUs in use by workspaces", func(s Sums) int64 { return s.WorkspacesCPUUsed }, 1000},
		{"workspaces_memory_bytes", "Memory in use by workspaces", func(s Sums) int64 { return s.WorkspacesMemory }, 1},
	} {
		m.sums = append(m.sums, measure{prometheus.NewDesc("steady_fleet_"+n.name, n.help+", over all hosts that are online.", nil, nil), n.of, n.by})
		if c.cfg.HostMetrics {
			m.perHost = append(m.perHost, measure{prometheus.NewDesc("steady_host_"+n.name, n.help+" of a host that is online.", []string{"host"}, nil), n.of, n.by})
		}
	}
	return m
}

// Describe implements prometheus.Collector.
func (m *measurements) Describe(ch chan<- *prometheus.Desc) {
	ch <- m.reporting
	ch <- m.open
	ch <- m.versions
	for _, n := range slices.Concat(m.sums, m.perHost) {
		ch <- n.desc
	}
}

// Collect implements prometheus.Collector.
func (m *measurements) Collect(ch chan<- prometheus.Metric) {
	n, totals := 0, make([]float64, len(m.sums))
	m.c.hosts.eachSample(func(name string, s *Sample) {
		n++
		for i, sum := range m.sums {
			totals[i] += float64(sum.of(s.Sums)) / sum.by
		}
		for _, p := range m.perHost {
			ch <- prometheus.MustNewConstMetric(p.desc, prometheus.GaugeValue, float64(p.of(s.Sums))/p.by, name)
		}
	})
	for i, sum := range m.sums {
		ch <- prometheus.MustNewConstMetric(sum.desc, prometheus.GaugeValue, totals[i])
	}
	for version, n := range m.c.AgentVersions() {
		ch <- prometheus.MustNewConstMetric(m.versions, prometheus.GaugeValue, float64(n), version)
	}
	_, open := m.c.streams.Count("")
	ch <- prometheus.MustNewConstMetric(m.reporting, prometheus.GaugeValue, float64(n))
	ch <- prometheus.MustNewConstMetric(m.open, prometheus.GaugeValue, float64(open))
}
