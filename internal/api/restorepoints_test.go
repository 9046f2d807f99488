package api_test

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/steadyfleet/steady/internal/api"
	"github.com/steadyfleet/steady/internal/api/operator"
	"github.com/steadyfleet/steady/internal/control/documents"
	reducer "github.com/steadyfleet/steady/internal/core/agent"
	"github.com/steadyfleet/steady/internal/core/audit"
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/fleet"
	coreplan "github.com/steadyfleet/steady/internal/core/plan"
	"github.com/steadyfleet/steady/internal/logverify"
	"github.com/steadyfleet/steady/internal/store"
	"github.com/steadyfleet/steady/internal/store/embedded"
	"github.com/steadyfleet/steady/internal/testkit"
	"github.com/steadyfleet/steady/internal/trust"
	"github.com/steadyfleet/steady/internal/wire"
)

// past is one history of a fleet, with a backup of its server after each step.
type past struct {
	*world
	ahead  *atomic.Int64 // of the server's clock: steps are seconds apart
	points []point
	hosts  []*agent
	newest string // the folder of the newest release
	ends   sync.WaitGroup
}

// point is a backup, and what had just happened.
type point struct{ what, folder string }

// live plays a step, and takes a backup after it.
func (p *past) live(what string, step func()) {
	p.t.Helper()
	step()
	testkit.Must(p.t, p.op.Reconcile(p.ctx())) // what the planner makes of it is committed
	p.points = append(p.points, point{what, p.killed()})
	p.ahead.Add(int64(2 * time.Second))
}

// claims has a host claim its next grant, and returns what it has to do then.
func (a *agent) claims(d *wire.Dispatch) []reducer.Effect {
	a.w.t.Helper()
	o := reducer.Granted{Grant: d.Grant, Purpose: d.Purpose, Term: d.Term, TTL: d.TTL, Plan: a.planFor(d)}
	for _, e := range a.step(o) {
		if prepare, ok := e.(reducer.Prepare); ok {
			a.step(reducer.Prepared{Grant: prepare.Offer.Grant})
		}
	}
	var ans wire.ClaimAnswer
	if status := a.do("POST", wire.RouteClaim, wire.Claim{Grant: d.Grant, Term: d.Term}, &ans); status != 200 || !ans.Accepted {
		a.w.t.Fatalf("claim of %s: %d, %+v", a.name, status, ans)
	}
	return a.step(reducer.ClaimAnswered{Grant: d.Grant, Accepted: true})
}

// takes has a host take its next grant in steps.
func (p *past) takes(a *agent, ref string) {
	var d *wire.Dispatch
	p.live(a.name+" was offered "+ref, func() { d = a.offered() })
	var do []reducer.Effect
	p.live(a.name+" claimed "+ref, func() { do = a.claims(d) })
	p.live(a.name+" runs "+ref, func() { a.run(do); testkit.Must(p.t, a.send()) })
}

// newPast plays the history: three releases on two channels of which one waits for the other, waves, a
// budget, verbs, a signature, the managed layer, renewals, and hosts that enrol at different times.
func newPast(t *testing.T) *past {
	p := &past{ahead: new(atomic.Int64)}
	p.world = newWorld(t, func(o *api.Options) {
		o.Control.Now = func() time.Time { return time.Now().Add(time.Duration(p.ahead.Load())) }
	})
	declared := plan{hosts: 4, content: "one", waves: twoWaves, late: true, host: delegating,
		more: "disruptionBudgets: [{selector: {all: true}, maxInFlight: 2}]\n"}
	push := func(ref string) func() {
		return func() {
			declared.content = ref
			p.newest = p.build(ref, declared)
			testkit.Value(p.push(p.newest))(t)
		}
	}
	enrol := func(i int) func() { return func() { p.hosts = append(p.hosts, enrolled(p.world, hostName(i))) } }
	p.live("r1 is pushed", push("r1"))
	p.live("h0 enrolled", enrol(0))
	p.live("h1 enrolled", enrol(1))
	h0, h1 := p.hosts[0], p.hosts[1]
	p.takes(h0, "r1")
	p.takes(h1, "r1")
	p.live("r1 converged", func() { p.until("r1", func() bool { return p.standing("stable@r1") == "done" }) })
	p.live("h2 enrolled", enrol(2))
	h2 := p.hosts[2]
	p.takes(h2, "r1")
	p.live("something is set on h0", func() {
		testkit.Value(p.op.SetResource(p.ctx(), h0.name, "volume", "v1", resource(`{}`)))(t)
	})
	p.live("h1 renewed its certificate", h1.renew)
	p.live("r2 is pushed", push("r2"))
	p.takes(h0, "r2")
	signs := func(action fleet.OverrideAction) func() {
		return func() {
			r := p.rollout("stable@r2")
			testkit.Value(p.op.PushOverride(p.ctx(), p.sign(fleet.Override{Action: action, Rollout: r.Name, Manifest: r.Manifest}, trust.RoleOverride)))(t)
		}
	}
	p.live("r2 is paused by signature", signs(fleet.OverridePause))
	p.live("r2 is resumed by signature", signs(fleet.OverrideResume))
	p.live("r2 is paused", func() { testkit.Must(t, p.op.Operate(p.ctx(), coreplan.Pause, "stable@r2", "drill")) })
	p.live("r2 is resumed", func() { testkit.Must(t, p.op.Operate(p.ctx(), coreplan.Resume, "stable@r2", "drill")) })
	p.takes(h1, "r2")
	p.live("h1 is frozen", func() {
		testkit.Value(p.op.Freeze(p.ctx(), h1.name, clock.Hour, "drill"))(t)
	})
	p.live("h1 is not frozen any more", func() { testkit.Must(t, p.op.Unfreeze(p.ctx(), h1.name, "drill")) })
	p.takes(h2, "r2")
	p.live("r3 is pushed", push("r3"))
	p.live("h2 renewed its certificate", h2.renew)
	p.takes(h0, "r3")
	p.takes(h1, "r3")
	p.takes(h2, "r3")
	p.live("h3 enrolled", enrol(3))
	p.takes(p.hosts[3], "r3")
	p.until("all of r3", func() bool { return p.standing("stable@r3") == "done" && p.standing("late@r3") == "done" })
	return p
}

// again is the host as it is at the end of the history, for one restore.
func (a *agent) again() *agent {
	a.w.t.Helper()
	b := *a
	b.a = reducer.State{}
	testkit.Must(a.w.t, json.Unmarshal(testkit.Value(json.Marshal(a.a))(a.w.t), &b.a))
	b.all, b.queue, b.http = slices.Clone(a.all), slices.Clone(a.queue), nil
	b.newest = a.a.Machine.Manifest
	b.connect()
	return &b
}

// resends gives a restored server what it lacks of the host, or reports that it does not
// know the host.
func (a *agent) resends() (unknown bool) {
	a.w.t.Helper()
	var reply wire.HeartbeatReply
	status, raw, err := a.call(a.w.ctx(), "POST", wire.RouteHeartbeat, wire.Heartbeat{Incarnation: a.incarnation, LastSeq: a.chain.Seq})
	testkit.Must(a.w.t, err)
	if status == 403 && strings.Contains(string(raw), "steady token create "+a.name) {
		return true
	}
	if status != 200 {
		a.w.t.Fatalf("heartbeat of %s: %d %s", a.name, status, raw)
	}
	testkit.Must(a.w.t, wire.Decode(raw, &reply))
	a.queue = slices.Clone(a.all[reply.Acked:])
	testkit.Must(a.w.t, a.send())
	return false
}

// TestEveryPointOfABackup restores every second of the backups of one history, at night each, on
// the real store and the real server. Hosts send again what is lacking, before the newest release is pushed again or after it; who enrolled
// after the backup enrols again. Nobody is ordered back or runs anything twice, all converges, and doctor and
// the check of the exported log find nothing.
func TestEveryPointOfABackup(t *testing.T) {
	t.Parallel()
	p := newPast(t)
	p.halt()
	if len(p.points) < 40 {
		t.Fatalf("%d points prove little", len(p.points))
	}
	counts := map[string]int{}
	defer p.ends.Wait()
	for i, at := range p.points {
		if testkit.Nightly() || i%2 == 0 {
			p.restored(i/2, at, counts)
		}
	}
	t.Logf("%d points: %v", len(p.points), counts)
	if counts["host.certificate_renewed"] < 10 || counts["log.restored"] < len(p.points)/2 || counts["enrolled again"] < 20 {
		t.Errorf("the points prove nothing: %v", counts)
	}
}

func (p *past) restored(i int, at point, counts map[string]int) {
	t := p.t
	p.opts.DataDir, p.world.restored = at.folder, true
	p.start()
	var agents []*agent
	var lost []string
	push := func() { testkit.Value(p.push(p.newest))(t) }
	if i%2 == 0 {
		push()
	}
	for _, h := range p.hosts {
		a := h.again()
		if a.resends() {
			a.http.CloseIdleConnections()
			lost = append(lost, a.name)
			continue
		}
		agents = append(agents, a)
	}
	if i%2 == 1 {
		push()
	}
	kept := len(agents)
	for _, name := range lost {
		a := enrolled(p.world, name)
		a.beat()
		agents = append(agents, a)
	}
	counts["enrolled again"] += len(lost)
	stop := liveAgents(agents...)
	p.until(fmt.Sprintf("all to converge after a restore when %s", at.what), func() bool {
		hosts := testkit.Value(p.op.Hosts(p.ctx()))(t)
		return p.standing("stable@r3") == "done" && p.standing("late@r3") == "done" && !slices.ContainsFunc(hosts, func(h operator.Host) bool {
			return h.Phase != "converged" || h.Current != h.Target
		})
	})
	stop()
	for _, a := range agents[:kept] {
		if a.began != p.hosts[slices.IndexFunc(p.hosts, func(h *agent) bool { return h.name == a.name })].began {
			t.Errorf("%s: host %s began something that it had done", at.what, a.name)
		}
	}
	for _, a := range agents {
		a.http.CloseIdleConnections()
	}
	p.examine(at, counts) // beside the server that runs
	last := p.server
	p.op.Close()
	p.stop()
	p.server = nil
	p.ends.Go(func() { // it gives connections a second
		if err := last.Wait(); err != nil {
			t.Errorf("%s: %v", at.what, err)
		}
	})
}

// examine reads the log as doctor does, and as audit verify does that of an export.
func (p *past) examine(at point, counts map[string]int) {
	t := p.t
	s := testkit.Value(embedded.Open(t.Context(), filepath.Join(at.folder, "store"), embedded.Options{}))(t)
	defer func() { testkit.Must(t, s.Close()) }()
	library := documents.New(s)
	log := audit.NewLog(library)
	_, err := store.Replay(t.Context(), s, store.Head{}, func(records []event.Record) error {
		for i := range records {
			ev, err := event.Decode(records[i].Entry)
			if err != nil {
				return err
			}
			if r, is := ev.(event.ReleaseAccepted); is {
				library.Learn(r)
			}
			if r, is := ev.(event.CertificateRenewed); is && r.Issued != 0 || records[i].Type == (event.LogRestored{}).EventType() {
				counts[records[i].Type]++
			}
			for _, v := range log.Observe(records[i].Seq, records[i].Entry) {
				t.Errorf("%s: record %d: %s %s", at.what, records[i].Seq, v.Invariant, v.Message)
			}
		}
		return nil
	})
	testkit.Must(t, err)
	trail, anchor := p.export(s)
	if r := testkit.Value(logverify.Verify(trail, anchor))(t); len(r.Findings) > 0 {
		t.Errorf("%s: %+v", at.what, r.Findings)
	}
}
