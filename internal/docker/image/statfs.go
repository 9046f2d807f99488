package image

import (
	"context"
	"fmt"

	"golang.org/x/sys/unix"
)

// Folder measures the file system that a folder is on.
type DiskFolder string

// Free reads what is free for the agent's user.
func (f DiskFolder) Free(context.Context) (DiskBytes, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(string(f), &st); err != nil {
		return DiskBytes{}, fmt.Errorf("%s: %w", string(f), err)
	}
	return DiskBytes{Free: int64(st.Bavail) * st.Bsize, Total: int64(st.Blocks) * st.Bsize}, nil
}
