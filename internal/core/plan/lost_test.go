package plan_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/host"
	"github.com/steadyfleet/steady/internal/core/plan"
	"github.com/steadyfleet/steady/internal/testkit"
)

// course is a history of four releases on two channels, one after the other, with a
// budget, waves, verbs and repairs. It notes what each host ran, in order.
type course struct {
	*world
	ran map[string][]digest.Digest
}

func newCourse(t *testing.T) *course {
	c := &course{scene(t, "h0 h1 h2 h3"), map[string][]digest.Digest{}}
	c.s.Lead(plan.Run(1, "before"))
	c.edges = []fleet.Edge{{Gated: "b", Gates: "a", Reason: "first"}}
	return c
}

// rounds lets the world go on, as live does.
func (c *course) rounds(n int) {
	for range n {
		c.tick()
		for _, name := range c.names() {
			m := c.hosts[name]
			m.work()
			if ran := c.ran[name]; m.runs != "" && (len(ran) == 0 || ran[len(ran)-1] != m.runs) {
				c.ran[name] = append(ran, m.runs)
			}
		}
		c.now = c.now.Add(10 * clock.Second)
	}
}

func (c *course) publish(n int) {
	ref := fmt.Sprint("r", n+1)
	c.release(fleet.Queue, c.manifest(spec{channel: "a", ref: ref, waves: "h0 | h1 h2", target: bundles[n], budget: 2, soak: 20 * clock.Second}),
		c.manifest(spec{channel: "b", ref: ref, waves: "h3", target: bundles[n]}))
}

// play is the history up to its end.
func (c *course) play() {
	for n := range bundles {
		c.publish(n)
		c.rounds(2)
		if n == 1 {
			c.operate(plan.Pause, "a@r2")
			c.rounds(2)
			c.operate(plan.Resume, "a@r2")
			c.commit(plan.Freeze(c.s, "h2", c.now.Add(clock.Minute), "disk swap", "ada", c.now))
		}
		c.rounds(9)
		if n == 2 {
			c.drift("h1")
			c.rounds(3)
		}
		c.rounds(5)
	}
}

// pushAgain is the newest release once more, where the log lacks it.
func (c *course) pushAgain() {
	if c.s.Release.Version >= c.version {
		return
	}
	ev := event.ReleaseAccepted{Version: c.version, Epoch: c.s.Root.Epoch, Ref: fmt.Sprint("r", c.version), ChannelEdge: c.edges, Actor: "ci"}
	for _, name := range slices.Sorted(maps.Keys(c.channels)) {
		ev.Channels = append(ev.Channels, c.channels[name])
	}
	c.record("", ev)
	c.refresh()
}

// restorePoints are so many commits with which a backup may end, evenly over what follows
// the first release.
func (c *course) restorePoints(many int) (out []int) {
	first := slices.IndexFunc(c.log, func(e event.Entry) bool { return e.Type == event.ReleaseAccepted{}.EventType() }) + 1
	all := slices.Compact(slices.DeleteFunc(slices.Clone(c.ends), func(end int) bool { return end < first }))
	for k := range many {
		out = append(out, all[k*(len(all)-1)/many])
	}
	return out
}

// TestS24RestoredLogGoesOnFromEveryPoint restores 40 backups of one history. The hosts
// send again what the log lacks, before the newest release is pushed again or after it.
// Nobody is ordered back, all that a host ever began stays done once, everything converges,
// and neither the audit nor the mirror finds anything.
func TestS24RestoredLogGoesOnFromEveryPoint(t *testing.T) {
	whole := newCourse(t)
	whole.play()
	restored, ahead := 0, 0
	for k, upTo := range whole.restorePoints(40) {
		c := newCourse(t)
		c.play()
		lost := lostDocuments(c, upTo)
		for d := range lost {
			delete(c.docs, d)
		}
		c.restore(upTo)
		if k%2 == 0 {
			maps.Copy(c.docs, lost)
			c.pushAgain()
		}
		for _, name := range c.names() {
			m := c.hosts[name]
			m.unseen = true // until the mirror has its plan again
			c.presence(name, true)
			m.deliver()
			if !c.s.Lacks(c.s.Hosts[name]) {
				continue
			}
			ahead++
			if a := testkit.Value(plan.Why(c.s, name, c.now))(t); !strings.Contains(a.Message, "which this server lacks") || !strings.Contains(a.Message, "steady release push") {
				t.Fatalf("why says %q of a host that is on a release which the server lacks", a.Message)
			}
		}
		c.rounds(3)
		maps.Copy(c.docs, lost)
		c.pushAgain()
		c.rounds(40)
		restored += c.count(event.LogRestored{}, "")
		for _, name := range c.names() {
			if m := c.s.Hosts[name].Machine; m.Phase != host.Converged || m.Current != bundles[len(bundles)-1] {
				t.Fatalf("point %d: host %s is %s on %s\n%s", upTo, name, m.Phase, bundleName(m.Current), c.tail())
			}
			if !slices.Equal(c.ran[name], whole.ran[name]) {
				t.Fatalf("point %d: host %s ran %v, and %v without a restore\n%s", upTo, name, c.ran[name], whole.ran[name], c.tail())
			}
		}
		if n := c.count(event.MirrorDiverged{}, ""); n > 0 {
			t.Fatalf("point %d: the mirror differs %d times\n%s", upTo, n, c.tail())
		}
		c.phase("a@r4", "terminal")
		c.phase("b@r4", "terminal")
	}
	if restored < 40 || ahead < 20 {
		t.Fatalf("%d logs said that they were set back, %d hosts ran what the server lacked: the points prove nothing", restored, ahead)
	}
}

// lostDocuments are the manifests that no release of a backup lists.
func lostDocuments(c *course, upTo int) documents {
	lost := maps.Clone(c.docs)
	for _, e := range c.log[:upTo] {
		ev, err := event.Decode(e)
		if r, is := ev.(event.ReleaseAccepted); err == nil && is {
			for _, ch := range r.Channels {
				for _, ref := range ch.Manifests {
					delete(lost, ref.Digest)
				}
			}
		}
	}
	return lost
}
