package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/steadyfleet/steady/internal/agent/daemon"
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/host"
	"github.com/steadyfleet/steady/internal/core/plan"
	"github.com/steadyfleet/steady/internal/identity"
	"github.com/steadyfleet/steady/internal/testkit"
	"github.com/steadyfleet/steady/internal/wire"
)

// exchange is a reply that is changed as it passes, because its values differ
// from time to time. model has every field of it.
type exchange struct {
	message, route string
	model          any
	others         map[string][]string
}

// lies makes every lie about an exchange.
func (s *stage) lies(x exchange) []*lie {
	s.t.Helper()
	var out []*lie
	model := testkit.Value(json.Marshal(x.model))(s.t)
	for _, m := range mutants(s.t, model, false, x.others, sealed...) {
		s.reach(x.message, m.path)
		out = append(out, &lie{name: x.message + " " + m.String(), route: x.route, body: func(real []byte) []byte {
			return s.remake(real, model, m, x.others)
		}})
	}
	return append(out, s.statuses(act{message: x.message, route: x.route})...)
}

// remake changes the present reply as the mutant changes the model.
func (s *stage) remake(real, model []byte, m mutant, others map[string][]string) []byte {
	n, full := parseJSON(s.t, real), parseJSON(s.t, model)
	for _, f := range full.members { // fields that the reply left out
		if n.at(f.key) == nil {
			n.members = append(n.members, f)
		}
	}
	for _, now := range mutants(s.t, n.bytes(), false, others, sealed...) {
		if now.path == m.path && now.kind == m.kind {
			return now.doc
		}
	}
	return m.doc // the value is what the lie would make of it: take the model's
}

// inStep waits until the server holds every event of the host, and the host
// knows it.
func (s *stage) inStep(what string) {
	s.t.Helper()
	testkit.Eventually(s.t, what+": host and server agree on its events", func() bool {
		st := s.box.agent.Status()
		if st.AckedSeq != st.LastSeq {
			return false
		}
		var held uint64
		testkit.Must(s.t, s.origin.control.View(context.Background(), func(p *plan.State) { held = p.Hosts[s.box.name].Seq }))
		return held == st.LastSeq
	})
}

// TestLyingAnswers lies about the replies that carry no order: they may cost
// time, and nothing else.
func TestLyingAnswers(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	total := 0
	run := func(x exchange, tell func(*lie)) {
		before := total
		for _, l := range s.lies(x) {
			loud().Debug("a lie", "about", l.name)
			total++
			tell(l)
			s.liar.arm(nil)
			s.unchanged(l.name)
		}
		t.Logf("%s: %d lies", x.message, total-before)
	}
	run(exchange{"EventAck", wire.RouteEvents, wire.EventAck{Acked: 7, Reason: "x"}, nil}, s.aboutEvents)
	run(exchange{"HeartbeatReply", wire.RouteHeartbeat, wire.HeartbeatReply{Interval: 60_000, Acked: 7, RootVersion: 1, TimestampVersion: 3, Settings: everySetting(), Managed: 4, Overrides: digest.Of([]byte("list")), Mark: 9, Facts: true}, nil}, s.aboutHeartbeat)
	s.unheard()
	run(exchange{"ClaimAnswer", wire.RouteClaim, wire.ClaimAnswer{Accepted: true, Reason: "x"}, nil}, s.aboutClaim)
	chain := s.certificates()
	run(exchange{"Certificate", wire.RouteRenew, wire.Certificate{Chain: []byte(chain[0]), Incarnation: 1}, quoted("chain", chain)}, s.aboutRenewal)
	s.renewed()
	run(exchange{"Certificate", wire.RouteEnrol, wire.Certificate{Chain: []byte(chain[0]), Incarnation: 1}, quoted("chain", chain)}, s.aboutEnrolment)
	s.next()
	s.truth()
	// No honest reply to this host carries a head, which TestOnlyAProvenHeadParks is about.
	noHead := func(path string) bool { return !strings.HasPrefix(path, "head.") }
	s.covers("EventAck", wire.EventAck{}, noHead)
	s.covers("HeartbeatReply", wire.HeartbeatReply{}, noHead)
	s.covers("ClaimAnswer", wire.ClaimAnswer{})
	s.covers("Certificate", wire.Certificate{})
	t.Logf("%d lies, one at a time", total)
}

// told waits until a lie was told.
func (s *stage) told(l *lie) {
	s.t.Helper()
	testkit.Eventually(s.t, l.name+" told", func() bool { return s.liar.served(l) > 0 })
}

func (s *stage) aboutEvents(l *lie) {
	s.t.Helper()
	s.inStep("before " + l.name)
	s.liar.arm(l)
	s.flush()
	s.told(l)
	s.liar.arm(nil)
	s.flush()
	s.inStep(l.name)
}

// unheard acknowledges events that the server never gets: the host still has
// them when the server asks.
func (s *stage) unheard() {
	s.t.Helper()
	l := &lie{name: "events acknowledged and dropped", route: wire.RouteEvents, unheard: true}
	l.body = func([]byte) []byte {
		return []byte(fmt.Sprintf(`{"acked":%d}`, s.box.agent.Status().LastSeq))
	}
	s.aboutEvents(l)
}

// aboutHeartbeat lies to a host that allows the server no settings.
func (s *stage) aboutHeartbeat(l *lie) {
	s.t.Helper()
	s.liar.arm(l)
	s.newsTell(l) // it says at once that it lives
	s.liar.arm(nil)
	s.flush()
	s.inStep(l.name)
	for _, taken := range s.diary.settings() {
		if taken.Disabled() || !taken.OnlyEnabled(&fleet.Settings{}) {
			s.t.Fatalf("%s: the host took %+v", l.name, taken)
		}
	}
}

// everySetting is within bounds, with no field left out.
func everySetting() *wire.Settings {
	yes, no := true, false
	return &wire.Settings{Version: 1, HeartbeatInterval: 30_000, ResyncInterval: 20_000, Enabled: &no, Pools: fleet.Pools{Builds: 1, Pulls: 2, Starts: 3},
		Metrics: fleet.MetricsChoice{Host: &yes, GPU: &no, Workspaces: &yes}}
}

// aboutClaim lies about the answer to a claim that the server has committed. A
// host that was told no, or nothing, claims again when it is offered again.
func (s *stage) aboutClaim(l *lie) {
	s.t.Helper()
	s.next()
	s.liar.arm(l)
	s.tell(s.dispatched(), l.name+" told", func() bool { return s.liar.served(l) > 0 })
	s.liar.arm(nil)
	s.flush() // it may have been offered again
	testkit.Eventually(s.t, l.name+": the answer taken", func() bool {
		st := s.box.agent.Status()
		return st.Offer == nil && atRest(&st.Machine)
	})
	if !s.runsNewest() {
		s.unchanged(l.name)
		s.tell(s.dispatched(), l.name+": the release runs in the end", s.runsNewest)
	}
	s.runs = s.version
	s.ran = append(s.ran, fmt.Sprintf("web-%d", s.version))
	s.inStep(l.name)
}

// certificates are chains that are not this host's answer: another host's, the
// host's own for another key, a server's, an authority.
func (s *stage) certificates() []string {
	s.t.Helper()
	issue := func(name string) string {
		csr := testkit.Value(identity.NewCSR(testkit.Value(identity.NewKey())(s.t)))(s.t)
		return string(testkit.Value(s.origin.hostCA.IssueHost(csr, name, 1, time.Now(), 0))(s.t))
	}
	key := testkit.Value(identity.NewKey())(s.t)
	server := string(testkit.Value(s.origin.serverCA.IssueServer([]string{"127.0.0.1"}, key.Public(), time.Now(), 0))(s.t))
	return []string{issue("web-1"), issue("db-1"), server, string(s.origin.hostCA.PEM()), string(s.origin.serverCA.PEM())}
}

func quoted(path string, chains []string) map[string][]string {
	out := map[string][]string{}
	for _, c := range chains {
		raw, _ := json.Marshal([]byte(c)) // bytes always encode
		out[path] = append(out[path], string(raw))
	}
	return out
}

// late has the agent believe that its certificate is due for renewal.
const late = 6 * clock.Day

func (s *stage) aboutRenewal(l *lie) {
	s.t.Helper()
	s.box.stop()
	s.box.clock.move(late)
	s.liar.arm(l)
	s.box.start()
	s.told(l)
	s.liar.arm(nil)
	s.box.clock.move(0)
	s.flush()
	s.inStep(l.name)
}

// renewed checks that a renewal comes through once the server answers truly.
func (s *stage) renewed() {
	s.t.Helper()
	serial := func() string {
		s.liar.mu.Lock()
		defer s.liar.mu.Unlock()
		return s.liar.seen.PeerCertificates[0].SerialNumber.String()
	}
	s.box.stop()
	old := serial()
	s.box.clock.move(late)
	s.box.start()
	testkit.Eventually(s.t, "the certificate renewed", func() bool { return serial() != old })
	s.box.clock.move(0)
	s.flush()
}

// aboutEnrolment enrols another host. One that was lied to can try again with
// the same token and folder, or has the identity that the lie could not change.
func (s *stage) aboutEnrolment(l *lie) {
	s.t.Helper()
	s.trials++
	dir := filepath.Join(s.t.TempDir(), strconv.Itoa(s.trials))
	token := s.origin.token("new-1")
	enrol := func() (daemon.Enrolled, error) {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		return daemon.Enrol(ctx, daemon.EnrolConfig{StateDir: dir, Token: token, Light: true})
	}
	s.liar.arm(l)
	type outcome struct {
		daemon.Enrolled
		err error
	}
	done := make(chan outcome, 1)
	go func() {
		e, err := enrol()
		done <- outcome{e, err}
	}()
	s.told(l)
	s.liar.arm(nil)
	o := <-done
	if o.err != nil {
		o.Enrolled, o.err = enrol()
	}
	if o.err != nil {
		s.t.Fatalf("%s: the host cannot enrol any more: %v", l.name, o.err)
	}
	if o.Host != "new-1" || o.Fleet != fleetName {
		s.t.Fatalf("%s: the host became %s of %s", l.name, o.Host, o.Fleet)
	}
}

// TestClaimNeverCommitted is a server that lets a host act without having
// committed its claim: it chose the time, and what runs is what was signed.
func TestClaimNeverCommitted(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.next()
	s.liar.arm(&lie{name: "accepted", route: wire.RouteClaim, unheard: true, body: func([]byte) []byte { return []byte(`{"accepted":true,"reason":""}`) }})
	s.tell(renamed(t, s.offer, "made-up"), "the release runs", s.runsNewest)
	s.runs = s.version
	s.ran = append(s.ran, fmt.Sprintf("web-%d", s.version))
	s.unchanged("a claim that was never committed")
}

// TestRaisedTerm is a server that claims a higher term: hosts refuse every lower
// one from then on (S31), and the server leads with a higher one once it hears.
func TestRaisedTerm(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.next()
	raise := parseJSON(t, renamed(t, s.offer, "raised"))
	raised := s.term() + 1
	raise.at("term").set(fmt.Sprint(raised))
	s.liar.mu.Lock()
	s.liar.refuse["raised"] = true
	s.liar.mu.Unlock()
	s.tell(raise.bytes(), "the raised term taken", func() bool { return s.box.agent.Status().MaxTerm >= raised })
	s.flush()
	s.settled("a raised term", nil)
	s.unchanged("a raised term")
	s.tell(renamed(t, s.offer, "old"), "the lower term refused", func() bool {
		code, _ := s.liar.saw("old")
		return strings.HasPrefix(code, host.DeclineOldTerm)
	})
	s.unchanged("a lower term")
	// The server learns of it from what the host declined.
	testkit.Eventually(t, "the server leading under the raised term", func() bool {
		s.offer = s.liar.offer(s.rollout(), host.Update)
		return s.decoded().Term >= raised
	})
	s.truth()
}
