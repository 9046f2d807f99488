package api_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/steadyfleet/steady/internal/api"
	"github.com/steadyfleet/steady/internal/testkit"
	"github.com/steadyfleet/steady/internal/wire"
)

// childDir names the data folder for a server in a process of its own.
const childDir = "STEADY_TEST_SERVER"

// serveAsChild is that process: it serves until it is killed or its input ends.
func serveAsChild(dir string) {
	root, err := os.ReadFile(filepath.Join(dir, "root.json"))
	if err != nil {
		panic(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	s, err := api.Start(ctx, api.Options{DataDir: filepath.Join(dir, "server"), Root: root, Listen: "127.0.0.1:0"})
	if err != nil {
		panic(err)
	}
	fmt.Println(s.URL())
	_, _ = io.Copy(io.Discard, os.Stdin)
	stop()
	if err := s.Wait(); err != nil {
		panic(err)
	}
}

type child struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	url string
	ca  []byte
}

func (w *world) spawn() {
	w.t.Helper()
	c := &child{cmd: exec.Command(os.Args[0])}
	c.cmd.Env = append(os.Environ(), childDir+"="+w.dir)
	c.cmd.Stderr = os.Stderr
	out := testkit.Value(c.cmd.StdoutPipe())(w.t)
	c.in = testkit.Value(c.cmd.StdinPipe())(w.t)
	testkit.Must(w.t, c.cmd.Start())
	line := testkit.Value(bufio.NewReader(out).ReadString('\n'))(w.t)
	c.url = strings.TrimSpace(line)
	c.ca = testkit.Value(os.ReadFile(filepath.Join(w.dir, "server", "pki", "servers-ca.pem")))(w.t)
	w.child = c
}

// kill ends the process without a word.
func (c *child) kill() {
	_ = c.cmd.Process.Kill() // it may be dead already
	_ = c.cmd.Wait()         // "signal: killed"
	_ = c.in.Close()
}

// F1, S33: whatever was acknowledged is in the log exactly once after the
// process was killed, and agents go on from there.
func TestF1KilledServerKeepsWhatItAcknowledged(t *testing.T) {
	t.Parallel()
	w := newKeys(t)
	testkit.Must(t, os.WriteFile(filepath.Join(w.dir, "root.json"), w.root, 0o600))
	w.spawn()
	defer func() {
		if w.child != nil {
			w.child.kill()
		}
	}()
	agents := w.agents(4)
	total := 0
	for round := range 4 {
		enough := make(chan struct{})
		var once sync.Once
		var mu sync.Mutex
		var wg sync.WaitGroup
		acks := 0
		for _, a := range agents {
			wg.Go(func() {
				for {
					if len(a.queue) < 50 {
						a.append(declined("g"))
					}
					status, _, err := a.call(context.Background(), "POST", wire.RouteEvents, a.batch())
					if err != nil || status == 503 {
						return // killed
					}
					if status != 200 {
						t.Errorf("round %d, host %s: %d", round, a.name, status)
						return
					}
					a.queue, a.acked = nil, a.chain
					mu.Lock()
					if acks++; acks >= 40+7*round {
						once.Do(func() { close(enough) })
					}
					mu.Unlock()
				}
			})
		}
		<-enough
		w.child.kill()
		wg.Wait()
		w.spawn()
		for _, a := range agents {
			a.connect()
			var reply wire.HeartbeatReply
			if status := a.do("POST", wire.RouteHeartbeat, wire.Heartbeat{Incarnation: a.incarnation}, &reply); status != 200 {
				t.Fatalf("heartbeat: %d", status)
			}
			if reply.Acked < a.acked.Seq || reply.Acked > a.chain.Seq {
				t.Fatalf("host %s: the log holds %d events, %d were acknowledged, %d were made", a.name, reply.Acked, a.acked.Seq, a.chain.Seq)
			}
			if status, ack := a.post(a.batch()); len(a.queue) > 0 && (status != 200 || ack.Acked != a.chain.Seq) {
				t.Fatalf("host %s sends again: %d %+v", a.name, status, ack)
			}
			a.queue, a.acked = nil, a.chain
			total += int(a.chain.Seq)
		}
	}
	if total == 0 {
		t.Fatal("nothing was sent")
	}
	w.countInLog(agents)
}

// countInLog stops the child cleanly and opens its data in this process, to
// count what is in the log.
func (w *world) countInLog(agents []*agent) {
	w.t.Helper()
	testkit.Must(w.t, w.child.in.Close())
	testkit.Must(w.t, w.child.cmd.Wait())
	w.child = nil
	w.opts = api.Options{DataDir: filepath.Join(w.dir, "server"), Listen: "127.0.0.1:0"}
	w.start()
	defer w.close()
	for _, a := range agents {
		want := a.chain.Seq
		seen := map[uint64]int{}
		after := uint64(0)
		for {
			records := testkit.Value(w.server.Control().Records(w.ctx(), after, 1000))(w.t)
			if len(records) == 0 {
				break
			}
			for _, r := range records {
				if after = r.Seq; r.Host() == a.name && r.HostSeq > 0 {
					seen[r.HostSeq]++
				}
			}
		}
		if uint64(len(seen)) != want {
			w.t.Errorf("host %s: %d of %d events are in the log", a.name, len(seen), want)
		}
		for seq, n := range seen {
			if n != 1 {
				w.t.Errorf("host %s: event %d is in the log %d times", a.name, seq, n)
			}
		}
	}
}
