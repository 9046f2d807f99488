package api_test

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/steadyfleet/steady/internal/api/operator"
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/host"
	coreplan "github.com/steadyfleet/steady/internal/core/plan"
	"github.com/steadyfleet/steady/internal/testkit"
	"github.com/steadyfleet/steady/internal/trust"
	"github.com/steadyfleet/steady/internal/wire"
)

// sign makes an operator's override; what is not given is filled in.
func (w *world) sign(o fleet.Override, by trust.Role) []byte {
	w.t.Helper()
	now := clock.FromTime(time.Now())
	o.Fleet, o.Epoch, o.IssuedAt, o.NotAfter = testFleet, 1, now, now.Add(clock.Day)
	o.Channel, o.ID, o.Reason = "stable", "o-"+string(o.Action), "incident 7"
	env := testkit.Value(trust.SignOverride(o, w.keys[by]))(w.t)
	return env
}

func (w *world) rollout(id string) operator.RolloutDetail {
	w.t.Helper()
	r := testkit.Value(w.op.Rollout(w.ctx(), id))(w.t)
	return r
}

// TestSignedRollbackOverTheAPI: a healthy rollout under way goes back on a
// signature: the server takes it from an operator's token, shows hosts the
// envelope, and ends the rollout reverted.
func TestSignedRollbackOverTheAPI(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.release("r1", plan{hosts: 3, content: "one"})
	agents := w.agents(3)
	stop := runAgents(t, agents...)
	w.until("r1 to converge", func() bool { return w.standing("stable@r1") == "done" })
	stop()
	first := agents[1].a.Machine.Current
	w.release("r2", plan{hosts: 3, content: "two"})
	follower := agents[1].follower()
	for _, a := range agents[1:] {
		d := a.offered()
		if a == agents[1] {
			testkit.Value(follower.Plan(w.ctx(), d.Rollout, d.Manifest))(t)
		}
		a.follow(d)
	}
	r2 := w.rollout("stable@r2")
	word := fleet.Override{Action: fleet.OverrideRollback, Rollout: r2.Name, Manifest: r2.Manifest}
	if _, err := w.op.PushOverride(w.ctx(), w.sign(word, trust.RoleRelease)); err == nil || !strings.Contains(err.Error(), "override key") {
		t.Fatalf("signed by the release key: %v", err)
	}
	env := w.sign(word, trust.RoleOverride)
	p := testkit.Value(w.op.PushOverride(w.ctx(), env))(t)
	if again, err := w.op.PushOverride(w.ctx(), env); err != nil || again.News || !p.News {
		t.Errorf("news %t, and again %t, %v", p.News, again.News, err)
	}
	back := agents[1].offered()
	if back.Purpose != host.Rollback || len(back.Failures) != 0 {
		t.Fatalf("the order to go back is %+v", back)
	}
	if v, err := follower.Override(back.Override); err != nil || v.Value().Manifest != back.Manifest {
		t.Fatalf("what hosts are shown: %v, %v", v, err)
	}
	agents[1].follow(back)
	stop = runAgents(t, agents...)
	w.until("r2 to be reverted", func() bool { return w.standing("stable@r2") == "reverted" })
	stop()
	for _, a := range agents {
		if a.a.Machine.Current != first {
			t.Errorf("host %s runs %s", a.name, a.a.Machine.Current.Short())
		}
	}
	var list wire.Overrides
	if status := agents[0].do("GET", wire.RouteTrust+wire.TrustOverrides, nil, &list); status != 200 || len(list.Overrides) != 1 {
		t.Fatalf("hosts are shown %d overrides, %d", len(list.Overrides), status)
	}
	var reply wire.HeartbeatReply
	agents[0].do("POST", wire.RouteHeartbeat, wire.Heartbeat{}, &reply)
	if reply.Overrides == "" {
		t.Error("a heartbeat tells nothing of overrides")
	}
	shown := testkit.Value(w.op.Override(w.ctx(), p.ID))(t)
	var a, b trust.Envelope
	a = testkit.Value(trust.ParseEnvelope(shown.Signed))(t)
	b = testkit.Value(trust.ParseEnvelope(env))(t)
	if string(a.Payload) != string(b.Payload) {
		t.Error("what was signed came back otherwise")
	}
}

// TestS18OverridesSurviveAnEmptyServer: everything of a server is lost. The
// release and the overrides kept in files are pushed again, in either order, and
// what was held stays held, over a restart too.
func TestS18OverridesSurviveAnEmptyServer(t *testing.T) {
	t.Parallel()
	for _, first := range []bool{true, false} {
		w := newWorld(t)
		dir := w.build("r1", plan{hosts: 1, content: "one"})
		testkit.Value(w.push(dir))(t)
		w.until("r1 to open", func() bool { return w.standing("stable@r1") == "active" })
		pause := w.sign(fleet.Override{Action: fleet.OverridePause, Manifest: w.rollout("stable@r1").Manifest}, trust.RoleOverride)
		testkit.Value(w.op.PushOverride(w.ctx(), pause))(t)

		w.halt()
		w.opts.DataDir = filepath.Join(w.dir, "another server")
		w.start()
		bring := []func(){
			func() { testkit.Value(w.op.PushOverride(w.ctx(), pause))(t) },
			func() { testkit.Value(w.push(dir))(t) },
		}
		if !first {
			bring[0], bring[1] = bring[1], bring[0]
		}
		bring[0]()
		bring[1]()
		w.until("r1 to open", func() bool { return w.standing("stable@r1") == "paused" })
		w.halt()
		w.start()
		a := w.agents(1)[0]
		if d, err := a.poll("1"); err != nil || d != nil {
			t.Fatalf("a paused rollout offers %+v, %v", d, err)
		}
		if err := w.op.Operate(w.ctx(), coreplan.Resume, "stable@r1", "please"); err == nil || !strings.Contains(err.Error(), "--sign") {
			t.Errorf("a token resumed it: %v", err)
		}
		resume := w.sign(fleet.Override{Action: fleet.OverrideResume, Manifest: w.rollout("stable@r1").Manifest}, trust.RoleOverride)
		testkit.Value(w.op.PushOverride(w.ctx(), resume))(t)
		if _, err := w.op.PushOverride(w.ctx(), pause); err == nil || !strings.Contains(err.Error(), "replaces it") {
			t.Errorf("the older pause came back: %v", err)
		}
		d := a.offered()
		if d.Purpose != host.Update {
			t.Fatalf("resumed, and it offers %+v", d)
		}
		raw := testkit.Value(json.Marshal(d))(t)
		if strings.Contains(string(raw), "override") {
			t.Errorf("an offer carries %s", raw)
		}
	}
}
