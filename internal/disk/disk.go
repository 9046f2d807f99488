// Package disk tells what an error of the operating system means for the disk
// below a folder and how much room that disk has, replaces files whole or not at all,
// gives a folder to one process at a time, and reads what strangers put into a folder:
// regular files inside it alone, no more bytes than are asked for, and of a checkout what git
// tracks. It brings the
// schemas of databases up to date.
package disk

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// Full reports whether an error means that the disk or a quota has no room. Nothing
// is wrong with what is there, and writing works again once there is room.
func Full(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

// Failed reports whether an error means that the disk or its file system failed, or
// went away, or takes no writes any more: trying again proves nothing.
func Failed(err error) bool {
	var errno syscall.Errno
	if !errors.As(err, &errno) {
		return false
	}
	switch errno {
	case syscall.EIO, syscall.EROFS, syscall.ENXIO, syscall.ENODEV, syscall.ESTALE, syscall.EUCLEAN:
		return true
	}
	return false
}

// Probe writes a small file into a folder and removes it, and returns what went
// wrong. It does not wait for the disk.
func Probe(dir string) error {
	f, err := os.CreateTemp(dir, "probe-*")
	if err != nil {
		return err
	}
	_, err = f.WriteAt(make([]byte, 64<<10), 0)
	return errors.Join(err, f.Close(), os.Remove(f.Name()))
}

// Space is the room of a disk in bytes. Free is what an unprivileged process may
// still write.
type Space struct {
	Free int64 `json:"free"`
	Size int64 `json:"size"`
}

// SpaceOf reads the room of the disk that a folder lies on.
func SpaceOf(dir string) (Space, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return Space{}, fmt.Errorf("read the free space of the disk of %s: %w", dir, err)
	}
	block := int64(st.Bsize) // of 32 bits on some architectures
	free := int64(st.Bavail) * block
	return Space{Free: free, Size: int64(st.Blocks-st.Bfree)*block + free}, nil
}
