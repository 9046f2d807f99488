package preparation

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/steadyfleet/steady/internal/agent/uplink"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/spec"
	"github.com/steadyfleet/steady/internal/disk"
	"github.com/steadyfleet/steady/internal/trust"
)

// NarServer is where archives of store paths come from.
type NarServer interface {
	// Nar writes an archive of size bytes to w, from an offset on.
	Nar(ctx context.Context, d digest.Digest, offset, size int64, w io.Writer) error
}

const (
	// fetchers is how many archives are fetched at a time: most are small.
	fetchers = 4
	// fetchNews is how often the log says how far it is.
	fetchNews = 10 * time.Second
	// narsAge is how long archives that nobody asked for again stay.
	narsAge = 24 * time.Hour
	partEnd = ".part"
)

// Nars are the archives that a Nix system lacks, on their way into the host's store: a binary
// cache in the state folder, which is emptied once the store has them. It may be used from any
// goroutine.
type Nars struct {
	dir     string
	server  NarServer
	content *Cache
	log     *slog.Logger
	mu      sync.Mutex // one system at a time
}

// NewNars returns the archives below a folder, which need not be there.
func NewNars(dir string, from NarServer, content *Cache, log *slog.Logger) *Nars {
	return &Nars{dir: dir, server: from, content: content, log: log}
}

// List is what a system consists of, which the bundle names.
func (n *Nars) List(ctx context.Context, of *fleet.Nix) (c fleet.Closure, err error) {
	src, err := n.content.Blob(ctx, of.Paths.Digest, of.Paths.Size)
	if err != nil {
		return c, err
	}
	raw, err := io.ReadAll(io.LimitReader(src, fleet.MaxClosure+1))
	if err := errors.Join(err, src.Close()); err != nil {
		return c, err
	}
	if digest.Of(raw) != of.Paths.Digest {
		return c, errors.Join(fmt.Errorf("the stored list of the paths of %s is damaged; it is fetched again", of.Path), n.content.Damaged(of.Paths.Digest))
	}
	return trust.ReadClosure(of, raw)
}

// Folder is that of the binary cache; archives are in nar/ by the digits of their digest.
func (n *Nars) Folder() string { return n.dir }

func (n *Nars) path(d digest.Digest) string { return filepath.Join(n.dir, "nar", d.Hex()) }

// Lacks is how many bytes of the archives are still to come.
func (n *Nars) Lacks(list []spec.Blob) (bytes int64) {
	for _, b := range list {
		if info, err := os.Stat(n.path(b.Digest)); err == nil && info.Size() == b.Size {
			continue
		}
		bytes += b.Size
		if info, err := os.Stat(n.path(b.Digest) + partEnd); err == nil && info.Size() <= b.Size {
			bytes -= info.Size()
		}
	}
	return bytes
}

// Bring fetches the archives that are not here, each from where a former attempt was torn off,
// and compares each with its digest.
func (n *Nars) Bring(ctx context.Context, list []spec.Blob) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if err := os.MkdirAll(filepath.Join(n.dir, "nar"), 0o700); err != nil {
		return err
	}
	if err := n.forget(list); err != nil {
		return err
	}
	b := &bringing{n: n, total: n.Lacks(list)}
	if b.total > 0 {
		n.log.Info("fetching store paths", "paths", len(list), "bytes", b.total)
	}
	news, end := context.WithCancel(ctx)
	defer end()
	go func() {
		for uplink.Pause(news, fetchNews) == nil {
			n.log.Info("fetching store paths", "left", n.Lacks(list), "bytes", b.total)
		}
	}()
	return b.all(ctx, list)
}

// forget removes what is of no use to these archives and was not asked for in a while.
func (n *Nars) forget(list []spec.Blob) error {
	wanted := map[string]bool{}
	for _, b := range list {
		wanted[b.Digest.Hex()] = true
	}
	return n.remove(func(name string, info fs.FileInfo) bool {
		return !wanted[strings.TrimSuffix(name, partEnd)]
	})
}

// Rest removes archives that were left by a system which nobody asks for any more.
func (n *Nars) Rest() error {
	if !n.mu.TryLock() {
		return nil // they are in use
	}
	defer n.mu.Unlock()
	return n.remove(func(_ string, info fs.FileInfo) bool { return time.Since(info.ModTime()) > narsAge })
}

// Drop removes all archives: the store has them.
func (n *Nars) Drop() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	return os.RemoveAll(n.dir)
}

func (n *Nars) remove(which func(string, fs.FileInfo) bool) error {
	entries, err := os.ReadDir(filepath.Join(n.dir, "nar"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, e := range entries {
		if info, failed := e.Info(); failed == nil && which(e.Name(), info) {
			err = errors.Join(err, os.Remove(filepath.Join(n.dir, "nar", e.Name())))
		}
	}
	return err
}

type bringing struct {
	n     *Nars
	total int64
}

func (b *bringing) all(ctx context.Context, list []spec.Blob) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	next := make(chan spec.Blob)
	var workers sync.WaitGroup
	for range fetchers {
		workers.Go(func() {
			for nar := range next {
				if err := b.n.one(ctx, nar); err != nil {
					stop(err)
				}
			}
		})
	}
	for _, nar := range list {
		select {
		case next <- nar:
		case <-ctx.Done():
		}
	}
	close(next)
	workers.Wait()
	return context.Cause(ctx)
}

// one fetches an archive, or the rest of it.
func (n *Nars) one(ctx context.Context, nar spec.Blob) error {
	if ctx.Err() != nil {
		return nil
	}
	path := n.path(nar.Digest)
	if info, err := os.Stat(path); err == nil && info.Size() == nar.Size {
		return nil // compared when it got its name
	}
	f, err := os.OpenFile(path+partEnd, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	h := sha256.New()
	begun, err := io.Copy(h, f) // what a former attempt brought
	if err == nil && begun > nar.Size {
		begun, err = 0, f.Truncate(0)
		h.Reset()
	}
	if err != nil {
		return err
	}
	if _, err := f.Seek(begun, io.SeekStart); err != nil {
		return err
	}
	if begun < nar.Size {
		if err := n.server.Nar(ctx, nar.Digest, begun, nar.Size, io.MultiWriter(f, h)); err != nil {
			return fmt.Errorf("store path archive %s: %w", nar.Digest.Short(), err)
		}
	}
	if got := digest.Digest(digest.Prefix + hex.EncodeToString(h.Sum(nil))); got != nar.Digest {
		err := fmt.Errorf("the server gave an archive with digest %s instead of %s", got.Short(), nar.Digest.Short())
		if err := os.Remove(path + partEnd); err != nil {
			return err
		}
		if begun > 0 { // what was here may be what is damaged: all of it again
			return err
		}
		return &ContentError{err}
	}
	if err := errors.Join(f.Sync(), os.Rename(path+partEnd, path)); err != nil {
		return err
	}
	return disk.SyncDir(filepath.Dir(path))
}
