package control

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/steadyfleet/steady/internal/control/documents"
	"github.com/steadyfleet/steady/internal/disk"
	"github.com/steadyfleet/steady/internal/store"
)

const (
	// keptMost is how many states of the past are kept, and keptBytes how large all of them
	// may be.
	keptMost  = 512
	keptBytes = 256 << 20
	// keptState bounds one of them in memory.
	keptState = 1 << 30
	// keptApart is the least number of records between two of them.
	keptApart = 2000
)

// keptStates are states of the past on disk, about evenly spaced over the log. All of it can be
// made again from the log: what is damaged or of another log is removed.
type keptStates struct {
	dir string

	mu    sync.Mutex
	files []keptFile // by sequence; nil until they are listed
	known bool
}

// keptFile is a state that is kept. Its name says of which record.
type keptFile struct {
	head store.Head
	size int64
}

func newKeptStates(dataDir string) *keptStates {
	return &keptStates{dir: filepath.Join(dataDir, "past")}
}

func (k *keptStates) path(h store.Head) string {
	return filepath.Join(k.dir, fmt.Sprintf("%020d-%d-%x", h.Seq, h.Term, h.Hash))
}

// headOf reads the name of a file.
func headOf(name string) (h store.Head, ok bool) {
	parts := strings.Split(name, "-")
	if len(parts) != 3 {
		return h, false
	}
	seq, err := strconv.ParseUint(parts[0], 10, 64)
	term, failed := strconv.ParseUint(parts[1], 10, 64)
	hash, wrong := hex.DecodeString(parts[2])
	if err != nil || failed != nil || wrong != nil || len(hash) != len(h.Hash) {
		return h, false
	}
	return store.Head{Seq: seq, Term: term, Hash: [32]byte(hash)}, true
}

// list reads which states there are, once. The caller has mu.
func (k *keptStates) list() error {
	if k.known {
		return nil
	}
	entries, err := os.ReadDir(k.dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, e := range entries {
		head, ok := headOf(e.Name())
		info, err := e.Info()
		if !ok || err != nil {
			continue // left by a process that was killed: the next write of it removes it
		}
		k.files = append(k.files, keptFile{head, info.Size()})
	}
	k.known = true
	return nil
}

// remove lets go of a state. The caller has mu.
func (k *keptStates) remove(i int) error {
	if err := os.Remove(k.path(k.files[i].head)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	k.files = slices.Delete(k.files, i, i+1)
	return nil
}

// before is where the newest kept state is that a record does not come before, if there is one.
// It removes those that the log does not have any more.
func (k *keptStates) before(ctx context.Context, log store.Log, base store.Head, seq uint64) (c documents.Checkpoint, ok bool, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := k.list(); err != nil {
		return c, false, err
	}
	for len(k.files) > 0 && k.files[0].head.Seq <= base.Seq { // pruned; the log begins with a checkpoint
		if err := k.remove(0); err != nil {
			return c, false, err
		}
	}
	for i := len(k.files) - 1; i >= 0; i-- {
		head := k.files[i].head
		if head.Seq > seq {
			continue
		}
		at, err := log.Read(ctx, head.Seq-1, 1)
		if err != nil {
			return c, false, err
		}
		if len(at) == 1 && at[0].Hash == head.Hash {
			return documents.Checkpoint{Through: head}, true, nil
		}
		if err := k.remove(i); err != nil { // of a log that was replaced
			return c, false, err
		}
	}
	return c, false, nil
}

// load reads a state that before found.
func (k *keptStates) load(c documents.Checkpoint) (documents.Checkpoint, error) {
	raw, err := os.ReadFile(k.path(c.Through))
	if err != nil {
		return c, err
	}
	r, err := gzip.NewReader(bytes.NewReader(raw))
	if err == nil && r.Comment != documents.StateFormat {
		err = fmt.Errorf("it is in the format %q", r.Comment)
	}
	if err == nil {
		c.State, err = io.ReadAll(io.LimitReader(r, keptState))
	}
	return c, err
}

// drop removes a state that cannot be used.
func (k *keptStates) drop(h store.Head) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if i := slices.IndexFunc(k.files, func(f keptFile) bool { return f.head == h }); i >= 0 {
		return k.remove(i)
	}
	return nil
}

// wants reports whether a state at a record would stand apart enough from those that are kept.
func (k *keptStates) wants(seq, apart uint64) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.list() != nil {
		return false
	}
	return !slices.ContainsFunc(k.files, func(f keptFile) bool { return max(f.head.Seq, seq)-min(f.head.Seq, seq) < apart })
}

// keep keeps a state, and makes room for it.
func (k *keptStates) keep(c documents.Checkpoint) error {
	var b bytes.Buffer
	w, err := gzip.NewWriterLevel(&b, gzip.BestSpeed)
	if err != nil {
		return err
	}
	w.Comment = documents.StateFormat
	_, err = w.Write(c.State)
	if err = errors.Join(err, w.Close()); err != nil {
		return err
	}
	if err := os.MkdirAll(k.dir, 0o700); err != nil {
		return err
	}
	if err := disk.Replace(k.path(c.Through), b.Bytes(), 0o600); err != nil {
		return err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := k.list(); err != nil {
		return err
	}
	at, there := slices.BinarySearchFunc(k.files, c.Through.Seq, func(f keptFile, seq uint64) int { return cmp.Compare(f.head.Seq, seq) })
	if !there {
		k.files = slices.Insert(k.files, at, keptFile{c.Through, int64(b.Len())})
	}
	return k.thin()
}

// thin removes states until they are within their bounds: always the one whose neighbours are
// nearest to each other. The caller has mu.
func (k *keptStates) thin() error {
	for {
		var bytes int64
		for _, f := range k.files {
			bytes += f.size
		}
		if len(k.files) <= keptMost && bytes <= keptBytes || len(k.files) == 0 {
			return nil
		}
		least, gap := 0, ^uint64(0)
		for i := range k.files {
			before := uint64(0)
			if i > 0 {
				before = k.files[i-1].head.Seq
			}
			if i+1 < len(k.files) && k.files[i+1].head.Seq-before < gap {
				least, gap = i, k.files[i+1].head.Seq-before
			}
		}
		if err := k.remove(least); err != nil {
			return err
		}
	}
}
