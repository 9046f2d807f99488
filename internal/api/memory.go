package api

import (
	"context"
	"runtime/debug"
	"time"
)

// trimEvery is how often the server looks whether a burst of work is over.
const trimEvery = 4 * time.Second

// trim gives memory back to the machine when the log has come to rest after it
// grew. A change to a large fleet leaves much garbage, and open long-polls alone
// make too little for the collector to come round for minutes.
func (s *Server) trim(ctx context.Context) {
	tick := time.NewTicker(trimEvery)
	defer tick.Stop()
	var b burst
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if b.over(s.control.Head().Seq) {
				debug.FreeOSMemory()
			}
		}
	}
}

// trimAfter is how much the log must have grown to make trimming worth it, in
// entries.
const trimAfter = 1000

// burst finds the ends of bursts.
type burst struct{ seen, trimmed uint64 }

// over reports, once per burst, that the log did not grow since the last call.
func (b *burst) over(seq uint64) bool {
	rest := seq == b.seen
	b.seen = seq
	if !rest || seq < b.trimmed+trimAfter {
		return false
	}
	b.trimmed = seq
	return true
}
