package nodesdk

import (
	"cmp"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/steadyfleet/steady/internal/core/secret"
	"github.com/steadyfleet/steady/internal/disk"
)

// Files of the state folder. Each is written whole.
const (
	fileIdentity = "identity.json"
	fileOps      = "operations.json"
	fileVault    = "vault.json"
	fileSecrets  = "secrets.json"
	fileRotate   = "rotate-key"
	fileLock     = "lock"
)

// Bounds of what is remembered.
const (
	maxRecords    = 2 * MaxObjects
	maxVault      = 20_000
	maxVaultBytes = 8 << 20
)

// identity is who the node is. Next is a key that was made to take Key's place: both are
// kept until the server accepted it.
type identity struct {
	Format     int    `json:"format"`
	Instance   string `json:"instance"`
	Key        []byte `json:"key"` // seed of an Ed25519 key
	Next       []byte `json:"next,omitempty"`
	DigestKey  []byte `json:"digestKey"`
	Registered bool   `json:"registered"`
}

// operations is what was asked and done.
type operations struct {
	Format     int                `json:"format"`
	Term       uint64             `json:"term"`       // highest seen
	Op         uint64             `json:"op"`         // newest that was applied
	Generation uint64             `json:"generation"` // of the configuration
	Whole      string             `json:"whole"`      // digest of the configuration of that generation
	Device     string             `json:"device"`     // its own name of its configuration
	Records    map[string]*record `json:"records"`    // by key
}

// record is what was done to one object. Begun is an operation of which the outcome is not
// known.
type record struct {
	Op    uint64  `json:"op,omitempty"` // newest that was applied
	Term  uint64  `json:"term,omitempty"`
	Hash  string  `json:"hash,omitempty"` // of what that one asked
	ETag  string  `json:"etag,omitempty"` // right after it
	Begun *intent `json:"begun,omitempty"`
}

// intent is an operation that is about to be done. Was and Want are ETags.
type intent struct {
	Op   uint64 `json:"op"`
	Term uint64 `json:"term"`
	Hash string `json:"hash"`
	Was  string `json:"was"`
	Want string `json:"want"`
}

// vaultFile has the secrets that digests stand for.
type vaultFile struct {
	Format  int                    `json:"format"`
	Clock   uint64                 `json:"clock"`
	Entries map[string]*vaultEntry `json:"entries"` // by digest
}

type vaultEntry struct {
	Value json.RawMessage `json:"value"`
	Seen  uint64          `json:"seen"` // the vault's clock when it was seen last
}

// store is the state of a node on disk. All but the vault has one user at a time.
type store struct {
	dir   string
	lock  *disk.Lock
	write func(path string, raw []byte) error

	id    identity
	ops   operations
	vault vaultFile

	vaultMu      sync.Mutex // of the vault alone: texts are cleaned at any time
	vaultChanged bool
	size         int // bytes of values in the vault
	keyed        func(string) string
}

const stateFormat = 1

func writeFile(path string, raw []byte) error { return disk.Replace(path, raw, 0o600) }

// openStore locks the state folder and reads it, or makes it.
func openStore(dir string, write func(string, []byte) error) (*store, error) {
	if err := disk.Private(dir); err != nil {
		return nil, fmt.Errorf("the state folder: %w", err)
	}
	lock, err := disk.TryLock(filepath.Join(dir, fileLock))
	if errors.Is(err, disk.ErrLocked) {
		return nil, fmt.Errorf("another process runs a node with the state in %s: stop it first", dir)
	}
	if err != nil {
		return nil, err
	}
	s := &store{dir: dir, lock: lock, write: write}
	if err := s.load(); err != nil {
		return nil, errors.Join(err, lock.Release())
	}
	return s, nil
}

func (s *store) close() error { return s.lock.Release() }

func (s *store) load() error {
	found, err := s.read(fileIdentity, &s.id)
	if err != nil {
		return err
	}
	if !found {
		s.id = identity{Format: stateFormat, Instance: random(12), Key: seed(), DigestKey: seed()}
		if err := s.saveIdentity(); err != nil {
			return err
		}
	}
	if len(s.id.Key) != ed25519.SeedSize || len(s.id.DigestKey) == 0 || s.id.Next != nil && len(s.id.Next) != ed25519.SeedSize {
		return fmt.Errorf("%s has no usable keys: restore it, or remove the folder and register the node again", filepath.Join(s.dir, fileIdentity))
	}
	if _, err = s.read(fileOps, &s.ops); err != nil {
		return err
	}
	if _, err = s.read(fileVault, &s.vault); err != nil {
		return err
	}
	s.ops.Format, s.vault.Format = stateFormat, stateFormat
	if s.ops.Records == nil {
		s.ops.Records = map[string]*record{}
	}
	if s.vault.Entries == nil {
		s.vault.Entries = map[string]*vaultEntry{}
	}
	for _, e := range s.vault.Entries {
		s.size += len(e.Value)
	}
	s.keyed = secret.Keyed(s.id.DigestKey)
	return nil
}

// read fills v from a file; false if there is none.
func (s *store) read(name string, v any) (bool, error) {
	path := filepath.Join(s.dir, name)
	raw, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("read the state: %w", err)
	}
	var head struct{ Format int }
	if json.Unmarshal(raw, &head) != nil || json.Unmarshal(raw, v) != nil {
		return false, fmt.Errorf("%s cannot be read: restore it, or remove the folder and register the node again", path)
	}
	if head.Format > stateFormat {
		return false, fmt.Errorf("%s is of a newer version: run that one", path)
	}
	return true, nil
}

func (s *store) save(name string, v any) error {
	raw, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	if err := s.write(filepath.Join(s.dir, name), raw); err != nil {
		return fmt.Errorf("write the state: %w", err)
	}
	return nil
}

func (s *store) saveIdentity() error { return s.save(fileIdentity, &s.id) }

// saveOps makes what was asked and done durable, and forgets the oldest objects of too many.
func (s *store) saveOps() error {
	if n := len(s.ops.Records) - maxRecords; n > 0 {
		var keys []string
		for k, r := range s.ops.Records {
			if r.Begun == nil {
				keys = append(keys, k)
			}
		}
		slices.SortFunc(keys, func(a, b string) int {
			return cmp.Or(cmp.Compare(s.ops.Records[a].Op, s.ops.Records[b].Op), cmp.Compare(a, b))
		})
		for _, k := range keys[:min(n, len(keys))] {
			delete(s.ops.Records, k)
		}
	}
	return s.save(fileOps, &s.ops)
}

func (s *store) record(key string) *record {
	r := s.ops.Records[key]
	if r == nil {
		r = &record{}
		s.ops.Records[key] = r
	}
	return r
}

// digest keeps a secret and returns what stands in its place.
func (s *store) digest(v any) string {
	text, isText := v.(string)
	raw, err := json.Marshal(v)
	if err != nil {
		raw = []byte("null")
	}
	if !isText {
		text = "\x00" + string(raw)
	}
	d := s.keyed(text)
	s.vaultMu.Lock()
	defer s.vaultMu.Unlock()
	s.vault.Clock++
	if e := s.vault.Entries[d]; e != nil {
		e.Seen = s.vault.Clock // in memory until the vault changes
		return d
	}
	s.vault.Entries[d] = &vaultEntry{Value: raw, Seen: s.vault.Clock}
	s.size += len(raw)
	s.vaultChanged = true
	return d
}

// saveVault makes the secrets durable that digests stand for, before one leaves the node.
func (s *store) saveVault() error {
	s.vaultMu.Lock()
	defer s.vaultMu.Unlock()
	if !s.vaultChanged {
		return nil
	}
	if len(s.vault.Entries) > maxVault || s.size > maxVaultBytes {
		var all []string
		for d := range s.vault.Entries {
			all = append(all, d)
		}
		slices.SortFunc(all, func(a, b string) int {
			return cmp.Or(cmp.Compare(s.vault.Entries[a].Seen, s.vault.Entries[b].Seen), cmp.Compare(a, b))
		})
		for _, d := range all {
			if len(s.vault.Entries) <= maxVault && s.size <= maxVaultBytes {
				break
			}
			s.size -= len(s.vault.Entries[d].Value)
			delete(s.vault.Entries, d)
		}
	}
	if err := s.save(fileVault, &s.vault); err != nil {
		return err
	}
	s.vaultChanged = false
	return nil
}

// secretOf returns what a digest stands for.
func (s *store) secretOf(digest string) (any, bool) {
	s.vaultMu.Lock()
	defer s.vaultMu.Unlock()
	e := s.vault.Entries[digest]
	if e == nil {
		return nil, false
	}
	var v any
	return v, decodeNumbers(e.Value, &v) == nil
}

func seed() []byte {
	b := make([]byte, 32)
	_, _ = rand.Read(b) // never fails
	return b
}

func random(n int) string { return hex.EncodeToString(seed()[:n]) }
