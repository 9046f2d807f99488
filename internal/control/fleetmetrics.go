package control

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/expiry"
	"github.com/steadyfleet/steady/internal/core/health"
	"github.com/steadyfleet/steady/internal/core/plan"
	"github.com/steadyfleet/steady/internal/core/readiness"
	"github.com/steadyfleet/steady/internal/disk"
)

// countEvery is how old the counts of a fleet that changes may get. A scrape never
// waits for the reducer, which publishes them.
const countEvery = time.Second

// scrapeTimeout bounds what a scrape asks of the store.
const scrapeTimeout = 5 * time.Second

// fleetMetrics shows the counts of the fleet: no host has a series of its own.
type fleetMetrics struct {
	c *Control

	presence, phase, health, resources                    *prometheus.Desc
	status, held, queued, quarantined, stampAge, stampMax *prometheus.Desc
	ends, used, warnings                                  *prometheus.Desc
	safe, ready, store                                    *prometheus.Desc
	diskFree, diskSize, logBytes, logMax                  *prometheus.Desc
	all                                                   []*prometheus.Desc
}

func newFleetMetrics(c *Control) *fleetMetrics {
	m := &fleetMetrics{c: c}
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		d := prometheus.NewDesc("steady_"+name, help, labels, nil)
		m.all = append(m.all, d)
		return d
	}
	m.presence = desc("hosts", "Hosts that are declared or known, by whether they are there.", "presence")
	m.phase = desc("hosts_by_phase", "Enrolled hosts by the phase of their rollout.", "phase")
	m.health = desc("hosts_by_health", "Declared or known hosts by how well they are.", "health")
	m.resources = desc("resources_failed", "Resources in Error on all hosts, by kind.", "kind")
	m.status = desc("rollout_status", "1 for the status of the newest rollout of a channel.", "channel", "status")
	m.held = desc("rollout_held_seconds", "How long the open wave of a channel's rollout has not been promoted; absent while nothing holds it.", "channel")
	m.queued = desc("releases_queued", "Releases that wait for the rollout of the channel before them.", "channel")
	m.quarantined = desc("bundles_quarantined", "Bundles that are not granted on a channel because they failed.", "channel")
	m.stampAge = desc("timestamp_age_seconds", "Age of the newest timestamp, for each channel that it keeps going.", "channel")
	m.stampMax = desc("timestamp_max_age_seconds", "Age at which nothing is granted on a channel any more.", "channel")
	m.ends = desc("expiry_seconds", "Time until something ends, negative once it has; the first of what every host has.", "kind", "name")
	m.used = desc("expiry_used_ratio", "How full something is.", "kind", "name")
	m.warnings = desc("expiry_warnings", "Things that end soon, have ended or are nearly full.", "level")
	m.safe = desc("safe_mode", "1 while nothing is granted because hosts know more than the log.")
	m.ready = desc("ready", "1 while the server can take in and grant, as /readyz says.")
	m.store = desc("store_state", "1 for the state that the store is in: ok, full or broken.", "state")
	m.diskFree = desc("disk_free_bytes", "Free space of the disk of the data folder.")
	m.diskSize = desc("disk_size_bytes", "Size of the disk of the data folder.")
	m.logBytes = desc("log_bytes", "Size of the log.")
	m.logMax = desc("log_max_bytes", "Bound of the log; absent without one.")
	return m
}

// Describe implements prometheus.Collector.
func (m *fleetMetrics) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range m.all {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (m *fleetMetrics) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout)
	defer cancel()
	g := gauges{ch}
	m.server(ctx, g)
	f, now := m.c.counts.Load(), m.c.now()
	g.each(m.presence, f.presence)
	g.each(m.phase, f.phases)
	for _, status := range health.Statuses {
		g.set(m.health, f.health.Hosts[status], string(status))
	}
	g.each(m.resources, f.health.Errors)
	for _, c := range f.channels {
		if c.status != "" {
			g.set(m.status, 1, c.name, c.status)
		}
		if c.heldSince != 0 {
			ch <- prometheus.MustNewConstMetric(m.held, prometheus.GaugeValue, seconds(now.Sub(c.heldSince)), c.name)
		}
		g.set(m.queued, c.queued, c.name)
		g.set(m.quarantined, c.quarantined, c.name)
		if f.stamp != 0 {
			ch <- prometheus.MustNewConstMetric(m.stampAge, prometheus.GaugeValue, seconds(now.Sub(f.stamp)), c.name)
			ch <- prometheus.MustNewConstMetric(m.stampMax, prometheus.GaugeValue, seconds(c.window), c.name)
		}
	}
	m.expiries(ch, now)
}

func seconds(d clock.Duration) float64 { return d.Std().Seconds() }

// gauges sends whole numbers.
type gauges struct{ ch chan<- prometheus.Metric }

func (g gauges) set(d *prometheus.Desc, n int, labels ...string) {
	g.ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(n), labels...)
}

func (g gauges) each(d *prometheus.Desc, counts map[string]int) {
	for _, label := range slices.Sorted(maps.Keys(counts)) {
		g.set(d, counts[label], label)
	}
}

// server sends what needs no state.
func (m *fleetMetrics) server(ctx context.Context, g gauges) {
	is := func(yes bool) int {
		if yes {
			return 1
		}
		return 0
	}
	facts := m.c.readyFacts(ctx)
	g.set(m.safe, is(facts.SafeMode != ""))
	g.set(m.ready, is(len(readiness.Unready(facts)) == 0))
	g.set(m.store, is(facts.Broken == "" && !facts.Full), "ok")
	g.set(m.store, is(facts.Full), "full")
	g.set(m.store, is(facts.Broken != ""), "broken")
	if space, err := disk.SpaceOf(m.c.cfg.DataDir); err == nil {
		g.set(m.diskFree, int(space.Free))
		g.set(m.diskSize, int(space.Size))
	}
	if size, err := m.c.cfg.Store.Size(ctx); err == nil {
		g.set(m.logBytes, int(size.Log))
		if size.Limit > 0 {
			g.set(m.logMax, int(size.Limit))
		}
	}
}

func (m *fleetMetrics) expiries(ch chan<- prometheus.Metric, now clock.Instant) {
	var items []expiry.Item
	if last := m.c.ending.Load(); last != nil {
		items = *last
	}
	levels := map[string]int{string(expiry.Warning): 0, string(expiry.Critical): 0}
	for i := range items {
		item := &items[i]
		if item.Ends != 0 {
			ch <- prometheus.MustNewConstMetric(m.ends, prometheus.GaugeValue, seconds(item.Ends.Sub(now)), string(item.Kind), item.Name)
		}
		if item.Limit > 0 {
			ch <- prometheus.MustNewConstMetric(m.used, prometheus.GaugeValue, float64(item.Used)/float64(item.Limit), string(item.Kind), item.Name)
		}
		if item.Level != expiry.OK {
			levels[string(item.Level)]++
		}
	}
	gauges{ch}.each(m.warnings, levels)
}

// fleetCounts is the fleet in numbers.
type fleetCounts struct {
	stamp            clock.Instant
	presence, phases map[string]int
	health           health.Totals
	channels         []channelCounts
}

type channelCounts struct {
	name, status        string
	heldSince           clock.Instant
	queued, quarantined int
	window              clock.Duration
}

// publishCounts counts the fleet when it changed, but not too often. It is the
// reducer's.
func (c *Control) publishCounts(changed bool) {
	c.uncounted = c.uncounted || changed
	if c.uncounted && time.Since(c.countedAt) >= countEvery {
		c.uncounted, c.countedAt = false, time.Now()
		c.counts.Store(c.countFleet(c.state))
	}
}

func (c *Control) countFleet(s *plan.State) *fleetCounts {
	f := &fleetCounts{stamp: s.Timestamp.IssuedAt}
	f.presence, f.phases = map[string]int{}, map[string]int{}
	for _, row := range plan.Presences {
		f.presence[string(row.Presence)] = 0
	}
	roster := c.Roster()
	for name := range roster {
		if s.Hosts[name] == nil {
			f.presence[string(plan.NeverEnrolled)]++
		}
	}
	for _, name := range s.HostNames() {
		h := s.Hosts[name]
		_, declared := roster[name]
		f.presence[string(h.Presence(declared))]++
		if h.Incarnation != 0 && h.Standing() == "" {
			f.phases[phaseOf(h)]++
		}
	}
	f.health = c.Totals(s)
	for _, name := range s.ChannelNames() {
		f.channels = append(f.channels, countChannel(s, s.Channels[name]))
	}
	return f
}

func phaseOf(h *plan.Host) string {
	if h.Machine.Phase == "" {
		return "pending"
	}
	return string(h.Machine.Phase)
}

func countChannel(s *plan.State, ch *plan.Channel) channelCounts {
	out := channelCounts{name: ch.Name, window: ch.FreshnessWindow, quarantined: len(ch.Quarantine)}
	if ch.Queued != digest.Digest("") {
		out.queued = 1
	}
	if r := s.Rollouts[ch.Latest]; r != nil {
		out.status = plan.Standing(r)
		if !r.Phase.Ended() {
			out.heldSince = r.HeldSince
		}
	}
	return out
}
