package control

import (
	"runtime"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/steadyfleet/steady/internal/core/event"
)

// metrics are the runtime's collectors. None of them is read to decide.
type metrics struct {
	entries, events, limited, nodesLimited, turns, invalidated, certificates prometheus.Counter
	ticks, appends, reads                                                    prometheus.Histogram
	releasesRefused, enrolmentsRefused                                       prometheus.Counter
	blobsRemoved, blobBytesRemoved, retries                                  prometheus.Counter
	decisions, refused, sessionEvents                                        *prometheus.CounterVec
}

func newMetrics(c *Control) *metrics {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Namespace: "steady", Name: name, Help: help})
	}
	seconds := func(name, help string) prometheus.Histogram {
		return prometheus.NewHistogram(prometheus.HistogramOpts{Namespace: "steady", Name: name, Help: help,
			Buckets: prometheus.ExponentialBuckets(0.00001, 4, 12)})
	}
	m := &metrics{
		entries:           counter("log_entries_total", "Entries appended to the log."),
		events:            counter("host_events_total", "Events of hosts taken in."),
		limited:           counter("host_events_limited_total", "Requests of hosts put off, since the host had used its share of the log."),
		nodesLimited:      counter("node_reports_limited_total", "Reports and connections of nodes put off, since the node had used its share of the log or of connections."),
		turns:             counter("reducer_turns_total", "Rounds of the reducer that were committed."),
		invalidated:       counter("reducer_spoiled_total", "Rounds of the reducer that were not committed."),
		certificates:      counter("certificates_total", "Host certificates issued."),
		ticks:             seconds("plan_seconds", "Time of one tick of the planner."),
		appends:           seconds("append_seconds", "Time of one append to the log."),
		reads:             seconds("read_seconds", "Time of one read of the state in the reducer, which serves nothing else meanwhile."),
		releasesRefused:   counter("releases_refused_total", "Releases and roots that were refused, pushed or from a source."),
		enrolmentsRefused: counter("enrolments_refused_total", "Enrolments that were refused."),
		blobsRemoved:      counter("blobs_removed_total", "Blobs that were removed because nothing names them."),
		blobBytesRemoved:  counter("blob_bytes_removed_total", "Bytes of these blobs."),
		retries:           counter("node_push_retries_total", "Operations that were sent to nodes again, after one that failed."),
		refused: prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "steady", Name: "requests_refused_total",
			Help: "Requests that were refused, by API and HTTP status."}, []string{"api", "code"}),
		decisions: prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "steady", Name: "decisions_total",
			Help: "Decisions that were committed, by the type of their event."}, []string{"type"}),
		sessionEvents: prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "steady", Name: "session_events_total",
			Help: "CloudEvents for sessions, by what became of them: accepted, or why one was refused."}, []string{"outcome"}),
	}
	for _, outcome := range EventOutcomes {
		m.sessionEvents.WithLabelValues(outcome)
	}
	queue := func(name string, n func() int) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Namespace: "steady", Name: "queue_length",
			Help: "Inputs that wait for the reducer.", ConstLabels: prometheus.Labels{"lane": name}}, func() float64 { return float64(n()) })
	}
	c.cfg.Metrics.MustRegister(m.entries, m.events, m.limited, m.nodesLimited, m.turns, m.invalidated, m.certificates, m.ticks, m.appends, m.reads, m.decisions, m.releasesRefused, m.enrolmentsRefused, m.blobsRemoved, m.blobBytesRemoved, m.retries, m.refused, m.sessionEvents, newMeasurements(c), newFleetMetrics(c), c.sources,
		queue("operations", func() int { return len(c.operations) }),
		queue("urgent", func() int { return len(c.urgent) }),
		queue("normal", func() int { return len(c.normal) }),
		queue("queries", func() int { return len(c.queries) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Namespace: "steady", Name: "log_sequence", Help: "Sequence of the last entry."},
			func() float64 { return float64(c.Head().Seq) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Namespace: "steady", Name: "log_pruned_sequence", Help: "Sequence of the entry behind which the log begins; 0 is all of it."},
			func() float64 { return float64(c.pruned.Load()) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Namespace: "steady", Name: "goroutines", Help: "Goroutines of the server's process."},
			func() float64 { return float64(runtime.NumGoroutine()) }),
	)
	return m
}

// committed counts what was appended.
func (m *metrics) committed(entries []event.Entry) {
	m.entries.Add(float64(len(entries)))
	for i := range entries {
		if event.IsDecision(entries[i].Type) {
			m.decisions.WithLabelValues(entries[i].Type).Inc()
		}
		switch entries[i].Type {
		case event.VerifyFailed{}.EventType():
			m.releasesRefused.Inc()
		case event.EnrolRefused{}.EventType():
			m.enrolmentsRefused.Inc()
		}
	}
}

// CountRefusal counts a request that an API refused with an HTTP status.
func (c *Control) CountRefusal(api string, status int) {
	c.metrics.refused.WithLabelValues(api, strconv.Itoa(status)).Inc()
}
