package daemon

import (
	"context"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/host"
	"github.com/steadyfleet/steady/internal/testkit"
	"github.com/steadyfleet/steady/internal/testkit/testfleet"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// testClock is real time, which a test can push on; its wall can be moved alone.
type testClock struct {
	mu    sync.Mutex
	boot  string
	start time.Time
	ahead clock.Duration
	wall  clock.Duration
}

func newTestClock() *testClock { return &testClock{boot: "boot-1", start: time.Now()} }

func (c *testClock) Boot() (string, clock.Duration, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.boot, clock.FromStd(time.Since(c.start)) + c.ahead, nil
}

func (c *testClock) Wall() clock.Instant {
	c.mu.Lock()
	defer c.mu.Unlock()
	return testfleet.Now().Add(c.wall)
}

func (c *testClock) push(d clock.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ahead += d
}

func (c *testClock) reboot(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.boot, c.start, c.ahead = id, time.Now(), 0
}

// box is one host with its folders.
type box struct {
	t     testing.TB
	s     *server
	clock *testClock
	state string
	root  string
	name  string
	// durable has it wait for the disk, with an anchor.
	durable bool
	machine fs.FS // that its facts are read in; nil is this one

	agent  *Agent
	cancel context.CancelFunc
	done   chan error
}

func newBox(t testing.TB, s *server, name string) *box {
	return newBoxIn(t, s, name, filepath.Join(t.TempDir(), "state"))
}

// newBoxIn is newBox with its state in a folder.
func newBoxIn(t testing.TB, s *server, name, state string) *box {
	b := &box{t: t, s: s, clock: newTestClock(), state: state, root: t.TempDir(), name: name}
	testkit.Value(Enrol(t.Context(), EnrolConfig{StateDir: b.state, Token: s.token(name), Clock: b.clock, Light: true, Log: testLog(t)}))(t)
	return b
}

func (b *box) open() {
	b.t.Helper()
	b.agent = testkit.Value(Open(Config{StateDir: b.state, Root: b.root, Machine: b.machine, Clock: b.clock, Light: !b.durable, Version: "test", Resync: clock.Second, Log: testLog(b.t), Reboot: []string{"touch", filepath.Join(b.root, "reboot")}}))(b.t)
}

func (b *box) run() {
	ctx, cancel := context.WithCancel(context.Background())
	b.cancel, b.done = cancel, make(chan error, 1)
	a := b.agent
	go func() { b.done <- a.Run(ctx) }()
}

func (b *box) start() *box {
	b.t.Helper()
	b.open()
	b.run()
	b.t.Cleanup(b.stop)
	return b
}

func (b *box) stop() {
	if b.agent == nil {
		return
	}
	b.cancel()
	if err := <-b.done; err != nil {
		b.t.Errorf("run: %v", err)
	}
	testkit.Must(b.t, b.agent.Close())
	b.agent = nil
}

func (b *box) phase(p host.Phase) {
	b.t.Helper()
	testkit.Eventually(b.t, b.name+" "+string(p), func() bool { return b.agent.Status().Machine.Phase == p })
}

func (b *box) content(path string) string {
	raw, err := os.ReadFile(filepath.Join(b.root, path))
	if err != nil {
		return "(" + err.(*os.PathError).Err.Error() + ")"
	}
	return string(raw)
}

func (b *box) want(path, content string) {
	b.t.Helper()
	if have := b.content(path); have != content {
		b.t.Errorf("%s holds %q, expected %q", path, have, content)
	}
}

const gone = "(no such file or directory)"

func appendTo(file, word string) []string {
	return []string{"/bin/sh", "-c", "echo " + word + " >> " + file}
}

func step(name string, words ...string) fleet.Exec {
	e := fleet.Exec{Name: name, Activate: appendTo("log", words[0]), Timeout: clock.Minute}
	if len(words) > 1 {
		e.Revert = appendTo("log", words[1])
	}
	return e
}

func single(name string, version uint64, ref string, p pack) plan {
	return plan{version: version, ref: ref, hosts: []string{name}, targets: map[string]digest.Digest{name: p.digest}, policy: defaultPolicy()}
}

// roll publishes a plan and grants it.
func (b *box) roll(p plan, grant string, packs ...pack) {
	b.t.Helper()
	b.s.publish(b.s.keys.release(b.t, p), packs...)
	b.s.grant(grant, host.Update)
}

func TestConverges(t *testing.T) {
	s := newServer(t)
	b := newBox(t, s, "web-1").start()
	one := newPack(t, "web", []file{{path: "etc/app/a.conf", content: "one"}, {path: "run.sh", content: "#!/bin/sh\n", mode: 0o755}}, step("start", "up-1", "down-1"))
	b.roll(single("web-1", 1, "r1", one), "g1", one)
	b.phase(host.Converged)
	b.want("etc/app/a.conf", "one")
	b.want("log", "up-1\n")

	two := newPack(t, "web", []file{{path: "etc/app/b.conf", content: "two"}}, step("start", "up-2", "down-2"))
	b.roll(single("web-1", 2, "r2", two), "g2", two)
	testkit.Eventually(t, "second bundle", func() bool {
		m := b.agent.Status().Machine
		return m.Current == two.digest && m.Phase == host.Converged
	})
	b.want("etc/app/a.conf", gone)
	b.want("run.sh", gone)
	b.want("etc/app/b.conf", "two")
	// The same step is run again, and nothing is undone on the way forward.
	b.want("log", "up-1\nup-2\n")
	testkit.Eventually(t, "all events acknowledged", func() bool { st := b.agent.Status(); return st.AckedSeq == st.LastSeq })

	var phases []host.Phase
	for _, e := range reported[event.HostStepped](s) {
		if e.From != e.To {
			phases = append(phases, e.To)
		}
	}
	want := []host.Phase{host.Activating, host.Soaking, host.Converged, host.Activating, host.Soaking, host.Converged}
	if len(phases) != len(want) {
		t.Fatalf("the host went through %v", phases)
	}
	for i := range want {
		if phases[i] != want[i] {
			t.Fatalf("the host went through %v", phases)
		}
	}
}

func TestFailedActivationGoesBack(t *testing.T) {
	s := newServer(t)
	b := newBox(t, s, "web-1").start()
	one := newPack(t, "web", []file{{path: "a", content: "one"}, {path: "only-1", content: "x"}}, step("start", "up-1", "down-1"))
	b.roll(single("web-1", 1, "r1", one), "g1", one)
	b.phase(host.Converged)

	bad := fleet.Exec{Name: "broken", Activate: []string{"/bin/false"}, Revert: appendTo("log", "unbroken"), Timeout: clock.Minute}
	two := newPack(t, "web", []file{{path: "a", content: "two"}, {path: "only-2", content: "y"}}, step("start", "up-2", "down-2"), bad)
	b.roll(single("web-1", 2, "r2", two), "g2", two)
	b.phase(host.Reverted)
	b.want("a", "one")
	b.want("only-1", "x")
	b.want("only-2", gone)
	b.want("log", "up-1\nup-2\nunbroken\ndown-2\nup-1\n")
	st := b.agent.Status()
	if st.Machine.Current != one.digest || len(st.Quarantine) != 1 || st.Quarantine[0].Digest != two.digest {
		t.Fatalf("after the revert: current %s, quarantine %v", st.Machine.Current, st.Quarantine)
	}
	// S21: never into the same bundle again.
	b.s.grant("g3", host.Update)
	testkit.Eventually(t, "the grant declined", func() bool {
		for _, e := range reported[event.GrantDeclined](s) {
			if e.Grant == "g3" && e.Code == host.DeclineQuarantined {
				return true
			}
		}
		return false
	})
}

func TestFirstActivationFailsBackToNothing(t *testing.T) {
	s := newServer(t)
	b := newBox(t, s, "web-1").start()
	bad := fleet.Exec{Name: "broken", Activate: []string{"/bin/false"}, Timeout: clock.Minute}
	one := newPack(t, "web", []file{{path: "deep/er/a", content: "one"}}, step("start", "up", "down"), bad)
	b.roll(single("web-1", 1, "r1", one), "g1", one)
	b.phase(host.Reverted)
	b.want("deep/er/a", gone)
	b.want("deep", gone)
	b.want("log", "up\ndown\n")
}

// testLog shows what agents do with -v.
func testLog(testing.TB) *slog.Logger {
	if !testing.Verbose() {
		return slog.New(slog.DiscardHandler)
	}
	return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug}))
}
