package disk

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Unversioned has git leave out what patterns of a .gitignore match in a folder, which may be in a
// repository: private keys and tokens in it would be committed with the rest. Elsewhere it does nothing.
func Unversioned(dir string, patterns ...string) error {
	if !inRepository(dir) {
		return nil
	}
	_, err := Ignore(dir, "# Private keys, tokens and what servers and hosts keep never belong into a repository.", patterns...)
	return err
}

// Ignore adds the patterns to a folder's .gitignore that it lacks, below a comment, and returns the
// file's name.
func Ignore(dir, comment string, patterns ...string) (string, error) {
	file := filepath.Join(dir, ".gitignore")
	was, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return file, err
	}
	has := map[string]bool{}
	for line := range strings.Lines(string(was)) {
		has[strings.TrimSpace(line)] = true
	}
	more := comment + "\n"
	for _, p := range patterns {
		if !has["*"] && !has[p] && !has[strings.TrimPrefix(p, "/")] {
			more += p + "\n"
		}
	}
	switch {
	case more == comment+"\n":
		return file, nil
	case len(was) > 0 && !bytes.HasSuffix(was, []byte("\n")):
		more = "\n" + more
	}
	return file, Replace(file, append(was, more...), 0o644)
}
