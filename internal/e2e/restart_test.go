package e2e

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/steadyfleet/steady/internal/agent/sockets"
	"github.com/steadyfleet/steady/internal/docker/dockertest"
	"github.com/steadyfleet/steady/internal/testkit"
)

const routedCompose = `services:
  app:
    image: steady.test/busybox:1
    pull_policy: never
    stop_grace_period: 0s
    command: [httpd, -f, -p, "8080", -h, /www]
    configs: [{source: page, target: /www/page}]
    x-steady: {update: {monitor: 100ms}, route: {host: shop.localhost, port: 8080}}
configs: {page: {content: "the page"}}
`

// TestAgentRestartsUnderRequests: an agent with a route is stopped and killed while clients
// send requests, each on a connection of its own. Nobody is refused, nobody gets another
// answer than that of the container, also not before the new agent has seen its containers;
// a kill cuts off at most what was under way. A second agent on the folder changes nothing.
func TestAgentRestartsUnderRequests(t *testing.T) {
	t.Parallel()
	d := dockertest.Engine(t)
	d.Busybox(t)
	y := newYard(t, testkit.Value(os.Executable())(t))
	address := testkit.FreeAddr(t)
	flags := []string{"--engine", d.Socket(), "--prefix", d.Namespace(t).Prefix, "--http", address}
	testkit.Must(t, os.MkdirAll(y.root(victim), 0o755))
	y.startAgent(victim, append(flags, "--token", y.estate.token(victim, y.where.Server, []byte(readContext(t, y.where.Context).CA)))...)
	t.Cleanup(func() {
		y.agents[victim].kill()
		testkit.Must(t, sockets.Stop(context.Background(), y.state(victim)))
	})
	y.push(y.estate.release("v1", declare{"fleet.yaml": strings.Replace(runsFleet, "SOAK", "0s", 1),
		"bundles/web/bundle.yaml": "compose: compose.yaml\n", "bundles/web/compose.yaml": routedCompose}))

	client := &http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true}}
	ask := func() error {
		r := testkit.Value(http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+address+"/page", nil))(t)
		r.Host = "shop.localhost"
		a, err := client.Do(r)
		if err != nil {
			return err
		}
		defer a.Body.Close()
		if body, err := io.ReadAll(a.Body); err != nil || a.StatusCode != http.StatusOK || string(body) != "the page" {
			return fmt.Errorf("%s %q %w", a.Status, body, err)
		}
		return nil
	}
	testkit.Eventually(t, "the route is served", func() bool { return ask() == nil })

	const clients = 4
	var answered, cut atomic.Int64
	var wait sync.WaitGroup
	stop := make(chan struct{})
	for range clients {
		wait.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				switch err := ask(); {
				case err == nil:
					answered.Add(1)
				case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET):
					cut.Add(1)
				default:
					t.Error(err)
				}
			}
		})
	}
	more := func(n int64) {
		until := answered.Load() + n
		testkit.Eventually(t, "requests are answered", func() bool { return t.Failed() || answered.Load() >= until })
	}
	more(200)
	second := launch(t, y.dir, "second", append([]string{"agent", "--state", y.state(victim), "--root", y.root(victim)}, flags...)...)
	second.asked.Store(true) // it ends by itself
	select {
	case <-second.exited:
	case <-time.After(patience):
		t.Error("a second agent on the folder does not end")
	}
	more(200)
	for _, s := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL, syscall.SIGTERM} {
		before, may := cut.Load(), int64(0)
		y.agents[victim].end(s)
		y.startAgent(victim, flags...)
		more(200)
		if s == syscall.SIGKILL {
			may = clients
		}
		if n := cut.Load() - before; n > may {
			t.Errorf("%s cut off %d requests, at most %d", s, n, may)
		}
	}
	close(stop)
	wait.Wait()
	if answered.Load() < 1000 {
		t.Errorf("only %d requests", answered.Load())
	}
	t.Logf("%d answered, %d cut off by the kill", answered.Load(), cut.Load())
}
