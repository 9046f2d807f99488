package e2e

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/host"
	"github.com/steadyfleet/steady/internal/testkit"
	"github.com/steadyfleet/steady/internal/testkit/testfleet"
	"github.com/steadyfleet/steady/internal/trust"
	"github.com/steadyfleet/steady/internal/wire"
)

// A rollout of this fleet stays under way: one of two hosts of its first wave
// enrolled, and is not there.
const heldFleet = `apiVersion: steady/v1
kind: Fleet
metadata: {name: acme}
hosts:
  web-1: {channel: stable, tags: [canary], bundle: web}
  web-2: {channel: stable, tags: [canary], bundle: web}
  db-1:  {channel: stable, tags: [db],     bundle: db}
channels:
  stable: {rolloutPolicy: careful, freshnessWindow: 24h, signingInterval: 1h, onNewRef: supersede}
rolloutPolicies:
  careful:
    waves:
      - {name: canary, selector: {tags: [canary]}, minSoaked: 2}
      - {name: rest,   selector: {all: true}}
allowMassChange: true # each release drops a file of the one before
bundles: {web: {path: bundles/web}, db: {path: bundles/db}}
`

// word signs an override of the newest rollout, or of what edit says instead.
func (s *stage) word(action fleet.OverrideAction, by trust.Role, edit ...func(*fleet.Override)) []byte {
	s.t.Helper()
	now := testfleet.Now()
	s.trials++
	o := fleet.Override{ID: fmt.Sprintf("o-%d", s.trials), Action: action, Channel: "stable", Reason: "incident 7", Manifest: s.manifest(s.version)}
	o.Fleet, o.Epoch, o.IssuedAt, o.NotAfter = fleetName, 1, now, now.Add(clock.Day)
	for _, f := range edit {
		f(&o)
	}
	return testkit.Value(trust.SignOverride(o, s.estate.Keys[by]))(s.t)
}

func (s *stage) manifest(version int) digest.Digest {
	return s.estate.made[version-1].verified.Manifests["stable"][0].Header.Digest()
}

func (s *stage) bring(env []byte) {
	s.t.Helper()
	_, _, err := s.origin.control.PushOverride(context.Background(), env, "test")
	testkit.Must(s.t, err)
}

// TestLyingRollbacks lies about an order to go back that an operator signed: a
// host goes back on the rollback of its own manifest alone, to where it came from.
func TestLyingRollbacks(t *testing.T) {
	t.Parallel()
	s := raise(t, heldFleet, nil)
	newBox(t, s.origin, "web-2")
	s.box = newBox(t, s.origin, victim).start()
	arrive := func() {
		s.offer = s.liar.offer(s.rollout(), host.Update)
		s.tell(s.dispatched(), "the newest release runs", s.runsNewest)
		s.runs, s.ran = s.version, append(s.ran, fmt.Sprintf("web-%d", s.version))
		s.inStep("arrival")
	}
	arrive()
	s.publish()
	arrive()
	s.bring(s.word(fleet.OverrideRollback, trust.RoleOverride))
	s.offer = s.liar.offer(s.rollout(), host.Rollback)
	if d := s.decoded(); d.Override == nil || len(d.Failures) != 0 {
		t.Fatalf("the order is shown by %s and %d proofs", d.Override, len(d.Failures))
	}
	a := act{message: "Dispatch", route: wire.RouteDispatch, few: true, doc: func(s *stage) []byte { return s.offer }}
	a.skip = s.dispatchAct().skip
	forged := []mutant{}
	for kind, env := range map[string][]byte{
		"a pause of the manifest":     s.word(fleet.OverridePause, trust.RoleOverride),
		"a cancel of the manifest":    s.word(fleet.OverrideCancel, trust.RoleOverride),
		"signed by the release key":   s.word(fleet.OverrideRollback, trust.RoleRelease),
		"signed by the timestamp key": s.word(fleet.OverrideRollback, trust.RoleTimestamp),
		"of the manifest before":      s.word(fleet.OverrideRollback, trust.RoleOverride, func(o *fleet.Override) { o.Manifest = s.manifest(s.version - 1) }),
		"of another fleet":            s.word(fleet.OverrideRollback, trust.RoleOverride, func(o *fleet.Override) { o.Fleet = "other" }),
		"of another epoch":            s.word(fleet.OverrideRollback, trust.RoleOverride, func(o *fleet.Override) { o.Epoch = 2 }),
		"whose time has passed": s.word(fleet.OverrideRollback, trust.RoleOverride, func(o *fleet.Override) {
			o.IssuedAt -= clock.Instant(3 * clock.Day)
			o.NotAfter -= clock.Instant(3 * clock.Day)
		}),
		"signed ahead of time": s.word(fleet.OverrideRollback, trust.RoleOverride, func(o *fleet.Override) {
			o.IssuedAt += clock.Instant(clock.Day)
			o.NotAfter += clock.Instant(clock.Day)
		}),
		"an envelope of another content": s.newest().file(t, "timestamp.json"),
		"null":                           []byte("null"),
	} {
		d := s.decoded()
		d.Override = env
		forged = append(forged, mutant{"override", kind, testkit.Value(json.Marshal(d))(t)})
	}
	d := s.decoded()
	d.Override = nil
	forged = append(forged, mutant{"override", "none", testkit.Value(json.Marshal(d))(t)})
	for _, m := range forged {
		s.tellBack(m, false)
	}
	// What shows the order comes first: a host that took it once needs no showing.
	list := s.mutants(a)
	slices.SortStableFunc(list, func(a, b mutant) int { return cmp.Compare(rank(a), rank(b)) })
	for _, m := range list {
		s.reach(a.message, m.path)
		s.tellBack(m, rank(m) > 0 && (rank(m) == 1 || harmlessBack(m)))
	}
	t.Logf("%d lies about a signed order to go back, and %d forged ones", len(list), len(forged))
	s.covers("Dispatch", wire.Dispatch{}, func(path string) bool { return path == "override" })

	s.liar.arm(nil)
	s.tell(s.dispatched(), "the host went back", func() bool {
		if code, declined := s.liar.saw(s.decoded().Grant); declined {
			t.Fatalf("the true order was declined: %s", code)
		}
		return s.box.agent.Status().Machine.Phase == host.Reverted
	})
	s.runs, s.ran = s.version-1, append(s.ran, fmt.Sprintf("left-web-%d", s.version), fmt.Sprintf("web-%d", s.version-1))
	s.unchanged("the order, truly told")
}

// rank puts what spoils the signed order first, then what leaves it as it is, then
// what is about something else.
func rank(m mutant) int {
	switch {
	case !strings.HasPrefix(m.path, "override"):
		return 2
	case extra(m):
		return 1
	}
	return 0
}

// TestLyingOverrides: what an operator signed reaches a host through a server that
// lies about it. Once taken, nothing that the server tells loosens it, not by
// leaving it out, nor by what was signed before, nor by a grant.
func TestLyingOverrides(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.next()
	early := s.word(fleet.OverrideResume, trust.RoleOverride, func(o *fleet.Override) { o.IssuedAt -= clock.Instant(clock.Minute) })
	s.bring(s.word(fleet.OverridePause, trust.RoleOverride))
	paused := func() bool {
		st := s.box.agent.Status()
		return st.Overrides.Paused(s.manifest(s.version)) != nil
	}
	s.news("the host knows of the pause", paused)

	forward := func(what string) {
		t.Helper()
		if s.probe(&lie{name: what, route: wire.RouteDispatch, body: func(real []byte) []byte { return real }}) {
			t.Errorf("%s: the host claimed a grant of a paused rollout", what)
		}
		if !paused() {
			t.Fatalf("%s: the host forgot the pause", what)
		}
	}
	forward("a grant all the same")
	for what, list := range map[string]string{
		"none":                        `{"overrides":[]}`,
		"no list":                     `{}`,
		"null":                        `null`,
		"half a list":                 `{"overrides":[{"payload":`,
		"nothing that is signed":      `{"overrides":[{},null,7,"x"]}`,
		"a resume from before":        `{"overrides":[` + string(early) + `]}`,
		"a resume by the release key": `{"overrides":[` + string(s.word(fleet.OverrideResume, trust.RoleRelease)) + `]}`,
		"more than any server has":    `{"overrides":[` + strings.Repeat("{},", 2000) + `{}]}`,
	} {
		s.tellList(what, list)
		forward(what)
	}
	s.bring(s.word(fleet.OverrideResume, trust.RoleOverride))
	s.news("the host knows of the resume", func() bool { return !paused() })
	s.next()
	s.truth()
}

// tellList gives the host another list of overrides than there is.
func (s *stage) tellList(what, list string) {
	s.t.Helper()
	var told atomic.Int64
	s.liar.arm(&lie{name: what, route: "/v1/", tell: func(w http.ResponseWriter, r *http.Request, real *httptest.ResponseRecorder) {
		body := real.Body.Bytes()
		switch r.URL.Path {
		case wire.RouteTrust + wire.TrustOverrides:
			told.Add(1)
			write(w, http.StatusOK, []byte(list))
			return
		case wire.RouteHeartbeat:
			n := parseJSON(s.t, body)
			n.at("overrides").set(fmt.Sprintf("%q", digest.Of([]byte(what))))
			body = n.bytes()
		}
		write(w, real.Code, body)
	}})
	s.news(what+" was told", func() bool { return told.Load() > 0 })
	s.liar.arm(nil)
}
