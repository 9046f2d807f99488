package diff

import (
	"cmp"
	"strconv"
	"strings"
)

// WorkspaceRules are those of workspaces on one engine.
type WorkspaceRules struct {
	// API is the version agreed with the engine, such as 1.41.
	API string
	// Runtime, LogDriver and Cgroup are the engine's defaults as it tells them;
	// empty: runc, json-file and none known.
	Runtime, LogDriver, Cgroup string
}

// AtLeast reports whether an API version such as 1.41 is at least 1.minor. An
// unreadable version is not.
func AtLeast(api string, minor int) bool {
	major, rest, _ := strings.Cut(api, ".")
	a, err := strconv.Atoi(major)
	if err != nil {
		return false
	}
	b, err := strconv.Atoi(rest)
	return err == nil && (a > 1 || a == 1 && b >= minor)
}

// needs are fields that an engine below the API version drops without a word.
var needs = []struct {
	field string
	minor int
}{
	{"health/start-interval", 44},
	{"annotation/", 43},
}

// Class implements Rules.
func (r WorkspaceRules) Class(field, want, seen string) (Class, string) {
	if why := r.Lacks(field); why != "" && want != "" {
		return Blocked, why
	}
	first, _, _ := strings.Cut(field, "/")
	switch first {
	case "name":
		return InPlace, "the container is renamed"
	case "restart":
		return InPlace, "the engine changes the restart policy of a container"
	case "network":
		return r.network(field, want, seen)
	case "limit":
		return limit(field, want, seen)
	case "image":
		return Replace, "a container runs from the image that it was made from"
	}
	return Replace, "the engine sets this only when it makes a container"
}

// Lacks says why the engine cannot have the field, or nothing.
func (r WorkspaceRules) Lacks(field string) string {
	minor := 0
	for _, n := range needs {
		if field == n.field || strings.HasSuffix(n.field, "/") && strings.HasPrefix(field, n.field) {
			minor = n.minor
		}
	}
	if strings.HasPrefix(field, "network/") && strings.HasSuffix(field, "/mac") {
		minor = 44
	}
	if strings.HasPrefix(field, "network/") && strings.HasSuffix(field, "/gateway-priority") {
		minor = 48
	}
	if minor == 0 || AtLeast(r.API, minor) {
		return ""
	}
	return "needs an engine with API 1." + strconv.Itoa(minor) + ", and this one has " + r.API +
		": newer engines have it, or leave the field out"
}

func (r WorkspaceRules) network(field, want, seen string) (Class, string) {
	detail := strings.Count(field, "/") > 1
	switch {
	case detail:
		return InPlace, "the container is disconnected and connected again"
	case seen == "":
		return InPlace, "the container is connected"
	case want == "":
		return InPlace, "the container is disconnected"
	}
	return InPlace, "the network of this name is another one now: the container is connected to it"
}

// live are the limits that the engine changes while a container runs.
var live = map[string]bool{
	"limit/memory": true, "limit/memory-swap": true, "limit/memory-reservation": true,
	"limit/cpus": true, "limit/cpu-shares": true, "limit/cpu-period": true, "limit/cpu-quota": true,
	"limit/cpuset": true, "limit/cpuset-mems": true, "limit/pids": true, "limit/blkio-weight": true,
}

func limit(field, want, _ string) (Class, string) {
	switch {
	case !live[field]:
		return Replace, "the engine sets this limit only when it makes a container"
	case want == "" && field == "limit/pids":
		return InPlace, "the engine takes this limit away"
	case want == "":
		return Replace, "the engine takes no limit away from a container: it reads 0 as no change"
	}
	return InPlace, "the engine changes the limit"
}

// filled are fields that engines fill by themselves when they are not asked for.
var filled = map[string]bool{
	"ipc": true, "cgroupns": true, "runtime": true, "shm-size": true, "hostname": true, "domainname": true,
	"log": true, "security-opt": true, "ulimit": true, "stop-signal": true, "stop-grace": true, "init": true,
	"isolation": true, "expose": true, "anonymous": true, "userns": true, "annotation": true, "storage-opt": true, "propagation": true,
}

// OwnsExtra implements Rules.
func (r WorkspaceRules) OwnsExtra(field string) bool {
	first, _, _ := strings.Cut(field, "/")
	return !filled[first]
}

// fixed are defaults that are the same on every engine.
var fixed = map[string]string{
	"ipc": "private", "shm-size": "67108864", "stop-signal": "SIGTERM", "stop-grace": "10s", "workdir": "/",
	"health/interval": "30s", "health/timeout": "30s", "health/retries": "3", "limit/cpu-period": "100000",
}

// Default implements Rules.
func (r WorkspaceRules) Default(field string) string {
	switch field {
	case "runtime":
		return cmp.Or(r.Runtime, "runc")
	case "log/driver":
		return cmp.Or(r.LogDriver, "json-file")
	case "cgroupns":
		return r.Cgroup
	}
	return fixed[field]
}

// NetworkRules are those of networks. Nothing of a network can be changed: the
// reconciler replaces it, which needs every container off it meanwhile.
type NetworkRules struct{}

// Class implements Rules.
func (NetworkRules) Class(string, string, string) (Class, string) {
	return Replace, "the engine changes nothing of a network: it is made again, and containers are connected again"
}

// OwnsExtra implements Rules: engines fill in address pools and options.
func (NetworkRules) OwnsExtra(string) bool { return false }

// Default implements Rules.
func (NetworkRules) Default(string) string { return "" }

// VolumeRules are those of volumes. A volume is never made again for a changed
// field, because that loses its data.
type VolumeRules struct{}

// Class implements Rules.
func (VolumeRules) Class(field, _, _ string) (Class, string) {
	if strings.HasPrefix(field, "label/") {
		return Blocked, "the engine changes no label of a volume: take the label back, or give a new title, which makes a second volume, and move the data"
	}
	return Blocked, "a volume cannot be changed and keeps its data: take the change back, or give a new title, which makes a second volume, and move the data"
}

// OwnsExtra implements Rules.
func (VolumeRules) OwnsExtra(string) bool { return false }

// Default implements Rules.
func (VolumeRules) Default(string) string { return "" }
