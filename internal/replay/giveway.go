package replay

import (
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// mostPause bounds a pause, so that what somebody waits for ends on a busy machine too.
const mostPause = 2 * time.Second

// lookEvery is the least time between two looks at how busy the machine is: a piece of work may be tiny.
const lookEvery = 20 * time.Millisecond

// pause is how long to do nothing after some work that took ran of a processor and waited for one. The idle class of Linux gives way in time alone: what runs in the gaps of
// others still takes their caches.
func pause(ran, waited time.Duration) time.Duration {
	if waited < ran/2 {
		return 0
	}
	return min(4*ran, mostPause)
}

// breaks pauses between pieces of work where the machine is busy.
type breaks struct {
	ran, waited time.Duration
	looked      time.Time
}

// between is called after each piece of work.
func (b *breaks) between() {
	if time.Since(b.looked) < lookEvery {
		return
	}
	ran, waited := scheduled()
	took := pause(ran-b.ran, waited-b.waited)
	b.ran, b.waited = ran, waited
	time.Sleep(took)
	b.looked = time.Now()
}

// scheduled is how long the threads of this process ran, and waited for a processor; zero where Linux
// does not count it (CONFIG_SCHED_INFO).
func scheduled() (ran, waited time.Duration) {
	files, _ := filepath.Glob("/proc/self/task/*/schedstat") // its one error is of a bad pattern
	for _, name := range files {
		raw, err := os.ReadFile(name)
		if err != nil { // the thread is gone
			continue
		}
		var r, w int64
		if _, err := fmt.Sscan(string(raw), &r, &w); err == nil {
			ran, waited = ran+time.Duration(r), waited+time.Duration(w)
		}
	}
	return ran, waited
}
