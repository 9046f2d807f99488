package sockets

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/steadyfleet/steady/internal/router"
	"github.com/steadyfleet/steady/internal/testkit"
)

// What this binary is instead of the tests: "keep-sockets", or an agent: "agent DIR ADDRESS UPSTREAM".
const actAs = "STEADY_SOCKETS_ACT_AS"

func TestMain(m *testing.M) {
	as := strings.Fields(os.Getenv(actAs))
	if len(os.Args) > 1 && os.Args[1] == "keep-sockets" {
		as = []string{"keep-sockets"}
	}
	if len(as) == 0 {
		os.Exit(m.Run())
	}
	ctx, end := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	err := Keep
	if as[0] == "agent" {
		err = func(ctx context.Context) error { return beAgent(ctx, as[1], as[2], as[3]) }
	}
	if err := err(ctx); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	end()
}

// beAgent serves one route until ctx ends, and says where once it does.
func beAgent(ctx context.Context, dir, address, upstream string) (err error) {
	s, err := Open(ctx, options(dir, time.Minute, address))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close(false)) }()
	r := router.New(router.Config{})
	defer r.Close()
	table, _ := router.BuildTable([]router.Route{{Name: "web", Upstream: "web", Port: 80}})
	r.Swap(table)
	r.SetUpstream("web", router.Upstream{State: router.Ready, Addrs: []netip.AddrPort{netip.MustParseAddrPort(upstream)}})
	l, err := r.Listen(ctx, router.Options{HTTP: []string{address}, Bind: s.Listen})
	if err != nil {
		return err
	}
	fmt.Println(l.HTTP()[0])
	return l.Wait()
}

func options(dir string, keep time.Duration, addresses ...string) Options {
	self, err := os.Executable()
	if err != nil {
		panic(err)
	}
	return Options{Dir: dir, Addresses: addresses, Keep: keep, Command: []string{self, "keep-sockets", dir}, Log: slog.New(slog.NewTextHandler(os.Stderr, nil))}
}

// box is a host whose agent is a process.
type box struct {
	t        *testing.T
	dir      string
	upstream string
	cmd      *exec.Cmd
}

func newBox(t *testing.T) *box {
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "answer to "+r.URL.Path)
	}))
	t.Cleanup(web.Close)
	b := &box{t: t, dir: filepath.Join(t.TempDir(), strings.Repeat("long", 50)), upstream: web.Listener.Addr().String()}
	t.Cleanup(func() {
		b.end(syscall.SIGKILL)
		if err := Stop(context.Background(), b.dir); err != nil {
			t.Error(err)
		}
	})
	return b
}

// start starts the agent, with an environment and files besides its own, and returns
// where it listens.
func (b *box) start(env []string, files ...*os.File) string {
	b.t.Helper()
	// A shell, since only the process itself knows its number, which systemd passes too.
	b.cmd = exec.Command("/bin/sh", "-c", `[ -z "$LISTEN_FDS" ] || export LISTEN_PID=$$; exec "$0"`, testkit.Value(os.Executable())(b.t))
	b.cmd.Env = append(append(os.Environ(), actAs+"=agent "+b.dir+" 127.0.0.1:0 "+b.upstream), env...)
	b.cmd.ExtraFiles, b.cmd.Stderr = files, os.Stderr
	out := testkit.Value(b.cmd.StdoutPipe())(b.t)
	testkit.Must(b.t, b.cmd.Start())
	line := testkit.Value(bufio.NewReader(out).ReadString('\n'))(b.t)
	if _, err := netip.ParseAddrPort(strings.TrimSpace(line)); err != nil {
		b.t.Fatal(line)
	}
	return strings.TrimSpace(line)
}

func (b *box) end(s syscall.Signal) {
	_ = b.cmd.Process.Signal(s)
	_ = b.cmd.Wait() // killed, so it reports that
}

// traffic asks over and over on connections of their own, and sorts the errors.
type traffic struct {
	answered, cut atomic.Int64
	mu            sync.Mutex
	bad           []string
	stop          chan struct{}
	wait          sync.WaitGroup
}

const clients = 8

func startTraffic(address string) *traffic {
	f := &traffic{stop: make(chan struct{})}
	c := &http.Client{Timeout: time.Minute, Transport: &http.Transport{DisableKeepAlives: true}}
	for n := range clients {
		f.wait.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-f.stop:
					return
				default:
				}
				path := fmt.Sprintf("/%d/%d", n, i)
				r, err := c.Get("http://" + address + path)
				var body []byte
				if err == nil {
					body, err = io.ReadAll(r.Body)
					_ = r.Body.Close()
				}
				switch {
				case err == nil && string(body) == "answer to "+path:
					f.answered.Add(1)
				case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET):
					f.cut.Add(1)
				default:
					f.mu.Lock()
					f.bad = append(f.bad, fmt.Sprintf("%s: %v %q", path, err, body))
					f.mu.Unlock()
				}
			}
		})
	}
	return f
}

// reach waits until so many more requests were answered.
func (f *traffic) more(t *testing.T, n int64) {
	t.Helper()
	until := f.answered.Load() + n
	testkit.Eventually(t, "requests are answered", func() bool { return f.answered.Load() >= until })
}

// end checks that nobody was turned away, and that no more were cut off than may be.
func (f *traffic) end(t *testing.T, mayCut int64) {
	t.Helper()
	close(f.stop)
	f.wait.Wait()
	if len(f.bad) > 0 || f.cut.Load() > mayCut {
		t.Errorf("%d answered, %d cut off of at most %d, turned away or wrong: %q", f.answered.Load(), f.cut.Load(), mayCut, f.bad)
	}
	if f.answered.Load() < 1000 {
		t.Errorf("only %d requests", f.answered.Load())
	}
}

// An agent that is asked to end finishes what it has accepted, and the next one accepts what
// waits; one that is killed cuts off what it had accepted, and nobody is refused either.
func TestRestartRefusesNobody(t *testing.T) {
	for signal, mayCut := range map[syscall.Signal]int64{syscall.SIGTERM: 0, syscall.SIGKILL: clients} {
		t.Run(signal.String(), func(t *testing.T) {
			t.Parallel()
			b := newBox(t)
			at := b.start(nil)
			f := startTraffic(at)
			const restarts = 3
			for range restarts {
				f.more(t, 200)
				b.end(signal)
				if now := b.start(nil); now != at {
					t.Fatalf("it listened on %s and listens on %s", at, now)
				}
			}
			f.more(t, 400)
			f.end(t, restarts*mayCut)
		})
	}
}

// The service manager keeps the sockets where it can: this one does as systemd does.
func TestServiceManagerKeepsSockets(t *testing.T) {
	b := newBox(t)
	notify := filepath.Join(testkit.Value(os.MkdirTemp("", "n"))(t), "s") // a socket's path is short
	t.Cleanup(func() { _ = os.RemoveAll(filepath.Dir(notify)) })
	manager := testkit.Value(net.ListenUnixgram("unixgram", &net.UnixAddr{Name: notify, Net: "unixgram"}))(t)
	defer manager.Close()
	env := []string{"NOTIFY_SOCKET=" + notify, "FDSTORE=8"}
	at := b.start(env)
	testkit.Must(t, manager.SetReadDeadline(time.Now().Add(time.Minute)))
	message, fd, err := receive(manager)
	name, stores := strings.CutPrefix(message, store)
	if err != nil || !stores || fd == none || strings.ContainsAny(name, ":\n") || len(name) > 255 {
		t.Fatalf("the manager was sent %q with %d, %v", message, fd, err)
	}
	kept := os.NewFile(uintptr(fd), name)
	defer kept.Close()
	f := startTraffic(at)
	for range 2 {
		f.more(t, 300)
		b.end(syscall.SIGTERM)
		if now := b.start(append(env, "LISTEN_FDS=1", "LISTEN_FDNAMES="+name), kept); now != at {
			t.Fatalf("it listened on %s and listens on %s", at, now)
		}
	}
	f.more(t, 400)
	f.end(t, 0)
	if _, err := os.Stat(filepath.Join(b.dir, "sockets")); !os.IsNotExist(err) {
		t.Errorf("there is a holder of our own besides: %v", err)
	}
}

// here opens the sockets of a host in this process.
func here(t *testing.T, o Options) *Set {
	t.Helper()
	return testkit.Value(Open(t.Context(), o))(t)
}

// listen opens an address and closes the listener again, as an agent that ends.
func listen(t *testing.T, s *Set, address string) string {
	t.Helper()
	l := testkit.Value(s.Listen(t.Context(), address))(t)
	testkit.Must(t, l.Close())
	return l.Addr().String()
}

func reachable(address string) bool {
	c, err := net.Dial("tcp", address)
	if err == nil {
		_ = c.Close()
	}
	return err == nil
}

// holderOf is the process that keeps the sockets of a state folder; 0 is none.
func holderOf(t *testing.T, dir string) int {
	t.Helper()
	for _, file := range testkit.Value(filepath.Glob("/proc/[0-9]*/cmdline"))(t) {
		line, err := os.ReadFile(file)
		if err == nil && strings.HasSuffix(string(line), "\x00keep-sockets\x00"+dir+"\x00") {
			return testkit.Value(strconv.Atoi(filepath.Base(filepath.Dir(file))))(t)
		}
	}
	return 0
}

func TestAnotherHolderComesForOneThatDied(t *testing.T) {
	dir := t.TempDir()
	s := here(t, options(dir, time.Minute, "127.0.0.1:0"))
	at := listen(t, s, "127.0.0.1:0")
	was := holderOf(t, dir)
	testkit.Must(t, syscall.Kill(was, syscall.SIGKILL))
	testkit.Eventually(t, "another one is there", func() bool { now := holderOf(t, dir); return now != 0 && now != was })
	testkit.Must(t, s.Close(false))
	if !reachable(at) {
		t.Fatal("the other one does not keep the address open")
	}
	next := here(t, options(dir, time.Minute, "127.0.0.1:0"))
	if now := listen(t, next, "127.0.0.1:0"); now != at {
		t.Errorf("%s became %s", at, now)
	}
	testkit.Must(t, next.Close(true))
	testkit.Eventually(t, "the address is closed", func() bool { return !reachable(at) })
}

// TestAddressesAreClosed: what the next agent does not ask for, what no agent came back for,
// and what is not to be kept at all.
func TestAddressesAreClosed(t *testing.T) {
	const one, other = "127.0.0.1:0", "127.0.0.2:0"
	for name, c := range map[string]struct {
		first Options
		then  func(t *testing.T, dir string)
	}{
		"another address": {options("", time.Minute, one, other), func(t *testing.T, dir string) {
			s := here(t, options(dir, time.Minute, other))
			t.Cleanup(func() { testkit.Must(t, s.Close(true)) })
		}},
		"no routes any more": {options("", time.Minute, one, other), func(t *testing.T, dir string) {
			testkit.Must(t, here(t, options(dir, time.Minute)).Close(false))
		}},
		"nothing is kept any more": {options("", time.Minute, one, other), func(t *testing.T, dir string) {
			testkit.Must(t, here(t, options(dir, 0, one, other)).Close(false))
		}},
		"no agent came":    {options("", 100*time.Millisecond, one, other), func(*testing.T, string) {}},
		"nothing was kept": {options("", 0, one, other), func(*testing.T, string) {}},
		"it was uninstalled": {options("", time.Minute, one, other), func(t *testing.T, dir string) {
			testkit.Must(t, Stop(t.Context(), dir))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.first.Dir = t.TempDir()
			c.first.Command = options(c.first.Dir, 0).Command
			s := here(t, c.first)
			at, stays := listen(t, s, one), listen(t, s, other)
			if kept := holderOf(t, c.first.Dir) != 0; kept != (c.first.Keep > 0) {
				t.Fatalf("there is a holder: %v", kept)
			}
			testkit.Must(t, s.Close(false))
			c.then(t, c.first.Dir)
			testkit.Eventually(t, "the address is closed", func() bool { return !reachable(at) })
			if name == "another address" {
				if !reachable(stays) {
					t.Errorf("%s is closed too", stays)
				}
				return
			}
			testkit.Eventually(t, "the holder is gone", func() bool { return holderOf(t, c.first.Dir) == 0 })
		})
	}
}

// A process of another user gets no socket, even where it can reach the holder.
func TestStrangersGetNothing(t *testing.T) {
	testkit.Needs(t, testkit.Root) // for a process of another user
	dir := testkit.Value(os.MkdirTemp("", "s"))(t)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	s := here(t, options(dir, time.Minute, "127.0.0.1:0"))
	listen(t, s, "127.0.0.1:0")
	testkit.Must(t, s.Close(false))
	for _, d := range []string{dir, filepath.Join(dir, "sockets")} {
		testkit.Must(t, os.Chmod(d, 0o755))
	}
	testkit.Must(t, os.Chmod(filepath.Join(dir, "sockets", "holder"), 0o777))
	for uid, want := range map[uintptr]string{65534: "", 0: store + nameOf("127.0.0.1:0")} {
		got := make(chan string)
		go func() {
			runtime.LockOSThread() // and never unlocked: this thread alone becomes another user
			if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, uid, uid, uid); errno != 0 {
				got <- errno.Error()
				return
			}
			fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
			if err == nil {
				err = unix.Connect(fd, &unix.SockaddrUnix{Name: filepath.Join(dir, "sockets", "holder")})
			}
			b := make([]byte, maxMessage)
			n := 0
			if err == nil {
				n, err = unix.Read(fd, b)
			}
			if err != nil && !errors.Is(err, unix.ECONNRESET) {
				got <- err.Error()
				return
			}
			_ = unix.Close(fd)
			got <- string(b[:max(0, n)])
		}()
		if is := <-got; is != want {
			t.Errorf("user %d got %q, expected %q", uid, is, want)
		}
	}
	testkit.Must(t, Stop(t.Context(), dir))
}
