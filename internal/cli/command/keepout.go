package command

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/steadyfleet/steady/internal/disk"
)

// keptOut is what people make in a fleet's folder and never belongs into its repository. Each
// is of that folder alone: a bundle may have a folder of such a name.
var keptOut = []string{
	"/keys/*.key", "/keys/shares/", "/keys/next/", "/keys/retired/", "/keys/operators/",
	"/data/", "/hosts/", "/tokens/", "/*.token", "/operator.json",
	"/release/", "/release.previous/", "/release.rollback/", "/*.accepted.json",
}

const keptOutWhy = "# Private keys, tokens and what servers and hosts keep never belong into a repository;\n# releases are built from it."

// KeepOut has git leave out private keys, tokens, the folders of servers and hosts, and built
// releases, whatever else the folder's .gitignore says. It returns the file's name.
func KeepOut(dir string) (string, error) {
	file := filepath.Join(dir, ".gitignore")
	was, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return file, err
	}
	has := map[string]bool{}
	for line := range strings.Lines(string(was)) {
		has[strings.TrimSpace(line)] = true
	}
	more := keptOutWhy + "\n"
	for _, pattern := range keptOut {
		if !has[pattern] && !has[pattern[1:]] {
			more += pattern + "\n"
		}
	}
	switch {
	case more == keptOutWhy+"\n":
		return file, nil
	case len(was) > 0 && !bytes.HasSuffix(was, []byte("\n")):
		more = "\n" + more
	}
	return file, disk.Replace(file, append(was, more...), 0o644)
}
