// Package keyring keeps a fleet's signing keys in a folder: one private key per
// role, readable by its owner alone, and the chain of root documents. For a
// small fleet the folder holds all roles; each can be moved elsewhere later. The keys of
// a server's authorities it can make in a TPM 2.0, which they never leave.
package keyring

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/disk"
	"github.com/steadyfleet/steady/internal/identity"
	"github.com/steadyfleet/steady/internal/trust"
)

// RootLife is how long a root document is good by default.
const RootLife = 365 * clock.Day

// RootFile is the name of a root document by its version, from 1.
func RootFile(version int) string { return fmt.Sprintf("%d.root.json", version) }

// KeyFile is the name of a role's private key.
func KeyFile(role trust.Role) string { return string(role) + ".key" }

// Made is what Init made.
type Made struct {
	Fleet   string                `json:"fleet"`
	Dir     string                `json:"dir"`
	Root    string                `json:"root"`
	Expires clock.Instant         `json:"expires"`
	Keys    map[trust.Role]string `json:"keys"` // key ids; of the root role the first
	// Threshold of the Shares, and of those whose holders brought a public key, must
	// sign a root; one file holds the key when there is one share.
	Threshold int      `json:"threshold"`
	Shares    []string `json:"shares,omitempty"`  // folders
	Brought   []string `json:"brought,omitempty"` // key ids
	// Operators are the folders of override keys, when there are several.
	Operators []string `json:"operators,omitempty"`
	// First is how the first root stands: it waits in Root for its holders until it is
	// complete.
	First Pending `json:"-"`
}

// Holders says how many hold a share of the root role and how many of them must
// sign, and how many operators have a key of the override role: which of them must
// sign follows from the action. The zero value is one of each.
type Holders struct {
	Threshold, Shares, Overrides int
	// ShareKeys are files with the public keys of shares that their holders made
	// (MakeShare) and keep; the others are made here.
	ShareKeys []string
}

// MaxShares bounds the holders: one envelope has room for those of two roots.
// MaxOverrides bounds the operators: all of them fit in one envelope.
const (
	MaxShares    = trust.MaxSignatures / 2
	MaxOverrides = trust.MaxSignatures
)

func (h Holders) normal() (Holders, error) {
	if h.Shares == 0 {
		h.Shares = max(1, len(h.ShareKeys))
	}
	h.Overrides = max(h.Overrides, 1)
	if h.Overrides > MaxOverrides {
		return h, fmt.Errorf("%d override keys: expected at most %d", h.Overrides, MaxOverrides)
	}
	if len(h.ShareKeys) > h.Shares {
		return h, fmt.Errorf("%d public keys for %d shares: expected one for each holder at most; give more shares, or fewer keys", len(h.ShareKeys), h.Shares)
	}
	if h.Threshold == 0 {
		h.Threshold = h.Shares/2 + 1
	}
	if h.Shares < 1 || h.Shares > MaxShares || h.Threshold < 1 || h.Threshold > h.Shares {
		return h, fmt.Errorf("%d of %d shares: expected a threshold from 1 to the number of shares, and at most %d shares", h.Threshold, h.Shares, MaxShares)
	}
	return h, nil
}

// Init makes a key for every role and the first root document of a fleet, whole
// or not at all, with one key of the root role. dir must be new or empty. now is
// wall time.
func Init(dir, fleetName string, life clock.Duration, now clock.Instant) (Made, error) {
	return InitShared(dir, fleetName, life, now, Holders{})
}

// InitShared is Init with several holders of the root role or of the override role,
// each key in a folder of its own below dir, to be carried away. When holders keep
// their keys, the first root waits in dir/next until enough of them have signed it
// (SignFile, AddSignatures).
func InitShared(dir, fleetName string, life clock.Duration, now clock.Instant, h Holders) (Made, error) {
	if dir = filepath.Clean(dir); filepath.Base(dir) == "." || filepath.Base(dir) == ".." {
		return Made{}, fmt.Errorf("keys cannot be made in %s itself: give them a folder of their own with --dir, such as keys", dir)
	}
	if err := fleet.CheckName(fleetName); err != nil {
		return Made{}, fmt.Errorf("fleet: %w", err)
	}
	h, err := h.normal()
	if err != nil {
		return Made{}, err
	}
	if err := unused(dir); err != nil {
		return Made{}, err
	}
	next, err := workFolder(dir, filepath.Dir(dir))
	if err != nil {
		return Made{}, err
	}
	defer os.RemoveAll(next)
	made := Made{Fleet: fleetName, Dir: dir, Root: filepath.Join(dir, RootFile(1)), Expires: now.Add(life), Keys: map[trust.Role]string{}, Threshold: h.Threshold}
	roles, holders := map[trust.Role]trust.RoleSpec{}, []trust.Signer(nil)
	for _, role := range trust.Roles() {
		signers, spec, err := newRole(next, role, h)
		if err != nil {
			return Made{}, err
		}
		if role == trust.RoleRoot {
			holders = signers
		}
		if made.Keys[role], err = trust.KeyID(spec.Keys[0]); err != nil {
			return Made{}, err
		}
		roles[role] = spec
	}
	for _, key := range roles[trust.RoleRoot].Keys[len(holders):] {
		id, err := trust.KeyID(key)
		if err != nil {
			return Made{}, err
		}
		made.Brought = append(made.Brought, id)
	}
	head := fleet.Document{Fleet: fleetName, Epoch: 1, Version: 1, IssuedAt: now}
	root, err := trust.NewRoot(head, made.Expires, roles)
	if err != nil {
		return Made{}, err
	}
	if made.First, err = placeFirst(next, root, holders); err != nil {
		return Made{}, err
	}
	made.Root = filepath.Join(dir, made.First.File)
	made.First.File = made.Root
	for i := range h.Shares - len(h.ShareKeys) {
		if h.Shares > 1 {
			made.Shares = append(made.Shares, filepath.Join(dir, sharesDir, shareName(i)))
		}
	}
	for i := range h.Overrides {
		if h.Overrides > 1 {
			made.Operators = append(made.Operators, filepath.Join(dir, operatorsDir, operatorName(i)))
		}
	}
	if err := keepOut(next); err != nil {
		return Made{}, err
	}
	return made, os.Rename(next, dir)
}

// ignored has git leave out whatever lies in a folder of keys, and in folders below it, but
// what everybody may know. The file is in the folder itself: no rule above it undoes that.
const ignored = "# Private keys never belong into a repository.\n*\n!.gitignore\n!*.root.json\n!*.pub\n"

const ignoreFile = ".gitignore"

func keepOut(dir string) error {
	return disk.Replace(filepath.Join(dir, ignoreFile), []byte(ignored), 0o644)
}

// Private reports whether a file of a folder of keys must stay private.
func Private(name string) bool {
	return filepath.Base(name) != ignoreFile && !strings.HasSuffix(name, ".root.json") && !strings.HasSuffix(name, ".pub")
}

// placeFirst signs the first root with the keys at hand and writes it into a folder,
// where it is complete or waits for its holders. The file of what it returns is
// relative to the folder.
func placeFirst(dir string, root trust.Root, signers []trust.Signer) (Pending, error) {
	raw, err := trust.NewDraft(root)
	if err != nil {
		return Pending{}, err
	}
	if raw, err = signDraft(trust.Verifier{}, raw, signers); err != nil {
		return Pending{}, err
	}
	p := Pending{File: RootFile(1)}
	if p.Draft, err = draft(trust.Verifier{}, raw); err != nil {
		return Pending{}, err
	}
	if p.Done = p.Draft.Complete(); !p.Done {
		p.File = filepath.Join(nextDir, p.File)
		if err := os.Mkdir(filepath.Join(dir, nextDir), 0o700); err != nil {
			return Pending{}, err
		}
	}
	if err := os.WriteFile(filepath.Join(dir, p.File), raw, 0o644); err != nil || !p.Done {
		return p, err
	}
	return p, shareRoots(dir)
}

// workFolder makes a folder beside dir in which things are made before they
// take their place at once.
func workFolder(dir, parent string) (string, error) {
	if err := os.MkdirAll(parent, 0o755); err != nil {
		return "", err
	}
	return os.MkdirTemp(parent, "."+filepath.Base(dir)+".new-")
}

// newRole makes the keys of a role in a folder: one, or one per operator and per
// holder of the root role that brings none. The keys that holders bring come last.
func newRole(dir string, role trust.Role, h Holders) ([]trust.Signer, trust.RoleSpec, error) {
	n, several, parent, nameOf := 1, false, "", shareName
	spec := trust.RoleSpec{Threshold: 1}
	switch role {
	case trust.RoleRoot:
		n, several, parent, spec.Threshold = h.Shares-len(h.ShareKeys), h.Shares > 1, sharesDir, h.Threshold
	case trust.RoleOverride: // how many must sign follows from the action
		n, several, parent, nameOf = h.Overrides, h.Overrides > 1, operatorsDir, operatorName
	}
	var signers []trust.Signer
	for i := range n {
		path := filepath.Join(dir, KeyFile(role))
		if several {
			path = filepath.Join(dir, parent, nameOf(i), KeyFile(role))
			if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
				return nil, spec, err
			}
		}
		s, err := newKey(path)
		if err != nil {
			return nil, spec, fmt.Errorf("%s key: %w", role, err)
		}
		signers, spec.Keys = append(signers, s), append(spec.Keys, s.Public())
	}
	if role == trust.RoleRoot {
		brought, err := shareKeys(h.ShareKeys)
		if err != nil {
			return nil, spec, err
		}
		spec.Keys = append(spec.Keys, brought...)
	}
	return signers, spec, nil
}

func newKey(path string) (trust.Signer, error) {
	key, err := identity.NewKey()
	if err != nil {
		return trust.Signer{}, err
	}
	if err := identity.SaveKey(path, key); err != nil {
		return trust.Signer{}, err
	}
	return trust.NewSigner(key)
}

func unused(dir string) error {
	entries, err := os.ReadDir(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case len(entries) > 0:
		other := max(0, slices.IndexFunc(entries, func(e fs.DirEntry) bool { return e.Name() != ignoreFile }))
		return fmt.Errorf("%s already holds %s: keys are never overwritten; give a new folder with --dir", dir, entries[other].Name())
	}
	return nil
}

// Signer loads the key of a role.
func Signer(dir string, role trust.Role) (trust.Signer, error) {
	path := filepath.Join(dir, KeyFile(role))
	key, err := identity.LoadKey(path)
	if errors.Is(err, fs.ErrNotExist) {
		return trust.Signer{}, &missingKey{missing(dir, role)}
	}
	if err != nil {
		return trust.Signer{}, err
	}
	return trust.NewSigner(key)
}

// SignerUnderRoot loads the key of a role, and the newest root beside it.
func SignerUnderRoot(dir string, role trust.Role) (trust.Signer, trust.Verifier, error) {
	s, err := Signer(dir, role)
	if err != nil {
		return s, trust.Verifier{}, err
	}
	v, err := Newest(dir)
	return s, v, err
}

// missing says where the key of a role is when a folder does not hold it.
func missing(dir string, role trust.Role) string {
	if several := severalDir(role); several != "" {
		if files, err := filepath.Glob(filepath.Join(dir, several, "*", KeyFile(role))); err == nil && len(files) > 0 {
			return fmt.Sprintf("%s holds no %s key of its own: %d holders have one each, in a folder below; name the folder of one of them, such as %s", dir, role, len(files), filepath.Dir(files[0]))
		}
		if v, err := Newest(dir); err == nil {
			if n := len(v.RootDocument().Roles[role].KeyIDs); n > 1 {
				return fmt.Sprintf("%s holds no %s key: %d holders have one each, in a folder that they carried away; name the folder of one of them", dir, role, n)
			}
		}
	}
	path := filepath.Join(dir, KeyFile(role))
	if _, err := Newest(dir); err != nil {
		return fmt.Sprintf("the %s key %s does not exist; steady keys init makes the keys of a new fleet: name the folder that holds those of this one", role, path)
	}
	lost := "if it is lost, replace it: steady keys rotate --role " + string(role)
	if role == trust.RoleRoot {
		lost = "without it no key can be replaced"
	}
	return fmt.Sprintf("the %s key %s does not exist; name the folder that holds it; %s", role, path, lost)
}

// missingKey is a key that is not there; it matches fs.ErrNotExist.
type missingKey struct{ message string }

func (e *missingKey) Error() string { return e.message }

func (e *missingKey) Unwrap() error { return fs.ErrNotExist }
