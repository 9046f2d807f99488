package api_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/steadyfleet/steady/internal/api"
	"github.com/steadyfleet/steady/internal/testkit"

	"github.com/steadyfleet/steady/internal/api/operator"
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/gate"
	coreplan "github.com/steadyfleet/steady/internal/core/plan"
	"github.com/steadyfleet/steady/internal/identity"
	"github.com/steadyfleet/steady/internal/wire"
)

// types lists the types of all events about a host, or of all without one.
func (w *world) types(host string) []string {
	w.t.Helper()
	q := operator.EventQuery{Limit: 1000}
	if host != "" {
		q.About = operator.AboutHost(host)
	}
	page := testkit.Value(w.op.Events(w.ctx(), q))(w.t)
	var types []string
	for _, e := range page.Events {
		types = append(types, e.Type)
	}
	return types
}

func count(list []string, s string) (n int) {
	for _, x := range list {
		if x == s {
			n++
		}
	}
	return n
}

// T8: however many race for one token with keys of their own, one is enrolled.
func TestT8OneTokenOneCertificate(t *testing.T) {
	t.Parallel()
	const racers = 200
	w := newWorld(t)
	token := w.token("h-0000")
	var mu sync.Mutex
	var wg sync.WaitGroup
	statuses := map[int]int{}
	pool := newAgent(w, "h-0000")
	for range racers {
		key := testkit.Value(identity.NewKey())(t)
		ev := testkit.Value(identity.NewKey())(t)
		a := &agent{w: w, name: "h-0000", key: key, event: ev, token: token, http: pool.http}
		wg.Go(func() {
			ctx, status, err := w.ctx(), http.StatusTooManyRequests, error(nil)
			for err == nil && status == http.StatusTooManyRequests { // it waited for its turn too long
				status, _, err = a.call(ctx, "POST", wire.RouteEnrol, a.enrolRequest())
			}
			if err != nil {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			statuses[status]++
		})
	}
	wg.Wait()
	if statuses[200] != 1 || statuses[403] != racers-1 {
		t.Fatalf("answers by status: %v", statuses)
	}
	types := w.types("h-0000")
	if count(types, "host.enrolled") != 1 || count(types, "host.enrol_refused") != 1 {
		t.Fatalf("events %v", types)
	}
}

// T9: a retry with the same key gets the same certificate, another key none.
func TestT9LostEnrolmentAnswer(t *testing.T) {
	w := newWorld(t)
	a := newAgent(w, "h-0000")
	var first, second wire.Certificate
	if a.do("POST", wire.RouteEnrol, a.enrolRequest(), &first) != 200 || a.do("POST", wire.RouteEnrol, a.enrolRequest(), &second) != 200 {
		t.Fatal("refused")
	}
	if !bytes.Equal(first.Chain, second.Chain) || second.Incarnation != 1 {
		t.Fatal("the retry got another certificate")
	}
	a.adopt(second)
	if status := a.do("POST", wire.RouteHeartbeat, wire.Heartbeat{Incarnation: 1}, nil); status != 200 {
		t.Fatalf("heartbeat %d", status)
	}
}

func TestUndeclaredHostIsRefused(t *testing.T) {
	w := newWorld(t)
	w.release("r1", plan{hosts: 1, content: "one"})
	a := newAgent(w, "stranger")
	status, raw, err := a.call(w.ctx(), "POST", wire.RouteEnrol, a.enrolRequest())
	testkit.Must(t, err)
	if status != 403 || !strings.Contains(string(raw), "not declared") {
		t.Fatalf("%d %s", status, raw)
	}
	report := wire.BootstrapReport{Token: a.token, Kind: "EnrolmentFailed", Detail: "refused"}
	if status := a.do("POST", wire.RouteBootstrapReport, report, nil); status != 204 {
		t.Fatalf("report %d", status)
	}
	if got := w.types("stranger"); count(got, "host.enrol_refused") != 2 {
		t.Fatalf("events %v", got)
	}
}

// T10: a renewed certificate works, so does the one it was renewed with, and
// what was renewed before that does not.
func TestT10TwoNewestSerials(t *testing.T) {
	w := newWorld(t)
	a := enrolled(w, "h-0000")
	beat := func() int { return a.do("POST", wire.RouteHeartbeat, wire.Heartbeat{Incarnation: 1}, nil) }
	first, firstKey := a.cert, a.key
	renew := func() {
		key := testkit.Value(identity.NewKey())(t)
		csr := testkit.Value(identity.NewCSR(key))(t)
		var one, two wire.Certificate
		if a.do("POST", wire.RouteRenew, wire.Renew{CSR: csr}, &one) != 200 || a.do("POST", wire.RouteRenew, wire.Renew{CSR: csr}, &two) != 200 {
			t.Fatal("renewal refused")
		}
		if !bytes.Equal(one.Chain, two.Chain) {
			t.Fatal("a retried renewal got another certificate")
		}
		a.key = key
		a.adopt(two)
	}
	same := testkit.Value(identity.NewCSR(a.key))(t)
	if status := a.do("POST", wire.RouteRenew, wire.Renew{CSR: same}, nil); status != 400 {
		t.Fatalf("renewal with the old key: %d", status)
	}
	renew()
	if beat() != 200 {
		t.Fatal("the new certificate is refused")
	}
	newest, newestKey := a.cert, a.key
	a.cert, a.key = first, firstKey
	a.connect()
	if beat() != 200 {
		t.Fatal("the certificate before is refused")
	}
	a.cert, a.key = newest, newestKey
	a.connect()
	renew()
	a.cert, a.key = first, firstKey
	a.connect()
	if status := beat(); status != 403 {
		t.Fatalf("an old certificate: %d", status)
	}
}

// A release that revokes a host cuts its open long-poll and refuses it from then
// on.
func TestRevocationCutsOpenPolls(t *testing.T) {
	w := newWorld(t)
	a := enrolled(w, "h-0000")
	b := enrolled(w, "h-0001")
	polled := make(chan int, 1)
	go func() {
		status, _, err := a.call(w.ctx(), "GET", wire.RouteDispatch, nil)
		if err != nil {
			status = -1
		}
		polled <- status
	}()
	w.until("the host to be back", func() bool { return count(w.types("h-0000"), "host.returned") == 1 })
	at := w.server.Control().Now().Add(clock.Minute)
	w.release("r1", plan{hosts: 2, content: "x", more: "revoked: {h-0000: {notBefore: \"" + at.String() + "\", reason: lost}}\n"})
	if status := <-polled; status != 403 {
		t.Fatalf("the open poll ended with %d", status)
	}
	if status, _, err := a.call(w.ctx(), "POST", wire.RouteHeartbeat, wire.Heartbeat{Incarnation: 1}); err == nil && status != 403 {
		t.Fatalf("a revoked host was answered %d", status)
	}
	a.connect()
	if _, _, err := a.call(w.ctx(), "POST", wire.RouteHeartbeat, wire.Heartbeat{Incarnation: 1}); err == nil {
		t.Fatal("a revoked certificate passed the handshake")
	}
	if status := b.do("POST", wire.RouteHeartbeat, wire.Heartbeat{Incarnation: 1}, nil); status != 200 {
		t.Fatalf("another host: %d", status)
	}
}

func declined(n string) event.Event { return event.GrantDeclined{Grant: n, Code: "busy", Detail: "d"} }

func (a *agent) post(b wire.EventBatch) (int, wire.EventAck) {
	a.w.t.Helper()
	status, raw, err := a.call(a.w.ctx(), "POST", wire.RouteEvents, b)
	testkit.Must(a.w.t, err)
	var ack wire.EventAck
	if status == 200 || status == 409 {
		testkit.Must(a.w.t, json.Unmarshal(raw, &ack))
	}
	return status, ack
}

// F16, F17, T11: duplicates are acknowledged once more, gaps are refused with
// where to go on, and a second history is found out.
func TestBatchesAgainOutOfOrderAndForked(t *testing.T) {
	w := newWorld(t)
	a := enrolled(w, "h-0000")
	a.append(declined("g1"))
	a.append(declined("g2"))
	one := a.batch()
	a.append(declined("g3"))
	both := a.batch()
	a.queue = a.queue[2:]
	two := a.batch()

	if status, ack := a.post(two); status != 409 || ack.Acked != 0 {
		t.Fatalf("a gap: %d %+v", status, ack)
	}
	for range 3 {
		if status, ack := a.post(one); status != 200 || ack.Acked != 2 {
			t.Fatalf("the first batch: %d %+v", status, ack)
		}
	}
	if status, ack := a.post(both); status != 200 || ack.Acked != 3 {
		t.Fatalf("an overlap: %d %+v", status, ack)
	}
	if status, ack := a.post(two); status != 200 || ack.Acked != 3 {
		t.Fatalf("again: %d %+v", status, ack)
	}
	if n := count(w.types("h-0000"), "host.grant_declined"); n != 3 {
		t.Fatalf("%d events in the log", n)
	}
	var wg sync.WaitGroup
	a.queue = nil
	a.append(declined("g4"))
	four := a.batch()
	for range 20 {
		wg.Go(func() {
			if status, _, err := a.call(w.ctx(), "POST", wire.RouteEvents, four); err != nil || status != 200 && status != 429 {
				t.Errorf("at the same time: %d %v", status, err)
			}
		})
	}
	wg.Wait()
	if n := count(w.types("h-0000"), "host.grant_declined"); n != 4 {
		t.Fatalf("%d events in the log", n)
	}

	broken := a.batch()
	broken.Head.Signature = bytes.Clone(broken.Head.Signature)
	broken.Head.Signature[0] ^= 1
	if status, _ := a.post(broken); status != 400 {
		t.Fatalf("a forged head: %d", status)
	}
	wrong := a.batch()
	wrong.Incarnation = 2
	if status, ack := a.post(wrong); status != 409 || ack.Acked != 0 {
		t.Fatalf("another incarnation: %d %+v", status, ack)
	}

	clone := *a
	clone.chain, clone.queue = identity.Genesis(testFleet, a.name, 1), nil
	for _, g := range []string{"g1", "g2", "g3", "other"} {
		clone.append(declined(g))
	}
	if status, _ := clone.post(clone.batch()); status != 409 {
		t.Fatalf("another history: %d", status)
	}
	if types := w.types("h-0000"); count(types, "host.forked") != 1 || count(types, "host.grant_declined") != 4 {
		t.Fatalf("events %v", types)
	}
	if n := testkit.Value(w.op.Status(w.ctx()))(t).Hosts.ToEnrol; n != 0 {
		t.Fatalf("%d hosts have to enrol again, and no release declares any", n)
	}
	w.release("r1", plan{hosts: 2, content: "one"})
	if n := testkit.Value(w.op.Status(w.ctx()))(t).Hosts.ToEnrol; n != 1 {
		t.Fatalf("%d hosts have to enrol again, expected the forked one", n)
	}
}

// A restored log must not grant before the hosts that know more have sent it.
func TestSafeModeUntilReplayed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a, b := enrolled(w, "h-0000"), enrolled(w, "h-0001")
	a.append(declined("g1"))
	var reply wire.HeartbeatReply
	a.do("POST", wire.RouteHeartbeat, wire.Heartbeat{Incarnation: 1, LastSeq: 1}, nil)
	if s, err := w.op.Status(w.ctx()); err != nil || s.SafeMode != "" {
		t.Fatalf("a host that enrolled after the start is believed: %q, %v", s.SafeMode, err)
	}
	w.halt()
	w.start()
	a.do("POST", wire.RouteHeartbeat, wire.Heartbeat{Incarnation: 1, LastSeq: 1}, &reply)
	if reply.Acked != 0 {
		t.Fatalf("acknowledged %d", reply.Acked)
	}
	w.release("r1", plan{hosts: 2, content: "one"})
	if d, err := b.poll("0"); err != nil || d != nil {
		t.Fatalf("granted in safe mode: %+v, %v", d, err)
	}
	s, err := w.op.Status(w.ctx())
	testkit.Must(t, err)
	if !strings.Contains(s.SafeMode, "h-0000") {
		t.Fatalf("safe mode says %q", s.SafeMode)
	}
	w.expectProbes(w.server, 200, 503, "safe-mode")
	why, err := w.op.Why(w.ctx(), "h-0001")
	testkit.Must(t, err)
	if b := why.PendingBlock; b == nil || b.Code != gate.Restore || b.Message != s.SafeMode {
		t.Fatalf("why says %+v", why)
	}
	testkit.Must(t, a.send())
	b.offered() // after the replay
	if s, err = w.op.Status(w.ctx()); err != nil || s.SafeMode != "" {
		t.Fatalf("safe mode says %q, %v", s.SafeMode, err)
	}
}

// One host that says it knows more, and never sends it, must not hold up the
// grants and the claims of all others for ever.
func TestSafeModeEnds(t *testing.T) {
	w := newWorld(t, func(o *api.Options) { o.Control.ReplayWait = 200 * clock.Millisecond })
	a, b := enrolled(w, "h-0000"), enrolled(w, "h-0001")
	w.halt()
	w.start()
	a.do("POST", wire.RouteHeartbeat, wire.Heartbeat{Incarnation: 1, LastSeq: 1 << 50}, nil)
	w.release("r1", plan{hosts: 2, content: "one"})
	d := b.offered()           // after the wait
	for i := range uint64(3) { // later claims change nothing, also of a host that sends a little each time
		a.append(declined("g"))
		testkit.Must(t, a.send())
		a.do("POST", wire.RouteHeartbeat, wire.Heartbeat{Incarnation: 1, LastSeq: i + 2}, nil)
		if s, err := w.op.Status(w.ctx()); err != nil || s.SafeMode != "" {
			t.Fatalf("safe mode says %q, %v", s.SafeMode, err)
		}
	}
	var answer wire.ClaimAnswer
	if status := b.do("POST", wire.RouteClaim, wire.Claim{Grant: d.Grant, Term: d.Term}, &answer); status != 200 || !answer.Accepted {
		t.Fatalf("claim: %d, %+v", status, answer)
	}
}

func TestPresenceIsInTheLog(t *testing.T) {
	t.Parallel()
	const grace = 300 * clock.Millisecond
	w := newWorld(t, func(o *api.Options) { o.Control.OfflineAfter = grace })
	a := enrolled(w, "h-0000")
	ctx, leave := context.WithCancel(w.ctx())
	defer leave()
	polled := make(chan error, 1)
	go func() {
		_, _, err := a.call(ctx, "GET", wire.RouteDispatch+"?wait=60", nil)
		polled <- err
	}()
	w.until("the host to be there", func() bool { return count(w.types("h-0000"), "host.returned") == 1 })
	for since := w.server.Control().Now(); w.server.Control().Now() < since.Add(3*grace); {
		if got := w.types("h-0000"); count(got, "host.silent") != 0 {
			t.Fatalf("a host with an open long-poll: %v", got)
		}
	}
	leave()
	if err := <-polled; !errors.Is(err, context.Canceled) {
		t.Fatalf("the long-poll ended before it was left: %v", err)
	}
	w.until("the host to be silent", func() bool { return count(w.types("h-0000"), "host.silent") == 1 })
	// On a busy machine a heartbeat may be older than the grace when it is looked at.
	w.until("the host to be back", func() bool {
		a.do("POST", wire.RouteHeartbeat, wire.Heartbeat{Incarnation: 1}, nil)
		return count(w.types("h-0000"), "host.returned") >= 2
	})
}

// T10: on every route, a caller without a certificate, and a host on behalf of
// another, gets nothing.
func TestT10NobodyElseOnAnyRoute(t *testing.T) {
	w := newWorld(t)
	w.release("r1", plan{hosts: 2, content: "one"})
	a, b := enrolled(w, hostName(0)), enrolled(w, hostName(1))
	nobody := newAgent(w, hostName(0))
	h := api.NewAgentRoutes(w.server.Control(), nil)
	if len(h.Routes()) < 11 {
		t.Fatalf("only %d routes", len(h.Routes()))
	}
	for _, r := range h.Routes() {
		path := strings.NewReplacer("{rollout}", "stable@r1", "{digest}", "sha256:"+strings.Repeat("0", 64), "{file}", "none").Replace(r.Path)
		status, _, err := nobody.call(w.ctx(), r.Method, path, []byte("{}"))
		testkit.Must(t, err)
		if r.Peer && status != 401 || status/100 == 2 {
			t.Errorf("%s %s without a certificate: %d", r.Method, r.Path, status)
		}
		req, err := http.NewRequestWithContext(w.ctx(), r.Method, w.server.URL()+path, strings.NewReader("{}"))
		testkit.Must(t, err)
		res, err := nobody.http.Do(req)
		testkit.Must(t, err)
		res.Body.Close()
		if res.StatusCode != 400 {
			t.Errorf("%s %s without a protocol version: %d", r.Method, r.Path, res.StatusCode)
		}
		req.Header.Set(wire.Protocol, wire.Version)
		req.Header.Set("X-Forwarded-For", "127.0.0.1")
		req.Header.Set("X-SSL-Client-S-DN", "CN="+a.name)
		req.Body = http.NoBody
		if res, err = nobody.http.Do(req); err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if r.Peer && res.StatusCode != 401 {
			t.Errorf("%s %s with a proxy's headers: %d", r.Method, r.Path, res.StatusCode)
		}
	}
	d := a.offered()
	var ans wire.ClaimAnswer
	if b.do("POST", wire.RouteClaim, wire.Claim{Grant: d.Grant, Term: d.Term}, &ans); ans.Accepted {
		t.Error("a host claimed another's grant")
	}
	a.append(declined("x"))
	batch := a.batch()
	if status, _, err := b.call(w.ctx(), "POST", wire.RouteEvents, batch); err != nil || status != 400 {
		t.Errorf("a host sent another's events: %d, %v", status, err)
	}
	if n := count(w.types(b.name), "host.grant_declined"); n != 0 {
		t.Error("another's events are in the log")
	}
	_ = b.planFor(d) // it checks that the leaf is b's own, whatever d was for
}

// T19: what a body may not be is refused by name, and the connection goes on.
func TestT19BodiesAreBounded(t *testing.T) {
	w := newWorld(t)
	a := enrolled(w, "h-0000")
	for what, c := range map[string]struct {
		path   string
		body   string
		status int
	}{
		"large":        {wire.RouteClaim, `{"grant":"` + strings.Repeat("x", wire.MaxSmallBody) + `"}`, 413},
		"large events": {wire.RouteEvents, `{"events":"` + strings.Repeat("x", wire.MaxEventBody) + `"}`, 413},
		"deep":         {wire.RouteClaim, strings.Repeat("[", 40) + strings.Repeat("]", 40), 400},
		"twice":        {wire.RouteClaim, `{"grant":"a","Grant":"b"}`, 400},
		"trailing":     {wire.RouteClaim, `{"grant":"a"} {}`, 400},
		"not UTF-8":    {wire.RouteClaim, "{\"grant\":\"\xff\"}", 400},
		"empty batch":  {wire.RouteEvents, `{"incarnation":1,"events":[],"head":{}}`, 400},
		"foreign type": {wire.RouteEvents, `{"incarnation":1,"events":[{"seq":1,"at":1,"type":"grant.offered","body":{}}],"head":{"seq":1}}`, 400},
		"no digest":    {wire.RouteHeartbeat, `{"current":"sha256:zz"}`, 400},
	} {
		status, raw, err := a.call(w.ctx(), "POST", c.path, []byte(c.body))
		var p wire.Problem
		if err != nil || status != c.status || json.Unmarshal(raw, &p) != nil || p.Detail == "" {
			t.Errorf("%s: %d %s %v, expected %d", what, status, raw, err, c.status)
		}
	}
	if status := a.do("POST", wire.RouteHeartbeat, wire.Heartbeat{Incarnation: 1}, nil); status != 200 {
		t.Errorf("after all that: %d", status)
	}
}

// F8: a full store acknowledges nobody, answers what needs no room, and loses
// nothing that it acknowledged.
func TestF8FullStore(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(o *api.Options) { o.MaxLogBytes = 600 << 10 })
	a := enrolled(w, "h-0000")
	acked, full := uint64(0), false
	for i := 0; i < 400 && !full; i++ {
		a.append(event.ResourceReported{Resource: "file/x", Message: strings.Repeat("y", 8<<10)})
		status, raw, err := a.call(w.ctx(), "POST", wire.RouteEvents, a.batch())
		testkit.Must(t, err)
		switch status {
		case 200:
			a.queue, acked = nil, a.chain.Seq
		case 503:
			full = true
		default:
			t.Fatalf("%d %s", status, raw)
		}
	}
	if !full || acked == 0 {
		t.Fatalf("full %t after %d events", full, acked)
	}
	w.expectProbes(w.server, 200, 503, "space") // another process would find it just as full
	var reply wire.HeartbeatReply
	if status := a.do("POST", wire.RouteHeartbeat, wire.Heartbeat{Incarnation: 1}, &reply); status != 200 || reply.Acked != acked {
		t.Fatalf("heartbeat %d, acknowledged %d of %d", status, reply.Acked, acked)
	}
	testkit.Value(w.op.Status(w.ctx()))(t)
	w.halt()
	w.opts.MaxLogBytes = 0
	w.start()
	a.connect()
	a.do("POST", wire.RouteHeartbeat, wire.Heartbeat{Incarnation: 1}, &reply)
	if reply.Acked != acked {
		t.Fatalf("after the restart %d of %d acknowledged events are there", reply.Acked, acked)
	}
	testkit.Must(t, a.send())
	w.expectProbes(w.server, 200, 200)
	var seq uint64
	testkit.Must(t, w.server.Control().View(w.ctx(), func(s *coreplan.State) { seq = s.Hosts["h-0000"].Seq }))
	if seq != a.chain.Seq {
		t.Fatalf("the log holds %d of %d events", seq, a.chain.Seq)
	}
}
