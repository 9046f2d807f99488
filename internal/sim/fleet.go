package sim

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/rollout"
)

// fault is what a bundle does to a host that activates it.
type defect uint8

const (
	sound           defect = iota
	failsToActivate        // a resource exhausts its retries
	failsProbe             // an enforce probe never passes
	flaps                  // the probe fails now and then, but passes again in time
	cutsContact            // the host cannot reach the server while it runs
	kills                  // the agent dies with it and comes back only after a long time
	defects                // how many there are
)

func (f defect) String() string {
	return [...]string{"sound", "fails to activate", "fails its probe", "flaps", "cuts contact", "kills the agent"}[f]
}

// bundle is a target with its behaviour. Some faults show on some hosts only.
type bundle struct {
	defect defect
	only   map[string]bool // hosts on which the fault shows; empty for all
}

func (b bundle) on(host string) defect {
	if len(b.only) > 0 && !b.only[host] {
		return sound
	}
	return b.defect
}

// declared is the fleet that one schedule plays: drawn once, released again and
// again with other bundles.
type declared struct {
	hosts     []string // sorted
	channelOf map[string]string
	channels  []string
	policies  map[string]fleet.Policy
	waves     map[string][]fleet.Wave
	waveOf    map[string]int
	after     map[string][]string
	budgets   []budget
	edges     []fleet.Edge
	canaryMax map[string]int
	onNewRef  map[string]fleet.OnNewRef
	windows   map[string][]clock.Window // by channel
	windowsOf map[string][]int
	evidence  bool    // a probe reads evidence of compliance
	controls  bool    // static controls are asked about each release
	soundness float64 // how often a released bundle is sound
}

type budget struct {
	members []string
	max     int
}

// draw makes a fleet from a stream of random numbers.
func draw(r *rand.Rand, hosts int) *declared {
	d := &declared{
		channelOf: map[string]string{}, policies: map[string]fleet.Policy{}, waves: map[string][]fleet.Wave{},
		waveOf: map[string]int{}, after: map[string][]string{}, onNewRef: map[string]fleet.OnNewRef{}, canaryMax: map[string]int{},
		windows: map[string][]clock.Window{}, windowsOf: map[string][]int{},
		soundness: 0.4 + 0.5*r.Float64(), evidence: r.IntN(8) == 0, controls: r.IntN(6) == 0,
	}
	windowed := r.IntN(8) == 0
	for i := range 1 + r.IntN(2) {
		c := fmt.Sprintf("chan%d", i)
		d.channels = append(d.channels, c)
		d.policies[c] = drawPolicy(r)
		d.onNewRef[c] = []fleet.OnNewRef{fleet.Queue, fleet.Queue, fleet.Supersede}[r.IntN(3)]
		for w := range 1 + r.IntN(3) {
			d.waves[c] = append(d.waves[c], fleet.Wave{Name: fmt.Sprintf("w%d", w), MinSoaked: r.IntN(2),
				Soak: clock.Duration(r.IntN(4)) * 20 * clock.Second})
		}
		if windowed {
			d.windows[c] = drawWindows(r)
		}
	}
	if len(d.channels) == 2 && r.IntN(2) == 0 {
		d.edges = []fleet.Edge{{Gated: "chan1", Gates: "chan0", Reason: "first things first"}}
	}
	last := map[string]string{}
	for i := range hosts {
		h := fmt.Sprintf("host%02d", i)
		c := d.channels[r.IntN(len(d.channels))]
		d.hosts = append(d.hosts, h)
		d.channelOf[h] = c
		d.waveOf[h] = r.IntN(len(d.waves[c]))
		if prev := last[c]; prev != "" && r.IntN(6) == 0 && d.waveOf[prev] <= d.waveOf[h] {
			d.after[h] = []string{prev}
		}
		last[c] = h
		for k := range d.windows[c] {
			if r.IntN(2) == 0 {
				d.windowsOf[h] = append(d.windowsOf[h], k)
			}
		}
	}
	for range r.IntN(3) {
		d.budgets = append(d.budgets, drawBudget(r, d.hosts))
	}
	for _, c := range d.channels {
		d.drawCanaries(r, c)
	}
	return d
}

// drawCanaries bounds the first wave of a channel that has hosts, in one of three.
func (d *declared) drawCanaries(r *rand.Rand, channel string) {
	bound, more := r.IntN(3) == 0, r.IntN(2)
	first, hosts := len(d.waves[channel]), 0
	for _, h := range d.hosts {
		if w := d.waveOf[h]; d.channelOf[h] == channel && w <= first {
			if w < first {
				first, hosts = w, 0
			}
			hosts++
		}
	}
	if bound && hosts > 0 {
		d.canaryMax[channel] = hosts + more
	}
}

func drawPolicy(r *rand.Rand) fleet.Policy {
	p := fleet.Policy{
		Name: "drawn", MaxFailures: r.IntN(2), OnHealthFailure: fleet.RollbackAndHalt,
		ConfirmWindow: 60 * clock.Second, ActivationDeadline: 2 * clock.Minute,
		SustainedFailure: 20 * clock.Second, GrantExpiry: clock.Minute,
	}
	if r.IntN(3) == 0 {
		p.OnHealthFailure = fleet.Halt
	}
	if r.IntN(4) == 0 {
		p.ConfirmWindow = 0
	}
	return p
}

func drawBudget(r *rand.Rand, hosts []string) budget {
	var b budget
	for _, h := range hosts {
		if r.IntN(2) == 0 {
			b.members = append(b.members, h)
		}
	}
	b.max = 1 + r.IntN(max(1, len(b.members)/2))
	return b
}

// drawWindows makes maintenance windows that are open for most of the time, and all
// of them together often enough for a fleet to get through.
func drawWindows(r *rand.Rand) []clock.Window {
	var ws []clock.Window
	for i := range 1 + r.IntN(2) {
		cron, err := clock.ParseCron([]string{"*/10 * * * *", "5-59/15 * * * *"}[i])
		if err != nil {
			panic("sim: no schedule can be made: " + err.Error())
		}
		ws = append(ws, clock.Window{Name: fmt.Sprintf("win%d", i), Cron: cron, Duration: clock.Duration(4+r.IntN(5)) * clock.Minute,
			Zone: clock.Zone{Name: "UTC", From: epoch.Add(-400 * clock.Day), Until: epoch.Add(400 * clock.Day), Transitions: []clock.Transition{}}})
	}
	return ws
}

// library holds every manifest ever released; it is plan.Documents.
type library map[digest.Digest]*rollout.Manifest

// Manifest returns a manifest by digest.
func (l library) Manifest(d digest.Digest) (*rollout.Manifest, error) {
	if m := l[d]; m != nil {
		return m, nil
	}
	return nil, fmt.Errorf("manifest %s was never released", d.Short())
}

// release draws the bundles of a new release and returns its event. A channel
// keeps its manifest when draw says that nothing changed for it.
func (w *World) release() event.ReleaseAccepted {
	w.version++
	now := w.edition()
	ev := event.ReleaseAccepted{Version: now.version, Epoch: now.epoch, Ref: fmt.Sprintf("r%d", w.version), Actor: "releaser", ChannelEdge: w.fleet.edges,
		Resolved: digest.Of(fmt.Append(nil, "resolved", w.version))}
	w.releases = append(w.releases, map[string][]fleet.ManifestRef{})
	for _, c := range w.fleet.channels {
		if w.cfg.Drill != nil || w.rand.IntN(5) > 0 || len(w.listed[c]) == 0 {
			m := w.manifest(c)
			w.docs[m.Digest] = m
			refs := append([]fleet.ManifestRef{{Rollout: m.Header.Rollout(), Digest: m.Digest, Version: now.version}}, w.listed[c]...)
			w.listed[c] = refs[:min(8, len(refs))]
		}
		refs := slices.Clone(w.listed[c])
		w.releases[w.version-1][c] = refs
		ev.Channels = append(ev.Channels, event.ChannelRelease{Channel: c, FreshnessWindow: clock.Day,
			ReconcileInterval: 30 * clock.Second, OnNewRef: w.fleet.onNewRef[c], Manifests: refs})
	}
	if w.publisher != nil {
		w.publisher.publish(&ev, w.now)
	}
	w.rebuild = false
	w.verdicts = w.verdicts[:0:0]
	if w.fleet.controls {
		for _, c := range ev.Channels {
			w.verdicts = append(w.verdicts, w.verdict(c.Channel, c.Manifests[0]))
		}
	}
	return ev
}

// verdict draws what static controls find of the plan that a channel runs or is to
// open; one that is listed again may be judged by other controls.
func (w *World) verdict(channel string, ref fleet.ManifestRef) event.ComplianceEvaluated {
	ev := event.ComplianceEvaluated{Channel: channel, Rollout: ref.Rollout, Manifest: ref.Digest, Controls: 2}
	for _, mode := range []fleet.ProbeMode{fleet.Enforce, fleet.Observe} {
		if w.rand.IntN(4) == 0 {
			ev.Failures = append(ev.Failures, fleet.ControlFailure{Control: "control-" + string(mode), Title: "drawn", Mode: mode, Hosts: w.fleet.hosts[:1]})
		}
	}
	return ev
}

// snapshot is what a release lists for a channel.
func (w *World) snapshot(e edition, channel string) []fleet.ManifestRef {
	n := w.nth(e)
	if n == 0 || n > uint64(len(w.releases)) {
		return nil
	}
	return w.releases[n-1][channel]
}

// wipes reports whether the release at hand has a host wiped. It draws no number: a schedule
// without one is what it was.
func (w *World) wipes(host string) bool {
	h := fnv.New32a()
	fmt.Fprint(h, w.cfg.Seed, host, w.version)
	return h.Sum32()%100 == 0
}

func (w *World) manifest(c string) *rollout.Manifest {
	d := w.fleet
	f := sound
	if w.cfg.Drill != nil {
		f = w.cfg.Drill.releases[w.version-1]
	} else if w.rand.Float64() > d.soundness {
		f = defect(1 + w.rand.IntN(int(defects)-1))
	}
	targets := w.targets(c, f)
	now := w.edition()
	h := &fleet.Manifest{Document: fleet.Document{Type: fleet.TypeManifest, Fleet: "sim", Epoch: now.epoch, Version: now.version, IssuedAt: w.now},
		Channel: c, Ref: fmt.Sprintf("r%d", w.version), Policy: d.policies[c], Waves: slices.Clone(d.waves[c]),
		FleetResolvedHash: digest.Of([]byte("plan")), Windows: d.windows[c],
		Probes: []fleet.Probe{{Name: "health", Mode: fleet.Enforce, Interval: 5 * clock.Second, Timeout: clock.Second,
			TCP: &fleet.TCPProbe{Address: "127.0.0.1:80"}}}}
	if len(h.Windows) > 0 {
		h.Critical = []string{fleet.CriticalWindows}
	}
	probes := []int{0}
	if d.evidence {
		h.Probes, probes = append(h.Probes, evidenceProbe), []int{0, 1}
	}
	m := &rollout.Manifest{Header: h}
	for _, b := range d.budgets {
		members := w.named(b.members)
		raw, _ := json.Marshal(members)
		h.Budgets = append(h.Budgets, fleet.Budget{Selector: fmt.Sprintf("b%d", len(h.Budgets)), Max: b.max, Members: digest.Of(raw)})
		m.Members = append(m.Members, members)
	}
	for _, name := range d.hosts {
		if d.channelOf[name] != c || !w.declares(name) {
			continue
		}
		leaf := fleet.Leaf{Host: name, Wave: d.waveOf[name], Target: targets[0], Probes: probes, After: w.named(d.after[name]), Windows: d.windowsOf[name]}
		if w.cfg.Drill == nil && len(name)%2 == 0 && w.rand.IntN(8) == 0 {
			leaf.Target = targets[1]
		}
		if w.cfg.Drill == nil && w.wipes(name) {
			leaf.Removed = fleet.Wipe
		}
		for i, b := range d.budgets {
			if slices.Contains(b.members, name) {
				leaf.Budgets = append(leaf.Budgets, i)
			}
		}
		h.Waves[leaf.Wave].Hosts++
		m.Leaves = append(m.Leaves, leaf)
	}
	h.LeafCount = len(m.Leaves)
	if n := d.canaryMax[c]; n > 0 {
		if w.publisher == nil { // a first wave that trust would refuse: the planner keeps the bound by itself
			n = (n + 1) / 2
		}
		h.CanaryMax, h.Critical = n, append(h.Critical, fleet.CriticalCanary)
	}
	if w.publisher != nil {
		w.publisher.bind(m)
		return m
	}
	raw, _ := json.Marshal(m.Leaves)
	h.LeavesRoot = digest.Of(raw).Hex()
	head, _ := json.Marshal(h)
	m.Digest = digest.Of(head)
	return m
}

// targets names the bundles of a channel's new manifest: new ones, or after a new root
// sometimes those of before, built again.
func (w *World) targets(c string, f defect) []digest.Digest {
	list := w.built[c]
	if !w.rebuild || list == nil {
		list = []digest.Digest{w.bundle(c, "a", f), w.bundle(c, "b", sound)}
	}
	w.built[c] = list
	return list
}

// bundle names a new bundle and fixes how it behaves.
func (w *World) bundle(channel, name string, f defect) digest.Digest {
	version := w.version
	if w.cfg.Drill == nil && version > 1 && w.rand.IntN(8) == 0 { // one that was released before
		version = 1 + w.rand.Uint64N(version-1)
	}
	if w.backTo != 0 {
		version = w.backTo
	}
	d := digest.Of(fmt.Append(nil, channel, name, version))
	if _, there := w.bundles[d]; there {
		return d
	}
	b := bundle{defect: f}
	if f != sound && w.cfg.Drill == nil && w.rand.IntN(2) == 0 {
		b.only = map[string]bool{}
		for _, h := range w.fleet.hosts {
			if w.rand.IntN(3) == 0 {
				b.only[h] = true
			}
		}
	}
	w.bundles[d] = b
	return d
}
