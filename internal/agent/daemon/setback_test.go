package daemon

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/steadyfleet/steady/internal/core/clock"
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

// converged is a host on its first release, with a server.
func converged(t *testing.T) (*server, *box, pack) {
	s := newServer(t)
	b := newBox(t, s, "web-1")
	b.durable = true
	b.start()
	one := newPack(t, "web", []file{{path: "a", content: "one"}}, step("app", "one"))
	b.roll(single("web-1", 1, "r1", one), "g1", one)
	b.phase(host.Converged)
	return s, b, one
}

// TestT11SetBackHostIsParkedAndEnrolsAgain gives an agent the database of the release
// before, beside today's anchor: it puts nothing of that release back and says that it is
// parked, and a new token brings it back in the same folder.
func TestT11SetBackHostIsParkedAndEnrolsAgain(t *testing.T) {
	s, b, one := converged(t)
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
	s, b, one := converged(t)
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

// TestT11DamagedFolder: whatever bit turns in the state folder of a killed agent, and
// whatever of it is cut, gone or older than the rest: the agent goes on from all that it
// acknowledged, or ends with words, or cannot show who it is, or is parked. It runs
// no command of the release before, and changes nothing back.
func TestT11DamagedFolder(t *testing.T) {
	s, b, _ := converged(t)
	yesterday := b.killed()
	two := newPack(t, "web", []file{{path: "a", content: "two"}}, step("app", "two"))
	b.roll(single("web-1", 2, "r2", two), "g2", two)
	testkit.Eventually(t, "the second release is acknowledged", func() bool {
		st := b.agent.Status()
		return st.Machine.Grant == "g2" && st.Machine.Phase == host.Converged && st.AckedSeq == st.LastSeq
	})
	today := b.killed()
	j := &folderJudge{b: b, chain: *s.chains[1], last: b.agent.Status().LastSeq, current: string(two.digest), seen: map[string]int{}}
	b.stop()

	gone := func(names ...string) func(string) {
		return func(dir string) {
			for _, name := range names {
				testkit.Must(t, os.Remove(filepath.Join(dir, name)))
			}
		}
	}
	j.try("nothing", today, func(string) {}, "as before")
	j.try("yesterday's folder", yesterday, func(string) {}, "parked")
	j.try("the WAL is gone", today, gone("agent.db-wal"), "") // its content may be in the database (TestF10LostTailOfAnAgentIsKnown)
	j.try("the anchor is gone", today, gone("anchor"), "parked")
	j.try("the database is gone", today, gone("agent.db", "agent.db-wal"), "refused")
	j.try("yesterday's database beside today's anchor", today, func(dir string) {
		for _, name := range []string{"agent.db", "agent.db-wal"} {
			testkit.Must(t, os.WriteFile(filepath.Join(dir, name), testkit.Value(os.ReadFile(filepath.Join(yesterday, name)))(t), 0o600))
		}
	}, "parked")
	j.sweep(today)
	t.Logf("%v", j.seen)
}

// killed copies the state folder as a machine that loses its power leaves it.
func (b *box) killed() string {
	dir := filepath.Join(b.t.TempDir(), "state")
	testkit.Must(b.t, exec.Command("cp", "-a", b.state, dir).Run())
	return dir
}

// folderJudge says what an agent makes of a damaged state folder.
type folderJudge struct {
	b       *box
	chain   hostChain // as the server has it
	last    uint64    // event that was acknowledged
	current string    // bundle
	seen    map[string]int
}

// sweep turns bits of every file of a folder, and cuts it.
func (j *folderJudge) sweep(today string) {
	t := j.b.t
	places := 1
	if testkit.Nightly() {
		places = 200
	}
	rng := rand.New(rand.NewPCG(1, 11))
	testkit.Must(t, filepath.WalkDir(today, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		name := strings.TrimPrefix(path, today+"/")
		size := int(testkit.Value(os.Stat(path))(t).Size())
		for range min(places, size) {
			at, bit := rng.IntN(size), rng.IntN(8)
			j.try(fmt.Sprintf("bit %d of byte %d of %s", bit, at, name), today, func(dir string) {
				raw := testkit.Value(os.ReadFile(filepath.Join(dir, name)))(t)
				raw[at] ^= 1 << bit
				testkit.Must(t, os.WriteFile(filepath.Join(dir, name), raw, 0o600))
			}, "")
		}
		if size > 0 {
			cut := rng.IntN(size)
			j.try(fmt.Sprintf("%s cut at %d", name, cut), today, func(dir string) { testkit.Must(t, os.Truncate(filepath.Join(dir, name), int64(cut))) }, "")
		}
		return nil
	}))
}

// try starts an agent on a copy of a folder, over a host that runs the second release;
// want is empty where it may be anything that is not wrong.
func (j *folderJudge) try(what, from string, harm func(dir string), want string) {
	t := j.b.t
	t.Helper()
	b := &box{t: t, s: j.b.s, clock: j.b.clock, name: j.b.name, durable: true, state: filepath.Join(t.TempDir(), "state"), root: filepath.Join(t.TempDir(), "root")}
	testkit.Must(t, errors.Join(exec.Command("cp", "-a", from, b.state).Run(), exec.Command("cp", "-a", j.b.root, b.root).Run()))
	harm(b.state)
	b.s.set(func() {
		chain := j.chain
		b.s.chains[1], b.s.damaged = &chain, true
	})
	got, words := j.outcome(b)
	j.seen[got]++
	if content := b.content("a"); content != "two" {
		got = "wrong: a is " + content
	}
	if log := b.content("log"); !strings.HasPrefix(log, "one\ntwo\n") || strings.Count(log, "one") != 1 {
		got = fmt.Sprintf("wrong: the log is %q", log)
	}
	if want == "" && strings.HasPrefix(got, "wrong") || want != "" && got != want {
		t.Errorf("%s: %s (%s), want %s", what, got, words, want)
	}
}

func (j *folderJudge) outcome(b *box) (got, words string) {
	a, err := Open(Config{StateDir: b.state, Root: b.root, Clock: b.clock, Version: "test", Resync: clock.Second, Log: testLog(b.t)})
	if err != nil {
		return "refused", err.Error()
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx) }()
	var st Status
	testkit.Eventually(b.t, "the agent settles", func() bool {
		select {
		case err = <-done:
			done <- err
			return true
		case <-time.After(time.Millisecond):
		}
		st = a.Status()
		return st.Parked != nil || st.Server != "" || st.LastContact != 0 && st.AckedSeq == st.LastSeq && st.LastSeq >= j.last && st.Machine.Phase == host.Converged
	})
	cancel()
	err = errors.Join(<-done, a.Close())
	switch {
	case st.Parked != nil:
		return "parked", st.Parked.Message()
	case err != nil:
		return "refused", err.Error()
	case st.Server != "":
		return "unheard", st.Server
	case string(st.Machine.Current) != j.current:
		return "wrong: it runs " + string(st.Machine.Current), ""
	}
	return "as before", ""
}
