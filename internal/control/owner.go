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

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/disk"
	"github.com/steadyfleet/steady/internal/store"
)

// ownerFiles are files in the data folder by which its owner asks a running server for
// something that no token is enough for: the request, which ends when it was taken, and the answer.
type ownerFiles struct{ request, answer string }

var (
	adminFiles    = ownerFiles{"recover-admin.json", "recover-admin.answer.json"}
	safeModeFiles = ownerFiles{"safe-mode-end.json", "safe-mode-end.answer.json"}
)

// Times and bounds of such requests.
const (
	ownerEvery      = time.Second // between two looks of the server
	ownerWait       = 20 * time.Second
	maxOwnerRequest = 4 << 10
)

type ownerAnswered struct {
	ID    string `json:"id"`
	Error string `json:"error,omitempty"`
}

// ask asks the server that runs on a data folder, and returns once it answered the request of that id.
func (f ownerFiles) ask(ctx context.Context, dir, id string, request any) error {
	raw, err := json.Marshal(request)
	if err != nil {
		return err
	}
	path, answer := filepath.Join(dir, f.request), filepath.Join(dir, f.answer)
	if err := os.Remove(answer); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := writeOwned(path, raw); err != nil {
		return fmt.Errorf("ask the running server: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, ownerWait)
	defer cancel()
	look := time.NewTicker(ownerEvery / 10)
	defer look.Stop()
	for {
		var a ownerAnswered
		raw, err := os.ReadFile(answer)
		switch {
		case err == nil && json.Unmarshal(raw, &a) == nil && a.ID == id:
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
			return errors.Join(fmt.Errorf("the server that runs on %s did not take the request within %s; stop it and try again", dir, ownerWait), os.Remove(path))
		}
	}
}

// appendStopped records an event in the log of a server that does not run.
func appendStopped(ctx context.Context, log store.Store, commit func(context.Context, uint64, uint64, []event.Entry) (store.Head, error), holder string, ev event.Event, now clock.Instant) error {
	head, err := log.Acquire(ctx, holder, now)
	if err != nil {
		return fmt.Errorf("acquire the lease of the log: %w", err)
	}
	entry, err := event.NewEntry(now, event.Subject{}, ev)
	if err != nil {
		return err
	}
	_, err = commit(ctx, head.Seq, head.Term, []event.Entry{entry})
	return err
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

// watchOwner looks for requests until ctx ends. The folder is its owner's alone, so
// whoever can put a file there could as well write the log.
func (c *Control) watchOwner(ctx context.Context) {
	look := time.NewTicker(ownerEvery)
	defer look.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-look.C:
			c.answerOwner(ctx, adminFiles, "the owner of the data folder asked for an admin's token", c.recoverAdmin)
			c.answerOwner(ctx, safeModeFiles, "the owner of the data folder asked to end the safe mode", c.endSafeMode)
		}
	}
}

// answerOwner takes a request, if there is one, and answers it.
func (c *Control) answerOwner(ctx context.Context, f ownerFiles, what string, take func(context.Context, []byte) (id string, err error)) {
	path := filepath.Join(c.cfg.DataDir, f.request)
	raw, err := readOwned(path)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	var a ownerAnswered
	if err == nil {
		a.ID, err = take(ctx, raw)
	}
	if err != nil {
		a.Error = "the server refused the request: " + err.Error()
	}
	c.cfg.Log.Warn(what, "id", a.ID, "err", err)
	answer, err := json.Marshal(a)
	err = errors.Join(err, os.Remove(path), writeOwned(filepath.Join(c.cfg.DataDir, f.answer), answer))
	if err != nil {
		c.cfg.Log.Error("a request of the owner of the data folder was not answered", "err", err)
	}
}

// readOwned reads a request, which must be a file of this process's user that
// nobody else reads or writes.
func readOwned(path string) (raw []byte, err error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	if !info.Mode().IsRegular() || info.Mode().Perm()&0o077 != 0 || !ok || int(owner.Uid) != os.Geteuid() || info.Size() > maxOwnerRequest {
		return nil, fmt.Errorf("%s must be a small file that belongs to the user of the server and that nobody else can read", path)
	}
	raw = make([]byte, info.Size())
	_, err = f.ReadAt(raw, 0)
	return raw, err
}
