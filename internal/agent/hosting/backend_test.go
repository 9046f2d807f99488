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
	"github.com/steadyfleet/steady/internal/core/container"
	"github.com/steadyfleet/steady/internal/docker"
	"github.com/steadyfleet/steady/internal/docker/daemon"
	"github.com/steadyfleet/steady/internal/docker/ownership"
	"github.com/steadyfleet/steady/reconcile"
	"github.com/steadyfleet/steady/reconcile/memory"
)

// TestFrozenEngineIsToldSoon: what a person asks of an engine that takes
// connections and answers nothing, as a stopped process does, is refused with the
// cause and the next step long before the deadline of a call.
func TestFrozenEngineIsToldSoon(t *testing.T) {
	t.Parallel()
	socket := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", socket) // the kernel takes connections for it
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	e, err := daemon.Open(daemon.Options{Socket: socket})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	rows := memory.New()
	h := &Hosting{}
	h.docker, err = docker.New(reconcile.New(rows), docker.Options{Engine: e, Owner: ownership.Owner{Fleet: "f", Host: "h"},
		Dir: t.TempDir(), Secrets: t.TempDir(), Rows: rows, Key: make([]byte, 32), Log: slog.New(slog.DiscardHandler), Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
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
			_, err := h.Plan(ctx, container.KindVolume, "data", nil)
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
