package control

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/spec"
	"github.com/steadyfleet/steady/internal/disk"
	"github.com/steadyfleet/steady/internal/store"
	"github.com/steadyfleet/steady/internal/wire"
)

// contentMargin is what content leaves free on the disk of the data folder.
const contentMargin = 256 << 20

// Lacks is content that the server does not have, and how much of it came already.
type Lacks struct {
	spec.Blob
	Arrived int64 `json:"arrived"`
}

// MissingContent returns what of the content the server does not have. What it has stays for as
// long as a release that is on its way may take. It is refused where the disk has no room for
// the rest.
func (c *Control) MissingContent(ctx context.Context, content []spec.Blob) ([]Lacks, error) {
	out, need := []Lacks{}, int64(0)
	for _, b := range content {
		if _, err := digest.Parse(string(b.Digest)); err != nil || b.Size <= 0 || b.Size > fleet.MaxNar {
			return nil, wire.Refuse(wire.ErrInvalid, "content %q of %d bytes: expected a digest and 1 to %d bytes", b.Digest, b.Size, int64(fleet.MaxNar))
		}
		size, have, err := c.cfg.Store.TouchBlob(ctx, b.Digest)
		if err != nil {
			return nil, unavailable(err)
		}
		if have && size == b.Size {
			continue
		}
		l := Lacks{Blob: b}
		if l.Arrived, err = c.cfg.Store.Arrived(ctx, b.Digest); err != nil {
			return nil, unavailable(err)
		}
		if need += b.Size - l.Arrived; need < 0 {
			return nil, wire.Refuse(wire.ErrInvalid, "the content is larger than any disk")
		}
		out = append(out, l)
	}
	return out, c.roomFor(need)
}

// roomFor refuses content that the disk of the data folder cannot take.
func (c *Control) roomFor(need int64) error {
	if need == 0 {
		return nil
	}
	space, err := disk.SpaceOf(c.cfg.DataDir)
	if err != nil {
		return unavailable(err)
	}
	if lacks := need + contentMargin - space.Free; lacks > 0 {
		return wire.Refuse(wire.ErrUnavailable, "the disk of the server's data folder has %d bytes free, and the release brings %d: %d more are needed; nothing was sent", space.Free, need, lacks)
	}
	return nil
}

// Receive takes content as it comes, from an offset that MissingContent named on. Of two that bring
// the same, the later one goes on and the former is stopped: its connection may be dead.
func (c *Control) Receive(ctx context.Context, b spec.Blob, offset int64, from io.Reader, stop func()) error {
	end, err := c.receiving.begin(ctx, b.Digest, stop)
	if err != nil {
		return unavailable(err)
	}
	defer end()
	if size, have, err := c.cfg.Store.TouchBlob(ctx, b.Digest); err == nil && have && size == b.Size {
		return nil
	}
	if err := c.roomFor(b.Size - offset); err != nil {
		return err
	}
	err = c.cfg.Store.ReceiveBlob(ctx, b.Digest, b.Size, offset, from)
	switch {
	case errors.Is(err, store.ErrInvalid):
		return wire.Refuse(wire.ErrConflict, "%v; ask again what is missing", err)
	case errors.Is(err, store.ErrFull):
		return unavailable(err)
	}
	return err
}

// receptions are the contents that are on their way in.
type receptions struct {
	mu   sync.Mutex
	open map[digest.Digest]*reception
}

type reception struct {
	stop func()
	done chan struct{}
}

// begin waits until nobody else brings d, having stopped who does.
func (r *receptions) begin(ctx context.Context, d digest.Digest, stop func()) (end func(), err error) {
	for {
		r.mu.Lock()
		other := r.open[d]
		if other == nil {
			if r.open == nil {
				r.open = map[digest.Digest]*reception{}
			}
			own := &reception{stop: stop, done: make(chan struct{})}
			r.open[d] = own
			r.mu.Unlock()
			return func() {
				r.mu.Lock()
				delete(r.open, d)
				r.mu.Unlock()
				close(own.done)
			}, nil
		}
		r.mu.Unlock()
		other.stop()
		select {
		case <-other.done:
		case <-ctx.Done():
			return nil, fmt.Errorf("another one brings %s: %w", d.Short(), ctx.Err())
		}
	}
}

// releaseContent stores what a release brings with it.
type releaseContent struct {
	store.Store
	c *Control
}

// ReceiveNar takes an archive that lies in the release, whatever arrived of it before.
func (r releaseContent) ReceiveNar(ctx context.Context, b spec.Blob, open func() (io.ReadCloser, error)) error {
	if size, have, err := r.TouchBlob(ctx, b.Digest); err != nil || have && size == b.Size {
		return err
	}
	end, err := r.c.receiving.begin(ctx, b.Digest, func() {})
	if err != nil {
		return err
	}
	defer end()
	offset, err := r.Arrived(ctx, b.Digest)
	if err != nil {
		return err
	}
	from, err := open()
	if err != nil {
		return err
	}
	defer from.Close()
	if _, err := io.CopyN(io.Discard, from, offset); err != nil {
		return err
	}
	return r.ReceiveBlob(ctx, b.Digest, b.Size, offset, from)
}

// OpenBlob opens stored content, to be sent as it is read.
func (c *Control) OpenBlob(ctx context.Context, d digest.Digest) (io.ReadSeekCloser, int64, error) {
	f, size, err := c.cfg.Store.OpenBlob(ctx, d)
	if errors.Is(err, store.ErrNotFound) {
		return nil, 0, wire.Refuse(wire.ErrNotFound, "there is no content %s", d)
	}
	return f, size, err
}
