package daemon

import (
	"encoding/json"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/steadyfleet/steady/internal/agent/uplink"
	core "github.com/steadyfleet/steady/internal/core/agent"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/host"
	"github.com/steadyfleet/steady/internal/testkit"
	"github.com/steadyfleet/steady/internal/trust"
	"github.com/steadyfleet/steady/internal/wire"
)

// A grant's name is the server's word and goes into events: one that does not
// fit there must not end the agent, let alone again after every restart.
func TestGrantNamesAreBounded(t *testing.T) {
	s := newServer(t)
	b := newBox(t, s, "web-1").start()
	one := newPack(t, "web", []file{{path: "a", content: "one"}})
	for i, name := range []string{strings.Repeat("g", wire.MaxEventSize), strings.Repeat("g", core.MaxGrantName+1), "a\nb", "ü"} {
		b.roll(single("web-1", 1, "r1", one), name, one)
		testkit.Eventually(t, "the refusal", func() bool {
			st := b.agent.Status()
			s.mu.Lock()
			defer s.mu.Unlock()
			return strings.Contains(st.Refused, "a grant is named") && s.offered > i
		})
		b.want("a", gone)
		s.set(func() { s.offer, s.offered = nil, 0 })
	}
	if n := len(reported[event.TrustRefused](s)); n > 1 {
		t.Errorf("one cause was reported %d times", n)
	}
	s.grant(strings.Repeat("g", core.MaxGrantName), host.Update)
	b.phase(host.Converged)
}

// TestS6NoPlanOfASnapshotThatWasReplaced withholds the snapshot that the newest
// timestamp names: the one before must not be acted on any more.
func TestS6NoPlanOfASnapshotThatWasReplaced(t *testing.T) {
	s := newServer(t)
	b := newBox(t, s, "web-1").start()
	one := newPack(t, "web", []file{{path: "a", content: "one"}})
	r1 := s.keys.release(t, single("web-1", 1, "r1", one))
	s.publish(r1, one)
	s.grant("g1", host.Update)
	b.phase(host.Converged)
	f := b.agent.follower
	testkit.Value(f.Plan(t.Context(), r1.manifest.Rollout(), r1.digest))(t)
	r2 := s.keys.release(t, single("web-1", 2, "r2", one))
	mixed := r1
	mixed.stamp = r2.stamp
	s.publish(mixed, one)
	if err := f.Refresh(t.Context()); trust.CodeOf(err) != trust.Rollback && trust.CodeOf(err) != trust.NotListed {
		t.Fatalf("the old snapshot under the new timestamp: %v", err)
	}
	if _, err := f.Plan(t.Context(), r1.manifest.Rollout(), r1.digest); trust.CodeOf(err) == "" {
		t.Errorf("a plan of the replaced snapshot: %v", err)
	}
	s.publish(r2, one)
	if _, err := f.Plan(t.Context(), r2.manifest.Rollout(), r2.digest); err != nil {
		t.Errorf("it is no obstacle for what is whole: %v", err)
	}
}

// A server that contradicts itself about where it stands is not asked again in
// a tight loop.
func TestContradictingAcknowledgementsEnd(t *testing.T) {
	s := newServer(t)
	b := newBox(t, s, "web-1").start()
	one := newPack(t, "web", []file{{path: "a", content: "one"}})
	b.roll(single("web-1", 1, "r1", one), "g1", one)
	b.phase(host.Converged)
	b.settled()
	b.stop()
	var asked atomic.Int64
	rest := s.http.Config.Handler
	s.http.CloseClientConnections()
	s.http.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != wire.RouteEvents {
			rest.ServeHTTP(w, r)
			return
		}
		n := asked.Add(1)
		w.WriteHeader(http.StatusConflict)
		_ = json.NewEncoder(w).Encode(wire.EventAck{Acked: uint64(1 + n%2), Reason: "elsewhere"})
	})
	b.open()
	testkit.Must(t, b.agent.store.Ack(t.Context(), 1))
	if err := b.agent.uplink().Send(t.Context()); err == nil || asked.Load() > uplink.MaxConflicts {
		t.Errorf("asked %d times: %v", asked.Load(), err)
	}
	testkit.Must(t, b.agent.Close())
	b.agent = nil
}
