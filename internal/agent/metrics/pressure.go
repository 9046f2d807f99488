package metrics

import (
	"fmt"
	"syscall"
	"time"
)

// Pressure returns how many bytes of the file system that holds path are left
// for programs without privileges, and how many it has. It blocks for as long
// as the file system does, which on a dead network mount is for ever.
func Pressure(path string) (freeBytes, totalBytes int64, err error) {
	d, err := readDisk(path)
	return d.FreeBytes, d.TotalBytes, err
}

func readDisk(path string) (Disk, error) {
	var st syscall.Statfs_t
	if _, err := retry(func() (int, error) { return 0, syscall.Statfs(path, &st) }); err != nil {
		return Disk{}, fmt.Errorf("ask for the free space of %s: %w", path, err)
	}
	size := uint64(max(st.Frsize, 1))
	return Disk{
		Path:       path,
		TotalBytes: count(mulSat(st.Blocks, size)), FreeBytes: count(mulSat(st.Bavail, size)),
		TotalInodes: count(st.Files), FreeInodes: count(st.Ffree),
	}, nil
}

// diskPatience is how long a sample waits for one file system.
const diskPatience = 250 * time.Millisecond

// disks asks file systems without waiting for ever for one that hangs: it is
// not asked again before it answered.
type disks struct{ asked map[string]chan diskAnswer }

type diskAnswer struct {
	disk Disk
	err  error
}

func (d *disks) read(path string, ask func(string) (Disk, error), patience time.Duration) (Disk, error) {
	silent := fmt.Errorf("the file system of %s does not answer: look for a dead network mount or a failing disk", path)
	if late, hanging := d.asked[path]; hanging {
		select {
		case <-late: // an old figure: ask anew
			delete(d.asked, path)
		default:
			return Disk{}, silent
		}
	}
	answer := make(chan diskAnswer, 1)
	go func() {
		disk, err := ask(path)
		answer <- diskAnswer{disk, err}
	}()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case a := <-answer:
		return a.disk, a.err
	case <-timer.C:
		if d.asked == nil {
			d.asked = map[string]chan diskAnswer{}
		}
		d.asked[path] = answer
		return Disk{}, silent
	}
}
