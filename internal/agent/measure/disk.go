package measure

import (
	"fmt"
	"syscall"
	"time"
)

// readDisk asks the file system that holds path. It blocks for as long as the file
// system does, which on a dead network mount is for ever.
func readDisk(path string) (Disk, error) {
	var st syscall.Statfs_t
	err := error(syscall.EINTR)
	for err == syscall.EINTR {
		err = syscall.Statfs(path, &st)
	}
	if err != nil {
		return Disk{}, fmt.Errorf("ask for the free space of %s: %w", path, err)
	}
	size := uint64(max(st.Frsize, 1))
	return Disk{
		Path:       path,
		TotalBytes: Count(st.Blocks * size), FreeBytes: Count(st.Bavail * size),
		TotalInodes: Count(st.Files), FreeInodes: Count(st.Ffree),
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
