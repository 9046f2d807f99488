package plan_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/steadyfleet/steady/internal/core/audit"
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/plan"
	"github.com/steadyfleet/steady/internal/core/rollout"
	"github.com/steadyfleet/steady/internal/testkit"
)

// documents is a Documents in memory.
type documents map[digest.Digest]*rollout.Manifest

func (d documents) Manifest(of digest.Digest) (*rollout.Manifest, error) {
	if m := d[of]; m != nil {
		return m, nil
	}
	return nil, fmt.Errorf("there is no document %s", of.Short())
}

// add names a manifest by its content and keeps it.
func (d documents) add(m *rollout.Manifest) *rollout.Manifest {
	slices.SortFunc(m.Leaves, func(a, b fleet.Leaf) int { return cmpString(a.Host, b.Host) })
	m.Header.LeafCount = len(m.Leaves)
	for w := range m.Header.Waves {
		m.Header.Waves[w].Hosts = 0
	}
	for i := range m.Leaves {
		m.Header.Waves[m.Leaves[i].Wave].Hosts++
	}
	for i := range m.Header.Budgets {
		m.Header.Budgets[i].Members = digest.Of(fmt.Append(nil, m.Members[i]))
	}
	b, err := json.Marshal([]any{m.Header, m.Leaves})
	if err != nil {
		panic(err)
	}
	m.Digest = digest.Of(b)
	d[m.Digest] = m
	return m
}

func cmpString(a, b string) int {
	if a < b {
		return -1
	} else if a > b {
		return 1
	}
	return 0
}

// world is a server's state with hosts that run the real agent's reducer. Every
// entry goes into a log that the audit watches.
type world struct {
	t     testkit.T
	docs  documents
	s     *plan.State
	log   []event.Entry
	ends  []int // of commits, in the log
	audit *audit.Log
	hosts map[string]*machine
	now   clock.Instant
	other bool // S25 and S26 of such worlds are another test's: see checkReplay

	version  uint64
	signed   int // overrides
	channels map[string]event.ChannelRelease
	edges    []fleet.Edge
}

const start clock.Instant = 1_700_000_000_000

func newWorld(t testkit.T) *world {
	docs := documents{}
	return &world{t: t, docs: docs, s: plan.New(docs), audit: audit.NewLog(docs), hosts: map[string]*machine{},
		now: start, channels: map[string]event.ChannelRelease{}}
}

func (w *world) names() []string { return slices.Sorted(maps.Keys(w.hosts)) }

// commit takes entries into the log as a store would.
func (w *world) commit(entries []event.Entry, err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatalf("decide: %v\n%s", err, w.tail())
	}
	for _, e := range entries {
		w.log = append(w.log, e)
		for _, v := range w.audit.Observe(uint64(len(w.log)), e) {
			w.t.Fatalf("%s\n%s", v, w.tail())
		}
	}
	w.ends = append(w.ends, len(w.log))
}

// tail prints the end of the log.
func (w *world) tail() string {
	out := ""
	for i, e := range w.log {
		if i >= len(w.log)-40 {
			out += fmt.Sprintf("%4d +%-8s %-22s %-4s %s\n", i+1, e.At.Sub(start), e.Type, e.Host(), e.Body)
		}
	}
	return out
}

func (w *world) record(host string, events ...event.Event) {
	w.t.Helper()
	w.commit(plan.Record(w.s, host, w.now, events...))
}

// tick plans, and checks that planning again finds nothing (S27).
func (w *world) tick() {
	w.t.Helper()
	p, err := plan.Next(w.s, w.now)
	w.commit(p.Events, err)
	for _, e := range p.Events {
		if !event.IsDecision(e.Type) {
			w.t.Fatalf("the planner decided %s, which event.IsDecision does not name", e.Type)
		}
	}
	again, err := plan.Next(w.s, w.now)
	if err != nil || len(again.Events) > 0 {
		w.t.Fatalf("S27: planning again decided %+v, %v\n%s", again.Events, err, w.tail())
	}
	for _, v := range audit.Check(w.s, w.now) {
		w.t.Fatalf("%s\n%s", v, w.tail())
	}
}

// enrol adds a host, or gives one a new incarnation with an empty disk.
func (w *world) enrol(name string) *machine {
	w.t.Helper()
	m := w.hosts[name]
	inc := uint64(1)
	if m != nil {
		inc = m.incarnation + 1
	}
	m = &machine{w: w, name: name, incarnation: inc, broken: map[digest.Digest]bool{}, boot: "boot-1"}
	w.hosts[name] = m
	w.record(name, event.HostEnrolled{Incarnation: inc, Token: name + "/" + strconv.FormatUint(inc, 10)})
	return m
}

// release publishes manifests, one per channel that changes.
func (w *world) release(onNewRef fleet.OnNewRef, manifests ...*rollout.Manifest) {
	w.t.Helper()
	w.version++
	for _, m := range manifests {
		c := w.channels[m.Header.Channel]
		c.Channel, c.FreshnessWindow, c.ReconcileInterval, c.OnNewRef = m.Header.Channel, clock.Day, 30*clock.Second, onNewRef
		c.Manifests = append([]fleet.ManifestRef{{Rollout: m.Header.Rollout(), Digest: m.Digest, Version: w.version}}, c.Manifests...)
		w.channels[c.Channel] = c
	}
	ev := event.ReleaseAccepted{Version: w.version, Epoch: w.s.Root.Epoch, Ref: "r" + strconv.FormatUint(w.version, 10), ChannelEdge: w.edges, Actor: "ci"}
	for _, name := range slices.Sorted(maps.Keys(w.channels)) {
		ev.Channels = append(ev.Channels, w.channels[name])
	}
	w.record("", ev)
	w.refresh()
}

// refresh accepts a new freshness statement.
func (w *world) refresh() {
	w.t.Helper()
	w.record("", event.TimestampAccepted{Version: uint64(len(w.log)), IssuedAt: w.now})
}

// presence tells the server that a host is there or away.
func (w *world) presence(name string, online bool) {
	w.t.Helper()
	w.hosts[name].online = online
	w.commit(plan.Presence(w.s, name, online, w.now, w.now))
}

// fold replays the log from nothing.
func (w *world) fold(upTo int) *plan.State {
	w.t.Helper()
	s := plan.New(w.docs)
	for i, e := range w.log[:upTo] {
		if err := s.Apply(e); err != nil {
			w.t.Fatalf("S25: fold event %d: %v\n%s", i+1, err, w.tail())
		}
	}
	return s
}

// restored is the live state taken through a snapshot.
func (w *world) restored() *plan.State {
	w.t.Helper()
	s, err := plan.Clone(w.s, w.docs)
	if err != nil {
		w.t.Fatalf("S26: restore: %v", err)
	}
	return s
}

func (w *world) json(s *plan.State) []byte {
	w.t.Helper()
	b, err := json.Marshal(s)
	if err != nil {
		w.t.Fatalf("encode state: %v", err)
	}
	return b
}
