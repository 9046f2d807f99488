package keyring

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"github.com/steadyfleet/steady/internal/disk"
	"github.com/steadyfleet/steady/internal/trust"
)

// Folders below a folder of keys.
const (
	sharesDir    = "shares"    // one folder per holder of the root role, to be carried away
	operatorsDir = "operators" // one folder per holder of an override key, likewise
	nextDir      = "next"      // the successor of the newest root, until enough have signed it
	retiredDir   = "retired"   // keys that a later root replaced
)

func shareName(i int) string    { return "holder-" + strconv.Itoa(i+1) }
func operatorName(i int) string { return "operator-" + strconv.Itoa(i+1) }

// Roots reads the chain of root documents from version 1 on.
func Roots(dir string) ([][]byte, error) {
	var chain [][]byte
	for {
		env, err := os.ReadFile(filepath.Join(dir, RootFile(len(chain)+1)))
		switch {
		case err == nil:
			chain = append(chain, env)
		case !errors.Is(err, fs.ErrNotExist):
			return nil, err
		case len(chain) == 0:
			if first, err := waiting(dir); err == nil && first != "" {
				return nil, fmt.Errorf("the first root, %s, waits for signatures of its holders: steady keys root show says whose", first)
			}
			if _, err := os.Lstat(filepath.Join(dir, PublicFile)); err == nil {
				return nil, fmt.Errorf("%s holds a share and no root yet: bring it the roots from %s on with steady keys root add-signature FILE", dir, RootFile(1))
			}
			return nil, fmt.Errorf("%s does not exist; steady keys init makes it, --keys names its folder", filepath.Join(dir, RootFile(1)))
		default:
			return chain, nil
		}
	}
}

// Newest verifies the chain of roots in a folder from version 1 on and returns a
// verifier under the last.
func Newest(dir string) (trust.Verifier, error) {
	chain, err := Roots(dir)
	if err != nil {
		return trust.Verifier{}, err
	}
	first, err := trust.ReadRoot(chain[0])
	if err != nil {
		return trust.Verifier{}, fmt.Errorf("%s: %w", filepath.Join(dir, RootFile(1)), err)
	}
	s, err := trust.Begin(first.Fleet, chain[0], "")
	if err != nil {
		return trust.Verifier{}, fmt.Errorf("%s: %w", filepath.Join(dir, RootFile(1)), err)
	}
	v, err := trust.NewVerifier(first.Fleet, s)
	for i := 1; i < len(chain) && err == nil; i++ {
		if s, err = v.Root(chain[i]); err == nil {
			v, err = v.With(s)
		}
		if err != nil {
			return trust.Verifier{}, fmt.Errorf("%s: %w", filepath.Join(dir, RootFile(i+1)), err)
		}
	}
	return v, err
}

// trusted is Newest; for a folder that has no root yet, but a share or a first root
// that waits, it is the zero Verifier, which only a first root follows.
func trusted(dir string) (trust.Verifier, error) {
	if _, err := os.Lstat(filepath.Join(dir, RootFile(1))); errors.Is(err, fs.ErrNotExist) {
		first, err := waiting(dir)
		if err != nil || first != "" {
			return trust.Verifier{}, err
		}
		if _, err := os.Lstat(filepath.Join(dir, KeyFile(trust.RoleRoot))); err == nil {
			return trust.Verifier{}, nil
		}
	}
	return Newest(dir)
}

// draft reads a root on its way that follows those of a folder.
func draft(v trust.Verifier, raw []byte) (trust.Draft, error) {
	if v.RootVersion() == 0 {
		return trust.FirstDraft(raw)
	}
	return v.Draft(raw)
}

// shareRoots gives every holder's and operator's folder below dir the chain of roots.
func shareRoots(dir string) error {
	var folders []string
	for _, parent := range []string{sharesDir, operatorsDir} {
		below, err := filepath.Glob(filepath.Join(dir, parent, "*"))
		if err != nil {
			return err
		}
		folders = append(folders, below...)
	}
	if len(folders) == 0 {
		return nil
	}
	chain, err := Roots(dir)
	if err != nil {
		return err
	}
	for _, folder := range folders {
		for i, env := range chain {
			if err := disk.Replace(filepath.Join(folder, RootFile(i+1)), env, 0o644); err != nil {
				return err
			}
		}
	}
	return nil
}
