package e2e

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/steadyfleet/steady/internal/agent/hosting"
	"github.com/steadyfleet/steady/internal/api"
	"github.com/steadyfleet/steady/internal/api/operator"
	"github.com/steadyfleet/steady/internal/control"
	"github.com/steadyfleet/steady/internal/control/documents"
	corehost "github.com/steadyfleet/steady/internal/core/host"
	"github.com/steadyfleet/steady/internal/docker/dockertest"
	"github.com/steadyfleet/steady/internal/testkit"
)

// lease is a real server whose one host, web-1, has a real agent and engine and leaves something to the server.
type lease struct {
	engine   *dockertest.Daemon
	prefix   string // of names on the engine
	router   string // address
	server   *api.Server
	operator *operator.Client
	host     *box
	dir      string // of the server
	logged   *tap   // by the server and the agent
}

func newLease(t *testing.T, fleet string) *lease {
	l := &lease{engine: dockertest.Engine(t), router: testkit.FreeAddr(t), dir: filepath.Join(t.TempDir(), "server"), logged: &tap{}}
	log := slog.New(slog.NewMultiHandler(loud().Handler(), slog.NewJSONHandler(l.logged, &slog.HandlerOptions{Level: slog.LevelDebug})))
	l.engine.Busybox(t)
	l.prefix = l.engine.Namespace(t).Prefix
	e := newEstate(t)
	ctx, stop := context.WithCancel(context.Background())
	server, err := api.Start(ctx, api.Options{DataDir: l.dir, Root: e.roots[0], Listen: "127.0.0.1:0", Control: control.Config{Log: log}})
	if err != nil {
		stop()
		t.Fatal(err)
	}
	l.server = server
	t.Cleanup(func() { stop(); testkit.Must(t, server.Wait()) })
	secret := testkit.Value(os.ReadFile(server.AdminTokenFile()))(t)
	l.operator = testkit.Value(operator.NewClient(operator.Options{URL: server.OperatorURL(), Token: strings.TrimSpace(string(secret)), ServerCA: server.ServerCA()}))(t)
	t.Cleanup(l.operator.Close)
	packed := e.release("v1", declare{"fleet.yaml": fleet, "bundles/web/bundle.yaml": "files:\n  - {path: etc/web, content: \"1\\n\"}\n"}).packed()
	testkit.Value(server.Control().PushRelease(ctx, packed, documents.FollowsNewest, "test"))(t)
	testkit.Must(t, packed.Close())
	l.host = &box{t: t, name: "web-1", clock: newWallClock(), state: filepath.Join(t.TempDir(), "state"), root: t.TempDir(), log: log,
		hosting: hosting.Config{Engine: l.engine.Socket(), Prefix: l.prefix, HTTP: []string{l.router}}}
	l.host.enrol(e.token("web-1", server.URL(), server.ServerCA()))
	l.host.start()
	testkit.Eventually(t, "the host knows what it leaves to the server", func() bool { return l.host.agent.Status().Machine.Phase == corehost.Converged })
	return l
}
