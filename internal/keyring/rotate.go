package keyring

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/disk"
	"github.com/steadyfleet/steady/internal/identity"
	"github.com/steadyfleet/steady/internal/trust"
)

// Change is what a new root changes.
type Change struct {
	// Roles get a new key; none renews the root alone.
	Roles []trust.Role
	// EndEpoch raises the key epoch: all that was signed before ends.
	EndEpoch bool
	Reason   string
	// Holders of the root role and of the override role, if they change; zero keeps
	// their number.
	Holders Holders
	Life    clock.Duration
	// Shares are folders of holders that sign at once.
	Shares []string
}

// Pending is a root on its way.
type Pending struct {
	File  string      `json:"file"`
	Draft trust.Draft `json:"-"`
	// Made names the keys that the change made, by role; of the root role the
	// first, if holders did not bring all of them.
	Made map[trust.Role]string `json:"made,omitempty"`
	// Done says that the root is complete and part of the chain.
	Done bool `json:"done"`
	// Here says that the change was made in this folder, and not in another one from
	// which a complete root was taken.
	Here bool `json:"-"`
}

// Rotate makes the successor of the newest root, with new keys for the roles of
// the change, and signs it with what is at hand: the root key or the shares below
// dir, those that the change names, and every new root key. When that is enough
// the new keys take the place of the old ones, which are kept aside; otherwise
// the root waits in dir/next for the holders' signatures.
func Rotate(dir string, c Change, now clock.Instant) (Pending, error) {
	v, err := idle(dir)
	if err != nil {
		return Pending{}, err
	}
	old := v.RootDocument()
	spec, err := old.Spec()
	if err != nil {
		return Pending{}, err
	}
	before := spec[trust.RoleRoot]
	if c.Holders.Shares == 0 {
		c.Holders.Shares = max(len(before.Keys), len(c.Holders.ShareKeys))
		if c.Holders.Threshold == 0 && c.Holders.Shares == len(before.Keys) {
			c.Holders.Threshold = before.Threshold
		}
	}
	if c.Holders.Overrides == 0 {
		c.Holders.Overrides = len(spec[trust.RoleOverride].Keys)
	}
	if c.Holders, err = c.Holders.normal(); err != nil {
		return Pending{}, err
	}
	work, err := workFolder(nextDir, dir)
	if err != nil {
		return Pending{}, err
	}
	defer os.RemoveAll(work)
	p := Pending{File: filepath.Join(dir, nextDir, RootFile(int(old.Version)+1)), Made: map[trust.Role]string{}, Here: true}
	var signers []trust.Signer
	for _, role := range c.Roles {
		made, s, err := newRole(work, role, c.Holders)
		if err != nil {
			return Pending{}, err
		}
		if spec[role] = s; len(made) > 0 {
			p.Made[role] = made[0].KeyID()
		}
		if role == trust.RoleRoot {
			signers = made
		}
	}
	head := fleet.Document{Fleet: old.Fleet, Epoch: old.Epoch, Version: old.Version + 1, IssuedAt: now}
	if c.EndEpoch {
		head.Epoch++
	}
	root, err := trust.NewRoot(head, now.Add(c.Life), spec)
	if err != nil {
		return Pending{}, err
	}
	root.Reason = c.Reason
	raw, err := trust.NewDraft(root)
	if err != nil {
		return Pending{}, err
	}
	present, err := holders(dir, c.Shares)
	if err != nil {
		return Pending{}, err
	}
	if raw, err = signDraft(v, raw, append(signers, present...)); err != nil {
		return Pending{}, err
	}
	if err := disk.Replace(filepath.Join(work, filepath.Base(p.File)), raw, 0o644); err != nil {
		return Pending{}, err
	}
	if err := os.Rename(work, filepath.Join(dir, nextDir)); err != nil {
		return Pending{}, err
	}
	return complete(dir, v, p)
}

// idle returns the newest root of a folder in which no change is under way.
func idle(dir string) (trust.Verifier, error) {
	v, err := Newest(dir)
	if err != nil {
		return v, err
	}
	file, err := waiting(dir)
	if err != nil || file == "" {
		return v, err
	}
	p, err := complete(dir, v, Pending{File: file}) // a crash may have cut it off
	if err != nil {
		return v, err
	}
	if !p.Done {
		return v, fmt.Errorf("%s waits for signatures: collect them with steady keys root add-signature, or give it up by removing %s", file, filepath.Dir(file))
	}
	return Newest(dir)
}

// waiting names the root that waits for signatures in a folder, or is empty.
func waiting(dir string) (string, error) {
	files, err := filepath.Glob(filepath.Join(dir, nextDir, "*.root.json"))
	if err != nil || len(files) == 0 {
		return "", err
	}
	return files[0], nil
}

// holders loads the root keys at hand: of the folder, of its shares, and of the
// folders that are named.
func holders(dir string, named []string) ([]trust.Signer, error) {
	folders, err := filepath.Glob(filepath.Join(dir, sharesDir, "*"))
	if err != nil {
		return nil, err
	}
	var signers []trust.Signer
	for _, folder := range slices.Concat([]string{dir}, folders, named) {
		s, err := Signer(folder, trust.RoleRoot)
		if errors.Is(err, fs.ErrNotExist) && !slices.Contains(named, folder) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if !slices.ContainsFunc(signers, func(o trust.Signer) bool { return o.KeyID() == s.KeyID() }) {
			signers = append(signers, s)
		}
	}
	return signers, nil
}

// signDraft adds the signatures that are not there yet.
func signDraft(v trust.Verifier, raw []byte, signers []trust.Signer) ([]byte, error) {
	d, err := draft(v, raw)
	if err != nil {
		return nil, err
	}
	fresh := slices.DeleteFunc(slices.Clone(signers), func(s trust.Signer) bool { return d.SignedBy(s.KeyID()) })
	return d.Sign(fresh...)
}

// complete looks at the root that waits in dir/next and, when enough have signed,
// gives it and its new keys their place. It can be repeated after a crash.
func complete(dir string, v trust.Verifier, p Pending) (Pending, error) {
	raw, err := os.ReadFile(p.File)
	if err != nil {
		return p, err
	}
	if p.Draft, err = draft(v, raw); err != nil {
		return p, fmt.Errorf("%s: %w", p.File, err)
	}
	if !p.Draft.Complete() {
		return p, nil
	}
	if !p.Draft.First() { // whose keys are in their place already
		if err := install(dir, v.RootVersion(), p.Draft.Root); err != nil {
			return p, err
		}
	}
	// The root is last: until it is there the change is under way.
	final := filepath.Join(dir, filepath.Base(p.File))
	if err := os.Rename(p.File, final); err != nil {
		return p, err
	}
	p.File, p.Done = final, true
	return p, errors.Join(os.Remove(filepath.Join(dir, nextDir)), shareRoots(dir))
}

// install moves new keys from dir/next to their place and those that they
// replace to dir/retired. version is that of the root that ends, next the one that
// begins.
func install(dir string, version uint64, next trust.Root) error {
	retired := filepath.Join(dir, retiredDir)
	if err := os.MkdirAll(retired, 0o700); err != nil {
		return err
	}
	aside := func(name string) error {
		err := os.Rename(filepath.Join(dir, name), filepath.Join(retired, fmt.Sprintf("%d.%s", version, name)))
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	}
	for _, role := range trust.Roles() {
		name, several := KeyFile(role), severalDir(role)
		for _, made := range []string{name, several} { // one key, or one for each of several
			if made == "" {
				continue
			}
			if _, err := os.Stat(filepath.Join(dir, nextDir, made)); errors.Is(err, fs.ErrNotExist) {
				continue
			}
			if err := aside(name); err != nil {
				return err
			}
			if several != "" {
				if err := aside(several); err != nil {
					return err
				}
			}
			if err := os.Rename(filepath.Join(dir, nextDir, made), filepath.Join(dir, made)); err != nil {
				return err
			}
		}
	}
	// Holders may have brought all keys of the root role: nothing new takes the place.
	for _, name := range []string{KeyFile(trust.RoleRoot), sharesDir} {
		if over, err := ended(filepath.Join(dir, name), next); err != nil {
			return err
		} else if over {
			if err := aside(name); err != nil {
				return err
			}
		}
	}
	return nil
}

// ended reports whether a folder of shares, or the file of a root key, holds keys and
// none that counts in a root.
func ended(path string, root trust.Root) (bool, error) {
	files, err := filepath.Glob(filepath.Join(path, "*", KeyFile(trust.RoleRoot)))
	if err != nil {
		return false, err
	}
	if filepath.Base(path) != sharesDir {
		files = []string{path}
	}
	found := false
	for _, file := range files {
		s, err := Signer(filepath.Dir(file), trust.RoleRoot)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil || slices.Contains(root.Roles[trust.RoleRoot].KeyIDs, s.KeyID()) {
			return false, err
		}
		found = true
	}
	return found, nil
}

// severalDir is the folder of a role's keys when it has several holders, or empty.
func severalDir(role trust.Role) string {
	switch role {
	case trust.RoleRoot:
		return sharesDir
	case trust.RoleOverride:
		return operatorsDir
	}
	return ""
}

// SignFile adds the signature of the root keys at hand in dir to the draft in a
// file, whichever folder it is in. The chain of roots in dir says what it must
// follow. It returns how the draft stands.
func SignFile(dir, file string) (Pending, error) {
	p := Pending{File: file}
	v, raw, err := draftFile(dir, file)
	if err != nil {
		return p, err
	}
	signers, err := holders(dir, nil)
	if err != nil {
		return p, err
	}
	if len(signers) == 0 {
		return p, fmt.Errorf("%s holds no root key and no share; --keys names the folder of a holder, who makes it with steady keys share", dir)
	}
	signed, err := signDraft(v, raw, signers)
	if err != nil {
		return p, fmt.Errorf("%s: %w%s", file, err, behind(v, raw))
	}
	if err := disk.Replace(file, signed, 0o644); err != nil {
		return p, err
	}
	p.Draft, err = draft(v, signed)
	return p, err
}

// AddSignatures takes the signatures of a copy that holders signed. In a folder
// where a change is under way they are added to it; in another one the copy must
// be complete and becomes part of the chain.
func AddSignatures(dir, file string) (Pending, error) {
	p := Pending{File: file}
	v, raw, err := draftFile(dir, file)
	if err != nil {
		return p, err
	}
	d, err := draft(v, raw)
	if err != nil {
		return p, fmt.Errorf("%s: %w%s", file, err, behind(v, raw))
	}
	here, err := waiting(dir)
	if err != nil {
		return p, err
	}
	if here == "" {
		if p.Draft = d; !d.Complete() {
			return p, fmt.Errorf("%s is not complete, and no change is under way in %s: bring it to the folder where it was made", file, dir)
		}
		p.File, p.Done = filepath.Join(dir, RootFile(int(d.Root.Version))), true
		return p, errors.Join(disk.Replace(p.File, raw, 0o644), shareRoots(dir))
	}
	own, err := os.ReadFile(here)
	if err != nil {
		return p, err
	}
	mine, err := draft(v, own)
	if err != nil {
		return p, fmt.Errorf("%s: %w", here, err)
	}
	if raw, err = mine.Merge(d); err != nil {
		return p, fmt.Errorf("%s: %w", file, err)
	}
	if err := disk.Replace(here, raw, 0o644); err != nil {
		return p, err
	}
	p.File, p.Here = here, true
	return complete(dir, v, p)
}

// draftFile reads a draft in a file, and the newest root of the folder that it must
// follow.
func draftFile(dir, file string) (v trust.Verifier, raw []byte, err error) {
	if v, err = trusted(dir); err == nil {
		raw, err = os.ReadFile(file)
	}
	return v, raw, err
}

// behind says what to do when a draft is further than the folder's chain.
func behind(v trust.Verifier, raw []byte) string {
	r, err := trust.ReadRoot(raw)
	if err != nil || r.Version <= v.RootVersion()+1 {
		return ""
	}
	if v.RootVersion() == 0 {
		return fmt.Sprintf("; the folder has none yet: add %s and those after it first (steady keys root add-signature)", RootFile(1))
	}
	return fmt.Sprintf("; the folder has roots up to %s: add those in between first (steady keys root add-signature)", RootFile(int(v.RootVersion())))
}

// Show reads a draft or a root of the chain of dir; an empty file is what waits
// there, or the newest root.
func Show(dir, file string) (Pending, trust.Verifier, error) {
	v, err := trusted(dir)
	if err != nil {
		return Pending{}, v, err
	}
	if file == "" {
		if file, err = waiting(dir); err != nil || file == "" {
			return Pending{File: filepath.Join(dir, RootFile(int(v.RootVersion()))), Done: true}, v, err
		}
	}
	raw, err := os.ReadFile(file)
	if err != nil {
		return Pending{}, v, err
	}
	p := Pending{File: file}
	if p.Draft, err = draft(v, raw); err != nil {
		return p, v, fmt.Errorf("%s: %w%s", file, err, behind(v, raw))
	}
	return p, v, nil
}

// Here returns the ids of the private keys that a folder holds, by id with the
// file.
func Here(dir string) (map[string]string, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.key"))
	if err != nil {
		return nil, err
	}
	for _, parent := range []string{sharesDir, operatorsDir} {
		below, err := filepath.Glob(filepath.Join(dir, parent, "*", "*.key"))
		if err != nil {
			return nil, err
		}
		files = append(files, below...)
	}
	out := map[string]string{}
	for _, file := range files {
		key, err := identity.LoadKey(file)
		if err != nil {
			return nil, err
		}
		if s, err := trust.NewSigner(key); err == nil {
			out[s.KeyID()] = file
		}
	}
	return out, nil
}
