package image

// This file says whether the disk of an engine has room for another image,
// and whether that has just changed.

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// Bytes of a disk.
type DiskBytes struct{ Free, Total int64 }

// Meter reads a disk.
type Meter interface {
	Free(ctx context.Context) (DiskBytes, error)
}

// Limits are what has to stay free: both have to hold. Zero fields take 5 % and
// 1 GiB, or 10 % of a smaller disk. Negative ones are no limit.
type DiskLimits struct {
	Percent int
	Bytes   int64
}

const gib = 1 << 30

// least is how much has to stay free of a disk.
func (l DiskLimits) least(total int64) int64 {
	percent, bytes := int64(l.Percent), l.Bytes
	if percent == 0 {
		percent = 5
	}
	if bytes == 0 {
		bytes = min(gib, total/10)
	}
	return min(max(total/100*max(percent, 0), bytes, 0), total)
}

// Short says in words that too little is free, and nothing if there is enough. A
// disk of no size is not judged.
func Short(b DiskBytes, l DiskLimits) string {
	least := l.least(b.Total)
	if b.Total <= 0 || b.Free >= least {
		return ""
	}
	return fmt.Sprintf("the disk of images is nearly full: less than %d MiB of %d MiB are free; remove what is not needed, or lower the limit", least>>20, b.Total>>20)
}

// Guard watches one disk.
type Guard struct {
	meter   Meter
	limits  DiskLimits
	collect func(ctx context.Context) error

	mu sync.Mutex
}

// New watches a disk. collect (may be nil) removes what nothing refers to; it is
// called when too little is free, and the disk is read again.
func NewGuard(m Meter, l DiskLimits, collect func(ctx context.Context) error) *Guard {
	return &Guard{meter: m, limits: l, collect: collect}
}

// Short says in words that too little is free, also after a collection.
func (g *Guard) Short(ctx context.Context) (string, error) {
	b, err := g.meter.Free(ctx)
	if err != nil {
		return "", fmt.Errorf("read the free space of the disk of images: %w", err)
	}
	return Short(b, g.limits), nil
}

// Relieve collects when too little is free, one caller at a time, and says in
// words that it is still too little.
func (g *Guard) Relieve(ctx context.Context) (string, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	words, err := g.Short(ctx)
	if words == "" || err != nil || g.collect == nil {
		return words, err
	}
	if err := g.collect(ctx); err != nil {
		return words, fmt.Errorf("make room on the disk of images: %w", err)
	}
	return g.Short(ctx)
}

// Run relieves the disk every so often until ctx ends; report hears what is short
// (empty once it is not) and what went wrong.
func (g *Guard) Run(ctx context.Context, every time.Duration, report func(words string, err error)) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		words, err := g.Relieve(ctx)
		if ctx.Err() != nil {
			return
		}
		report(words, err)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}
