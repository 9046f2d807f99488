package image

// This file checks whether the disk of an engine has room for another image,
// and makes room on it.

import (
	"context"
	"fmt"
	"sync"

	"github.com/steadyfleet/steady/internal/disk"
)

const gib = 1 << 30

// shortage is the message that too little of a disk is free, empty if there is
// enough: 5 % have to be, and 1 GiB or 10 % of a smaller disk. A disk of no size is
// not judged.
func shortage(s disk.Space) string {
	least := max(s.Size/100*5, min(gib, s.Size/10))
	if s.Size <= 0 || s.Free >= least {
		return ""
	}
	return fmt.Sprintf("the disk of images is nearly full: less than %d MiB of %d MiB are free; remove what is not needed, or lower the limit", least>>20, s.Size>>20)
}

// Guard watches one disk.
type Guard struct {
	measure func(ctx context.Context) (disk.Space, error)
	collect func(ctx context.Context) error

	mu sync.Mutex
}

// NewGuard watches the disk that measure reads. collect (may be nil) removes what
// nothing refers to; it is called when too little is free, and the disk is read again.
func NewGuard(measure func(ctx context.Context) (disk.Space, error), collect func(ctx context.Context) error) *Guard {
	return &Guard{measure: measure, collect: collect}
}

// Short is the message that too little is free, also after a collection.
func (g *Guard) Short(ctx context.Context) (string, error) {
	s, err := g.measure(ctx)
	if err != nil {
		return "", fmt.Errorf("read the free space of the disk of images: %w", err)
	}
	return shortage(s), nil
}

// Relieve collects when too little is free, one caller at a time, and says in
// words that it is still too little.
func (g *Guard) Relieve(ctx context.Context) (string, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	message, err := g.Short(ctx)
	if message == "" || err != nil || g.collect == nil {
		return message, err
	}
	if err := g.collect(ctx); err != nil {
		return message, fmt.Errorf("make room on the disk of images: %w", err)
	}
	return g.Short(ctx)
}
