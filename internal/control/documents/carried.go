package documents

import (
	"context"
	"errors"
	"fmt"

	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/trust"
	"github.com/steadyfleet/steady/internal/wire"
)

// Carried are the documents that a grant of a manifest takes to a host which has the
// timestamp of version stamp. Reading stops at the first error: the host asks for the
// rest, and is told.
func (l *Library) Carried(ctx context.Context, v *View, stamp uint64, manifest digest.Digest, host string) (d *wire.Documents, err error) {
	d = &wire.Documents{Root: v.Verifier.RootVersion()}
	if v.TimestampVersion != stamp {
		if d.Timestamp, err = l.Blob(ctx, v.Files[TimestampFile]); err != nil {
			return d, fmt.Errorf("timestamp: %w", err)
		}
		if d.Resolved, err = l.Blob(ctx, v.Files[ResolvedFile]); err != nil {
			return d, fmt.Errorf("snapshot: %w", err)
		}
	}
	m, err := l.open(manifest)
	if err != nil {
		return d, err
	}
	leaf, ok, err := m.leaf(host)
	if err != nil || !ok {
		return d, err
	}
	d.Manifest = &wire.HostManifest{Envelope: m.envelope, Leaf: leaf}
	i, _ := m.manifest.Leaf(host)
	d.Content, err = l.content(ctx, m.manifest.Leaves[i].Target)
	return d, err
}

// maxContents bounds the bundles whose content is kept together.
const maxContents = 64

// content is a bundle with those of its blobs that fit in one dispatch, the first by
// digest.
func (l *Library) content(ctx context.Context, target digest.Digest) (map[digest.Digest][]byte, error) {
	l.mu.Lock()
	all, ok := l.contents[target]
	l.mu.Unlock()
	if ok || target == "" {
		return all, nil
	}
	raw, err := l.Blob(ctx, target)
	if err != nil || len(raw) > wire.MaxCarried {
		return nil, err
	}
	b, err := trust.ReadBundle(raw)
	if err != nil {
		return nil, err
	}
	all, left := map[digest.Digest][]byte{target: raw}, int64(wire.MaxCarried-len(raw))
	for _, f := range b.Blobs() {
		if f.Size > left {
			continue
		}
		body, err := l.Blob(ctx, f.Digest)
		if err != nil {
			return nil, err
		}
		if int64(len(body)) != f.Size {
			return nil, errors.New("blob " + f.Digest.Short() + " is not as long as its bundle declares")
		}
		all[f.Digest], left = body, left-f.Size
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.contents) >= maxContents {
		clear(l.contents)
	}
	l.contents[target] = all
	return all, nil
}
