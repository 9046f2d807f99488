package e2e

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/host"
	"github.com/steadyfleet/steady/internal/testkit"
	"github.com/steadyfleet/steady/internal/trust"
	"github.com/steadyfleet/steady/internal/wire"
)

// papers is what a server hands out as a release.
type papers struct {
	timestamp, resolved, manifest []byte
	leaf                          wire.LeafProof
	rollout                       string
	digest                        digest.Digest
}

func (s *stage) papers(version int) papers {
	s.t.Helper()
	m := s.estate.made[version-1]
	vm := m.verified.Manifests["stable"][0]
	leaves := vm.Leaves.Value()
	i := slices.IndexFunc(leaves, func(l fleet.Leaf) bool { return l.Host == victim })
	proof := testkit.Value(vm.Tree.InclusionProof(uint64(i)))(s.t)
	rollout := "stable@" + m.ref
	return papers{
		timestamp: m.file(s.t, "timestamp.json"), resolved: m.file(s.t, "fleet.resolved.json"),
		manifest: m.file(s.t, "rollouts/"+rollout+".json"), rollout: rollout, digest: vm.Header.Digest(),
		leaf: wire.LeafProof{Leaf: vm.RawLeaves[i], Index: i, Proof: proof.Hashes},
	}
}

// told makes a lie of papers: every document of the release comes from them.
func (p papers) told(t testing.TB, name string) *lie {
	status, manifest := http.StatusNotFound, []byte("{}")
	if p.manifest != nil {
		status, manifest = http.StatusOK, testkit.Value(json.Marshal(wire.HostManifest{Envelope: p.manifest, Leaf: p.leaf}))(t)
	}
	return &lie{name: name, route: "/v1/", tell: func(w http.ResponseWriter, r *http.Request, rec *httptest.ResponseRecorder) {
		switch path := r.URL.Path; {
		case path == wire.RouteTrust+wire.TrustTimestamp:
			write(w, 200, p.timestamp)
		case path == wire.RouteTrust+wire.TrustResolved:
			write(w, 200, p.resolved)
		case strings.HasPrefix(path, wire.RouteRollouts):
			write(w, status, manifest)
		default:
			write(w, rec.Code, rec.Body.Bytes())
		}
	}}
}

// refused offers papers to the agent, which must report the check that refuses
// them and change nothing.
func (s *stage) refused(name string, p papers, check trust.Code) {
	s.t.Helper()
	d := s.decoded()
	d.Rollout, d.Manifest = p.rollout, p.digest
	s.offer = testkit.Value(json.Marshal(d))(s.t)
	s.liar.mu.Lock()
	before := len(s.liar.checks)
	s.liar.mu.Unlock()
	if s.probe(p.told(s.t, name)) {
		s.t.Errorf("%s: the agent would have activated it", name)
	}
	s.inStep(name)
	s.liar.mu.Lock()
	defer s.liar.mu.Unlock()
	if news := s.liar.checks[before:]; !slices.Contains(news, string(check)) {
		s.t.Errorf("%s: the host reported %v, expected %s", name, news, check)
	}
}

// resign changes a signed document and signs it again with the fleet's own key:
// what a thief of the key, or a mistake, would make.
func (s *stage) resign(env []byte, role trust.Role, docType string, edit func(*node)) []byte {
	s.t.Helper()
	n := parseJSON(s.t, testkit.Value(trust.ParseEnvelope(env))(s.t).Payload)
	edit(n)
	return testkit.Value(trust.Sign(docType, n.bytes(), s.estate.Keys[role]))(s.t)
}

// TestRefusedReleases offers whole releases that must be refused, and finds each
// refusal in the server's log by the check that made it (S5, S6, and the table of
// bad input).
func TestRefusedReleases(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	for s.version < 5 { // so that the first is not listed any more
		s.next()
		s.truth()
	}
	s.next() // release 6 is on offer; the host runs 5
	offer := s.offer
	old, runs, next := s.papers(1), s.papers(5), s.papers(6)

	s.refused("an older release, whole (S5)", old, trust.ManifestMismatch)
	mixed := next
	mixed.resolved = runs.resolved
	s.refused("a new timestamp with an old snapshot (S6)", mixed, trust.ManifestMismatch)
	mixed = next
	mixed.timestamp = old.timestamp
	s.refused("an old timestamp with a new snapshot (S6)", mixed, trust.ManifestMismatch)
	mixed = next
	mixed.manifest, mixed.leaf = old.manifest, old.leaf
	s.refused("an unlisted manifest under the name of a new one (S6)", mixed, trust.ManifestMismatch)

	foreign := next
	foreign.timestamp = s.resign(next.timestamp, trust.RoleTimestamp, fleet.TypeTimestamp, func(n *node) { n.at("fleet").set(`"other"`) })
	foreign.rollout, foreign.digest = "stable@v99", digest.Of(nil) // so that it is looked at
	s.refused("a timestamp of another fleet", foreign, trust.ManifestMismatch)
	flipped := next
	flipped.manifest = []byte(strings.Replace(string(next.manifest), `"payload":"ey`, `"payload":"ez`, 1))
	s.refused("a manifest with one flipped byte", flipped, trust.ManifestVerifyFailed)
	unlisted := next
	unlisted.leaf = wire.LeafProof{Leaf: s.papers(6).leaf.Leaf, Index: 0, Proof: next.leaf.Proof}
	s.refused("a leaf at another host's place", unlisted, trust.ManifestVerifyFailed)
	missing := next
	missing.manifest = nil
	s.refused("no manifest", missing, trust.ManifestMissing)

	s.frozen(offer)
	s.offer = offer
	s.truth()
	s.inStep("the end")
	s.box.stop()
	s.origin.stop()
	l := s.origin.ledger()
	var logged []string
	events, _ := eventsOf[event.TrustRefused](t, l)
	for _, e := range events {
		logged = append(logged, e.Check)
	}
	for _, check := range []trust.Code{trust.ManifestMissing, trust.ManifestVerifyFailed, trust.ManifestMismatch, trust.Stale} {
		if !slices.Contains(logged, string(check)) {
			t.Errorf("the server's log has no refusal by %s: %v", check, logged)
		}
	}
}

// frozen keeps the newest timestamp from the agent for longer than the freshness
// window: it keeps what runs, activates nothing, and says why.
func (s *stage) frozen(offer []byte) {
	s.t.Helper()
	s.box.clock.move(25 * clock.Hour)
	s.offer = offer
	s.refused("a release behind a frozen timestamp", s.papers(6), trust.Stale)
	if m := s.box.agent.Status().Machine; m.Phase != host.Converged {
		s.t.Errorf("a stale timestamp made the host %s", m.Phase)
	}
	s.box.clock.move(0)
}
