package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/steadyfleet/steady/internal/core/access"
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/disk"
	"github.com/steadyfleet/steady/internal/store"
)

// Files in the data folder by which its owner asks a running server for an admin's
// token: the request, which ends when it was taken, and the answer.
const (
	recoveryRequest = "recover-admin.json"
	recoveryAnswer  = "recover-admin.answer.json"
)

// Times and bounds of a recovery.
const (
	recoveryEvery = time.Second // between two looks of the server
	recoveryWait  = 20 * time.Second
	maxRecovery   = 4 << 10
)

// Recovery is a new admin's token for whoever owns the data folder of a server. Only
// its hash leaves the process that made it.
type Recovery struct {
	event.OperatorTokenAdded
	Secret string `json:"-"`
}

type recoveryAnswered struct {
	ID    string `json:"id"`
	Error string `json:"error,omitempty"`
}

// NewRecovery draws a token; actor says who asks, for the log.
func NewRecovery(name, actor string) (*Recovery, error) {
	o, secret, err := newOperator(name, access.Admin)
	if err != nil {
		return nil, err
	}
	ev := added(o, secret, actor)
	ev.Recovered = true
	return &Recovery{ev, secret}, nil
}

// Append records the token in the log of a server that does not run. The caller has
// the lock of the data folder.
func (r *Recovery) Append(ctx context.Context, log store.Store, now clock.Instant) error {
	ev, err := access.Tokens{}.Add(r.OperatorTokenAdded, access.DefaultLife, now)
	if err != nil {
		return err
	}
	head, err := log.Acquire(ctx, "recover-admin", now)
	if err != nil {
		return fmt.Errorf("acquire the lease of the log: %w", err)
	}
	entry, err := event.NewEntry(now, event.Subject{}, ev)
	if err != nil {
		return err
	}
	_, err = log.Append(ctx, head.Seq, head.Term, []event.Entry{entry})
	return err
}

// Request asks the server that runs on a data folder to record the token, and
// returns once it did.
func (r *Recovery) Request(ctx context.Context, dir string) error {
	raw, err := json.Marshal(r.OperatorTokenAdded)
	if err != nil {
		return err
	}
	path, answer := filepath.Join(dir, recoveryRequest), filepath.Join(dir, recoveryAnswer)
	if err := os.Remove(answer); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := writeOwned(path, raw); err != nil {
		return fmt.Errorf("ask the running server: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, recoveryWait)
	defer cancel()
	look := time.NewTicker(recoveryEvery / 10)
	defer look.Stop()
	for {
		var a recoveryAnswered
		raw, err := os.ReadFile(answer)
		switch {
		case err == nil && json.Unmarshal(raw, &a) == nil && a.ID == r.ID:
			if a.Error != "" {
				return errors.New(a.Error)
			}
			return os.Remove(answer)
		case err != nil && !errors.Is(err, fs.ErrNotExist):
			return err
		}
		select {
		case <-look.C:
		case <-ctx.Done():
			return errors.Join(fmt.Errorf("the server that runs on %s did not take the request within %s; stop it and try again", dir, recoveryWait), os.Remove(path))
		}
	}
}

// WriteSecret writes the token's secret, and says where; the file belongs to the
// owner of the data folder.
func (r *Recovery) WriteSecret(dir string) (path string, err error) {
	path = filepath.Join(dir, AdminTokenFile)
	return path, writeOwned(path, []byte(r.Secret+"\n"))
}

// writeOwned writes a file, whole or not at all, that only the owner of its folder
// reads.
func writeOwned(path string, body []byte) error {
	return disk.ReplaceWith(path, body, 0o600, GiveToOwner)
}

// GiveToOwner gives a file to the owner of its folder, for whom root may have made
// it. It follows no link: the owner could have put one there, to a file of root's.
func GiveToOwner(path string) error {
	info, err := os.Stat(filepath.Dir(path))
	if err != nil {
		return err
	}
	if owner, ok := info.Sys().(*syscall.Stat_t); ok && int(owner.Uid) != os.Geteuid() {
		return os.Lchown(path, int(owner.Uid), int(owner.Gid))
	}
	return nil
}

// watchRecovery looks for requests until ctx ends. The folder is its owner's alone, so
// whoever can put a file there could as well write the log.
func (c *Control) watchRecovery(ctx context.Context) {
	look := time.NewTicker(recoveryEvery)
	defer look.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-look.C:
			c.recover(ctx)
		}
	}
}

// recover takes a request, if there is one, and answers it.
func (c *Control) recover(ctx context.Context) {
	path := filepath.Join(c.cfg.DataDir, recoveryRequest)
	ev, err := readRecovery(path)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	if err == nil {
		ev.Role, ev.Recovered = access.Admin, true
		_, err = c.addOperator(ctx, c.operations, ev, access.DefaultLife)
	}
	a := recoveryAnswered{ID: ev.ID}
	if err != nil {
		a.Error = "the server refused the request: " + err.Error()
	}
	c.cfg.Log.Warn("the owner of the data folder asked for an admin's token", "id", ev.ID, "name", ev.Name, "actor", ev.Actor, "err", err)
	raw, err := json.Marshal(a)
	err = errors.Join(err, os.Remove(path), writeOwned(filepath.Join(c.cfg.DataDir, recoveryAnswer), raw))
	if err != nil {
		c.cfg.Log.Error("a request for an admin's token was not answered", "err", err)
	}
}

// readRecovery reads a request, which must be a file of this process's user that
// nobody else reads or writes.
func readRecovery(path string) (ev event.OperatorTokenAdded, err error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return ev, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	info, err := f.Stat()
	if err != nil {
		return ev, err
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	if !info.Mode().IsRegular() || info.Mode().Perm()&0o077 != 0 || !ok || int(owner.Uid) != os.Geteuid() || info.Size() > maxRecovery {
		return ev, fmt.Errorf("%s must be a small file that belongs to the user of the server and that nobody else can read", path)
	}
	raw := make([]byte, info.Size())
	if _, err := f.ReadAt(raw, 0); err != nil {
		return ev, err
	}
	if err := json.Unmarshal(raw, &ev); err != nil {
		return ev, err
	}
	if ev.ID == "" || len(ev.Hash) != 32 || ev.Name == "" {
		return ev, errors.New("the request names no token")
	}
	return ev, nil
}
