package api_test

import (
	"bytes"
	"cmp"
	"context"
	"crypto"
	"crypto/ed25519"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"sync"
	"testing"
	"time"

	reducer "github.com/steadyfleet/steady/internal/core/agent"
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/host"
	"github.com/steadyfleet/steady/internal/identity"
	"github.com/steadyfleet/steady/internal/testkit"
	"github.com/steadyfleet/steady/internal/trust"
	"github.com/steadyfleet/steady/internal/wire"
)

// agent is the least that can be an agent: the real reducer of the core with a
// chain of events, and no disk.
type agent struct {
	w           *world
	name        string
	key         crypto.Signer
	event       ed25519.PrivateKey
	token       []byte
	cert        *tls.Certificate
	incarnation uint64
	http        *http.Client
	a           reducer.State
	chain       identity.Chain // up to the last event
	acked       identity.Chain
	queue       []wire.Event // not acknowledged
	clock       clock.Instant
	fail        bool   // activations fail
	says        string // why, instead of "the test says so"
	all         []wire.Event
	began       int           // activations and ways back
	newest      digest.Digest // what the newest release that it accepted rolls out to it, if that is of matter
}

func newAgent(w *world, name string) *agent {
	w.t.Helper()
	a := &agent{w: w, name: name, clock: 1000}
	key := testkit.Value(identity.NewKey())(w.t)
	a.key = key
	a.event = testkit.Value(identity.NewKey())(w.t)
	a.token = w.token(name)
	a.connect()
	return a
}

// connect makes new connections with the certificate at hand.
func (a *agent) connect() {
	if a.http != nil {
		a.http.CloseIdleConnections()
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(a.w.ca())
	conf, err := identity.AgentTLS(identity.AgentOptions{ServerCA: pool, ServerName: "127.0.0.1",
		Certificate: func() (*tls.Certificate, error) { return a.cert, nil }})
	testkit.Must(a.w.t, err)
	tr := &http.Transport{TLSClientConfig: conf, ForceAttemptHTTP2: true}
	a.http = &http.Client{Transport: tr, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	a.w.t.Cleanup(tr.CloseIdleConnections)
}

// call makes one exchange and returns the status and the body.
func (a *agent) call(ctx context.Context, method, path string, body any) (int, []byte, error) {
	var raw []byte
	switch b := body.(type) {
	case nil:
	case []byte:
		raw = b
	default:
		var err error
		if raw, err = json.Marshal(b); err != nil {
			return 0, nil, err
		}
	}
	req, err := http.NewRequestWithContext(ctx, method, a.w.url()+path, bytes.NewReader(raw))
	if err != nil {
		return 0, nil, err
	}
	req.Header.Set(wire.Protocol, wire.Version)
	res, err := a.http.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer res.Body.Close()
	out, err := io.ReadAll(res.Body)
	return res.StatusCode, out, err
}

// exchange is call that the end of the test does not cancel: an agent that ends with it comes to the end of what
// it does.
func (a *agent) exchange(method, path string, body any) (int, []byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return a.call(ctx, method, path, body)
}

// do is exchange that decodes a success into v.
func (a *agent) do(method, path string, body, v any) int {
	a.w.t.Helper()
	status, raw, err := a.exchange(method, path, body)
	testkit.Must(a.w.t, err)
	if status/100 == 2 && v != nil && status != http.StatusNoContent {
		testkit.Must(a.w.t, wire.Decode(raw, v))
	}
	return status
}

func (a *agent) enrolRequest() wire.Enrol {
	csr := testkit.Value(identity.NewCSR(a.key))(a.w.t)
	return wire.Enrol{Token: a.token, CSR: csr, EventKey: a.event.Public().(ed25519.PublicKey)}
}

func (a *agent) enrol() {
	a.w.t.Helper()
	var c wire.Certificate
	if status := a.do("POST", wire.RouteEnrol, a.enrolRequest(), &c); status != 200 {
		a.w.t.Fatalf("enrolling %s: %d", a.name, status)
	}
	a.adopt(c)
	a.chain = identity.Genesis(testFleet, a.name, c.Incarnation)
	a.acked = a.chain
}

func (a *agent) adopt(c wire.Certificate) {
	cert := testkit.Value(identity.Pair(c.Chain, a.key))(a.w.t)
	a.cert, a.incarnation = cert, c.Incarnation
	a.connect()
}

func enrolled(w *world, name string) *agent {
	w.t.Helper()
	a := newAgent(w, name)
	a.enrol()
	return a
}

// append adds an event to the chain.
func (a *agent) append(e event.Event) {
	body := testkit.Value(json.Marshal(e))(a.w.t)
	a.clock++
	a.chain = a.chain.Next(a.clock, e.EventType(), body)
	told := wire.Event{Seq: a.chain.Seq, At: a.clock, Type: e.EventType(), Body: body}
	a.queue, a.all = append(a.queue, told), append(a.all, told)
}

func (a *agent) head() wire.Head {
	sig := testkit.Value(identity.SignHead(a.event, testFleet, a.name, a.incarnation, a.chain))(a.w.t)
	return wire.Head{Seq: a.chain.Seq, Hash: bytes.Clone(a.chain.Hash[:]), Signature: sig}
}

func (a *agent) batch() wire.EventBatch {
	return wire.EventBatch{Incarnation: a.incarnation, Events: a.queue, Head: a.head()}
}

// send reports what is queued.
func (a *agent) send() error {
	if len(a.queue) == 0 {
		return nil
	}
	status, raw, err := a.exchange("POST", wire.RouteEvents, a.batch())
	if err != nil {
		return err
	}
	if status != 200 {
		return errors.New(string(raw))
	}
	a.queue, a.acked = nil, a.chain
	return nil
}

// step gives the reducer an input, keeps what it reports, and returns what is to do.
func (a *agent) step(in reducer.Input) []reducer.Effect {
	a.w.t.Helper()
	t := testkit.Value(a.a.Step(in, a.clock+1))(a.w.t)
	for _, e := range t.Events {
		a.append(e)
	}
	return t.Effects
}

// poll asks for a grant; nil when none came.
func (a *agent) poll(wait string) (*wire.Dispatch, error) {
	status, raw, err := a.exchange("GET", wire.RouteDispatch+"?wait="+wait, nil)
	if err != nil || status == http.StatusNoContent {
		return nil, err
	}
	if status != 200 {
		return nil, errors.New(string(raw))
	}
	d := new(wire.Dispatch)
	return d, wire.Decode(raw, d)
}

// offered is what the host is granted next. A wait for less than a minute would ask
// how fast the machine is.
func (a *agent) offered() *wire.Dispatch {
	a.w.t.Helper()
	for ctx := a.w.ctx(); ctx.Err() == nil; {
		d := testkit.Value(a.poll("20"))(a.w.t)
		if d != nil {
			return d
		}
	}
	a.w.t.Fatalf("%s was granted nothing", a.name)
	return nil
}

// planFor reads the host's plan out of its manifest.
func (a *agent) planFor(d *wire.Dispatch) fleet.HostPlan {
	a.w.t.Helper()
	var m wire.HostManifest
	if status := a.do("GET", wire.RouteRollouts+d.Rollout, nil, &m); status != 200 {
		a.w.t.Fatalf("manifest of %s: %d", d.Rollout, status)
	}
	e := testkit.Value(trust.ParseEnvelope(m.Envelope))(a.w.t)
	if digest.Of(e.Payload) != d.Manifest {
		a.w.t.Fatalf("the manifest is not the offered %s", d.Manifest)
	}
	var header fleet.Manifest
	var leaf fleet.Leaf
	testkit.Must(a.w.t, json.Unmarshal(e.Payload, &header))
	testkit.Must(a.w.t, json.Unmarshal(m.Leaf.Leaf, &leaf))
	if leaf.Host != a.name {
		a.w.t.Fatalf("host %s was given the leaf of %s", a.name, leaf.Host)
	}
	return fleet.HostPlanOf(&header, d.Manifest, &leaf)
}

// follow acts on a grant to the end: claim, activate, confirm, report.
func (a *agent) follow(d *wire.Dispatch) {
	a.w.t.Helper()
	o := reducer.Granted{Grant: d.Grant, Purpose: d.Purpose, Term: d.Term, TTL: d.TTL, Reason: d.Reason, Newest: a.newest}
	if d.Purpose == host.Rollback {
		o.Plan = a.a.Plan
	} else {
		o.Plan = a.planFor(d)
	}
	a.run(a.step(o))
	testkit.Must(a.w.t, a.send())
}

// run carries effects out as a host would on which everything takes no time.
func (a *agent) run(effects []reducer.Effect) {
	for _, e := range effects {
		testkit.Must(a.w.t, e.Run(acting{a}))
	}
}

type acting struct{ *agent }

func (x acting) Leave(e reducer.Leave) error {
	x.run(x.step(reducer.GenerationObserved{Generation: e.Generation, Outcome: reducer.Complete}))
	return nil
}

func (x acting) Prepare(e reducer.Prepare) error {
	x.run(x.step(reducer.Prepared{Grant: e.Offer.Grant}))
	return nil
}

func (x acting) Claim(e reducer.Claim) error {
	var ans wire.ClaimAnswer
	if status := x.do("POST", wire.RouteClaim, wire.Claim{Grant: e.Offer.Grant, Term: e.Offer.Term}, &ans); status != 200 {
		x.w.t.Fatalf("claim of %s: %d", x.name, status)
	}
	x.run(x.step(reducer.ClaimAnswered{Grant: e.Offer.Grant, Accepted: ans.Accepted}))
	return nil
}

func (x acting) Activate(e reducer.Activate) error {
	x.began++
	in := reducer.GenerationObserved{Generation: e.Generation, Outcome: reducer.Complete}
	if x.fail {
		in.Outcome, in.Code, in.Detail = reducer.Broken, "boom", cmp.Or(x.says, "the test says so")
	}
	x.run(x.step(in))
	x.run(x.step(reducer.Contact{Era: x.a.Era()}))
	return nil
}

func (x acting) Revert(e reducer.Revert) error {
	x.began++
	x.run(x.step(reducer.GenerationObserved{Generation: e.Generation, Outcome: reducer.Complete}))
	return nil
}

// Observe finds every repair done: it takes no time here.
func (x acting) Observe(reducer.Observe) error {
	x.run(x.step(reducer.RepairsObserved{}))
	return nil
}

func (x acting) BeginReboot(reducer.BeginReboot) error {
	x.w.t.Errorf("host %s reboots, and nothing was staged", x.name)
	return nil
}

func (x acting) StartProbes(reducer.StartProbes) error     { return nil }
func (x acting) BeginRepairs(reducer.BeginRepairs) error   { return nil }
func (x acting) CloseRepairs(reducer.CloseRepairs) error   { return nil }
func (x acting) Sweep(reducer.Sweep) error                 { return nil }
func (x acting) RunResources(reducer.RunResources) error   { return nil }
func (x acting) StopResources(reducer.StopResources) error { return nil }

// live follows grants until ctx ends.
func (a *agent) live(ctx context.Context) {
	for ctx.Err() == nil {
		status, raw, err := a.call(ctx, "GET", wire.RouteDispatch+"?wait=20", nil)
		if err != nil || status != 200 {
			if ctx.Err() == nil && status != http.StatusNoContent {
				select {
				case <-ctx.Done():
				case <-time.After(10 * time.Millisecond):
				}
			}
			continue
		}
		var d wire.Dispatch
		if err := wire.Decode(raw, &d); err != nil {
			a.w.t.Error(err)
			return
		}
		a.follow(&d)
	}
}

// runAgents lets agents follow grants in the background until stop is called, or the test ends: they end before
// all that the test had when they began. The server hears from all of them before the first begins: a rollout
// ends without hosts that it never heard of.
func runAgents(t testing.TB, agents ...*agent) (stop func()) {
	ctx := t.Context()
	for _, a := range agents {
		_, _, err := a.call(ctx, "GET", wire.RouteDispatch+"?wait=0", nil)
		testkit.Must(t, err)
		_, _, err = a.call(ctx, "POST", wire.RouteHeartbeat, wire.Heartbeat{Incarnation: a.incarnation, LastSeq: a.chain.Seq, Pending: len(a.queue)})
		testkit.Must(t, err)
	}
	return liveAgents(agents...)
}

// liveAgents is runAgents of hosts that the server has heard from.
func liveAgents(agents ...*agent) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{}, len(agents))
	for _, a := range agents {
		go func() { defer func() { done <- struct{}{} }(); a.live(ctx) }()
	}
	stop = sync.OnceFunc(func() {
		cancel()
		for range agents {
			<-done
		}
	})
	if len(agents) > 0 {
		agents[0].w.t.Cleanup(stop)
	}
	return stop
}
