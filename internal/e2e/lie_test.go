package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/host"
	"github.com/steadyfleet/steady/internal/testkit"
	"github.com/steadyfleet/steady/internal/wire"
)

// sealed are the places where a message carries JSON as base64.
var sealed = []string{"payload", "envelope.payload", "leaf.leaf", "failures[].leaf.leaf", "failures[].token.payload"}

// act is the lies about one reply.
type act struct {
	message string // the type in package wire, or the document
	route   string
	doc     func(s *stage) []byte
	others  func(s *stage) map[string][]string
	// harmless says which mutants may be taken: those that say what the truth
	// says, or something that is the server's to choose.
	harmless func(m mutant) bool
	skip     func(m mutant) bool
	// few is for what is bound by a digest: no byte of it can change unseen.
	few bool
	// missing is for what the real server does not have.
	missing bool
}

func extra(m mutant) bool { return m.kind == "another field" && !strings.Contains(m.path, ":") }

// TestLyingServer changes every field of every reply on the way to an
// activation, one at a time, and checks S3: nothing happens on the host but what
// was signed for it. What a server may choose is a closed list, and the agent
// converges as soon as the server tells the truth.
func TestLyingServer(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.liar.mu.Lock() // TestLyingAnswers is about what heartbeats bring
	s.liar.hush = true
	s.liar.mu.Unlock()
	total := 0
	for _, a := range s.acts() {
		n := s.trials
		before := total
		s.next()
		list := s.mutants(a)
		for i := 0; i < len(list); i++ {
			at := s.version
			total++
			s.reach(a.message, list[i].path)
			s.perform(a, list[i])
			if s.version != at {
				list = s.mutants(a) // the same ones, of the next release
			}
		}
		for _, l := range s.statuses(a) {
			total++
			s.perform(a, mutant{path: "status", kind: l.name, doc: nil}, l)
		}
		s.next()
		s.truth()
		t.Logf("%s: %d lies in %d trials; now at release %d", a.message, total-before, s.trials-n, s.version)
	}
	s.covers("HostManifest", wire.HostManifest{})
	t.Logf("%d lies, one at a time", total)
}

func (s *stage) mutants(a act) []mutant {
	s.t.Helper()
	others := map[string][]string{}
	if a.others != nil {
		others = a.others(s)
	}
	var out []mutant
	for _, m := range mutants(s.t, a.doc(s), a.few, others, sealed...) {
		if a.skip == nil || !a.skip(m) {
			out = append(out, m)
		}
	}
	return out
}

// perform tells one lie and checks what comes of it.
func (s *stage) perform(a act, m mutant, status ...*lie) {
	s.t.Helper()
	fresh := func() *lie {
		if len(status) > 0 {
			l := *status[0]
			l.served = 0
			return &l
		}
		return &lie{name: a.message + " " + m.String(), route: a.route, unheard: a.missing, body: func(real []byte) []byte { return s.retell(a, m, real) }}
	}
	if !s.probe(fresh()) {
		return
	}
	if !a.harmless(m) {
		s.t.Errorf("%s %s was taken", a.message, m)
	}
	if m.path == "grant" { // the server would not know the claim
		return
	}
	// It would be taken: see what that comes to.
	s.liar.arm(fresh())
	s.run(a.message + " " + m.String())
	s.liar.arm(nil)
	s.next()
}

// retell is the mutant made of the present truth. Documents are mutated anew,
// because later releases have others.
func (s *stage) retell(a act, m mutant, real []byte) []byte {
	var text string
	if a.message == "blob" && json.Unmarshal(m.doc, &text) == nil {
		return []byte(text)
	}
	if a.route != wire.RouteDispatch {
		return m.doc
	}
	// The grant's name and the term differ from trial to trial: they are a part
	// of the lie only where it is about them.
	n, truth := parseJSON(s.t, m.doc), parseJSON(s.t, real)
	for _, field := range []string{"grant", "term"} {
		if now := n.at(field); now != nil && m.path != field {
			*now = *truth.at(field)
		}
	}
	return n.bytes()
}

// acts are the replies in the order in which an agent gets them.
func (s *stage) acts() []act {
	return []act{s.dispatchAct(), s.rootAct(), s.timestampAct(), s.resolvedAct(), s.manifestAct(), s.bundleAct(), s.blobAct()}
}

func (s *stage) dispatchAct() act {
	return act{
		message: "Dispatch", route: wire.RouteDispatch,
		doc: func(s *stage) []byte { return s.offer },
		others: func(s *stage) map[string][]string {
			quote := func(v any) string { return strconv.Quote(fmt.Sprint(v)) }
			older, lab := s.estate.made[s.version-2].verified, s.newest().verified
			db := s.newest().leaf(s.t, "stable", "db-1")
			return map[string][]string{
				"purpose": {quote(host.Rollback), quote(host.Repair), quote("install")},
				"rollout": {quote(fmt.Sprintf("stable@v%d", s.version-1)), quote("lab@" + s.newest().ref), quote("stable@v999")},
				"manifest": {quote(older.Manifests["stable"][0].Header.Digest()), quote(lab.Manifests["lab"][0].Header.Digest()),
					quote(db.Target), quote(digest.Of(nil))},
			}
		},
		harmless: func(m mutant) bool {
			switch m.path {
			case "grant", "reason", "ttl":
				return true // the server's to choose
			case "purpose": // a repair leads to the same signed target
				return m.kind == "another valid value"
			}
			return extra(m)
		},
		// A raised term is remembered for ever; TestRaisedTerm is about it.
		skip: func(m mutant) bool {
			if m.path != "term" {
				return false
			}
			var d struct{ Term json.Number }
			if json.Unmarshal(m.doc, &d) != nil {
				return false
			}
			n, err := strconv.ParseUint(d.Term.String(), 10, 64)
			return err == nil && n > 1
		},
	}
}

func never(mutant) bool { return false }

func (s *stage) document(message, file string, others func(*stage) []string) act {
	return act{
		message: message, route: wire.RouteTrust + file,
		doc: func(s *stage) []byte { return s.get(wire.RouteTrust + file) },
		others: func(s *stage) map[string][]string {
			return map[string][]string{"": others(s)}
		},
		harmless: extra,
	}
}

func (s *stage) timestampAct() act {
	return s.document("timestamp", wire.TrustTimestamp, func(s *stage) []string {
		return []string{
			string(s.estate.made[s.version-2].file(s.t, "timestamp.json")),
			string(s.newest().file(s.t, "fleet.resolved.json")),
			string(s.newest().file(s.t, "1.root.json")),
		}
	})
}

func (s *stage) resolvedAct() act {
	return s.document("resolved", wire.TrustResolved, func(s *stage) []string {
		return []string{
			string(s.estate.made[s.version-2].file(s.t, "fleet.resolved.json")),
			string(s.newest().file(s.t, "timestamp.json")),
			string(s.newest().file(s.t, "rollouts/stable@"+s.newest().ref+".json")),
		}
	})
}

// rootAct gives a root that does not exist, made of the first one.
func (s *stage) rootAct() act {
	a := s.document("root", "2.root.json", func(s *stage) []string {
		return []string{string(s.newest().file(s.t, "1.root.json")), string(s.newest().file(s.t, "timestamp.json"))}
	})
	a.doc = func(s *stage) []byte { return s.newest().file(s.t, "1.root.json") }
	a.harmless, a.missing = func(m mutant) bool { return strings.HasSuffix(m.kind, "404") }, true // the truth: there is none
	return a
}

func (s *stage) manifestAct() act {
	path := func(s *stage) string { return wire.RouteRollouts + s.rollout() }
	return act{
		message: "HostManifest", route: wire.RouteRollouts,
		doc: func(s *stage) []byte { return s.get(path(s)) },
		others: func(s *stage) map[string][]string {
			db := s.newest().verified.Manifests["stable"][0]
			var proofs []string
			for i, raw := range db.RawLeaves {
				p := testkit.Value(db.Tree.InclusionProof(uint64(i)))(s.t)
				proofs = append(proofs, string(testkit.Value(json.Marshal(wire.LeafProof{Leaf: raw, Index: i, Proof: p.Hashes}))(s.t)))
			}
			var leaves, nodes []string
			for _, p := range proofs {
				n := parseJSON(s.t, []byte(p))
				leaves, nodes = append(leaves, string(n.at("leaf").bytes())), append(nodes, string(n.at("proof").bytes()))
			}
			old := s.estate.made[s.version-2]
			return map[string][]string{
				"leaf": proofs, "leaf.leaf": leaves, "leaf.proof": nodes, "leaf.index": {"0", "1", "2", "3"},
				"envelope": {
					string(old.file(s.t, "rollouts/stable@"+old.ref+".json")),
					string(s.newest().file(s.t, "rollouts/lab@"+s.newest().ref+".json")),
					string(s.newest().file(s.t, "fleet.resolved.json")),
				},
			}
		},
		harmless: extra,
	}
}

func (s *stage) bundleAct() act {
	target := func(s *stage, name string) digest.Digest { return s.newest().leaf(s.t, "stable", name).Target }
	return act{
		message: "bundle", route: wire.RouteBundles,
		doc: func(s *stage) []byte { return s.get(wire.RouteBundles + string(target(s, "web-1"))) },
		others: func(s *stage) map[string][]string {
			old := s.estate.made[s.version-2]
			was := old.leaf(s.t, "stable", "web-1").Target
			return map[string][]string{"": {
				string(s.newest().file(s.t, "bundles/"+target(s, "db-1").Hex()+".json")),
				string(old.file(s.t, "bundles/"+was.Hex()+".json")),
			}}
		},
		harmless: never,
		few:      true,
	}
}

// blobAct lies about the content of files; a blob is no JSON, so its mutants are
// made by hand.
func (s *stage) blobAct() act {
	return act{
		message: "blob", route: wire.RouteBlobs,
		doc: func(s *stage) []byte {
			// A JSON string stands for the bytes; perform unpacks it.
			return testkit.Value(json.Marshal(fmt.Sprintf("web release %d\n", s.version)))(s.t)
		},
		others: func(s *stage) map[string][]string {
			return map[string][]string{"": {strconv.Quote(fmt.Sprintf("web release %d\n", s.version-1)), strconv.Quote(fmt.Sprintf("db release %d\n", s.version))}}
		},
		harmless: never,
	}
}

// statuses are answers of the wrong kind, whatever the document.
func (s *stage) statuses(a act) []*lie {
	route := a.route
	answer := func(name string, f func(w http.ResponseWriter, r *http.Request, body []byte)) *lie {
		return &lie{name: route + " " + name, route: route, tell: func(w http.ResponseWriter, r *http.Request, rec *httptest.ResponseRecorder) {
			f(w, r, rec.Body.Bytes())
		}}
	}
	var out []*lie
	for _, status := range []int{400, 401, 403, 404, 409, 410, 413, 429, 500, 503} {
		out = append(out, answer(fmt.Sprintf("status %d", status), func(w http.ResponseWriter, _ *http.Request, body []byte) {
			write(w, status, body)
		}))
	}
	for _, status := range []int{301, 302, 307, 308} {
		out = append(out, answer(fmt.Sprintf("redirect %d", status), func(w http.ResponseWriter, r *http.Request, body []byte) {
			w.Header().Set("Location", s.other.URL+r.URL.Path)
			write(w, status, body)
		}))
	}
	return append(out,
		answer("no content", func(w http.ResponseWriter, _ *http.Request, _ []byte) { w.WriteHeader(http.StatusNoContent) }),
		answer("empty", func(w http.ResponseWriter, _ *http.Request, _ []byte) { write(w, 200, nil) }),
		answer("half", func(w http.ResponseWriter, _ *http.Request, body []byte) { write(w, 200, body[:len(body)/2]) }),
		answer("half of what it announces", func(w http.ResponseWriter, _ *http.Request, body []byte) {
			w.Header().Set("Content-Length", strconv.Itoa(len(body)))
			write(w, 200, body[:len(body)/2])
			panic(http.ErrAbortHandler)
		}),
		answer("more than it announces", func(w http.ResponseWriter, _ *http.Request, body []byte) {
			w.Header().Set("Content-Length", strconv.Itoa(len(body)/2))
			write(w, 200, body)
		}),
		answer("cut after drips", func(w http.ResponseWriter, _ *http.Request, body []byte) {
			for i := range min(8, len(body)) {
				_, _ = w.Write(body[i : i+1])
				_ = http.NewResponseController(w).Flush()
			}
			panic(http.ErrAbortHandler)
		}),
		answer("not JSON", func(w http.ResponseWriter, _ *http.Request, _ []byte) { write(w, 200, []byte("<html>sign in</html>")) }),
		answer("twice", func(w http.ResponseWriter, _ *http.Request, body []byte) {
			write(w, 200, append(append([]byte{}, body...), body...))
		}),
		answer("too deep", func(w http.ResponseWriter, _ *http.Request, _ []byte) {
			write(w, 200, []byte(strings.Repeat("[", 100)+strings.Repeat("]", 100)))
		}),
		answer("over the cap", func(w http.ResponseWriter, _ *http.Request, body []byte) {
			write(w, 200, append(append([]byte{}, body...), make([]byte, wire.MaxDocument)...))
		}),
	)
}
