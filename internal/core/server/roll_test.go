package server

import (
	"fmt"
	"slices"
	"strconv"
	"testing"

	"pgregory.net/rapid"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/plan"
	"github.com/steadyfleet/steady/internal/core/rollout"
	"github.com/steadyfleet/steady/internal/testkit"
)

// TestS1RollMissesWhoWasNotHeard has hosts come, speak and send events in any order,
// and claims take as much of the roll as they like: whoever is on it was not heard in
// full at that instant, and whoever is not was so at some claim.
func TestS1RollMissesWhoWasNotHeard(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const until = clock.Instant(1000)
		var r rollCall
		state, told, heard := map[string]*plan.Host{}, map[string]uint64{}, map[string]bool{}
		say := func(name string) (uint64, bool) { last, ok := told[name]; return last, ok }
		if r.missingHosts(state, say, 1) != nil {
			t.Fatal("somebody is missing before the roll call")
		}
		r.call(until)
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			name := "h" + strconv.Itoa(rapid.IntRange(0, 5).Draw(t, "host"))
			h := state[name]
			switch rapid.IntRange(0, 3).Draw(t, "what") {
			case 0:
				if h == nil {
					state[name] = &plan.Host{Name: name, Seq: rapid.Uint64Range(0, 3).Draw(t, "seq")}
				}
			case 1:
				told[name] = rapid.Uint64Range(0, 5).Draw(t, "told")
			case 2:
				if h != nil {
					h.Seq++
				}
			case 3:
				for name, h := range state {
					if last, ok := told[name]; ok && h.Seq >= last {
						heard[name] = true
					}
				}
				most, taken := rapid.IntRange(0, 6).Draw(t, "most"), []string{}
				for name := range r.missingHosts(state, say, until-1) {
					taken = append(taken, name)
					if last, ok := told[name]; ok && state[name].Seq >= last || len(taken) > 6 {
						t.Fatalf("%s is missing and was heard: %d of %d events", name, state[name].Seq, last)
					}
					if len(taken) == most {
						break
					}
				}
				whole := most == 0 || len(taken) < most
				for name := range state {
					if whole && !heard[name] && !slices.Contains(taken, name) {
						t.Fatalf("%s is not missing and was never heard", name)
					}
				}
			}
		}
		if r.missingHosts(state, say, until) != nil || r.missingHosts(state, say, until-1) != nil {
			t.Fatal("somebody is missing after the end")
		}
	})
}

// one is the only manifest of a fleet.
type one struct{ manifest *rollout.Manifest }

func (o one) Manifest(digest.Digest) (*rollout.Manifest, error) { return o.manifest, nil }

// BenchmarkClaimAfterStart asks whether a claim has to wait for hosts that a server
// has not heard since it began, which is all of them.
func BenchmarkClaimAfterStart(b *testing.B) {
	for _, most := range []int{0, 5} {
		for _, n := range []int{1_000, 10_000} {
			name := fmt.Sprintf("no budget/%d", n)
			if most > 0 {
				name = fmt.Sprintf("five of a tenth/%d", n)
			}
			b.Run(name, func(b *testing.B) {
				s := granted(b, n, most)
				g := s.Hosts["h000000"].Grant
				var r rollCall
				r.call(100)
				asked := 0
				nobody := func(string) (uint64, bool) { asked++; return 0, false }
				unsure := func() bool {
					return plan.Restored{Missing: r.missingHosts(s.Hosts, nobody, 2), Until: 100}.Claim(s, "h000000", g.ID) != nil
				}
				if unsure() != (most > 0) {
					b.Fatal("a claim waits for others where no budget does, or does not where one does")
				}
				b.ReportAllocs()
				asked = 0
				for b.Loop() {
					unsure()
				}
				b.ReportMetric(float64(asked)/float64(b.N), "hosts/op")
			})
		}
	}
}

// granted is a fleet in which all have an offer that may, so many of each tenth if
// that is not zero.
func granted(b *testing.B, n, most int) *plan.State {
	m := &rollout.Manifest{Digest: digest.Of([]byte("m")), Header: &fleet.Manifest{Channel: "c", Ref: "r", Policy: fleet.Policy{GrantExpiry: clock.Hour},
		Waves: []fleet.Wave{{Name: "w"}}}}
	members := make([][]string, 10)
	s := plan.New(one{m})
	for i := range n {
		leaf := fleet.Leaf{Host: fmt.Sprintf("h%06d", i), Target: digest.Of([]byte("t"))}
		if most > 0 {
			leaf.Budgets, members[i%10] = []int{i % 10}, append(members[i%10], leaf.Host)
		}
		m.Leaves = append(m.Leaves, leaf)
		testkit.Value(plan.Record(s, leaf.Host, 1, event.HostEnrolled{Incarnation: 1, Token: leaf.Host}, event.HostReturned{}))(b)
	}
	for i := 0; most > 0 && i < 10; i++ {
		m.Header.Budgets = append(m.Header.Budgets, fleet.Budget{Selector: strconv.Itoa(i), Max: most, Members: digest.Of([]byte(strconv.Itoa(i)))})
		m.Members = append(m.Members, members[i])
	}
	_, err := plan.Record(s, "", 1, event.TimestampAccepted{IssuedAt: 1}, event.ReleaseAccepted{Version: 1, Channels: []event.ChannelRelease{{Channel: "c",
		FreshnessWindow: clock.Day, Manifests: []fleet.ManifestRef{{Rollout: m.Header.Rollout(), Digest: m.Digest}}}}})
	if err == nil {
		_, err = plan.Next(s, 1)
	}
	testkit.Must(b, err)
	return s
}
