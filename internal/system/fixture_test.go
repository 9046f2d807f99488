package system

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/testkit"
	"github.com/steadyfleet/steady/reconcile/engine"
)

// bench holds the reconcilers over a real folder, with the ledger in memory: what
// it remembers is tested with the state package and the agent.
type bench struct {
	t    testing.TB
	host Host
	f    *files

	mu      sync.Mutex
	blobs   map[digest.Digest][]byte
	written map[string][2]digest.Digest
	folders map[string]bool
	steps   map[string]StepObserved
	kept    map[string]string // path to content
}

func newBench(t testing.TB) *bench {
	b := &bench{
		t: t, blobs: map[digest.Digest][]byte{}, written: map[string][2]digest.Digest{},
		folders: map[string]bool{}, steps: map[string]StepObserved{}, kept: map[string]string{},
	}
	b.host = Host{Root: t.TempDir(), Name: "h", Content: b, Ledger: b, Keeper: b, Log: slog.New(slog.DiscardHandler), Resync: clock.Second}
	f := testkit.Value(newFiles(b.host))(t)
	b.f = f
	t.Cleanup(func() { testkit.Must(t, f.root.Close()) })
	return b
}

func (b *bench) path(p string) string { return filepath.Join(b.host.Root, p) }

func (b *bench) read(p string) string {
	raw, err := os.ReadFile(b.path(p))
	if err != nil {
		return "(" + errors.Unwrap(err).Error() + ")"
	}
	return string(raw)
}

// declare returns a resource that wants a file with this content.
func (b *bench) declare(p, content string, mode uint32) engine.Resource[FileDesired] {
	d := digest.Of([]byte(content))
	b.blobs[d] = []byte(content)
	return engine.Resource[FileDesired]{Ref: engine.Ref{Kind: KindFile, ID: p}, Desired: FileDesired{
		File: fleet.File{Path: p, Mode: mode, Blob: d, Size: int64(len(content))}, Run: "r",
	}}
}

// settle observes, decides and acts until nothing is to do, and returns the
// reason of each act.
func (b *bench) settle(r engine.Resource[FileDesired]) (codes []engine.Code, err error) {
	b.t.Helper()
	for range 5 {
		o, err := b.f.Observe(b.t.Context(), r)
		if err != nil {
			return codes, err
		}
		d := b.f.Decide(engine.View[FileDesired, FileObserved]{Resource: r, Observed: o})
		if d.Action() == nil {
			return codes, nil
		}
		codes = append(codes, d.Reason().Code)
		if err := b.f.Act(b.t.Context(), r, d.Action()); err != nil {
			return codes, err
		}
	}
	b.t.Fatalf("%s does not settle: %v", r.Ref, codes)
	return nil, nil
}

func (b *bench) Bundle(context.Context, digest.Digest) (*fleet.Bundle, error) {
	return nil, errors.New("there are no bundles here")
}

func (b *bench) Blob(_ context.Context, d digest.Digest, _ int64) (io.ReadCloser, error) {
	raw, ok := b.blobs[d]
	if !ok {
		return nil, errors.New("no such blob")
	}
	return io.NopCloser(bytes.NewReader(raw)), nil
}

func (b *bench) Damaged(d digest.Digest) error { delete(b.blobs, d); return nil }

func (b *bench) Keep(_ context.Context, p string, d digest.Digest, r io.Reader) error {
	raw, err := io.ReadAll(r)
	if err == nil && digest.Of(raw) != d {
		err = errors.New("the copy is not what was named")
	}
	b.kept[p] = string(raw)
	return err
}

func (b *bench) Wrote(_ context.Context, p string, d digest.Digest) (bool, error) {
	w := b.written[p]
	return d != "" && (w[0] == d || w[1] == d), nil
}

func (b *bench) WillWrite(_ context.Context, p string, d digest.Digest) error {
	b.written[p] = [2]digest.Digest{d, b.written[p][0]}
	return nil
}
func (b *bench) Forget(_ context.Context, p string) error       { delete(b.written, p); return nil }
func (b *bench) WillMake(_ context.Context, p string) error     { b.folders[p] = true; return nil }
func (b *bench) Made(_ context.Context, p string) (bool, error) { return b.folders[p], nil }
func (b *bench) Unmake(_ context.Context, p string) error       { delete(b.folders, p); return nil }

func (b *bench) Step(_ context.Context, name string) (string, bool, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.steps[name].Run, b.steps[name].Done, nil
}

func (b *bench) SetStep(_ context.Context, name, run string, done bool) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.steps[name] = StepObserved{Run: run, Done: done}
	return nil
}

func (b *bench) ForgetStep(_ context.Context, name string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.steps, name)
	return nil
}
