package fleetdir

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/steadyfleet/steady/internal/disk"
)

// sampleFiles is kept equal to examples/quickstart by a test.
//
//go:embed sample
var sampleFiles embed.FS

// Sample writes a small commented fleet into dir, which must be new or empty:
// six hosts in two channels and two bundles. It returns the paths it wrote.
func Sample(dir string) ([]string, error) {
	switch entries, err := os.ReadDir(dir); {
	case err == nil && len(entries) > 0:
		return nil, fmt.Errorf("%s is not empty: expected a new or an empty folder", dir)
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("%s cannot be used: %w", dir, disk.Cause(err))
	}
	sample, err := fs.Sub(sampleFiles, "sample")
	if err != nil {
		return nil, err
	}
	var written []string
	err = fs.WalkDir(sample, ".", func(p string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		at := filepath.Join(dir, filepath.FromSlash(p))
		if e.IsDir() {
			return os.MkdirAll(at, 0o755)
		}
		raw, err := fs.ReadFile(sample, p)
		if err != nil {
			return err
		}
		written = append(written, at)
		return os.WriteFile(at, raw, 0o644)
	})
	return written, err
}
