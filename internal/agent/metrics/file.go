package metrics

import (
	"errors"
	"fmt"
	"syscall"
)

// maxFile bounds what is read of one file.
const maxFile = 4 << 20

// files reads small kernel files into one buffer that it reuses.
type files struct{ buf []byte }

// read returns the content, valid until the next read.
func (f *files) read(path string) ([]byte, error) {
	fd, err := retry(func() (int, error) { return syscall.Open(path, syscall.O_RDONLY|syscall.O_CLOEXEC, 0) })
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	defer syscall.Close(fd)
	if f.buf == nil {
		f.buf = make([]byte, 8<<10)
	}
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

func retry(call func() (int, error)) (int, error) {
	for {
		n, err := call()
		if err != syscall.EINTR {
			return n, err
		}
	}
}

// vanished reports that a process or control group is not there any more.
func vanished(err error) bool {
	return errors.Is(err, syscall.ENOENT) || errors.Is(err, syscall.ESRCH) || errors.Is(err, syscall.ENODEV)
}
