package control

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/steadyfleet/steady/internal/control/hosts"
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/expiry"
	"github.com/steadyfleet/steady/internal/core/plan"
	"github.com/steadyfleet/steady/internal/disk"
	"github.com/steadyfleet/steady/internal/store"
)

// BackupMark is the file in the data folder whose time of change is that of the
// last backup. Whatever makes backups touches it; without it nothing is known.
const BackupMark = "last-backup"

// BackupEvery is how old the last backup may get, where backups are marked.
const BackupEvery = 2 * clock.Day

// pendingMost is how many undelivered events of a host are many.
const pendingMost = 1000

// Expiries lists what ends or fills up, the worst first.
func (c *Control) Expiries(ctx context.Context) ([]expiry.Item, error) {
	outside, err := c.outsideExpiries(ctx)
	if err != nil {
		return nil, err
	}
	var items []expiry.Item
	err = c.View(ctx, func(s *plan.State) { items = c.expiries(s, outside, c.now()) })
	return items, err
}

func (c *Control) expiries(s *plan.State, outside []expiry.Fact, now clock.Instant) []expiry.Item {
	return expiry.Items(append(s.ExpiryFacts(), outside...), s.ExpiryNow(now))
}

// noteExpiries records news of what ends, every ReconcileInterval.
func (c *Control) noteExpiries(t *turn) error {
	if c.expiryAt > t.now {
		return nil
	}
	c.expiryAt = t.now.Add(c.cfg.ReconcileInterval)
	outside, err := c.outsideExpiries(context.Background())
	if errors.Is(err, store.ErrBroken) {
		return err
	}
	if err != nil {
		c.cfg.Log.Error("it cannot be told what ends", "err", err)
		return nil
	}
	items := c.expiries(t.s, outside, t.now)
	c.ending.Store(&items)
	before := len(t.entries)
	if err := t.add(plan.NoteExpiries(t.s, items, t.now)); err != nil {
		return err
	}
	if len(t.entries) > before {
		for i := range items {
			if items[i].Level != expiry.OK {
				c.cfg.Log.Warn(items[i].Message, "next", items[i].Next)
			}
		}
	}
	return nil
}

// outsideExpiries lists the facts that are not in the log.
func (c *Control) outsideExpiries(ctx context.Context) ([]expiry.Fact, error) {
	root := c.Root()
	out := []expiry.Fact{
		{Kind: expiry.Root, Since: root.IssuedAt, Ends: root.Expires},
		{Kind: expiry.HostAuthority, Ends: c.HostAuthorityEnds()},
	}
	if c.cfg.EdgeExpiries != nil {
		out = append(out, c.cfg.EdgeExpiries()...)
	}
	c.hosts.EachSample(func(name string, s *hosts.Sample) {
		if s.Pending > 0 {
			out = append(out, expiry.Fact{Kind: expiry.Outbox, Name: name, Used: int64(s.Pending), Limit: pendingMost})
		}
	})
	size, err := c.cfg.Store.Size(ctx)
	if err != nil {
		return nil, err
	}
	if size.Limit > 0 {
		out = append(out, expiry.Fact{Kind: expiry.Log, Used: size.Log, Limit: size.Limit})
	}
	data, err := DataExpiries(c.cfg.DataDir)
	return append(out, data...), err
}

// DataExpiries lists what a data folder alone shows.
func DataExpiries(dir string) ([]expiry.Fact, error) {
	space, err := disk.SpaceOf(dir)
	if err != nil {
		return nil, err
	}
	out := []expiry.Fact{{Kind: expiry.Disk, Used: space.Size - space.Free, Limit: space.Size}}
	mark, err := os.Stat(filepath.Join(dir, BackupMark))
	switch {
	case err == nil:
		at := clock.FromTime(mark.ModTime())
		out = append(out, expiry.Fact{Kind: expiry.Backup, Since: at, Ends: at.Add(BackupEvery)})
	case !errors.Is(err, fs.ErrNotExist):
		return nil, err
	}
	return out, nil
}
