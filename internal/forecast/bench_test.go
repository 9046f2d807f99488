package forecast

import (
	"encoding/json"
	"fmt"
	"strconv"
	"testing"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/rollout"
	"github.com/steadyfleet/steady/internal/testkit"
)

// large is a fleet of n hosts in three channels with five waves each, under one
// budget for a quarter of all hosts.
func large(n int) *Fleet {
	f := &Fleet{Tags: map[string][]string{}, Start: start, Horizon: clock.Day}
	docs, target := library{}, digest.Of([]byte("bundle"))
	for i := range n {
		f.Hosts = append(f.Hosts, fmt.Sprintf("h-%06d", i))
	}
	members, _ := json.Marshal(f.Hosts)
	f.Release = event.ReleaseAccepted{Version: 1, Epoch: 1, Ref: "v1"}
	for c, channel := range []string{"edge", "lab", "stable"} {
		h := &fleet.Manifest{Document: fleet.Document{Type: fleet.TypeManifest, Fleet: "f", Epoch: 1, Version: 1}, Channel: channel, Ref: "v1",
			Probes: []fleet.Probe{{Name: "p", Mode: fleet.Enforce, Interval: minute}},
			Policy: fleet.Policy{Name: "p", MaxFailures: n, OnHealthFailure: fleet.RollbackAndHalt, ConfirmWindow: 2 * minute,
				ActivationDeadline: 10 * minute, SustainedFailure: minute, GrantExpiry: 10 * minute},
			Budgets: []fleet.Budget{{Selector: "all", Max: n / 4, Members: digest.Of(members)}}}
		m := &rollout.Manifest{Header: h, Members: [][]string{f.Hosts}}
		each := n / 3
		for i := c * each; i < (c+1)*each; i++ {
			leaf := fleet.Leaf{Host: f.Hosts[i], Wave: 4, Target: target, Probes: []int{0}, Budgets: []int{0}}
			for w, upTo := range []int{each / 1000, each / 100, each / 10, each / 4} {
				if i-c*each <= upTo {
					leaf.Wave = w
					break
				}
			}
			m.Leaves = append(m.Leaves, leaf)
		}
		for w := range 5 {
			wave := fleet.Wave{Name: "w" + strconv.Itoa(w), Soak: 30 * clock.Second, MinSoaked: 1}
			for i := range m.Leaves {
				if m.Leaves[i].Wave == w {
					wave.Hosts++
				}
			}
			h.Waves = append(h.Waves, wave)
		}
		h.LeafCount = len(m.Leaves)
		head, _ := json.Marshal(h)
		m.Digest = digest.Of(head)
		docs[m.Digest] = m
		f.Release.Channels = append(f.Release.Channels, event.ChannelRelease{Channel: channel, FreshnessWindow: clock.Day,
			ReconcileInterval: 30 * clock.Second, OnNewRef: fleet.Queue, Manifests: []fleet.ManifestRef{{Rollout: channel + "@v1", Digest: m.Digest, Version: 1}}})
	}
	f.Docs = docs
	return f
}

// BenchmarkCourse is one course of a fleet. The cost per host is to stay about the
// same from 1 000 to 10 000 hosts.
func BenchmarkCourse(b *testing.B) {
	usual := Assumptions{Activation: Range{30 * clock.Second, 2 * minute}, Prepare: Range{clock.Second, 20 * clock.Second}, Latency: 50}
	for _, shape := range []struct {
		name string
		with func(*Assumptions)
	}{
		{"healthy", func(*Assumptions) {}},
		{"some fail", func(a *Assumptions) { a.Failure = []Rate{{Part: 0.02}} }},
		{"some away", func(a *Assumptions) { a.Offline = []Rate{{Part: 0.05}} }},
	} {
		for _, n := range []int{1_000, 10_000} {
			b.Run(fmt.Sprintf("%s/%d", shape.name, n), func(b *testing.B) {
				f, a := large(n), usual
				shape.with(&a)
				b.ReportAllocs()
				for b.Loop() {
					testkit.Value(play(f, &Drawn{Assumptions: a, Tags: f.Tags}))(b)
				}
				b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*n), "µs/host")
			})
		}
	}
}
