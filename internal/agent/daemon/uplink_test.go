package daemon

import (
	"context"
	"crypto/rand"
	"database/sql"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/steadyfleet/steady/internal/agent/preparation"
	"github.com/steadyfleet/steady/internal/agent/uplink"
	core "github.com/steadyfleet/steady/internal/core/agent"
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

func (b *box) settled() {
	b.t.Helper()
	testkit.Eventually(b.t, "all events acknowledged", func() bool { st := b.agent.Status(); return st.LastSeq > 0 && st.AckedSeq == st.LastSeq })
}

// TestOutboxReplay restores the server from an older backup: what it lost is
// sent again, byte for byte, and the chain goes on.
func TestOutboxReplay(t *testing.T) {
	s := newServer(t)
	b := newBox(t, s, "web-1").start()
	one := newPack(t, "web", []file{{path: "a", content: "one"}})
	b.roll(single("web-1", 1, "r1", one), "g1", one)
	b.phase(host.Converged)
	b.settled()
	b.stop()
	before := len(reported[event.HostStepped](s))
	s.set(func() {
		c := s.chains[1]
		c.chain = identity.Chain{Seq: 2, Hash: c.hashes[1]}
		c.events, c.hashes = c.events[:2], c.hashes[:2]
	})
	b.start() // its first heartbeat tells, or the gap does
	testkit.Eventually(t, "everything is there again", func() bool { return len(reported[event.HostStepped](s)) == before+1 })
	b.settled()
}

// TestEventsSurviveAServerThatIsAway makes news while nobody listens.
func TestEventsSurviveAServerThatIsAway(t *testing.T) {
	s := newServer(t)
	b := newBox(t, s, "web-1")
	s.set(func() { s.down = true })
	b.start()
	testkit.Eventually(t, "the agent notices", func() bool { return b.agent.Status().Server != "" })
	b.stop()
	b.start()
	s.set(func() { s.down = false })
	b.settled()
	booted := 0
	for _, e := range reported[event.HostStepped](s) {
		if e.Input == (host.Booted{}).Kind() {
			booted++
		}
	}
	if booted != 2 {
		t.Errorf("%d starts were reported", booted)
	}
}

// TestEarlyAcknowledgementIsContact has the reporter send the events of every commit
// before the reducer goes on: their acceptance is contact after the activation, and
// no heartbeat is needed to confirm it.
func TestEarlyAcknowledgementIsContact(t *testing.T) {
	s := newServer(t)
	s.interval = 10 * clock.Minute
	b := newBox(t, s, "web-1")
	b.open()
	a := b.agent
	var commits atomic.Int64
	a.cut = func() error {
		if commits.Add(1) == 1 { // the agent starts: nothing else runs yet
			return nil
		}
		a.report()
		for {
			last, acked, err := a.store.Heads(t.Context())
			if err != nil || acked == last {
				return err
			}
			runtime.Gosched()
		}
	}
	b.run()
	defer b.stop()
	testkit.Eventually(t, "the heartbeat of the start", func() bool { return s.heartbeats() > 0 })
	beats := s.heartbeats()
	one := newPack(t, "web", []file{{path: "a", content: "one"}}, fleet.Exec{
		Name: "wait", Activate: []string{"sh", "-c", "until test -e go; do sleep 0.01; done"}, Timeout: clock.Minute,
	})
	b.roll(single("web-1", 1, "r1", one), "g1", one)
	b.phase(host.Activating)
	s.set(func() { s.offer, s.wait = nil, time.Hour }) // a poll that ends is contact too
	testkit.Eventually(t, "a poll that is held", func() (held bool) {
		s.set(func() { held = s.held > 0 })
		return held
	})
	testkit.Must(t, os.WriteFile(filepath.Join(b.root, "go"), nil, 0o600))
	b.phase(host.Converged)
	if n := s.heartbeats(); n != beats {
		t.Errorf("it took %d heartbeats to confirm the activation", n-beats)
	}
}

// TestRenewal gives a certificate that is past its half: the host gets one for a
// new key, uses it, and still has it after a restart.
func TestRenewal(t *testing.T) {
	s := newServer(t)
	s.life = 2 * time.Hour // and the next one's is days
	b := newBox(t, s, "web-1")
	b.clock.wall = 110 * clock.Minute
	b.start()
	serials := func() int {
		s.mu.Lock()
		defer s.mu.Unlock()
		return len(s.serials)
	}
	testkit.Eventually(t, "a second certificate", func() bool { return serials() == 2 })
	testkit.Eventually(t, "it is kept", func() bool {
		var id uplink.Identity
		_, err := b.agent.store.Get(t.Context(), keyIdentity, &id)
		return err == nil && id.Renewals == 1
	})
	b.stop()
	b.start()
	b.settled()
	if n := serials(); n != 2 {
		t.Errorf("%d certificates were used", n)
	}
}

// TestEnrolmentIsRefused tells the operator and the server why.
func TestEnrolmentIsRefused(t *testing.T) {
	s := newServer(t)
	text := testkit.Value(identity.ParseTokenText(s.token("web-1")))(t)
	text.Root = testkit.Value(newSigners().First())(t) // a root that the token does not name
	_, err := Enrol(t.Context(), EnrolConfig{StateDir: t.TempDir(), Token: text.String(), Light: true})
	if err == nil || !strings.Contains(err.Error(), "root") {
		t.Errorf("error %v", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.reports) != 1 || s.reports[0].Kind != "TrustError" || len(s.chains) != 0 {
		t.Errorf("reports %v, %d hosts", s.reports, len(s.chains))
	}
}

// TestReboot counts the soak afresh and keeps the state.
func TestReboot(t *testing.T) {
	s := newServer(t)
	b := newBox(t, s, "web-1").start()
	one := newPack(t, "web", []file{{path: "a", content: "one"}})
	p := single("web-1", 1, "r1", one)
	p.soak = clock.Hour
	b.roll(p, "g1", one)
	b.phase(host.Soaking)
	testkit.Eventually(t, "confirmed", func() bool { return b.agent.Status().Machine.ConfirmBy == 0 })
	b.clock.push(50 * clock.Minute)
	b.stop()
	b.clock.reboot("boot-2")
	b.start()
	testkit.Eventually(t, "the boot taken in", func() bool { return b.agent.Status().Machine.BootID == "boot-2" })
	if p := b.agent.Status().Machine.Phase; p != host.Soaking {
		t.Errorf("the host is %s", p)
	}
	b.settled()
	b.clock.push(59 * clock.Minute)
	b.agent.post(t.Context(), core.Elapsed{})
	b.agent.post(t.Context(), core.Elapsed{})
	if p := b.agent.Status().Machine.Phase; p != host.Soaking {
		t.Errorf("after 59 minutes the host is %s", p)
	}
	b.clock.push(2 * clock.Minute)
	b.agent.post(t.Context(), core.Elapsed{})
	b.phase(host.Converged)
}

// TestF7NoRoomNoActivation fills the disk, as far as the check can tell.
func TestF7NoRoomNoActivation(t *testing.T) {
	s := newServer(t)
	b := newBox(t, s, "web-1").start()
	var files []file
	for i := range 64 {
		files = append(files, file{path: fmt.Sprintf("a%02d", i), content: fmt.Sprint(i)})
	}
	big := newPack(t, "web", files)
	for i := range big.bundle.Files {
		big.bundle.Files[i].Size = 1 << 40 // all of them are more than any machine has to spare
	}
	big.raw = testkit.Value(trust.Canonical(big.bundle))(t)
	big.digest = digest.Of(big.raw)
	b.roll(single("web-1", 1, "r1", big), "g1", big)
	testkit.Eventually(t, "the grant declined", func() bool {
		for _, e := range reported[event.GrantDeclined](s) {
			if e.Code == host.DeclinePrepare && strings.HasPrefix(e.Detail, preparation.DiskFull) {
				return true
			}
		}
		return false
	})
	if m := b.agent.Status().Machine; m.Phase != "" {
		t.Errorf("the host is %s", m.Phase)
	}
	testkit.Eventually(t, "a heartbeat", func() bool { return s.heartbeats() > 0 })
}

// TestF7RoomThatComesBackAtAnyMoment fills the disk of the state folder until the loop
// cannot record, and makes room before anybody asks why: the agent still knows that the
// disk was full, and goes on from what it has.
func TestF7RoomThatComesBackAtAnyMoment(t *testing.T) {
	testkit.Needs(t, testkit.Tmpfs)
	dir := t.TempDir()
	testkit.Must(t, unix.Mount("tmpfs", dir, "tmpfs", 0, "size=128m"))
	t.Cleanup(func() { testkit.Must(t, unix.Unmount(dir, unix.MNT_DETACH)) })
	s := newServer(t)
	b := newBoxIn(t, s, "web-1", filepath.Join(dir, "state"))
	b.open()
	b.run()
	one := newPack(t, "web", []file{{path: "etc/a", content: "one"}})
	b.roll(single("web-1", 1, "r1", one), "g1", one)
	b.phase(host.Converged)
	b.settled()
	ballast := testkit.Value(os.Create(filepath.Join(dir, "ballast")))(t)
	testkit.Eventually(t, "a turn that cannot be recorded", func() bool {
		for chunk, err := make([]byte, 4096), error(nil); err == nil; {
			_, err = ballast.Write(chunk)
		}
		testkit.Must(t, os.WriteFile(filepath.Join(b.root, "etc/a"), []byte(rand.Text()), 0o644))
		return b.agent.loop.StoreErr() != nil || len(b.done) > 0
	})
	testkit.Must(t, ballast.Close())
	testkit.Must(t, os.Remove(ballast.Name()))
	wake(b.agent.wakeUplink)
	err := <-b.done
	if !DiskFull(err) {
		t.Fatalf("the agent ended with %v, and does not know that its disk was full", err)
	}
	b.cancel()
	testkit.Must(t, b.agent.Close())
	b.start()
	testkit.Eventually(t, "the repair", func() bool { return b.content("etc/a") == "one" })
}

// TestDatabaseFailureEndsTheProcess takes the tables away.
func TestDatabaseFailureEndsTheProcess(t *testing.T) {
	s := newServer(t)
	b := newBox(t, s, "web-1")
	b.open()
	b.run()
	b.settled()
	testkit.Must(t, b.agent.store.Tx(context.Background(), func(tx *sql.Tx) error {
		_, err := tx.ExecContext(context.Background(), "DROP TABLE outbox")
		return err
	}))
	wake(b.agent.wakeUplink)
	if err := <-b.done; err == nil {
		t.Error("the agent ended without an error")
	}
	b.cancel()
	testkit.Must(t, b.agent.Close())
}

// TestP4EditByHandIsKeptAndReported changes a file of the running bundle: it is
// repaired, the edit is kept on the host, and both are in the log.
func TestP4EditByHandIsKeptAndReported(t *testing.T) {
	s := newServer(t)
	b := newBox(t, s, "web-1").start()
	one := newPack(t, "web", []file{{path: "etc/a", content: "one"}}, step("start", "up"))
	b.roll(single("web-1", 1, "r1", one), "g1", one)
	b.phase(host.Converged)
	testkit.Must(t, os.WriteFile(filepath.Join(b.root, "etc/a"), []byte("by hand"), 0o644))
	testkit.Eventually(t, "the repair", func() bool { return b.content("etc/a") == "one" })
	testkit.Eventually(t, "the report of both", func() bool {
		return statesOf(s, "file/etc/a") == "Ready Applying Ready" && len(reported[event.FileKept](s)) == 1
	})
	kept := reported[event.FileKept](s)[0]
	raw, err := os.ReadFile(filepath.Join(b.state, kept.KeptAs))
	if err != nil || string(raw) != "by hand" || kept.Path != "etc/a" {
		t.Errorf("kept %+v: %q, %v", kept, raw, err)
	}
	b.want("log", "up\n") // drift of a file is no reason to run a step again
	if p := b.agent.Status().Machine.Phase; p != host.Converged {
		t.Errorf("the host is %s", p)
	}
}

// TestHintOfANewerTimestamp makes the host fetch it, once.
func TestHintOfANewerTimestamp(t *testing.T) {
	s := newServer(t)
	b := newBox(t, s, "web-1").start()
	one := newPack(t, "web", []file{{path: "a", content: "one"}})
	b.roll(single("web-1", 1, "r1", one), "g1", one)
	b.phase(host.Converged)
	if b.agent.follower.Behind(1, 1) || !b.agent.follower.Behind(1, 2) {
		t.Fatal("the host does not know which timestamp it has")
	}
	s.publish(s.keys.release(t, single("web-1", 2, "r2", one)), one)
	s.set(func() { s.stamp = 2 })
	b.stop()
	b.open()
	testkit.Must(t, b.agent.refresh(t.Context())) // as a heartbeat's reply would ask
	if b.agent.follower.Behind(1, 2) {
		t.Error("the newer timestamp was not taken")
	}
	testkit.Must(t, b.agent.Close())
	b.agent = nil
}

// TestEventsPutOffAreKept: a server that takes no more events for now gets heartbeats
// meanwhile, is not asked before the time that it named, and then gets every event.
func TestEventsPutOffAreKept(t *testing.T) {
	s := newServer(t)
	s.interval = 5 * clock.Second
	var asked, beats atomic.Int64
	var free atomic.Int64 // Unix milliseconds
	rest := s.http.Config.Handler
	s.http.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == wire.RouteHeartbeat && asked.Load() > 0:
			beats.Add(1)
		case r.URL.Path == wire.RouteEvents && asked.Add(1) == 1:
			free.Store(time.Now().Add(900 * time.Millisecond).UnixMilli())
			w.Header().Set("Retry-After", "1")
			problem(w, http.StatusTooManyRequests, "later")
			return
		case r.URL.Path == wire.RouteEvents && time.Now().UnixMilli() < free.Load():
			t.Error("asked before the time that the server named")
		}
		rest.ServeHTTP(w, r)
	})
	b := newBox(t, s, "web-1").start()
	b.settled()
	if asked.Load() < 2 || beats.Load() == 0 {
		t.Errorf("asked %d times, %d heartbeats meanwhile", asked.Load(), beats.Load())
	}
	if n := len(reported[event.HostStepped](s)); n == 0 {
		t.Error("no event came")
	}
}
