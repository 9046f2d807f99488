package agent

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/steadyfleet/steady/internal/agent/client"
	"github.com/steadyfleet/steady/internal/agent/state"
	"github.com/steadyfleet/steady/internal/core/container"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/trust"
	"github.com/steadyfleet/steady/internal/wire"
)

// content gives what is named by digest, from the cache or else the server.
// Only digests that came from verified documents are ever asked for, and what
// does not have the digest is never given.
type content struct {
	store  *state.Store
	client *client.Client

	mu      sync.Mutex
	bundles map[digest.Digest]*fleet.Bundle
}

// maxBundles bounds the decoded bundles in memory: what runs, and where a revert
// or an activation goes.
const maxBundles = 2

func newContent(s *state.Store, c *client.Client) *content {
	return &content{store: s, client: c, bundles: map[digest.Digest]*fleet.Bundle{}}
}

// contentError is content that the server gave and that is not what was asked for.
type contentError struct{ err error }

func (e *contentError) Error() string { return e.err.Error() }
func (e *contentError) Unwrap() error { return e.err }

// Bundle implements system.Content.
func (c *content) Bundle(ctx context.Context, d digest.Digest) (*fleet.Bundle, error) {
	b, err := c.local(d)
	if !errors.Is(err, state.ErrNoBlob) {
		return b, err
	}
	raw, err := c.client.Bundle(ctx, d)
	if err != nil {
		return nil, fmt.Errorf("bundle %s is not on this host, and cannot be fetched: %w", d.Short(), err)
	}
	if err := c.put(d, raw); err != nil {
		return nil, err
	}
	return c.local(d)
}

// local reads a bundle that is on this host.
func (c *content) local(d digest.Digest) (*fleet.Bundle, error) {
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

// put stores bytes under their digest.
func (c *content) put(d digest.Digest, raw []byte) error {
	if digest.Of(raw) != d {
		return &contentError{fmt.Errorf("the server gave %s instead of %s", digest.Of(raw).Short(), d.Short())}
	}
	return c.store.WriteBlob(d, int64(len(raw)), func(w io.Writer) error {
		_, err := io.Copy(w, bytes.NewReader(raw))
		return err
	})
}

// Blob implements system.Content.
func (c *content) Blob(ctx context.Context, d digest.Digest, size int64) (io.ReadCloser, error) {
	if !c.store.HasBlob(d, size) {
		if err := c.fetch(ctx, d, size); err != nil {
			return nil, err
		}
	}
	return c.store.OpenBlob(d)
}

// Damaged implements system.Content.
func (c *content) Damaged(d digest.Digest) error { return c.store.RemoveBlob(d) }

// fetch gets a blob from the server.
func (c *content) fetch(ctx context.Context, d digest.Digest, size int64) error {
	if size > wire.MaxBlob {
		return &contentError{fmt.Errorf("blob %s of %d bytes is larger than the %d allowed", d.Short(), size, int64(wire.MaxBlob))}
	}
	var asked error
	err := c.store.WriteBlob(d, size, func(w io.Writer) error {
		asked = c.client.Blob(ctx, d, size, w)
		return asked
	})
	if errors.Is(asked, wire.ErrTooLarge) || asked == nil && errors.Is(err, state.ErrOtherContent) {
		return &contentError{err}
	}
	return err
}

// missing lists what content is not here or is damaged.
func (c *content) missing(ctx context.Context, b fleet.Bundle) ([]container.Blob, error) {
	var out []container.Blob
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

func (c *content) intact(f container.Blob) (bool, error) {
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

// sweep removes what none of the bundles needs.
func (c *content) sweep(pinned ...digest.Digest) error {
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
