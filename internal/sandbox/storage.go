package sandbox

import (
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// StorageDriver is how an engine keeps images and containers in a folder: overlay2
// where an overlay can be mounted on it, which it cannot on another overlay, such as
// in a container. Copies (vfs) work everywhere, but a container of copies costs two of
// its image, and a layer that a build commits up to a second.
func StorageDriver(dir string) string {
	if mountOverlay(dir) != nil {
		return "vfs"
	}
	return "overlay2"
}

func mountOverlay(dir string) error {
	try, err := os.MkdirTemp(dir, "overlay-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(try)
	for _, name := range []string{"lower", "upper", "work", "merged"} {
		if err := os.Mkdir(filepath.Join(try, name), 0o700); err != nil {
			return err
		}
	}
	merged := filepath.Join(try, "merged")
	if err := unix.Mount("overlay", merged, "overlay", 0, fmt.Sprintf("lowerdir=%[1]s/lower,upperdir=%[1]s/upper,workdir=%[1]s/work", try)); err != nil {
		return err
	}
	return unix.Unmount(merged, 0)
}
