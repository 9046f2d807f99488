package disk

import (
	"context"
	"fmt"

	"golang.org/x/sys/unix"
)

// Folder measures the file system that a folder is on.
type Folder string

// Free reads what is free for the agent's user.
func (f Folder) Free(context.Context) (Bytes, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(string(f), &st); err != nil {
		return Bytes{}, fmt.Errorf("%s: %w", string(f), err)
	}
	return Bytes{Free: int64(st.Bavail) * st.Bsize, Total: int64(st.Blocks) * st.Bsize}, nil
}
