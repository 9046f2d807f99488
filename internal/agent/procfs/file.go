// Package procfs reads the small text files of /proc and /sys: whole, into a
// buffer that is used again, and then by line, field and number without making
// strings. Numbers do not overflow: what does not fit becomes the greatest value.
package procfs

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"syscall"
)

// maxFile bounds what is read of one file.
const maxFile = 4 << 20

// Files reads small kernel files into one buffer that it reuses.
type Files struct{ buf []byte }

// Content returns the whole of a file, at most 4 MiB; it is valid until the next call.
func (f *Files) Content(path string) ([]byte, error) {
	fd, err := retry(func() (int, error) { return syscall.Open(path, syscall.O_RDONLY|syscall.O_CLOEXEC, 0) })
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	defer syscall.Close(fd)
	f.grow()
	n := 0
	for {
		if n == len(f.buf) {
			if n >= maxFile {
				return nil, fmt.Errorf("read %s: it is larger than %d bytes", path, maxFile)
			}
			f.buf = append(f.buf, make([]byte, len(f.buf))...)
		}
		m, err := retry(func() (int, error) { return syscall.Read(fd, f.buf[n:]) })
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", path, err)
		}
		if m == 0 {
			return f.buf[:n], nil
		}
		n += m
	}
}

// Each calls visit with the names in a folder, without making a string of each.
func (f *Files) Each(path string, visit func(name []byte)) error {
	fd, err := retry(func() (int, error) {
		return syscall.Open(path, syscall.O_RDONLY|syscall.O_DIRECTORY|syscall.O_CLOEXEC, 0)
	})
	if err != nil {
		return fmt.Errorf("open %s: %w", path, err)
	}
	defer syscall.Close(fd)
	f.grow()
	for {
		n, err := retry(func() (int, error) { return syscall.ReadDirent(fd, f.buf) })
		if err != nil {
			return fmt.Errorf("list %s: %w", path, err)
		}
		if n == 0 {
			return nil
		}
		parseDirents(f.buf[:n], visit)
	}
}

// parseDirents walks the records of getdents64(2): inode and offset of 8 bytes
// each, length of 2, type of 1, and the name, which a zero byte ends.
func parseDirents(b []byte, visit func(name []byte)) {
	const lengthAt, nameAt = 16, 19
	for len(b) > nameAt {
		length := int(binary.NativeEndian.Uint16(b[lengthAt:]))
		if length <= nameAt || length > len(b) {
			return
		}
		if name, _, ok := bytes.Cut(b[nameAt:length], []byte{0}); ok && len(name) > 0 {
			visit(name)
		}
		b = b[length:]
	}
}

func (f *Files) grow() {
	if f.buf == nil {
		f.buf = make([]byte, 32<<10)
	}
}

func retry(call func() (int, error)) (int, error) {
	for {
		n, err := call()
		if err != syscall.EINTR {
			return n, err
		}
	}
}

// Vanished reports that a process or control group is not there any more.
func Vanished(err error) bool {
	return errors.Is(err, syscall.ENOENT) || errors.Is(err, syscall.ESRCH) || errors.Is(err, syscall.ENODEV)
}
