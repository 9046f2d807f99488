package dockertest

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"
)

// StorageDriver is how engines keep images and containers: in overlays, where the
// kernel mounts them, else as copies. A container of copies costs two of its image,
// and a layer that a build commits up to a second.
func StorageDriver() string {
	if overlays() == nil {
		return "overlay2"
	}
	return "vfs"
}

// overlays says why the kernel does not mount overlays where engines keep things.
var overlays = sync.OnceValue(func() error {
	dir, err := os.MkdirTemp(base, "overlay")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	for _, name := range []string{"lower", "upper", "work", "merged"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
			return err
		}
	}
	merged := filepath.Join(dir, "merged")
	if err := unix.Mount("overlay", merged, "overlay", 0, fmt.Sprintf("lowerdir=%[1]s/lower,upperdir=%[1]s/upper,workdir=%[1]s/work", dir)); err != nil {
		return fmt.Errorf("mount an overlay: %w", err)
	}
	return unix.Unmount(merged, 0)
})
