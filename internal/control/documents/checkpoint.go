package documents

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"

	"github.com/steadyfleet/steady/internal/core/audit"
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/server"
	"github.com/steadyfleet/steady/internal/store"
)

// StateFormat names the encoding of the state, in snapshots and checkpoints. A change of what
// the fold makes of old events needs a new name, by which snapshots are passed over. Once
// logs are pruned there are no old events to fold: then the encoding may only grow.
const StateFormat = "steady/control/v7"

// Checkpoint is what the log up to a record comes to. The zero Checkpoint is the beginning of
// a log that was not pruned.
type Checkpoint struct {
	Through store.Head
	State   []byte // of the server, as in a snapshot
	Audit   []byte // what the audit goes on from
}

// Recorded is a checkpoint as the log names it.
type Recorded struct {
	event.LogCheckpoint
	Seq uint64
	At  clock.Instant
}

// Head is the record that a checkpoint goes through.
func (r *Recorded) Head() store.Head {
	return store.Head{Seq: r.Through, Term: r.Term, Hash: [32]byte(r.Hash)}
}

// Log is what checkpoints are found in.
type Log interface {
	Blobs
	Base(ctx context.Context) (store.Head, error)
	LastAbout(ctx context.Context, subject event.Subject, limit int) ([]event.Record, error)
}

// maxCheckpoints is more than a log has: one of the time that it is kept, and a few within it.
const maxCheckpoints = 1000

// Checkpoints lists those of the log that are not behind its beginning, newest first.
func Checkpoints(ctx context.Context, log Log) (out []Recorded, base store.Head, err error) {
	if base, err = log.Base(ctx); err != nil {
		return nil, base, err
	}
	records, err := log.LastAbout(ctx, event.Checkpoints, maxCheckpoints)
	for i := range records {
		ev, err := event.Decode(records[i].Entry)
		if err != nil {
			return nil, base, err
		}
		if c, is := ev.(event.LogCheckpoint); is && c.Through >= base.Seq && len(c.Hash) == len(base.Hash) {
			out = append(out, Recorded{c, records[i].Seq, records[i].At})
		}
	}
	return out, base, err
}

// Begin returns what a log begins with: the oldest checkpoint that it has all records
// behind of.
func Begin(ctx context.Context, log Log) (Checkpoint, error) {
	all, base, err := Checkpoints(ctx, log)
	if err != nil || base.Seq == 0 {
		return Checkpoint{}, err
	}
	if len(all) == 0 {
		return Checkpoint{}, fmt.Errorf("%w: the log begins behind record %d, and no checkpoint of it follows: restore the store from a backup", store.ErrCorrupt, base.Seq)
	}
	return Load(ctx, log, &all[len(all)-1])
}

// Newest returns the newest checkpoint of the log, or the beginning of one that has none.
func Newest(ctx context.Context, log Log) (Checkpoint, error) {
	all, _, err := Checkpoints(ctx, log)
	if err != nil || len(all) == 0 {
		return Checkpoint{}, err
	}
	return Load(ctx, log, &all[0])
}

// Load reads the documents of a checkpoint.
func Load(ctx context.Context, blobs Blobs, r *Recorded) (c Checkpoint, err error) {
	if r.Format != StateFormat {
		return c, fmt.Errorf("the checkpoint of record %d is in the format %s, and this version reads %s: run the version that wrote it or a newer one", r.Through, r.Format, StateFormat)
	}
	c.Through = r.Head()
	if c.State, err = blobs.Blob(ctx, r.State); err == nil {
		c.Audit, err = blobs.Blob(ctx, r.Audit)
	}
	if err != nil {
		err = fmt.Errorf("the checkpoint of record %d: %w", r.Through, err)
	}
	return c, err
}

// Fold returns the state of the checkpoint, with the fold of what is trusted that it has.
// The library learns where documents are.
func (c *Checkpoint) Fold(library *Library) (*server.State, *Trust, error) {
	t := NewTrust(library)
	s := server.NewState(library, t)
	if c.State == nil {
		return s, t, nil
	}
	if err := s.Restore(c.State); err != nil {
		return nil, nil, fmt.Errorf("the state at record %d: %w", c.Through.Seq, err)
	}
	return s, t, nil
}

// Auditor returns the audit that goes on from the checkpoint. The library has to know where
// documents are: see Fold.
func (c *Checkpoint) Auditor(library *Library) (*audit.Log, error) {
	if c.Audit == nil {
		return audit.NewLog(library), nil
	}
	return audit.Restore(c.Audit, library)
}

var digests = regexp.MustCompile(`sha256:[0-9a-f]{64}`)

// names are all digests that the checkpoint has, be they of documents or of something else.
func (c *Checkpoint) names() map[digest.Digest]struct{} {
	out := map[digest.Digest]struct{}{}
	for _, raw := range [][]byte{c.State, c.Audit} {
		for _, d := range digests.FindAll(raw, -1) {
			out[digest.Digest(d)] = struct{}{}
		}
	}
	return out
}

// Manifests lists those that the state and the audit read, and that the library knows the
// place of, sorted.
func (c *Checkpoint) Manifests(library *Library, state *server.State) []digest.Digest {
	live, _ := state.Plan.Live()
	read := c.read(live)
	maps.DeleteFunc(read, func(d digest.Digest, _ struct{}) bool { _, there := library.Places()[d]; return !there })
	return slices.Sorted(maps.Keys(read))
}

// read are the manifests that the state reads, which are given, and whatever the audit names.
func (c *Checkpoint) read(live []digest.Digest) map[digest.Digest]struct{} {
	facts := Checkpoint{Audit: c.Audit}
	out := facts.names()
	for _, d := range live {
		out[d] = struct{}{}
	}
	return out
}

// Forget leaves out of the state where the manifests are that neither the audit reads nor the
// state, which reads those given: a log that begins here keeps no document for them.
func (c *Checkpoint) Forget(live []digest.Digest) error {
	read := c.read(live)
	return c.editTrust(func(s *saved) {
		maps.DeleteFunc(s.Places, func(d digest.Digest, _ Place) bool { _, is := read[d]; return !is })
	})
}

// editTrust changes what the state has of what is trusted.
func (c *Checkpoint) editTrust(edit func(*saved)) error {
	var parts map[string]json.RawMessage
	var s saved
	name := (&Trust{}).Name()
	if err := json.Unmarshal(c.State, &parts); err != nil {
		return err
	}
	if err := json.Unmarshal(parts[name], &s); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	edit(&s)
	var err error
	if parts[name], err = json.Marshal(s); err != nil {
		return err
	}
	c.State, err = json.Marshal(parts)
	return err
}

// Begin has the inventory forget what only records up to a checkpoint name, and know what
// the checkpoint names, whose documents the library has learnt of. What cannot be read Keep
// and Named say.
func (v *Inventory) Begin(ctx context.Context, c *Checkpoint) {
	base := c.names()
	var failed error
	for _, p := range v.library.Places() { // order-free: a set is made of them
		if _, named := base[p.Envelope]; !named {
			continue // of a later release
		}
		raw, err := v.library.Blob(ctx, p.Envelope)
		if err == nil {
			var members []digest.Digest
			members, err = BudgetsOf(raw)
			for _, d := range members {
				base[d] = struct{}{}
			}
		}
		if err != nil {
			failed = errors.Join(failed, fmt.Errorf("manifest of %s: %w", p.Rollout, err))
		}
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.base = base
	for d, seq := range v.named { // order-free: each by itself
		if seq <= c.Through.Seq {
			delete(v.named, d)
		}
	}
	v.err = cmp.Or(v.err, failed)
}

// Named lists the documents that the records of the log name. It is an error when one of
// them that names others cannot be read.
func (v *Inventory) Named() ([]digest.Digest, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return slices.Sorted(maps.Keys(v.named)), v.err
}

// Differs names a part in which two checkpoints of one record differ, or is empty. Where
// documents are does not count: a server knows that of releases that it refused, too.
func (c *Checkpoint) Differs(o *Checkpoint) string {
	if !bytes.Equal(c.Audit, o.Audit) {
		return "audit"
	}
	var parts [2]map[string]json.RawMessage
	for i, of := range []Checkpoint{*c, *o} {
		err := of.editTrust(func(s *saved) { s.Places = nil })
		if err == nil {
			err = json.Unmarshal(of.State, &parts[i])
		}
		if err != nil {
			return "state: " + err.Error()
		}
	}
	for _, name := range slices.Sorted(maps.Keys(parts[0])) {
		if !bytes.Equal(parts[0][name], parts[1][name]) {
			return name
		}
	}
	return ""
}
