package e2e

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/steadyfleet/steady/internal/agent/daemon"
	"github.com/steadyfleet/steady/internal/agent/hosting"
	"github.com/steadyfleet/steady/internal/core/host"
	"github.com/steadyfleet/steady/internal/core/rollout"
	"github.com/steadyfleet/steady/internal/testkit"
	"github.com/steadyfleet/steady/internal/wire"
)

const lieFleet = `apiVersion: steady/v1
kind: Fleet
metadata: {name: acme}
hosts:
  db-1:  {channel: stable, tags: [db],  bundle: db}
  lab-1: {channel: lab,    tags: [lab], bundle: web}
  new-1: {channel: new,    tags: [new], bundle: web}
  web-1: {channel: stable, tags: [web], bundle: web}
  web-2: {channel: stable, tags: [web], bundle: web}
channels:
  stable: {rolloutPolicy: all, freshnessWindow: 24h, signingInterval: 1h}
  lab:    {rolloutPolicy: all, freshnessWindow: 24h, signingInterval: 1h}
  new:    {rolloutPolicy: all, freshnessWindow: 24h, signingInterval: 1h}
rolloutPolicies:
  all:
    waves: [{name: all, selector: {all: true}}]
disruptionBudgets:
  - {selector: {tags: [web]}, maxInFlight: 2}
probes:
  there: {mode: observe, interval: 1m, exec: {command: [test, -d, www]}}
allowMassChange: true # each release drops a file of the one before
bundles: {web: {path: bundles/web}, db: {path: bundles/db}}
`

// stage is a real server behind a liar, and one real agent, web-1.
type stage struct {
	t       testing.TB
	estate  *estate
	fleet   string                   // fleet.yaml
	second  func(version int) string // the bundle of hosts other than web-1
	origin  *origin
	liar    *liar
	box     *box
	diary   *diary // of box
	compose string // of the bundle web, if any
	hosting hosting.Config
	journal string // what the steps of bundles write, outside of the root folder
	foreign atomic.Int64
	other   *httptest.Server

	version int    // of the newest release
	runs    int    // the version that the host runs, 0 for none
	offer   []byte // the server's dispatch of the newest release
	ran     []string
	trials  int
	tried   map[string]map[string]int // mutants by message and path
}

func newStage(t testing.TB) *stage {
	s := raise(t, lieFleet, nil)
	s.house()
	s.next()
	s.truth()
	return s
}

// house starts the host that is lied to, which keeps a diary.
func (s *stage) house() {
	s.t.Helper()
	s.diary = &diary{next: loud().Handler()}
	s.box = newBox(s.t, s.origin, victim)
	s.box.log, s.box.hosting = slog.New(s.diary), s.hosting
	s.box.start()
}

// raise starts the server of a fleet behind a liar and gives it a release.
func raise(t testing.TB, fleet string, second func(version int) string, edit ...func(*stage)) *stage {
	s := &stage{t: t, fleet: fleet, estate: newEstate(t), liar: newLiar(t), journal: filepath.Join(t.TempDir(), "journal"), tried: map[string]map[string]int{}}
	s.origin = newOrigin(t, s.estate, s.liar.before).start()
	s.other = s.origin.listen(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		s.foreign.Add(1)
		w.WriteHeader(http.StatusNoContent)
	}))
	if s.second = second; second == nil {
		s.second = func(int) string { return s.bundle("db") }
	}
	for _, f := range edit {
		f(s)
	}
	s.publish()
	return s
}

func (s *stage) rollout() string { return fmt.Sprintf("stable@v%d", s.version) }

func (s *stage) newest() made { return s.estate.made[s.version-1] }

// publish makes the next release the newest on the server.
func (s *stage) publish() {
	s.t.Helper()
	s.version++
	d := declare{"fleet.yaml": s.fleet, "bundles/web/bundle.yaml": s.bundle("web"), "bundles/db/bundle.yaml": s.second(s.version)}
	if s.compose != "" {
		d["bundles/web/bundle.yaml"] += "compose: compose.yaml\n"
		d["bundles/web/compose.yaml"] = s.compose
	}
	s.origin.push(s.estate.release(fmt.Sprintf("v%d", s.version), d))
}

func (s *stage) bundle(name string) string {
	return fmt.Sprintf(`files:
  - {path: www/%[1]s.html, content: "%[1]s release %[2]d\n"}
  - {path: etc/%[1]s-%[2]d.conf, content: "of %[1]s %[2]d\n", mode: "0640"}
system:
  - driver: exec
    name: publish
    activate: [sh, -c, "echo %[1]s-%[2]d >> %[3]s"]
    revert: [sh, -c, "echo left-%[1]s-%[2]d >> %[3]s"]
    timeout: 30s
`, name, s.version, s.journal)
}

// next publishes unless the newest release is not run yet, and gets its offer.
func (s *stage) next() {
	s.t.Helper()
	if s.runs == s.version {
		s.publish()
	}
	s.offer = s.liar.offer(s.rollout(), host.Update)
}

// tree is what web-1's root folder holds when it runs a version.
func (s *stage) tree(version int) tree {
	if version == 0 {
		return tree{}
	}
	return tree{
		"www": "drwxr-xr-x", "etc": "drwxr-xr-x",
		"www/web.html":                          fmt.Sprintf("-rw-r--r-- %q", fmt.Sprintf("web release %d\n", version)),
		fmt.Sprintf("etc/web-%d.conf", version): fmt.Sprintf("-rw-r----- %q", fmt.Sprintf("of web %d\n", version)),
	}
}

// unchanged fails the test if anything on the host differs from what the version
// that runs put there: a file, a command that ran, or another server asked.
func (s *stage) unchanged(what string) {
	s.t.Helper()
	if d := s.tree(s.runs).diff(readTree(s.t, s.box.root)); d != "" {
		s.t.Fatalf("%s: the host's files changed:\n%s", what, d)
	}
	raw, err := os.ReadFile(s.journal)
	if err != nil && !os.IsNotExist(err) {
		s.t.Fatal(err)
	}
	if ran := strings.Fields(string(raw)); strings.Join(ran, " ") != strings.Join(s.ran, " ") {
		s.t.Fatalf("%s: commands ran that should not have:\nran  %v\nwant %v", what, ran, s.ran)
	}
	if n := s.foreign.Load(); n > 0 {
		s.t.Fatalf("%s: another server was asked %d times", what, n)
	}
}

func atRest(m *host.State) bool {
	switch m.Phase {
	case "", host.Pending, host.Converged, host.Reverted:
		return true
	}
	return m.Phase == host.Failed && !m.Reverting
}

// settled waits until the agent has nothing under way, or is stuck in the lie.
func (s *stage) settled(what string, now *lie) daemon.Status {
	s.t.Helper()
	var st daemon.Status
	testkit.Eventually(s.t, "the agent settled after "+what, func() bool {
		st = s.box.agent.Status()
		if st.Offer == nil {
			return atRest(&st.Machine)
		}
		return now != nil && s.liar.served(now) > 0 && st.Server != ""
	})
	return st
}

// flush waits until the agent has handled every dispatch so far.
func (s *stage) flush() {
	s.t.Helper()
	s.trials++
	grant := fmt.Sprintf("sync-%d", s.trials)
	s.tell(flush(grant, max(s.term(), s.box.agent.Status().MaxTerm)), "dispatches handled", func() bool {
		_, ok := s.liar.saw(grant)
		return ok
	})
}

// tell gives the agent a dispatch, and again every second, as a server does, until
// what comes of it is there: a poll that took it may have been over, as of an agent
// that was stopped, or when a lie broke the connection that it shares.
func (s *stage) tell(body []byte, what string, cond func() bool) {
	s.t.Helper()
	s.liar.say(body)
	s.repeat(body, what, cond)
}

// repeat is tell for what was said once. It reports whether it was said again.
func (s *stage) repeat(body []byte, what string, cond func() bool) (again bool) {
	s.t.Helper()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	testkit.Eventually(s.t, what, func() bool {
		select {
		case <-tick.C:
			select {
			case s.liar.answers <- body:
				again = true
			default:
			}
		default:
		}
		return cond()
	})
	return again
}

// runsNewest reports whether the host runs the newest release.
func (s *stage) runsNewest() bool {
	m := s.box.agent.Status().Machine
	return m.Phase == host.Converged && m.Current == s.newest().leaf(s.t, "stable", victim).Target
}

// dispatched is the offer as the server would give it now: it leads under a
// higher term once a host has declined a low one.
func (s *stage) dispatched() []byte {
	s.t.Helper()
	n := parseJSON(s.t, s.offer)
	n.at("term").set(fmt.Sprint(max(s.term(), s.box.agent.Status().MaxTerm)))
	return n.bytes()
}

// run gives the agent the server's own offer and waits until it runs the newest
// release, whatever lies are told meanwhile.
func (s *stage) run(what string) {
	s.t.Helper()
	s.liar.say(s.dispatched())
	s.flush()
	s.repeat(s.dispatched(), what+": the newest release runs", s.runsNewest)
	s.runs = s.version
	s.ran = append(s.ran, fmt.Sprintf("web-%d", s.version))
	s.unchanged(what)
	s.origin.ended(s.rollout(), rollout.Terminal)
}

// truth ends all lies and has the agent converge on the newest release.
func (s *stage) truth() {
	s.t.Helper()
	s.liar.arm(nil)
	s.run("the truth")
}

// probe tells a lie about an offer that the server will refuse to let be
// claimed, and reports whether the agent would have gone on to activate.
func (s *stage) probe(now *lie) (claimed bool) {
	s.t.Helper()
	s.trials++
	grant := fmt.Sprintf("lie-%d", s.trials)
	s.liar.mu.Lock()
	s.liar.refuse[grant] = true
	before := len(s.liar.claims)
	s.liar.mu.Unlock()
	s.liar.arm(now)
	offer := renamed(s.t, s.dispatched(), grant)
	s.liar.say(offer)
	s.flush()
	s.settled(now.name, now)
	s.heard(now, offer)
	s.liar.arm(s.liar.between(now))
	s.unchanged(now.name)
	s.liar.mu.Lock()
	defer s.liar.mu.Unlock()
	return len(s.liar.claims) > before
}

// heard waits until the lie was told. The agent may have made up its mind before the
// last byte was written; and a poll that took the offer may have been over, since a
// lie can break the connection that it shares: then the offer is made again.
func (s *stage) heard(now *lie, offer []byte) {
	s.t.Helper()
	if s.repeat(offer, now.name+" was told", func() bool { return s.liar.served(now) > 0 }) {
		s.flush()
		s.settled(now.name, now)
	}
}

// reach notes that a field of a message was lied about.
func (s *stage) reach(message, path string) {
	if s.tried[message] == nil {
		s.tried[message] = map[string]int{}
	}
	s.tried[message][path]++
}

// term returns the server's term.
func (s *stage) term() uint64 { return s.origin.head().Term }

// get asks the real server for a document in the agent's name.
func (s *stage) get(path string) []byte {
	s.t.Helper()
	status, body := s.liar.ask(path)
	if status != http.StatusOK {
		s.t.Fatalf("GET %s: %d %s", path, status, body)
	}
	return body
}

// decoded is the server's offer.
func (s *stage) decoded() wire.Dispatch {
	s.t.Helper()
	var d wire.Dispatch
	testkit.Must(s.t, json.Unmarshal(s.offer, &d))
	return d
}
