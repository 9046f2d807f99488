package control

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/plan"
	"github.com/steadyfleet/steady/internal/core/server"
	"github.com/steadyfleet/steady/internal/core/warning"
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
func (c *Control) Expiries(ctx context.Context) ([]warning.Item, error) {
	outside, err := c.outsideExpiries(ctx)
	if err != nil {
		return nil, err
	}
	var items []warning.Item
	err = c.View(ctx, func(s *plan.State) { items = c.expiries(s, outside, c.now()) })
	return items, err
}

func (c *Control) expiries(s *plan.State, outside []warning.Fact, now clock.Instant) []warning.Item {
	return warning.Items(append(s.ExpiryFacts(), outside...), s.ExpiryNow(now))
}

// noteExpiries records news of what ends, every ReconcileInterval.
func (c *Control) noteExpiries(t *turn) error {
	if !c.core.ExpiriesDue(t.Time) {
		return nil
	}
	outside, err := c.outsideExpiries(context.Background())
	if errors.Is(err, store.ErrBroken) {
		return err
	}
	if err != nil {
		c.cfg.Log.Error("which certificates and keys end is unknown", "err", err)
		return nil
	}
	items := c.expiries(c.state.Plan, outside, t.Now)
	c.ending.Store(&items)
	before := len(t.Events)
	if err := c.core.Step(&t.Turn, server.Expiries{Items: items}); err != nil {
		return err
	}
	if len(t.Events) > before {
		for i := range items {
			if items[i].Level != warning.OK {
				c.cfg.Log.Warn(items[i].Message, "next", items[i].Next)
			}
		}
	}
	return nil
}

// outsideExpiries lists the facts that are not in the log.
func (c *Control) outsideExpiries(ctx context.Context) ([]warning.Fact, error) {
	root := c.Root()
	out := []warning.Fact{
		{Kind: warning.Root, Since: root.IssuedAt, Ends: root.Expires},
		{Kind: warning.HostAuthority, Ends: c.HostAuthorityEnds()},
	}
	if c.cfg.EdgeExpiries != nil {
		out = append(out, c.cfg.EdgeExpiries()...)
	}
	c.hosts.eachSample(func(name string, s *Sample) {
		if s.Pending > 0 {
			out = append(out, warning.Fact{Kind: warning.Outbox, Name: name, Used: int64(s.Pending), Limit: pendingMost})
		}
	})
	size, err := c.cfg.Store.Size(ctx)
	if err != nil {
		return nil, err
	}
	if size.Limit > 0 {
		out = append(out, warning.Fact{Kind: warning.Log, Used: size.Log, Limit: size.Limit})
	}
	data, err := DataExpiries(c.cfg.DataDir)
	return append(out, data...), err
}

// DataExpiries lists what a data folder alone shows.
func DataExpiries(dir string) ([]warning.Fact, error) {
	space, err := disk.SpaceOf(dir)
	if err != nil {
		return nil, err
	}
	out := []warning.Fact{{Kind: warning.Disk, Used: space.Size - space.Free, Limit: space.Size}}
	at, err := lastBackup(dir)
	if at != 0 {
		out = append(out, warning.Fact{Kind: warning.Backup, Since: at, Ends: at.Add(BackupEvery)})
	}
	return out, err
}

// lastBackup is when a data folder was last backed up, or zero where no backup is marked.
func lastBackup(dir string) (clock.Instant, error) {
	mark, err := os.Stat(filepath.Join(dir, BackupMark))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return 0, nil
	case err != nil:
		return 0, err
	}
	return clock.FromTime(mark.ModTime()), nil
}

// LastBackup is when the server's data folder was last backed up, or zero where no backup is marked.
func (c *Control) LastBackup() (clock.Instant, error) { return lastBackup(c.cfg.DataDir) }
