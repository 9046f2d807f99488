package metrics

import (
	"bytes"
	"path"
	"strings"
)

// cgroupLine is one hierarchy of /proc/PID/cgroup: cgroups(7). The unified one
// (version 2) names no controller.
type cgroupLine struct {
	controllers string // joined by commas
	path        string
}

func parseCgroup(b []byte) []cgroupLine {
	var out []cgroupLine
	for len(b) > 0 {
		var line []byte
		line, b = nextLine(b)
		_, rest, found := bytes.Cut(line, []byte(":"))
		controllers, group, full := bytes.Cut(rest, []byte(":"))
		if !found || !full || !bytes.HasPrefix(group, []byte("/")) {
			continue
		}
		out = append(out, cgroupLine{controllers: string(controllers), path: string(group)})
	}
	return out
}

// cgroupMount is one mount of a cgroup hierarchy.
type cgroupMount struct {
	v2      bool
	options string // of version 1: controllers among them
	root    string // the part of the hierarchy that is mounted
	point   string // where
}

// parseMountinfo returns the cgroup mounts of a /proc/PID/mountinfo.
func parseMountinfo(b []byte) []cgroupMount {
	var out []cgroupMount
	for len(b) > 0 {
		var line []byte
		line, b = nextLine(b)
		head, tail, found := bytes.Cut(line, []byte(" - "))
		kind, rest := nextField(tail)
		v2 := string(kind) == "cgroup2"
		if !found || !v2 && string(kind) != "cgroup" {
			continue
		}
		m := cgroupMount{v2: v2, options: string(fieldAt(rest, 1)),
			root: unescape(string(fieldAt(head, 3))), point: path.Clean(unescape(string(fieldAt(head, 4))))}
		if strings.HasPrefix(m.root, "/") && strings.HasPrefix(m.point, "/") {
			out = append(out, m)
		}
	}
	return out
}

// unescape resolves the octal escapes of mountinfo: blank, tab, newline, backslash.
func unescape(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(s)
}

// parseKeyed finds one key of a file of "key value" lines, such as memory.stat and cpu.stat.
func parseKeyed(b []byte, key string) (uint64, bool) {
	for len(b) > 0 {
		var line []byte
		line, b = nextLine(b)
		if len(line) > len(key) && line[len(key)] == ' ' && string(line[:len(key)]) == key {
			return parseUint(fieldAt(line[len(key):], 0))
		}
	}
	return 0, false
}

// parseNumber reads a file of one number.
func parseNumber(b []byte) (uint64, bool) { return parseUint(bytes.TrimSpace(b)) }

// parseLimit reads a file of one limit. "max" (version 2) and the greatest value
// (version 1: page-aligned, just below 2^63) mean that there is none.
func parseLimit(b []byte) (uint64, bool) {
	n, ok := parseNumber(b)
	return n, ok && n < 1<<62
}

// parseBlkio sums blkio.throttle.io_service_bytes (version 1) over devices. It
// is false without a line of a device: newer kernels count here only once a
// limit is set, and then a zero would be a lie.
func parseBlkio(b []byte) (read, written uint64, counted bool) {
	for len(b) > 0 {
		var line []byte
		line, b = nextLine(b)
		_, rest := nextField(line)
		op, rest := nextField(rest)
		n, ok := parseUint(fieldAt(rest, 0))
		switch {
		case !ok:
		case string(op) == "Read":
			read, counted = addSat(read, n), true
		case string(op) == "Write":
			written, counted = addSat(written, n), true
		}
	}
	return read, written, counted
}

// parseIOStat sums io.stat (version 2) over devices.
func parseIOStat(b []byte) (read, written uint64) {
	for len(b) > 0 {
		var line []byte
		line, b = nextLine(b)
		field, rest := nextField(line)
		for len(field) > 0 {
			if v, ok := bytes.CutPrefix(field, []byte("rbytes=")); ok {
				n, _ := parseUint(v)
				read = addSat(read, n)
			} else if v, ok := bytes.CutPrefix(field, []byte("wbytes=")); ok {
				n, _ := parseUint(v)
				written = addSat(written, n)
			}
			field, rest = nextField(rest)
		}
	}
	return read, written
}
