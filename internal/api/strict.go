package api

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/steadyfleet/steady/internal/identity"
	"github.com/steadyfleet/steady/internal/trust"
)

// maxKeyFile bounds the files that are looked at for a private key, in bytes.
const maxKeyFile = 64 << 10

// strictKeys refuses authority keys that whoever reads a file has.
func (o *Options) strictKeys() error {
	if _, files := o.Keys.(identity.FileKeys); o.Strict && files {
		return errors.New("a strict server keeps the keys of its authorities in a TPM, not in files: give --ca-key tpm:/dev/tpmrm0; " +
			"authorities that are there already are replaced with steady server init-ca --replace")
	}
	return nil
}

// strictFolders refuses to serve while a private key of the root's roles can be
// read where the server is: whoever takes the server would have it too.
func (o *Options) strictFolders(root trust.Root) error {
	if !o.Strict {
		return nil
	}
	var found []string
	look := func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return fs.SkipDir // not readable by the server, which is the point
		case d.IsDir() && filepath.Dir(path) == filepath.Clean(o.DataDir) && d.Name() == "store":
			return fs.SkipDir // the log and blobs by digest
		case !d.Type().IsRegular():
			return nil
		}
		if words := keyOf(path, root); words != "" {
			found = append(found, words)
		}
		return nil
	}
	if err := filepath.WalkDir(o.DataDir, look); err != nil {
		return err
	}
	for _, dir := range o.KeyFolders {
		for _, pattern := range []string{"*", "shares/*/*", "next/*", "retired/*"} {
			files, err := filepath.Glob(filepath.Join(dir, pattern))
			if err != nil {
				return err
			}
			for _, path := range files {
				if words := keyOf(path, root); words != "" {
					found = append(found, words)
				}
			}
		}
	}
	if len(found) == 0 {
		return nil
	}
	slices.Sort(found)
	return fmt.Errorf("a strict server holds no key that can change what a host runs, and can read %s: move them to where they are used, "+
		"and give --root a copy of 1.root.json that lies apart from them", strings.Join(slices.Compact(found), ", "))
}

// keyOf says which role's private key a file holds, or nothing.
func keyOf(path string, root trust.Root) string {
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() || info.Size() > maxKeyFile {
		return ""
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	key, err := identity.ParseKey(raw)
	if err != nil {
		return ""
	}
	s, err := trust.NewSigner(key)
	if err != nil {
		return ""
	}
	var roles []string
	for _, role := range trust.Roles() {
		if slices.Contains(root.Roles[role].KeyIDs, s.KeyID()) {
			roles = append(roles, string(role))
		}
	}
	if len(roles) == 0 {
		return ""
	}
	return "the " + strings.Join(roles, " and ") + " key " + path
}
