package api_test

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ed25519"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/host"
	"github.com/steadyfleet/steady/internal/identity"
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
	a           host.Agent
	chain       identity.Chain // up to the last event
	acked       identity.Chain
	queue       []wire.Event // not acknowledged
	clock       clock.Instant
	fail        bool // activations fail
}

func newAgent(w *world, name string) *agent {
	w.t.Helper()
	a := &agent{w: w, name: name, clock: 1000}
	key, err := identity.NewKey()
	must(w.t, err)
	a.key = key
	a.event, err = identity.NewKey()
	must(w.t, err)
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
	must(a.w.t, err)
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

// do is call that decodes a success into v.
func (a *agent) do(method, path string, body, v any) int {
	a.w.t.Helper()
	status, raw, err := a.call(a.w.ctx(), method, path, body)
	must(a.w.t, err)
	if status/100 == 2 && v != nil && status != http.StatusNoContent {
		must(a.w.t, wire.Decode(raw, v))
	}
	return status
}

func (a *agent) enrolRequest() wire.Enrol {
	csr, err := identity.NewCSR(a.key)
	must(a.w.t, err)
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
	cert, err := identity.Pair(c.Chain, a.key)
	must(a.w.t, err)
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
	body, err := json.Marshal(e)
	must(a.w.t, err)
	a.clock++
	a.chain = a.chain.Next(a.clock, e.EventType(), body)
	a.queue = append(a.queue, wire.Event{Seq: a.chain.Seq, At: a.clock, Type: e.EventType(), Body: body})
}

func (a *agent) head() wire.Head {
	sig, err := identity.SignHead(a.event, testFleet, a.name, a.incarnation, a.chain)
	must(a.w.t, err)
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
	status, raw, err := a.call(a.w.ctx(), "POST", wire.RouteEvents, a.batch())
	if err != nil {
		return err
	}
	if status != 200 {
		return errors.New(string(raw))
	}
	a.queue, a.acked = nil, a.chain
	return nil
}

// step moves the machine and reports it.
func (a *agent) step(in host.Input) []host.Effect {
	a.w.t.Helper()
	before := a.a.Machine
	effects, notable, err := a.a.Step(in, a.clock+1)
	must(a.w.t, err)
	if notable {
		e, err := event.NewHostStepped(&before, &a.a.Machine, in)
		must(a.w.t, err)
		a.append(e)
	}
	return effects
}

// poll asks for a grant; nil when none came.
func (a *agent) poll(wait string) (*wire.Dispatch, error) {
	status, raw, err := a.call(a.w.ctx(), "GET", wire.RouteDispatch+"?wait="+wait, nil)
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
		d, err := a.poll("20")
		must(a.w.t, err)
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
	e, err := trust.ParseEnvelope(m.Envelope)
	must(a.w.t, err)
	if digest.Of(e.Payload) != d.Manifest {
		a.w.t.Fatalf("the manifest is not the offered %s", d.Manifest)
	}
	var header fleet.Manifest
	var leaf fleet.Leaf
	must(a.w.t, json.Unmarshal(e.Payload, &header))
	must(a.w.t, json.Unmarshal(m.Leaf.Leaf, &leaf))
	if leaf.Host != a.name {
		a.w.t.Fatalf("host %s was given the leaf of %s", a.name, leaf.Host)
	}
	return fleet.HostPlanOf(&header, d.Manifest, &leaf)
}

// follow acts on a grant to the end: claim, activate, confirm, report.
func (a *agent) follow(d *wire.Dispatch) {
	a.w.t.Helper()
	o := host.Offer{Grant: d.Grant, Purpose: d.Purpose, Term: d.Term, Expires: a.clock.Add(d.TTL), Reason: d.Reason}
	if d.Purpose == host.Back {
		o.Plan = a.a.Plan
	} else {
		o.Plan = a.planFor(d)
	}
	a.run(a.a.Granted(o, a.clock))
	must(a.w.t, a.send())
}

// run carries effects out as a host would on which everything takes no time.
func (a *agent) run(effects []host.Effect) {
	for _, e := range effects {
		must(a.w.t, e.Run(acting{a}))
	}
}

type acting struct{ *agent }

func (x acting) Prepare(e host.Prepare) error {
	x.run(x.a.Prepared(e.Offer.Grant, x.clock))
	return nil
}

func (x acting) Claim(e host.Claim) error {
	var ans wire.ClaimAnswer
	if status := x.do("POST", wire.RouteClaim, wire.Claim{Grant: e.Offer.Grant, Term: e.Offer.Term}, &ans); status != 200 {
		x.w.t.Fatalf("claim of %s: %d", x.name, status)
	}
	if e.Offer.Purpose == host.Repair {
		x.run(x.a.RepairAnswered(e.Offer.Grant, ans.Accepted, x.clock))
		return nil
	}
	if in := x.a.ClaimAnswered(e.Offer.Grant, ans.Accepted, "boot"); in != nil {
		x.run(x.step(in))
	}
	return nil
}

func (x acting) Decline(e host.Decline) error {
	x.append(event.GrantDeclined{Grant: e.Grant, Code: e.Code, Detail: e.Detail})
	return nil
}

func (x acting) Activate(e host.Activate) error {
	if x.fail {
		x.run(x.step(host.ActivationFailed{Code: "boom", Detail: "the test says so"}))
		return nil
	}
	x.run(x.step(host.Activated{Observed: e.Target}))
	x.run(x.step(host.Contact{}))
	return nil
}

func (x acting) Revert(e host.Revert) error {
	x.run(x.step(host.RevertCompleted{Observed: e.To}))
	return nil
}

func (x acting) StartProbes(host.StartProbes) error { return nil }
func (x acting) Quarantine(q host.Quarantine) error {
	x.append(event.BundleQuarantined{Rollout: x.a.Machine.Rollout, Digest: q.Digest, Reason: q.Reason})
	return nil
}

// OpenRepair ends at once: a repair takes no time here.
func (x acting) OpenRepair(host.OpenRepair) error {
	x.run(x.a.Drifted(host.Drift{}, x.clock))
	return nil
}

func (x acting) BeginReboot(host.BeginReboot) error {
	x.w.t.Errorf("host %s reboots, and nothing was staged", x.name)
	return nil
}

func (x acting) NeedRepair(e host.NeedRepair) error {
	x.append(event.RepairNeeded{RepairNeed: e.RepairNeed})
	return nil
}

func (x acting) EndRepair(e host.EndRepair) error {
	x.append(event.RepairOver{Grant: e.Grant, OK: e.OK, Detail: e.Detail})
	return nil
}

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

// runAgents lets agents follow grants in the background until stop is called. The
// server hears from all of them before the first begins: a rollout ends without hosts
// that it never heard of.
func runAgents(t testing.TB, agents ...*agent) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{}, len(agents))
	for _, a := range agents {
		_, _, err := a.call(ctx, "GET", wire.RouteDispatch+"?wait=0", nil)
		must(t, err)
	}
	for _, a := range agents {
		go func() { defer func() { done <- struct{}{} }(); a.live(ctx) }()
	}
	return func() {
		cancel()
		for range agents {
			<-done
		}
	}
}
