package control

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/gate"
	"github.com/steadyfleet/steady/internal/core/health"
	"github.com/steadyfleet/steady/internal/core/plan"
	"github.com/steadyfleet/steady/internal/core/server"
	"github.com/steadyfleet/steady/internal/core/status"
	"github.com/steadyfleet/steady/internal/core/warning"
	"github.com/steadyfleet/steady/internal/disk"
)

// countEvery is how old the counts of a fleet that changes may get. A scrape never
// waits for the reducer, which publishes them.
const countEvery = time.Second

// scrapeTimeout bounds what a scrape asks of the store.
const scrapeTimeout = 5 * time.Second

// fleetGauges are the counts of the fleet: no host has a series of its own.
var fleetGauges = []struct {
	name, help string
	labels     []string
}{
	{"hosts", "Hosts that are declared or known, by whether they are there.", []string{"presence"}},
	{"hosts_by_phase", "Enrolled hosts by the phase of their rollout.", []string{"phase"}},
	{"hosts_by_health", "Declared or known hosts by how well they are.", []string{"health"}},
	{"hosts_behind", "Hosts in contact that run another bundle than the newest that their channel gives them, and whose turn does not come by itself, by why.", []string{"reason"}},
	{"hosts_needing_reboot", "Enrolled hosts that run a kernel or another part otherwise than their system has it until they are rebooted, as they say.", nil},
	{"attention_items", "Items of the inbox that are not acknowledged, by kind and level, as steady attention lists them.", []string{"kind", "level"}},
	{"attention_age_seconds", "How long the oldest item of the inbox is open that is not acknowledged, by kind; 0 without one.", []string{"kind"}},
	{"attention_acknowledged", "Items of the inbox that are acknowledged.", nil},
	{"resources_failed", "Resources in Error on all hosts, by kind.", []string{"kind"}},
	{"rollout_status", "1 for the status of the newest rollout of a channel.", []string{"channel", "status"}},
	{"rollout_held_seconds", "How long the open wave of a channel's rollout has not been promoted; absent while nothing blocks it.", []string{"channel"}},
	{"releases_queued", "Releases that wait for the rollout of the channel before them.", []string{"channel"}},
	{"bundles_quarantined", "Bundles that are not granted on a channel because they failed.", []string{"channel"}},
	{"timestamp_age_seconds", "Age of the newest timestamp, for each channel that it keeps going.", []string{"channel"}},
	{"timestamp_max_age_seconds", "Age at which nothing is granted on a channel any more.", []string{"channel"}},
	{"expiry_seconds", "Time until something ends, negative once it has; the first of what every host has.", []string{"kind", "name"}},
	{"expiry_used_ratio", "How full something is.", []string{"kind", "name"}},
	{"expiry_warnings", "Things that end soon, have ended or are nearly full.", []string{"level"}},
	{"nodes", "Nodes that registered or are named, by status; a paused one waits for an operator.", []string{"status"}},
	{"node_legs", "Parts of objects that nodes are to have, by how far they are pushed.", []string{"status"}},
	{"node_episodes", "Differences between nodes and the server that are open, by kind.", []string{"kind"}},
	{"node_episode_age_seconds", "Age of the oldest open difference of a kind; absent without one.", []string{"kind"}},
	{"node_push_age_seconds", "How long ago the oldest change was made that a node has not acknowledged, by how far its push is; absent without one.", []string{"status"}},
	{"sessions", "Sessions that are kept, by state.", []string{"state"}},
	{"session_late_seconds", "How long ago the earliest provisionAt was of a session that has no host yet, Pending, or that comes up, Provisioning; absent without one.", []string{"state"}},
	{"session_volumes_kept", "Volumes of sessions that are over which hosts that are there keep for a time.", nil},
	{"safe_mode", "1 while nothing is granted because hosts know more than the log.", nil},
	{"set_back", "1 while everything is refused because the log lacks what was acknowledged.", nil},
	{"ready", "1 while the server can take in and grant, as /readyz says.", nil},
	{"store_state", "1 for the state that the store is in: ok, full or broken.", []string{"state"}},
	{"disk_free_bytes", "Free space of the disk of the data folder.", nil},
	{"disk_size_bytes", "Size of the disk of the data folder.", nil},
	{"log_bytes", "Size of the log.", nil},
	{"log_max_bytes", "Bound of the log; absent without one.", nil},
}

// fleetMetrics shows them.
type fleetMetrics struct {
	c    *Control
	desc map[string]*prometheus.Desc
}

func newFleetMetrics(c *Control) *fleetMetrics {
	m := &fleetMetrics{c: c, desc: map[string]*prometheus.Desc{}}
	for _, g := range fleetGauges {
		m.desc[g.name] = prometheus.NewDesc("steady_"+g.name, g.help, g.labels, nil)
	}
	return m
}

// Describe implements prometheus.Collector.
func (m *fleetMetrics) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range m.desc { // order-free: a collector is described as a set
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (m *fleetMetrics) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout)
	defer cancel()
	g := gauges{m.desc, ch}
	m.server(ctx, g)
	f, now := m.c.counts.Load(), m.c.now()
	g.each("hosts", f.presence)
	g.each("hosts_by_phase", f.phases)
	g.set("hosts_needing_reboot", f.needReboot)
	for _, status := range health.Statuses {
		g.set("hosts_by_health", f.health.Hosts[status], string(status))
	}
	g.each("resources_failed", f.health.Errors)
	g.each("hosts_behind", f.behind)
	m.attention(ctx, g, f.inbox)
	for _, c := range f.channels {
		if c.status != "" {
			g.set("rollout_status", 1, c.name, c.status)
		}
		if c.heldSince != 0 {
			g.put("rollout_held_seconds", seconds(now.Sub(c.heldSince)), c.name)
		}
		g.set("releases_queued", c.queued, c.name)
		g.set("bundles_quarantined", c.quarantined, c.name)
		if f.stamp != 0 {
			g.put("timestamp_age_seconds", seconds(now.Sub(f.stamp)), c.name)
			g.put("timestamp_max_age_seconds", seconds(c.window), c.name)
		}
	}
	g.each("nodes", f.nodes.Statuses)
	g.each("node_legs", f.nodes.Legs)
	g.each("node_episodes", f.nodes.Episodes)
	for _, kind := range slices.Sorted(maps.Keys(f.nodes.Oldest)) {
		g.put("node_episode_age_seconds", seconds(now.Sub(f.nodes.Oldest[kind])), kind)
	}
	for _, status := range slices.Sorted(maps.Keys(f.nodes.Waiting)) {
		g.put("node_push_age_seconds", seconds(now.Sub(f.nodes.Waiting[status])), status)
	}
	g.each("sessions", f.sessions)
	for state, due := range f.sessionsDue { // order-free: a collection is a set
		if late := now.Sub(due); late > 0 {
			g.put("session_late_seconds", seconds(late), state)
		}
	}
	m.expiries(g, now)
	kept := 0
	m.c.hosts.eachSample(func(_ string, s *Sample) { kept += s.Bin.Count })
	g.set("session_volumes_kept", kept)
}

func seconds(d clock.Duration) float64 { return d.Std().Seconds() }

// gauges sends numbers by the name of their gauge.
type gauges struct {
	desc map[string]*prometheus.Desc
	ch   chan<- prometheus.Metric
}

func (g gauges) put(name string, v float64, labels ...string) {
	g.ch <- prometheus.MustNewConstMetric(g.desc[name], prometheus.GaugeValue, v, labels...)
}

func (g gauges) set(name string, n int, labels ...string) { g.put(name, float64(n), labels...) }

func (g gauges) each(name string, counts map[string]int) {
	for _, label := range slices.Sorted(maps.Keys(counts)) {
		g.set(name, counts[label], label)
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
	g.set("safe_mode", is(facts.SafeMode != ""))
	g.set("set_back", is(facts.SetBack != ""))
	g.set("ready", is(len(health.Readiness(facts)) == 0))
	g.set("store_state", is(facts.Broken == "" && !facts.Full), "ok")
	g.set("store_state", is(facts.Full), "full")
	g.set("store_state", is(facts.Broken != ""), "broken")
	if space, err := disk.SpaceOf(m.c.cfg.DataDir); err == nil {
		g.put("disk_free_bytes", float64(space.Free))
		g.put("disk_size_bytes", float64(space.Size))
	}
	if size, err := m.c.cfg.Store.Size(ctx); err == nil {
		g.put("log_bytes", float64(size.Log))
		if size.Limit > 0 {
			g.put("log_max_bytes", float64(size.Limit))
		}
	}
}

// attention sends what the log has a person needed for, and what the server finds of itself.
func (m *fleetMetrics) attention(ctx context.Context, g gauges, list []status.InboxItem) {
	type key struct{ kind, level string }
	counts, oldest, known := map[key]int{}, map[string]clock.Instant{}, 0
	for _, kind := range itemKinds {
		for _, level := range []status.Level{status.Away, status.Warning, status.Critical} {
			counts[key{kind, string(level)}] = 0
		}
	}
	for _, i := range m.c.serverItems(ctx) {
		counts[key{i.Kind, string(i.Level)}]++
	}
	for i := range list {
		if list[i].Ack != nil {
			known++
			continue
		}
		kind := countedAs(list[i].Kind)
		counts[key{kind, string(list[i].Level)}]++
		if at, seen := oldest[kind]; !seen || list[i].Since < at {
			oldest[kind] = list[i].Since
		}
	}
	for _, kind := range itemKinds {
		age := 0.0
		if since := oldest[kind]; since != 0 {
			age = seconds(m.c.now().Sub(since))
		}
		g.put("attention_age_seconds", age, kind)
	}
	for k, n := range counts { // order-free: a collection is a set
		g.set("attention_items", n, k.kind, k.level)
	}
	g.set("attention_acknowledged", known)
}

func (m *fleetMetrics) expiries(g gauges, now clock.Instant) {
	var items []warning.Item
	if last := m.c.ending.Load(); last != nil {
		items = *last
	}
	levels := map[string]int{string(warning.Warning): 0, string(warning.Critical): 0}
	for i := range items {
		item := &items[i]
		if item.Ends != 0 {
			g.put("expiry_seconds", seconds(item.Ends.Sub(now)), string(item.Kind), item.Name)
		}
		if item.Limit > 0 {
			g.put("expiry_used_ratio", float64(item.Used)/float64(item.Limit), string(item.Kind), item.Name)
		}
		if item.Level != warning.OK {
			levels[string(item.Level)]++
		}
	}
	g.each("expiry_warnings", levels)
}

// fleetCounts is the fleet in numbers.
type fleetCounts struct {
	stamp            clock.Instant
	presence, phases map[string]int
	needReboot       int
	health           health.Totals
	behind           map[string]int
	inbox            []status.InboxItem
	channels         []channelCounts
	nodes            server.NodeTotals
	sessions         map[string]int           // by state
	sessionsDue      map[string]clock.Instant // of those that are not up, by state
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
		c.labs.count(c.state, c.now().Time())
		c.counts.Store(c.countFleet(c.state.Plan))
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
			f.presence[string(gate.NeverEnrolled)]++
		}
	}
	for _, name := range s.HostNames() {
		h := s.Hosts[name]
		_, declared := roster[name]
		f.presence[string(h.Presence(declared))]++
		if h.Incarnation != 0 && h.IdentityStatus() == "" {
			f.phases[cmp.Or(string(h.Machine.Phase), "pending")]++
			if h.NeedsReboot() {
				f.needReboot++
			}
		}
	}
	f.health = c.Totals(s)
	f.behind, f.inbox = map[string]int{}, c.inbox(nil)
	for _, code := range plan.BehindCodes {
		f.behind[string(code)] = 0
	}
	for _, name := range s.HostNames() {
		if b := s.Behind(s.Hosts[name]); b != nil {
			f.behind[string(b.Code)]++
		}
	}
	if last := c.counts.Load(); last != nil && !c.nodes.uncounted {
		f.nodes = last.nodes
	} else {
		f.nodes, c.nodes.uncounted = c.state.NodeTotals(), false
	}
	f.sessions, f.sessionsDue = c.labs.totals(), c.labs.due()
	for _, name := range s.ChannelNames() {
		f.channels = append(f.channels, countChannel(s, s.Channels[name]))
	}
	return f
}

func countChannel(s *plan.State, ch *plan.Channel) channelCounts {
	out := channelCounts{name: ch.Name, window: ch.FreshnessWindow, quarantined: len(ch.Quarantine)}
	if ch.Queued != "" {
		out.queued = 1
	}
	if r := s.Rollouts[ch.Latest]; r != nil {
		out.status = plan.Status(r)
		if !r.Phase.Ended() {
			out.heldSince = r.BlockedSince
		}
	}
	return out
}
