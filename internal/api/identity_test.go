package api_test

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/steadyfleet/steady/internal/api/operator"
	"github.com/steadyfleet/steady/internal/testkit"
	"github.com/steadyfleet/steady/internal/testkit/testfleet"
	"github.com/steadyfleet/steady/internal/trust"
	"github.com/steadyfleet/steady/internal/wire"
)

// T10: an operator's revocation and a decommission cut the open long-poll and the
// open stream of the host, and the next request is refused.
func TestT10RevocationCutsPollsAndStreams(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*world, string) error{
		"revoke":       func(w *world, h string) error { return w.op.RevokeHost(w.ctx(), h, "stolen") },
		"decommission": func(w *world, h string) error { return w.op.DecommissionHost(w.ctx(), h, "sold") },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			a := settled(w, plan{hosts: 2, content: "one", host: delegating})
			agentEnd := make(chan error, 1)
			wait := a.serve(1, func(c *conn) {
				testkit.Must(t, c.out.WriteData(wire.FrameStdout, []byte("begin")))
				_, err := c.in.Next()
				agentEnd <- err
			})
			s := testkit.Value(w.op.Logs(w.ctx(), a.name, "web", operator.LogQuery{Follow: true}))(t)
			defer s.Close()
			if f, err := s.Next(); err != nil || string(f.Data) != "begin" {
				t.Fatalf("the log began with %q, %v", f.Data, err)
			}
			polled := make(chan int, 1)
			go func() {
				status, _, err := a.call(w.ctx(), "GET", wire.RouteDispatch, nil)
				if err != nil {
					status = -1
				}
				polled <- status
			}()
			testkit.Must(t, end(w, a.name))
			if status := <-polled; status != 403 {
				t.Errorf("the open poll ended with %d", status)
			}
			if err := <-agentEnd; err == nil {
				t.Error("the agent's end of the stream goes on")
			}
			if exit, err := s.Copy(io.Discard, io.Discard); err == nil {
				t.Errorf("the operator's end of the stream ended well, %+v", exit)
			}
			wait()
			if status, _, err := a.call(w.ctx(), "POST", wire.RouteHeartbeat, wire.Heartbeat{Incarnation: 1}); err == nil && status != 403 {
				t.Errorf("the next request was answered %d", status)
			}
			h := testkit.Value(w.op.Host(w.ctx(), a.name))(t)
			if !strings.HasPrefix(h.IdentityStatus, name) && h.IdentityStatus != "revoked" {
				t.Errorf("the host stands as %q", h.IdentityStatus)
			}
			if n, ended := testkit.Value(w.op.Status(w.ctx()))(t).Hosts.ToEnrol, h.IdentityStatus == "revoked"; n == 1 != ended {
				t.Errorf("%d hosts have to enrol again", n)
			}
			w.until("the host to enrol with a token from after it", func() bool {
				again := newAgent(w, a.name)
				var c wire.Certificate
				if again.do("POST", wire.RouteEnrol, again.enrolRequest(), &c) != 200 {
					return false
				}
				again.adopt(c)
				return again.do("POST", wire.RouteHeartbeat, wire.Heartbeat{Incarnation: 2}, nil) == 200
			})
		})
	}
}

// A signed revocation outlives the server: one that is set up anew on the same
// authorities refuses the host's certificate and the tokens from before it.
func TestSignedRevocationSurvivesALostServer(t *testing.T) {
	w := newWorld(t)
	dir := w.build("r1", plan{hosts: 2, content: "x"})
	testkit.Value(w.push(dir))(t)
	stolen := enrolled(w, "h-0000")
	token := w.token("h-0000")
	at := w.server.Control().Now().Add(1)
	dir = w.build("r2", plan{hosts: 2, content: "x", more: "revoked: {h-0000: {notBefore: \"" + time.UnixMilli(int64(at)).UTC().Format(time.RFC3339Nano) + "\", reason: lost}}\n"})
	testkit.Value(w.push(dir))(t)
	w.halt()
	testkit.Must(t, os.RemoveAll(filepath.Join(w.opts.DataDir, "store")))
	w.start()
	testkit.Value(w.push(dir))(t)
	stolen.connect()
	if status, _, err := stolen.call(w.ctx(), "POST", wire.RouteHeartbeat, wire.Heartbeat{Incarnation: 1}); err == nil && status != 403 {
		t.Errorf("the stolen certificate was answered %d", status)
	}
	thief := newAgent(w, "h-0000")
	thief.token = token
	if status := thief.do("POST", wire.RouteEnrol, thief.enrolRequest(), nil); status != 403 {
		t.Errorf("a token from before the revocation enrolled: %d", status)
	}
	back := newAgent(w, "h-0000")
	back.enrol()
}

// rotate makes the root after the world's newest, with new keys for some roles.
func (w *world) rotate(version, epoch uint64, roles ...trust.Role) []byte {
	w.t.Helper()
	next := testfleet.NewKeys("")
	for _, role := range roles {
		w.keys[role] = next[role]
	}
	return testkit.Value(w.keys.Root(testfleet.Head(epoch, version)))(w.t)
}

// A server takes roots without a release, serves every one of them, and keeps them
// over a restart; what does not follow changes nothing.
func TestRootsArePushedAlone(t *testing.T) {
	w := newWorld(t)
	w.release("r1", plan{hosts: 1, content: "x"})
	chain := [][]byte{w.root}
	for v := uint64(2); v <= 4; v++ {
		chain = append(chain, w.rotate(v, 1, trust.RoleEnrol))
	}
	if _, err := w.op.PushRoots(w.ctx(), [][]byte{chain[2]}); err == nil {
		t.Error("a root that skips one was taken")
	}
	stranger := newKeys(t)
	if _, err := w.op.PushRoots(w.ctx(), [][]byte{stranger.root}); err == nil {
		t.Error("another first root was taken")
	}
	p := testkit.Value(w.op.PushRoots(w.ctx(), chain))(t)
	if p.Version != 4 || p.Accepted != 3 || !p.ReleaseValid {
		t.Errorf("pushed: %+v", p)
	}
	again := testkit.Value(w.op.PushRoots(w.ctx(), chain))(t)
	if again.Accepted != 0 || again.Version != 4 {
		t.Errorf("again: %+v", again)
	}
	w.halt()
	w.start()
	a := newAgent(w, "h-0000")
	for v := 2; v <= 4; v++ {
		status, body, err := a.call(w.ctx(), "GET", fmt.Sprintf("%s%d.root.json", wire.RouteTrust, v), nil)
		testkit.Must(t, err)
		if status != 200 || string(body) != string(chain[v-1]) {
			t.Errorf("root %d: %d", v, status)
		}
	}
	// A release key that was replaced: the same release signed again is taken.
	chain = append(chain, w.rotate(5, 1, trust.RoleRelease))
	p = testkit.Value(w.op.PushRoots(w.ctx(), chain))(t)
	if p.ReleaseValid || p.Next != "steady release sign && steady release push" {
		t.Errorf("the old release under the new root: %+v", p)
	}
	types := w.types("")
	if n := count(types, "trust.root"); n != 5 {
		t.Errorf("%d events of roots", n)
	}
	if count(types, "release.verify_failed") == 0 {
		t.Error("the refused roots are not in the log")
	}
}
