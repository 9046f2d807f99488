package preparation

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"

	"github.com/steadyfleet/steady/internal/agent/state"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/spec"
	"github.com/steadyfleet/steady/internal/trust"
	"github.com/steadyfleet/steady/internal/wire"
)

// ContentServer is where content comes from.
type ContentServer interface {
	Bundle(ctx context.Context, d digest.Digest) ([]byte, error)
	// Blob writes a blob, of size bytes, to w.
	Blob(ctx context.Context, d digest.Digest, size int64, w io.Writer) error
}

// Carrier gives content that came with the last dispatch, and fetches the rest. It is safe
// for concurrent use.
type Carrier struct {
	ContentServer
	carried atomic.Pointer[map[digest.Digest][]byte]
}

// NewCarrier returns one that carries nothing.
func NewCarrier(from ContentServer) *Carrier { return &Carrier{ContentServer: from} }

// Carry replaces what is carried by what of the content is what its names are.
func (c *Carrier) Carry(content map[digest.Digest][]byte) {
	whole := map[digest.Digest][]byte{}
	for d, b := range content {
		if digest.Of(b) == d {
			whole[d] = b
		}
	}
	c.carried.Store(&whole)
}

func (c *Carrier) take(d digest.Digest) []byte {
	if m := c.carried.Load(); m != nil {
		return (*m)[d]
	}
	return nil
}

// Bundle implements ContentServer.
func (c *Carrier) Bundle(ctx context.Context, d digest.Digest) ([]byte, error) {
	if b := c.take(d); b != nil {
		return b, nil
	}
	return c.ContentServer.Bundle(ctx, d)
}

// Blob implements ContentServer.
func (c *Carrier) Blob(ctx context.Context, d digest.Digest, size int64, w io.Writer) error {
	if b := c.take(d); b != nil && int64(len(b)) == size {
		_, err := w.Write(b)
		return err
	}
	return c.ContentServer.Blob(ctx, d, size, w)
}

// Cache is the content of one host. It may be used from any goroutine.
type Cache struct {
	store  *state.Store
	server ContentServer

	mu      sync.Mutex
	bundles map[digest.Digest]*fleet.Bundle
}

// maxBundles bounds the decoded bundles in memory: what runs, and where a revert
// or an activation goes.
const maxBundles = 2

// NewCache returns the content of a store and its server.
func NewCache(s *state.Store, from ContentServer) *Cache {
	return &Cache{store: s, server: from, bundles: map[digest.Digest]*fleet.Bundle{}}
}

// ContentError is content that the server gave and that is not what was asked for.
type ContentError struct{ err error }

func (e *ContentError) Error() string { return e.err.Error() }
func (e *ContentError) Unwrap() error { return e.err }

// Bundle implements system.Content.
func (c *Cache) Bundle(ctx context.Context, d digest.Digest) (*fleet.Bundle, error) {
	b, err := c.local(d)
	if !errors.Is(err, state.ErrNoBlob) {
		return b, err
	}
	raw, err := c.server.Bundle(ctx, d)
	if err != nil {
		return nil, fmt.Errorf("bundle %s is not on this host, and cannot be fetched: %w", d.Short(), err)
	}
	if err := c.Put(d, raw); err != nil {
		return nil, err
	}
	return c.local(d)
}

// local reads a bundle that is on this host.
func (c *Cache) local(d digest.Digest) (*fleet.Bundle, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if b := c.bundles[d]; b != nil {
		return b, nil
	}
	raw, err := c.store.Blob(d, wire.MaxDocument)
	if err != nil {
		return nil, err
	}
	b, err := trust.ReadBundle(raw)
	if err != nil {
		return nil, err
	}
	if len(c.bundles) >= maxBundles {
		clear(c.bundles)
	}
	c.bundles[d] = &b
	return &b, nil
}

// Put stores bytes under their digest.
func (c *Cache) Put(d digest.Digest, raw []byte) error {
	if digest.Of(raw) != d {
		return &ContentError{fmt.Errorf("the server gave %s instead of %s", digest.Of(raw).Short(), d.Short())}
	}
	return c.store.WriteBlob(d, int64(len(raw)), func(w io.Writer) error {
		_, err := io.Copy(w, bytes.NewReader(raw))
		return err
	})
}

// Blob implements system.Content.
func (c *Cache) Blob(ctx context.Context, d digest.Digest, size int64) (io.ReadCloser, error) {
	if !c.store.HasBlob(d, size) {
		if err := c.Fetch(ctx, d, size); err != nil {
			return nil, err
		}
	}
	return c.store.OpenBlob(d)
}

// Damaged implements system.Content.
func (c *Cache) Damaged(d digest.Digest) error { return c.store.RemoveBlob(d) }

// Fetch gets a blob from the server, whether it is here or not.
func (c *Cache) Fetch(ctx context.Context, d digest.Digest, size int64) error {
	if size > wire.MaxBlob {
		return &ContentError{fmt.Errorf("blob %s of %d bytes is larger than the %d allowed", d.Short(), size, int64(wire.MaxBlob))}
	}
	var asked error
	err := c.store.WriteBlob(d, size, func(w io.Writer) error {
		asked = c.server.Blob(ctx, d, size, w)
		return asked
	})
	if errors.Is(asked, wire.ErrTooLarge) || asked == nil && errors.Is(err, state.ErrOtherContent) {
		return &ContentError{err}
	}
	return err
}

// Missing lists what content of a bundle is not here or is damaged; what is
// damaged is removed.
func (c *Cache) Missing(ctx context.Context, b fleet.Bundle) ([]spec.Blob, error) {
	var out []spec.Blob
	for _, f := range b.Blobs() {
		ok, err := c.intact(f)
		if err != nil {
			return nil, err
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if !ok {
			out = append(out, f)
		}
	}
	return out, nil
}

func (c *Cache) intact(f spec.Blob) (bool, error) {
	if !c.store.HasBlob(f.Digest, f.Size) {
		return false, nil
	}
	r, err := c.store.OpenBlob(f.Digest)
	if err != nil {
		return false, err
	}
	h := sha256.New()
	_, err = io.Copy(h, r)
	if err := errors.Join(err, r.Close()); err != nil {
		return false, err
	}
	if digest.Digest(digest.Prefix+hex.EncodeToString(h.Sum(nil))) == f.Digest {
		return true, nil
	}
	return false, c.store.RemoveBlob(f.Digest)
}

// Sweep removes what none of the bundles needs; empty ones are left out.
func (c *Cache) Sweep(pinned ...digest.Digest) error {
	keep := map[digest.Digest]bool{}
	for _, d := range pinned {
		if d == "" || keep[d] {
			continue
		}
		keep[d] = true
		if !c.store.HasBlob(d, -1) {
			continue
		}
		b, err := c.local(d)
		if err != nil {
			return err
		}
		for _, f := range b.Blobs() {
			keep[f.Digest] = true
		}
	}
	return c.store.Sweep(keep)
}
