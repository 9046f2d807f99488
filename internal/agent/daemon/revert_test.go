package daemon

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	core "github.com/steadyfleet/steady/internal/core/agent"
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/host"
	"github.com/steadyfleet/steady/internal/testkit"
	"github.com/steadyfleet/steady/internal/wire"
)

// cutOff makes the server unreachable as soon as the host claimed a grant.
func (b *box) cutOffAfter(claimed string) {
	b.t.Helper()
	testkit.Eventually(b.t, "the claim of "+claimed, func() bool { return b.agent.Status().Machine.Grant == claimed })
	b.s.set(func() { b.s.down = true })
}

// TestDeadManGoesBack takes the server away after an activation: the host goes
// back by itself. When contact is back within a window the bundle is blamed,
// and when it is not the server was away and nothing is.
func TestDeadManGoesBack(t *testing.T) {
	for _, tt := range []struct {
		name  string
		blame bool
	}{{"the bundle cut the host off", true}, {"the server was away", false}} {
		t.Run(tt.name, func(t *testing.T) {
			s := newServer(t)
			b := newBox(t, s, "web-1").start()
			one := newPack(t, "web", []file{{path: "a", content: "one"}})
			b.roll(single("web-1", 1, "r1", one), "g1", one)
			b.phase(host.Converged)
			// The step holds the activation until the server is gone.
			hold := fleet.Exec{Name: "hold", Activate: []string{"/bin/sh", "-c", "while [ ! -e go ]; do sleep 0.02; done"}, Timeout: 2 * clock.Minute}
			two := newPack(t, "web", []file{{path: "a", content: "two"}}, hold)
			b.roll(single("web-1", 2, "r2", two), "g2", two)
			b.cutOffAfter("g2")
			testkit.Must(t, os.WriteFile(b.root+"/go", nil, 0o644))
			b.phase(host.Soaking)
			b.want("a", "two")
			b.clock.push(confirmWindow + clock.Second)
			// A probe-less host sleeps until then; a message wakes it sooner.
			b.agent.post(t.Context(), core.Elapsed{})
			b.phase(host.Reverted)
			b.want("a", "one")
			if m := b.agent.Status().Machine; m.Cause != host.ContactLost || m.BlameBy == 0 {
				t.Fatalf("cause %s, blame by %d", m.Cause, m.BlameBy)
			}
			if !tt.blame {
				b.clock.push(confirmWindow + clock.Second)
				b.agent.post(t.Context(), core.Elapsed{})
				testkit.Eventually(t, "nobody is blamed", func() bool { return b.agent.Status().Machine.BlameBy == 0 })
			}
			s.set(func() { s.down = false })
			testkit.Eventually(t, "all events acknowledged", func() bool {
				st := b.agent.Status()
				return st.AckedSeq == st.LastSeq && st.Machine.BlameBy == 0
			})
			if blamed := len(b.agent.Status().Quarantine) == 1; blamed != tt.blame {
				t.Errorf("blamed: %v", blamed)
			}
		})
	}
}

// TestProbeFailureGoesBack lets an enforce probe fail for longer than allowed.
func TestProbeFailureGoesBack(t *testing.T) {
	var healthy atomic.Bool
	healthy.Store(true)
	app := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if !healthy.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	t.Cleanup(app.Close)
	probe := fleet.Probe{Name: "http", Mode: fleet.Enforce, Interval: 50 * clock.Millisecond, Timeout: clock.Minute,
		HTTP: &fleet.HTTPProbe{URL: app.URL, ExpectStatus: 200}}
	s := newServer(t)
	b := newBox(t, s, "web-1").start()
	one := newPack(t, "web", []file{{path: "a", content: "one"}})
	p := single("web-1", 1, "r1", one)
	p.probes = []fleet.Probe{probe}
	b.roll(p, "g1", one)
	b.phase(host.Converged)

	two := newPack(t, "web", []file{{path: "a", content: "two"}})
	p = single("web-1", 2, "r2", two)
	p.probes, p.soak, p.policy.SustainedFailure = []fleet.Probe{probe}, clock.Hour, 300*clock.Millisecond
	b.roll(p, "g2", two)
	b.phase(host.Soaking)
	testkit.Eventually(t, "the probe passed", func() bool {
		m := b.agent.Status().Machine
		return len(m.Probes) == 1 && m.Probes[0].Passing
	})
	healthy.Store(false)
	b.phase(host.Reverted)
	b.want("a", "one")
	if m := b.agent.Status().Machine; m.Cause != host.ProbeFailing {
		t.Errorf("cause %s: %s", m.Cause, m.Detail)
	}
}

// proof is what a server has to show of a host that failed.
func (s *server) proof(t testing.TB, inc uint64, r release) wire.FailureProof {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.chains[inc]
	last := len(c.events) - 1
	return wire.FailureProof{
		Leaf: r.leaf(t, c.host), EventKey: c.key, Token: testkit.Value(s.keys.Token(c.host, s.root))(t), Incarnation: inc,
		PrevHash: c.hashes[0][:], Events: c.events[1:],
		Head: wire.Head{Seq: c.events[last].Seq, Hash: c.hashes[last][:], Signature: c.signature},
	}
}

// TestS21OrderedRevertNeedsProof orders a healthy host back. Without the signed
// failure of another host of the same manifest nothing happens; with it the host
// goes to its own earlier bundle.
func TestS21OrderedRevertNeedsProof(t *testing.T) {
	s := newServer(t)
	good := newBox(t, s, "web-1").start()
	bad := newBox(t, s, "web-2").start()
	one := newPack(t, "web", []file{{path: "a", content: "one"}})
	two := newPack(t, "web", []file{{path: "a", content: "two"}})
	broken := newPack(t, "bad", []file{{path: "a", content: "three"}}, fleet.Exec{Name: "x", Activate: []string{"/nonexistent"}, Timeout: clock.Minute})
	s.set(func() { s.only = "web-1" })
	good.roll(single("web-1", 1, "r1", one), "g1", one)
	good.phase(host.Converged)

	r := s.keys.release(t, plan{version: 2, ref: "r2", hosts: []string{"web-1", "web-2"}, policy: defaultPolicy(),
		targets: map[string]digest.Digest{"web-1": two.digest, "web-2": broken.digest}})
	s.publish(r, two, broken)
	s.set(func() { s.only = "web-2" })
	s.grant("bad-1", host.Update)
	bad.phase(host.Reverted)
	testkit.Eventually(t, "its events arrived", func() bool { st := bad.agent.Status(); return st.AckedSeq == st.LastSeq })
	bad.stop()
	s.set(func() { s.only = "web-1" })
	s.grant("g2", host.Update)
	testkit.Eventually(t, "second bundle", func() bool {
		m := good.agent.Status().Machine
		return m.Current == two.digest && m.Phase == host.Converged
	})

	proof := s.proof(t, 2, r)
	edited := func(f func(p *wire.FailureProof)) wire.FailureProof {
		var c wire.FailureProof
		raw := testkit.Value(json.Marshal(proof))(t)
		testkit.Must(t, json.Unmarshal(raw, &c))
		f(&c)
		return c
	}
	forged := map[string][]wire.FailureProof{
		"nothing":               nil,
		"another host's leaf":   {edited(func(p *wire.FailureProof) { p.Leaf = r.leaf(t, "web-1") })},
		"another host's token":  {edited(func(p *wire.FailureProof) { p.Token = testkit.Value(s.keys.Token("web-1", s.root))(t) })},
		"a token of other keys": {edited(func(p *wire.FailureProof) { p.Token = testkit.Value(newSigners().Token("web-2", s.root))(t) })},
		"an edited event": {edited(func(p *wire.FailureProof) {
			for i := range p.Events {
				p.Events[i].Body = bytes.Replace(p.Events[i].Body, []byte("failed"), []byte("feiled"), 1)
			}
		})},
		"a dropped event": {edited(func(p *wire.FailureProof) { p.Events = p.Events[1:] })},
		"no failure": {edited(func(p *wire.FailureProof) {
			p.Events = p.Events[:1]
		})},
		"another signature": {edited(func(p *wire.FailureProof) { p.Head.Signature[0] ^= 1 })},
	}
	for name, proofs := range forged {
		s.set(func() { s.offered = 0 })
		s.grant("forged-"+strings.ReplaceAll(name, " ", "-"), host.Rollback, proofs...)
		testkit.Eventually(t, name+" is offered again", func() bool { // so the first was dealt with
			refused := good.agent.Status().Refused != ""
			s.mu.Lock()
			defer s.mu.Unlock()
			return s.offered >= 2 && refused
		})
		if st := good.agent.Status(); st.Machine.Phase != host.Converged || st.Refused == "" || st.Offer != nil {
			t.Errorf("%s: the host is %s, and refused %q", name, st.Machine.Phase, st.Refused)
		}
		good.want("a", "two")
	}
	s.grant("back-1", host.Rollback, proof)
	good.phase(host.Reverted)
	good.want("a", "one")
	for _, e := range reported[event.HostStepped](s) {
		if e.Input == (host.RevertClaimed{}).Kind() && e.Cause != host.RevertOrdered {
			t.Errorf("the ordered revert is blamed on %s", e.Cause)
		}
	}
}
