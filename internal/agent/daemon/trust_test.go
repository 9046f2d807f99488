package daemon

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/host"
	"github.com/steadyfleet/steady/internal/testkit"
	"github.com/steadyfleet/steady/internal/testkit/testfleet"
	"github.com/steadyfleet/steady/internal/trust"
	"github.com/steadyfleet/steady/internal/wire"
)

// TestT1NothingUnsignedIsActivated changes what the server gives, one thing at a
// time. Nothing may change on the host, and the refusal is reported once.
func TestT1NothingUnsignedIsActivated(t *testing.T) {
	evil := newPack(t, "evil", []file{{path: "a", content: "evil"}})
	flip := func(part string) func(string, []byte) []byte {
		return func(p string, b []byte) []byte {
			if strings.Contains(p, part) {
				b = bytes.Clone(b)
				i := len(b) / 2
				for b[i] == '"' || b[i] == '\\' {
					i++
				}
				b[i] ^= 1
			}
			return b
		}
	}
	edit := func(part string, f func(m *wire.HostManifest)) func(string, []byte) []byte {
		return func(p string, b []byte) []byte {
			var m wire.HostManifest
			if !strings.Contains(p, part) || json.Unmarshal(b, &m) != nil {
				return b
			}
			f(&m)
			out, err := json.Marshal(m)
			if err != nil {
				return nil
			}
			return out
		}
	}
	cases := map[string]func(s *server, r release) (tamper func(string, []byte) []byte){
		"timestamp": func(*server, release) func(string, []byte) []byte { return flip(wire.TrustTimestamp) },
		"snapshot":  func(*server, release) func(string, []byte) []byte { return flip(wire.TrustResolved) },
		"bundle":    func(*server, release) func(string, []byte) []byte { return flip(wire.RouteBundles) },
		"blob":      func(*server, release) func(string, []byte) []byte { return flip(wire.RouteBlobs) },
		"no manifest": func(s *server, r release) func(string, []byte) []byte {
			return edit(wire.RouteRollouts, func(m *wire.HostManifest) { m.Envelope = nil })
		},
		"no leaf": func(s *server, r release) func(string, []byte) []byte {
			return edit(wire.RouteRollouts, func(m *wire.HostManifest) { m.Leaf.Leaf = nil })
		},
		"leaf of another": func(s *server, r release) func(string, []byte) []byte {
			return edit(wire.RouteRollouts, func(m *wire.HostManifest) { m.Leaf = r.leaf(t, "web-2") })
		},
		"leaf names evil": func(s *server, r release) func(string, []byte) []byte {
			return edit(wire.RouteRollouts, func(m *wire.HostManifest) {
				m.Leaf.Leaf = bytes.Replace(m.Leaf.Leaf, []byte(r.manifestTarget()), []byte(evil.digest), 1)
			})
		},
		"bundle swapped": func(s *server, r release) func(string, []byte) []byte {
			return func(p string, b []byte) []byte {
				if strings.Contains(p, wire.RouteBundles) {
					return evil.raw
				}
				return b
			}
		},
		"another manifest": func(s *server, r release) func(string, []byte) []byte {
			s.set(func() { s.release.digest = digest.Of([]byte("another")) })
			return nil
		},
	}
	for name, prepare := range cases {
		t.Run(name, func(t *testing.T) {
			s := newServer(t)
			b := newBox(t, s, "web-1").start()
			one := newPack(t, "web", []file{{path: "a", content: "one"}})
			r := s.keys.release(t, plan{version: 1, ref: "r1", hosts: []string{"web-1", "web-2"}, policy: defaultPolicy(),
				targets: map[string]digest.Digest{"web-1": one.digest, "web-2": evil.digest}})
			s.publish(r, one, evil)
			tamper := prepare(s, r)
			s.set(func() { s.tamper = tamper })
			s.grant("g1", host.Update)
			testkit.Eventually(t, "the refusal", func() bool {
				return len(reported[event.TrustRefused](s)) > 0 || len(reported[event.GrantDeclined](s)) > 0
			})
			b.want("a", gone)
			if m := b.agent.Status().Machine; m.Phase != "" {
				t.Errorf("the host is %s", m.Phase)
			}
			if n := len(reported[event.TrustRefused](s)); n > 1 {
				t.Errorf("one cause was reported %d times", n)
			}
			s.set(func() { s.tamper = nil })
			s.publish(r, one, evil)
			s.grant("g2", host.Update)
			b.phase(host.Converged) // and it is no obstacle for what is true
			b.want("a", "one")
		})
	}
}

func (r release) manifestTarget() string {
	var l struct {
		Target string `json:"target"`
	}
	if err := json.Unmarshal(r.leaves[0], &l); err != nil {
		return ""
	}
	return l.Target
}

// TestStaleActivatesNothing gives a timestamp older than the channel allows;
// what runs is kept, and a newer one cures it.
func TestStaleActivatesNothing(t *testing.T) {
	s := newServer(t)
	b := newBox(t, s, "web-1").start()
	one := newPack(t, "web", []file{{path: "a", content: "one"}})
	p := single("web-1", 1, "r1", one)
	p.window, p.issued = 10*clock.Minute, testfleet.Now().Add(-15*clock.Minute)
	b.roll(p, "g1", one)
	testkit.Eventually(t, "the refusal", func() bool {
		for _, e := range reported[event.TrustRefused](s) {
			if e.Check == string(trust.Stale) {
				return true
			}
		}
		return false
	})
	b.want("a", gone)
	p.issued, p.version, p.ref = 0, 2, "r2"
	b.roll(p, "g2", one)
	b.phase(host.Converged)
}

// TestOldTermIsRefused offers by a server that does not lead any more.
func TestOldTermIsRefused(t *testing.T) {
	s := newServer(t)
	b := newBox(t, s, "web-1").start()
	one := newPack(t, "web", []file{{path: "a", content: "one"}})
	s.publish(s.keys.release(t, single("web-1", 1, "r1", one)), one)
	s.grant("g1", host.Update)
	b.phase(host.Converged)
	two := newPack(t, "web", []file{{path: "a", content: "two"}})
	s.publish(s.keys.release(t, single("web-1", 2, "r2", two)), two)
	s.set(func() { s.term = 0 })
	s.grant("g2", host.Update)
	testkit.Eventually(t, "the grant declined", func() bool {
		for _, e := range reported[event.GrantDeclined](s) {
			if e.Grant == "g2" {
				return e.Code == host.DeclineOldTerm
			}
		}
		return false
	})
	b.want("a", "one")
}

// TestS5KeysRotate follows a root to a new epoch: what the old keys sign from
// then on is refused, also after a restart, and what runs is kept.
func TestS5KeysRotate(t *testing.T) {
	s := newServer(t)
	b := newBox(t, s, "web-1").start()
	one := newPack(t, "web", []file{{path: "a", content: "one"}})
	b.roll(single("web-1", 1, "r1", one), "g1", one)
	b.phase(host.Converged)

	old, next := s.keys, newSigners()
	s.set(func() { s.root2 = testkit.Value(next.Root(testfleet.Head(2, 2), old.Keys[trust.RoleRoot]))(t) })
	two := newPack(t, "web", []file{{path: "a", content: "two"}})
	p := single("web-1", 2, "r2", two)
	p.epoch = 2
	s.publish(next.release(t, p), two)
	s.grant("g2", host.Update)
	testkit.Eventually(t, "second bundle", func() bool { return b.agent.Status().Current == two.digest })
	b.phase(host.Converged)
	b.stop()
	b.start()

	three := newPack(t, "web", []file{{path: "a", content: "three"}})
	s.publish(old.release(t, single("web-1", 9, "r3", three)), three) // a thief has the old keys
	s.grant("g3", host.Update)
	testkit.Eventually(t, "the refusal", func() bool { return len(reported[event.TrustRefused](s)) > 0 })
	b.want("a", "two")
	if m := b.agent.Status().Machine; m.Phase != host.Converged || m.Grant != "g2" {
		t.Errorf("the host is %s by %s", m.Phase, m.Grant)
	}
}
