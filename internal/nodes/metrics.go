package nodes

import "github.com/prometheus/client_golang/prometheus"

type metrics struct {
	pushes, snapshots, refused, frames *prometheus.CounterVec
}

func newMetrics(reg prometheus.Registerer) *metrics {
	counter := func(name, help, label string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "steady", Name: name, Help: help}, []string{label})
	}
	m := &metrics{
		pushes:    counter("node_pushes_total", "Operations that were sent to nodes, by what came of them.", "outcome"),
		snapshots: counter("node_snapshots_total", "Configurations that were asked of nodes: complete, incomplete, or lost with the connection.", "outcome"),
		refused:   counter("node_connections_refused_total", "Connections of nodes that were refused or ended by the server, by code.", "code"),
		frames:    counter("node_frames_refused_total", "Messages of nodes that were refused: malformed, unsolicited or too-large.", "reason"),
	}
	for _, outcome := range outcomes {
		m.pushes.WithLabelValues(string(outcome))
	}
	m.pushes.WithLabelValues(lost)
	for _, outcome := range []string{complete, incomplete, lost} {
		m.snapshots.WithLabelValues(outcome)
	}
	for _, reason := range []string{malformed, unsolicited, tooLarge} {
		m.frames.WithLabelValues(reason)
	}
	reg.MustRegister(m.pushes, m.snapshots, m.refused, m.frames)
	return m
}

// What is counted.
const (
	complete    = "complete"
	incomplete  = "incomplete"
	lost        = "lost"
	malformed   = "malformed"
	unsolicited = "unsolicited"
	tooLarge    = "too-large"
)
