package hosting

import (
	"context"
	"io"
	"log/slog"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/steadyfleet/steady/internal/agent/stream"
	"github.com/steadyfleet/steady/internal/core/spec"
	"github.com/steadyfleet/steady/internal/docker"
	"github.com/steadyfleet/steady/internal/docker/convert"
	"github.com/steadyfleet/steady/internal/docker/dockerapi"
	"github.com/steadyfleet/steady/internal/testkit"
	"github.com/steadyfleet/steady/reconcile"
)

// TestFrozenEngineIsToldSoon: what a person asks of an engine that takes
// connections and answers nothing, as a stopped process does, is refused with the
// cause and the next step long before the deadline of a call.
func TestFrozenEngineIsToldSoon(t *testing.T) {
	t.Parallel()
	socket := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", socket) // the kernel takes connections for it
	testkit.Must(t, err)
	t.Cleanup(func() { l.Close() })
	e, err := dockerapi.Open(dockerapi.Options{Socket: socket})
	testkit.Must(t, err)
	t.Cleanup(func() { e.Close() })
	_, rows := openRows(t)
	h := &Hosting{}
	h.docker, err = docker.New(reconcile.New(rows), docker.Options{Engine: e, Owner: convert.Owner{Fleet: "f", Host: "h"},
		Dir: t.TempDir(), Secrets: t.TempDir(), Rows: rows, Key: make([]byte, 32), Log: slog.New(slog.DiscardHandler), Now: time.Now})
	testkit.Must(t, err)
	var all sync.WaitGroup
	for name, ask := range map[string]func(ctx context.Context) error{
		"exec": func(ctx context.Context) error {
			_, err := h.Exec(ctx, "web", stream.ExecOptions{Argv: []string{"true"}}, stream.ExecStreams{Stdout: io.Discard, Stderr: io.Discard})
			return err
		},
		"logs": func(ctx context.Context) error {
			return h.Logs(ctx, "web", stream.LogsOptions{}, io.Discard, io.Discard)
		},
		"prune": func(ctx context.Context) error { return h.Prune(ctx, true, io.Discard) },
		"plan": func(ctx context.Context) error {
			_, err := h.Plan(ctx, spec.KindVolume, "data", nil)
			return err
		},
	} {
		all.Go(func() {
			err := ask(t.Context())
			if err == nil || !strings.Contains(err.Error(), "gave no answer within 3s: see what holds it up (journalctl -u docker), or restart it") {
				t.Errorf("%s: %v", name, err)
			}
		})
	}
	all.Wait()
}
