package cgroup

import (
	"bytes"
	"path"
	"strings"

	"github.com/steadyfleet/steady/internal/agent/procfs"
)

// line is one hierarchy of /proc/PID/cgroup: cgroups(7). The unified one
// (version 2) names no controller.
type line struct {
	controllers string // joined by commas
	path        string
}

// parseLines reads a /proc/PID/cgroup.
func parseLines(b []byte) []line {
	var out []line
	for len(b) > 0 {
		var text []byte
		text, b = procfs.Line(b)
		_, rest, found := bytes.Cut(text, []byte(":"))
		controllers, group, full := bytes.Cut(rest, []byte(":"))
		if !found || !full || !bytes.HasPrefix(group, []byte("/")) {
			continue
		}
		out = append(out, line{controllers: string(controllers), path: string(group)})
	}
	return out
}

// mount is one mount of a cgroup hierarchy.
type mount struct {
	v2      bool
	options string // of version 1: controllers among them
	root    string // the part of the hierarchy that is mounted
	point   string // where
}

// parseMounts returns the cgroup mounts of a /proc/PID/mountinfo.
func parseMounts(b []byte) []mount {
	var out []mount
	for len(b) > 0 {
		var text []byte
		text, b = procfs.Line(b)
		head, tail, found := bytes.Cut(text, []byte(" - "))
		kind, rest := procfs.Field(tail)
		v2 := string(kind) == "cgroup2"
		if !found || !v2 && string(kind) != "cgroup" {
			continue
		}
		m := mount{v2: v2, options: string(procfs.FieldAt(rest, 1)),
			root: unescape(string(procfs.FieldAt(head, 3))), point: path.Clean(unescape(string(procfs.FieldAt(head, 4))))}
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
		line, b = procfs.Line(b)
		if len(line) > len(key) && line[len(key)] == ' ' && string(line[:len(key)]) == key {
			return procfs.Uint(procfs.FieldAt(line[len(key):], 0))
		}
	}
	return 0, false
}

// parseNumber reads a file of one number.
func parseNumber(b []byte) (uint64, bool) { return procfs.Uint(bytes.TrimSpace(b)) }

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
		line, b = procfs.Line(b)
		_, rest := procfs.Field(line)
		op, rest := procfs.Field(rest)
		n, ok := procfs.Uint(procfs.FieldAt(rest, 0))
		switch {
		case !ok:
		case string(op) == "Read":
			read, counted = procfs.Add(read, n), true
		case string(op) == "Write":
			written, counted = procfs.Add(written, n), true
		}
	}
	return read, written, counted
}

// parseIOStat sums io.stat (version 2) over devices.
func parseIOStat(b []byte) (read, written uint64) {
	for len(b) > 0 {
		var line []byte
		line, b = procfs.Line(b)
		field, rest := procfs.Field(line)
		for len(field) > 0 {
			if v, ok := bytes.CutPrefix(field, []byte("rbytes=")); ok {
				n, _ := procfs.Uint(v)
				read = procfs.Add(read, n)
			} else if v, ok := bytes.CutPrefix(field, []byte("wbytes=")); ok {
				n, _ := procfs.Uint(v)
				written = procfs.Add(written, n)
			}
			field, rest = procfs.Field(rest)
		}
	}
	return read, written
}
