package e2e

import (
	"crypto/ed25519"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/steadyfleet/steady/internal/core/host"
	"github.com/steadyfleet/steady/internal/identity"
	"github.com/steadyfleet/steady/internal/testkit"
	"github.com/steadyfleet/steady/internal/wire"
)

const revertFleet = `apiVersion: steady/v1
kind: Fleet
metadata: {name: acme}
hosts:
  sick-1: {channel: stable, tags: [sick],   bundle: db}
  sick-2: {channel: stable, tags: [sick],   bundle: db}
  web-1:  {channel: stable, tags: [canary], bundle: web}
channels:
  stable: {rolloutPolicy: careful, freshnessWindow: 24h, signingInterval: 1h}
rolloutPolicies:
  careful:
    waves:
      - {name: canary, selector: {tags: [canary]}}
      - {name: rest,   selector: {all: true}}
    healthGate: {maxFailures: 1}
allowMassChange: true # each release drops a file of the one before
bundles: {web: {path: bundles/web}, db: {path: bundles/db}}
`

// namedBox enrols a host with a token that names its event key, so that nobody
// but the host can speak for it, not even the server that enrolled it.
func (s *stage) namedBox(name string) *box {
	s.t.Helper()
	b := &box{t: s.t, name: name, clock: newWallClock(), state: filepath.Join(s.t.TempDir(), "state"), root: s.t.TempDir(), log: slog.New(slog.DiscardHandler)}
	keys := filepath.Join(b.state, "keys")
	testkit.Must(s.t, os.MkdirAll(keys, 0o700))
	key := testkit.Value(identity.KeyFile(filepath.Join(keys, "event.key")))(s.t)
	b.enrol(s.estate.token(name, s.origin.http.URL, s.origin.serverCA.PEM(), func(t *identity.Token) {
		t.EventKeyDigest = testkit.Value(identity.PublicDigest(key.Public()))(s.t)
	}))
	return b.start()
}

// TestLyingReverts lies about an order to go back: a host goes back only on the
// signed word of more hosts than its policy lets fail, to where it came from.
func TestLyingReverts(t *testing.T) {
	t.Parallel()
	s := raise(t, revertFleet, func(version int) string {
		step := "true"
		if version > 1 {
			step = "false"
		}
		return fmt.Sprintf("files: [{path: version, content: \"%d\"}]\nsystem: {driver: exec, name: step, activate: [\"%s\"], timeout: 10s}\n", version, step)
	})
	s.namedBox("sick-1")
	s.namedBox("sick-2")
	s.box = newBox(t, s.origin, victim).start()
	s.next()
	s.truth()
	s.next()
	s.tell(s.dispatched(), "release 2 runs", s.runsNewest)
	s.runs, s.ran = 2, append(s.ran, "web-2")
	s.offer = s.liar.offer(s.rollout(), host.Rollback)
	if n := len(s.decoded().Failures); n != 2 {
		t.Fatalf("the order comes with %d proofs, expected 2", n)
	}

	a := act{message: "Dispatch", route: wire.RouteDispatch, few: true, doc: func(s *stage) []byte { return s.offer }}
	a.skip = s.dispatchAct().skip
	list := s.mutants(a)
	for _, m := range list {
		s.reach(a.message, m.path)
		s.tellBack(m, harmlessBack(m))
	}
	forged := s.forgeries()
	for _, m := range forged {
		s.tellBack(m, false)
	}
	t.Logf("%d lies about an order to go back, and %d forged ones", len(list), len(forged))
	s.covers("Dispatch", wire.Dispatch{}, func(path string) bool {
		// TestLyingNews and TestLyingRollbacks are about those, and no way back carries documents.
		return !isNews(path) && path != "override" && !strings.HasPrefix(path, "documents")
	})

	s.liar.arm(nil)
	s.tell(s.dispatched(), "the host went back", func() bool {
		if code, declined := s.liar.saw(s.decoded().Grant); declined {
			t.Fatalf("the true order was declined: %s", code)
		}
		return s.box.agent.Status().Machine.Phase == host.Reverted
	})
	s.runs, s.ran = 1, append(s.ran, "left-web-2", "web-1")
	s.unchanged("the order, truly told")
}

// tellBack tells one lie about the order. The claim is never granted: what
// counts is whether the host would have gone.
func (s *stage) tellBack(m mutant, harmless bool) {
	s.t.Helper()
	l := &lie{name: "order " + m.String(), route: wire.RouteDispatch, body: func(real []byte) []byte {
		return s.retell(act{route: wire.RouteDispatch}, m, real)
	}}
	if s.probe(l) && !harmless {
		s.t.Errorf("an order with %s was taken", m)
	}
}

// harmlessBack says which mutants of an order leave it a good one.
func harmlessBack(m mutant) bool {
	switch m.path {
	case "grant", "reason", "ttl", "rollout": // the server's to choose, or for people
		return true
	case "failures": // the same proofs
		return m.kind == "first twice" || m.kind == "reversed"
	}
	return strings.HasSuffix(m.kind, "another field") && !strings.Contains(m.path, ":")
}

// forgeries are whole orders that a server could put together by itself.
func (s *stage) forgeries() []mutant {
	s.t.Helper()
	make := func(kind string, edit func(d *wire.Dispatch)) mutant {
		d := s.decoded()
		edit(&d)
		return mutant{"failures", kind, testkit.Value(json.Marshal(d))(s.t)}
	}
	return []mutant{
		make("none", func(d *wire.Dispatch) { d.Failures = nil }),
		make("of too few hosts", func(d *wire.Dispatch) { d.Failures = d.Failures[:1] }),
		make("of one host twice", func(d *wire.Dispatch) { d.Failures[1] = d.Failures[0] }),
		make("with the leaves exchanged", func(d *wire.Dispatch) {
			d.Failures[0].Leaf, d.Failures[1].Leaf = d.Failures[1].Leaf, d.Failures[0].Leaf
		}),
		make("with the tokens exchanged", func(d *wire.Dispatch) {
			d.Failures[0].Token, d.Failures[1].Token = d.Failures[1].Token, d.Failures[0].Token
		}),
		make("signed by another key", func(d *wire.Dispatch) { s.forge(&d.Failures[0]) }),
		make("of another manifest", func(d *wire.Dispatch) {
			for i := range d.Failures { // as if what failed had been release 1
				for j := range d.Failures[i].Events {
					e := &d.Failures[i].Events[j]
					old := s.estate.made[0].verified.Manifests["stable"][0].Header.Digest()
					e.Body = []byte(strings.ReplaceAll(string(e.Body), string(d.Manifest), string(old)))
				}
				s.rechain(&d.Failures[i])
			}
		}),
		make("for a rollout that the host is not in", func(d *wire.Dispatch) {
			d.Manifest = s.estate.made[0].verified.Manifests["stable"][0].Header.Digest()
		}),
	}
}

// forge signs a proof with a key that the server made.
func (s *stage) forge(p *wire.FailureProof) {
	s.t.Helper()
	var leaf struct{ Host string }
	testkit.Must(s.t, json.Unmarshal(p.Leaf.Leaf, &leaf))
	key := testkit.Value(identity.NewKey())(s.t)
	head := identity.Chain{Seq: p.Head.Seq, Hash: [32]byte(p.Head.Hash)}
	p.EventKey = key.Public().(ed25519.PublicKey)
	p.Head.Signature = testkit.Value(identity.SignHead(key, fleetName, leaf.Host, p.Incarnation, head))(s.t)
}

// rechain makes the head follow from changed events, which the old signature
// does not cover.
func (s *stage) rechain(p *wire.FailureProof) {
	c := identity.Chain{Seq: p.Events[0].Seq - 1, Hash: [32]byte(p.PrevHash)}
	for _, e := range p.Events {
		c = c.Next(e.At, e.Type, e.Body)
	}
	p.Head.Seq, p.Head.Hash = c.Seq, c.Hash[:]
}
