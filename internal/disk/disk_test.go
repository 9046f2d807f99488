package disk_test

import (
	"fmt"
	"io/fs"
	"os"
	"syscall"
	"testing"

	"github.com/steadyfleet/steady/internal/disk"
)

// TestErrors: no error is both, and what an operator can clear beside the running
// process is never a failed disk.
func TestErrors(t *testing.T) {
	for _, c := range []struct {
		err          error
		full, failed bool
	}{
		{syscall.ENOSPC, true, false},
		{syscall.EDQUOT, true, false},
		{syscall.EIO, false, true},
		{syscall.EROFS, false, true},
		{syscall.ENODEV, false, true},
		{syscall.ENXIO, false, true},
		{syscall.ESTALE, false, true},
		{syscall.Errno(117), false, true},
		{syscall.EMFILE, false, false},
		{syscall.EACCES, false, false},
		{syscall.EINTR, false, false},
		{fs.ErrNotExist, false, false},
		{nil, false, false},
	} {
		wrapped := c.err
		if c.err != nil {
			wrapped = fmt.Errorf("write: %w", &os.PathError{Op: "write", Path: "x", Err: c.err})
		}
		if full, failed := disk.Full(wrapped), disk.Failed(wrapped); full != c.full || failed != c.failed {
			t.Errorf("%v: full %v, failed %v", c.err, full, failed)
		}
	}
}

func TestSpaceOf(t *testing.T) {
	s, err := disk.SpaceOf(t.TempDir())
	if err != nil || s.Free <= 0 || s.Free > s.Size {
		t.Errorf("%+v, %v", s, err)
	}
	if _, err := disk.SpaceOf("/no/such/folder"); err == nil {
		t.Error("the space of a folder that does not exist")
	}
}
