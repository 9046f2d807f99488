package probe

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"reflect"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/testkit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestLook(t *testing.T) {
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer other.Close()
	app := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/slow":
			<-r.Context().Done()
		case "/away":
			http.Redirect(w, r, other.URL+"/", http.StatusFound)
		case "/here":
			http.Redirect(w, r, "/ok", http.StatusFound)
		case "/loop":
			http.Redirect(w, r, "/loop", http.StatusFound)
		case "/bad":
			w.WriteHeader(http.StatusTeapot)
		default:
			_, _ = w.Write([]byte("version 7"))
		}
	}))
	defer app.Close()
	web := func(path string, status int, contains string) fleet.Probe {
		return fleet.Probe{HTTP: &fleet.HTTPProbe{URL: app.URL + path, ExpectStatus: status, BodyContains: contains}}
	}
	tcp := func(address string) fleet.Probe { return fleet.Probe{TCP: &fleet.TCPProbe{Address: address}} }
	cmd := func(code int, argv ...string) fleet.Probe {
		return fleet.Probe{Exec: &fleet.ExecProbe{Command: argv, ExpectExitCode: code}}
	}
	tests := []struct {
		name   string
		probe  fleet.Probe
		reason string // part of it; empty passes
	}{
		{"status", web("/ok", 200, ""), ""},
		{"expected refusal", web("/bad", 418, ""), ""},
		{"wrong status", web("/bad", 200, ""), "got 418"},
		{"body", web("/ok", 200, "version 7"), ""},
		{"wrong body", web("/ok", 200, "version 8"), "does not contain"},
		{"slow", web("/slow", 200, ""), "timed out"},
		{"redirect of the same origin", web("/here", 200, "version"), ""},
		{"redirect to another origin", web("/away", 200, ""), "got 302"},
		{"redirect for ever", web("/loop", 200, ""), "got 302"},
		{"not a URL", fleet.Probe{HTTP: &fleet.HTTPProbe{URL: "://", ExpectStatus: 200}}, "missing protocol"},
		{"tcp", tcp(strings.TrimPrefix(app.URL, "http://")), ""},
		{"tcp closed", tcp(closedAddress(t)), "refused"},
		{"tcp nonsense", tcp("nowhere"), "missing port"},
		{"exec", cmd(0, "/bin/true"), ""},
		{"exec expects failure", cmd(1, "/bin/false"), ""},
		{"exec fails", cmd(0, "/bin/sh", "-c", "echo because; exit 3"), "exit code 3: because"},
		{"exec is long about it", cmd(0, "/bin/sh", "-c", "yes | head -c 9999; exit 1"), "y\ny"},
		{"exec not there", cmd(0, "/nonexistent"), "no such file"},
		{"exec too slow", cmd(0, "/bin/sh", "-c", "while :; do sleep 1; done"), "time was up"},
		{"nothing", fleet.Probe{}, "neither"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.probe.Name, tt.probe.Timeout = "p", clock.Minute
			if strings.Contains(tt.name, "slow") {
				tt.probe.Timeout = 100 * clock.Millisecond
			}
			r := RunOnce(t.Context(), tt.probe, Env{Dir: t.TempDir(), Env: os.Environ()})
			if r.Pass != (tt.reason == "") || !strings.Contains(r.Reason, tt.reason) || len(r.Reason) > MaxReason || r.Name != "p" {
				t.Errorf("%+v", r)
			}
		})
	}
}

// closedAddress is held until the test ends, and nobody listens there: one that is
// let go of may be another test's by the time it is tried.
func closedAddress(t *testing.T) string {
	t.Helper()
	fd := testkit.Value(unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0))(t)
	t.Cleanup(func() { _ = unix.Close(fd) })
	testkit.Must(t, unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}))
	at := testkit.Value(unix.Getsockname(fd))(t)
	return fmt.Sprintf("127.0.0.1:%d", at.(*unix.SockaddrInet4).Port)
}

// TestRunner runs on virtual time: each probe at once and then by its interval,
// a disabled one never, and nothing of a set that was replaced.
func TestRunner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		count := map[string]int{}
		r := NewRunner(func(_ context.Context, round int64, res Result) {
			mu.Lock()
			defer mu.Unlock()
			count[res.Name]++
			if strings.HasPrefix(res.Name, "new") != (round == 2) {
				t.Errorf("%s came in round %d", res.Name, round)
			}
		})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- r.Run(ctx) }()
		probe := func(name string, every clock.Duration, mode fleet.ProbeMode) fleet.Probe {
			return fleet.Probe{Name: name, Interval: every, Mode: mode, Timeout: clock.Second} // says nothing: fails at once
		}
		r.Start(Set{Round: 1, Probes: []fleet.Probe{
			probe("fast", clock.Second, fleet.Enforce), probe("slow", 10*clock.Second, fleet.Observe), probe("off", clock.Second, fleet.Disabled),
		}})
		time.Sleep(29*time.Second + 500*time.Millisecond) // in a bubble
		r.Start(Set{Round: 2, Probes: []fleet.Probe{probe("new", clock.Second, fleet.Enforce)}})
		time.Sleep(4*time.Second + 500*time.Millisecond) // in a bubble
		r.Start(Set{Round: 3})
		time.Sleep(time.Minute) // in a bubble
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		mu.Lock()
		defer mu.Unlock()
		if count["fast"] != 30 || count["slow"] != 3 || count["off"] != 0 || count["new"] != 5 {
			t.Errorf("looked %v times", count)
		}
	})
}

// TestResources: the look at resources passes, fails with its words, or tells
// nothing; without one it fails.
func TestResources(t *testing.T) {
	p := fleet.Probe{Name: fleet.ResourcesName, Timeout: clock.Second, Resources: &fleet.ResourcesProbe{}}
	say := func(err error) Env { return Env{Resources: func(context.Context) error { return err }} }
	for name, c := range map[string]struct {
		env  Env
		want Result
	}{
		"runs":     {say(nil), Result{Name: p.Name, Pass: true}},
		"fails":    {say(errors.New("workspace web: boom")), Result{Name: p.Name, Reason: "workspace web: boom"}},
		"disabled": {say(ErrUnknown), Result{Name: p.Name, Unknown: true}},
		"no look":  {Env{}, Result{Name: p.Name, Reason: "the probe names neither http, tcp, exec, evidence nor resources"}},
	} {
		if got := RunOnce(t.Context(), p, c.env); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %+v, expected %+v", name, got, c.want)
		}
	}
}
