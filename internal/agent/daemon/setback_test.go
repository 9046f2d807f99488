package daemon

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/steadyfleet/steady/internal/core/host"
	"github.com/steadyfleet/steady/internal/testkit"
)

// database reads what a killed agent would leave, or puts it back.
func (b *box) database() map[string][]byte {
	out := map[string][]byte{}
	for _, name := range []string{"agent.db", "agent.db-wal"} {
		if raw, err := os.ReadFile(filepath.Join(b.state, name)); err == nil {
			out[name] = raw
		}
	}
	return out
}

// TestT11SetBackHostIsParkedAndEnrolsAgain gives an agent the database of the release
// before, beside today's anchor: it puts nothing of that release back and says that it is
// parked, and a new token brings it back in the same folder.
func TestT11SetBackHostIsParkedAndEnrolsAgain(t *testing.T) {
	s := newServer(t)
	b := newBox(t, s, "web-1")
	b.durable = true
	b.start()
	one := newPack(t, "web", []file{{path: "a", content: "one"}}, step("app", "one"))
	b.roll(single("web-1", 1, "r1", one), "g1", one)
	b.phase(host.Converged)
	b.stop()
	before := b.database()
	b.start()
	two := newPack(t, "web", []file{{path: "a", content: "two"}}, step("app", "two"))
	next := single("web-1", 2, "r2", two)
	b.roll(next, "g2", two)
	testkit.Eventually(t, "the second release", func() bool { m := b.agent.Status().Machine; return m.Grant == "g2" && m.Phase == host.Converged })
	b.stop()

	testkit.Must(t, os.RemoveAll(filepath.Join(b.state, "agent.db-wal")))
	for name, raw := range before {
		testkit.Must(t, os.WriteFile(filepath.Join(b.state, name), raw, 0o600))
	}
	b.start()
	testkit.Eventually(t, "a heartbeat says that the host is parked", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.parked == host.ParkedBehind
	})
	if st := b.agent.Status(); st.Parked == nil || st.Machine.Current != one.digest {
		t.Errorf("status is %+v", st)
	}
	b.stop() // which waits for all that it began
	b.want("a", "two")
	b.want("log", "one\ntwo\n")

	again := testkit.Value(Enrol(t.Context(), EnrolConfig{StateDir: b.state, Token: s.token("web-1"), Clock: b.clock, Log: testLog(t)}))(t)
	if again.Incarnation != 2 {
		t.Errorf("enrolled as %+v", again)
	}
	b.start()
	if st := b.agent.Status(); st.Parked != nil {
		t.Fatalf("parked after its enrolment: %s", st.Parked.Message())
	}
	b.roll(next, "g3", two)
	testkit.Eventually(t, "the release after it enrolled again", func() bool { m := b.agent.Status().Machine; return m.Grant == "g3" && m.Phase == host.Converged })
	b.want("a", "two")
}

// TestRenamedHostGoesOn: a folder enrols under another name when it is said to be renamed
// from the one that it has, and under no other; its key and the name on the engine stay,
// also through the next enrolment.
func TestRenamedHostGoesOn(t *testing.T) {
	s := newServer(t)
	b := newBox(t, s, "web-1")
	b.durable = true
	b.start()
	one := newPack(t, "web", []file{{path: "a", content: "one"}}, step("app", "one"))
	b.roll(single("web-1", 1, "r1", one), "g1", one)
	b.phase(host.Converged)
	key := testkit.Value(os.ReadFile(filepath.Join(b.state, "keys", "event.key")))
	b.stop()
	enrol := func(name, from string) error {
		_, err := Enrol(t.Context(), EnrolConfig{StateDir: b.state, Token: s.token(name), RenamedFrom: from, Clock: b.clock, Log: testLog(t)})
		return err
	}
	for _, from := range []string{"", "box-1", "web-2"} {
		if err := enrol("box-1", from); err == nil {
			t.Fatalf("renamed from %q", from)
		}
	}
	testkit.Must(t, enrol("box-1", "web-1"))
	if err := enrol("box-2", ""); err == nil {
		t.Fatal("renamed by a token that does not say so")
	}
	s.renamed = "box-1"
	testkit.Must(t, enrol("box-2", "")) // the token says so
	b.start()
	if id := b.agent.id; id.Host != "box-2" || id.EngineName() != "web-1" {
		t.Errorf("it is %s, and %s on the engine", id.Host, id.EngineName())
	}
	if now := testkit.Value(os.ReadFile(filepath.Join(b.state, "keys", "event.key"))); !bytes.Equal(now(t), key(t)) {
		t.Error("it signs with another key")
	}
	b.want("a", "one")
	b.roll(single("box-2", 2, "r2", one), "g2", one)
	testkit.Eventually(t, "the release under the new name", func() bool { m := b.agent.Status().Machine; return m.Grant == "g2" && m.Phase == host.Converged })
	b.want("a", "one")
	b.want("log", "one\none\n")
}
