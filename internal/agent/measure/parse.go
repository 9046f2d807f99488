package measure

import (
	"bytes"
	"math/bits"

	"github.com/steadyfleet/steady/internal/agent/metrics"
	"github.com/steadyfleet/steady/internal/agent/procfs"
)

// cpuTimes are counters of all CPUs in clock ticks since boot.
type cpuTimes struct {
	busy, total uint64
	cpus        int64
}

// parseStat reads /proc/stat: proc(5). Guest time is part of user time and is
// not added again; waiting for a disk is not work.
func parseStat(b []byte) (cpuTimes, bool) {
	var t cpuTimes
	ok := false
	for len(b) > 0 {
		var line []byte
		line, b = procfs.Line(b)
		if !bytes.HasPrefix(line, []byte("cpu")) {
			break // the CPUs stand first, and what follows is long
		}
		name, rest := procfs.Field(line)
		if len(name) > 3 {
			t.cpus++
			continue
		}
		var idle uint64
		for i := range 8 {
			var field []byte
			if field, rest = procfs.Field(rest); len(field) == 0 {
				ok = i >= 4
				break
			}
			n, good := procfs.Uint(field)
			if !good {
				return cpuTimes{}, false
			}
			t.total = procfs.Add(t.total, n)
			if i == 3 || i == 4 {
				idle = procfs.Add(idle, n)
			}
			ok = i >= 3
		}
		t.busy = t.total - idle
	}
	return t, ok
}

// busyShare returns how busy the CPUs were between two readings. It is false
// when no time passed or a counter went back: the host, or a CPU, came anew.
func busyShare(before, now cpuTimes) (int64, bool) {
	if now.total <= before.total {
		return 0, false
	}
	if now.busy < before.busy { // idle time was estimated too low before
		return 0, true
	}
	return share(now.busy-before.busy, now.total-before.total)
}

// share returns part of whole in thousandths, at most 1000. It is false for an
// empty whole.
func share(part, whole uint64) (int64, bool) {
	if whole == 0 {
		return 0, false
	}
	part = min(part, whole)
	hi, lo := bits.Mul64(part, 1000)
	q, _ := bits.Div64(hi, lo, whole)
	return int64(q), true
}

// memInfo is what /proc/meminfo says, in bytes.
type memInfo struct{ total, available, swapTotal, swapFree *int64 }

func parseMeminfo(b []byte) memInfo {
	var m memInfo
	for len(b) > 0 {
		var line []byte
		line, b = procfs.Line(b)
		key, rest := procfs.Field(line)
		var to **int64
		switch string(key) {
		case "MemTotal:":
			to = &m.total
		case "MemAvailable:":
			to = &m.available
		case "SwapTotal:":
			to = &m.swapTotal
		case "SwapFree:":
			to = &m.swapFree
		default:
			continue
		}
		if n, ok := procfs.Uint(procfs.FieldAt(rest, 0)); ok {
			*to = new(metrics.Count(procfs.Mul(n, 1024)))
		}
	}
	return m
}

// netLine is one interface of /proc/net/dev; the name is only valid as long as
// what it was parsed from.
type netLine struct {
	name   []byte
	rx, tx uint64
}

// parseNetDev calls each for every interface of a /proc/net/dev.
func parseNetDev(b []byte, each func(netLine)) {
	for len(b) > 0 {
		var line []byte
		line, b = procfs.Line(b)
		i := bytes.LastIndexByte(line, ':') // a name may hold a colon, a counter does not
		if i < 0 {
			continue
		}
		rx, good := procfs.Uint(procfs.FieldAt(line[i+1:], 0))
		tx, too := procfs.Uint(procfs.FieldAt(line[i+1:], 8))
		if name := bytes.TrimSpace(line[:i]); good && too && len(name) > 0 {
			each(netLine{name: name, rx: rx, tx: tx})
		}
	}
}

// parseDiskstats calls each for every block device with the bytes read from it
// and written to it. The kernel counts in sectors of 512 bytes whatever the device's.
func parseDiskstats(b []byte, each func(name []byte, read, written uint64)) {
	const sector = 512
	for len(b) > 0 {
		var line []byte
		line, b = procfs.Line(b)
		name := procfs.FieldAt(line, 2)
		read, good := procfs.Uint(procfs.FieldAt(line, 5))
		written, too := procfs.Uint(procfs.FieldAt(line, 9))
		if good && too && len(name) > 0 {
			each(name, procfs.Mul(read, sector), procfs.Mul(written, sector))
		}
	}
}
