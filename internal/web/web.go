// Package web has the web UI: one page, its script and its style, built from the sources
// in ui by uibuild and embedded, so that the server needs nothing beside its binary. It is
// a package of its own because what is embedded is found beside the file that embeds it.
package web

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"strings"
)

//go:embed dist
var dist embed.FS

// SourcesFile names the file of the built UI that says which sources it was built from.
const SourcesFile = "SOURCES"

// Files are those of the built UI.
func Files() fs.FS {
	files, err := fs.Sub(dist, "dist")
	if err != nil { // not with a name that is embedded
		panic(err)
	}
	return files
}

// SumSources names the content of the folder ui: its sources, and the packages that they
// are built with.
func SumSources(ui fs.FS) (string, error) {
	sum := sha256.New()
	err := fs.WalkDir(ui, ".", func(name string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case e.IsDir() && name == "node_modules":
			return fs.SkipDir
		case e.IsDir() || name != "package-lock.json" && !strings.HasPrefix(name, "src/"):
			return nil
		}
		content, err := fs.ReadFile(ui, name)
		fmt.Fprintf(sum, "%s %d\n", name, len(content))
		sum.Write(content)
		return err
	})
	return hex.EncodeToString(sum.Sum(nil)), err
}
