package fetch

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/steadyfleet/steady/internal/core/clock"
)

// Outcomes of a look.
const (
	outcomeSame    = "same"    // nothing new, and what is there verified
	outcomeTaken   = "taken"   // a release or a timestamp was accepted
	outcomeRefused = "refused" // what is there does not verify
	outcomeFailed  = "failed"  // nothing could be fetched, or taken in
)

// Status is where a source stands. Instants are zero before their first time.
type Status struct {
	Name string
	// LastChecked is when it was looked at, LastSuccess when that ended with what
	// verified.
	LastChecked, LastSuccess clock.Instant
	// LastError is why the last look was no success, or empty.
	LastError string
	// Version and Ref are of the release that it last brought.
	Version uint64
	Ref     string
	// looks counts outcomes.
	looks map[string]uint64
}

// Status returns where every source stands, as configured.
func (w *Watch) Status() []Status {
	all := make([]Status, len(w.pollers))
	for i, p := range w.pollers {
		p.mu.Lock()
		all[i] = p.status
		all[i].looks = nil
		p.mu.Unlock()
	}
	return all
}

// Names lists the sources.
func (w *Watch) Names() []string {
	var names []string
	for _, p := range w.pollers {
		names = append(names, p.status.Name)
	}
	return names
}

// note keeps what a look showed.
func (p *poller) note(now clock.Instant, outcome string, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := &p.status
	if s.looks == nil {
		s.looks = map[string]uint64{}
	}
	s.LastChecked, s.LastError = now, ""
	s.looks[outcome]++
	if err != nil {
		s.LastError = short(err)
		return
	}
	s.LastSuccess = now
}

// accepted keeps what a source brought, and returns what the look was.
func (p *poller) accepted(r Release) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.status.Version, p.status.Ref = r.Version, r.Ref
	if r.Same {
		return outcomeSame
	}
	return outcomeTaken
}

var (
	healthy = prometheus.NewDesc("steady_release_source_healthy", "1 while the last check of a release source succeeded.", []string{"source"}, nil)
	success = prometheus.NewDesc("steady_release_source_success_timestamp_seconds", "When a check of a release source last succeeded.", []string{"source"}, nil)
	looks   = prometheus.NewDesc("steady_release_source_looks_total", "Looks at a release source.", []string{"source", "outcome"}, nil)
)

// Describe implements prometheus.Collector.
func (w *Watch) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{healthy, success, looks} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (w *Watch) Collect(ch chan<- prometheus.Metric) {
	for _, p := range w.pollers {
		p.mu.Lock()
		s, well := p.status, 0.0
		if s.LastChecked != 0 && s.LastError == "" {
			well = 1
		}
		ch <- prometheus.MustNewConstMetric(healthy, prometheus.GaugeValue, well, s.Name)
		ch <- prometheus.MustNewConstMetric(success, prometheus.GaugeValue, float64(s.LastSuccess)/1000, s.Name)
		for _, outcome := range slices.Sorted(slices.Values([]string{outcomeSame, outcomeTaken, outcomeRefused, outcomeFailed})) {
			ch <- prometheus.MustNewConstMetric(looks, prometheus.CounterValue, float64(s.looks[outcome]), s.Name, outcome)
		}
		p.mu.Unlock()
	}
}
