package dockertest

// This file makes up workspaces for property tests: any of what an engine
// of API 1.41 can create and start.

import (
	"fmt"
	"slices"
	"strings"

	"pgregory.net/rapid"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/spec"
)

// Names are what a workspace may name.
type Names struct {
	Images   []string // each runs `sleep 900` or has it as default when Command is nil
	Networks []string
	Volumes  []string
	Secrets  []string // for the environment
}

// Workspace makes up a workspace of a name. It publishes only ports that the
// engine chooses.
func Workspace(name string, n Names) *rapid.Generator[spec.Workspace] {
	return rapid.Custom(func(t *rapid.T) spec.Workspace {
		w := spec.Workspace{Name: name, Image: rapid.SampledFrom(n.Images).Draw(t, "image"), Command: []string{"sleep", "900"}}
		process(t, &w, n)
		network(t, &w, n)
		storage(t, &w, n)
		limits(t, &w)
		security(t, &w)
		return w
	})
}

func maybe(t *rapid.T, what string, do func()) {
	if rapid.IntRange(0, 3).Draw(t, what) == 0 {
		do()
	}
}

// some draws a sorted set.
func some(t *rapid.T, what string, from ...string) []string {
	var out []string
	for _, v := range from {
		if rapid.Bool().Draw(t, what+" "+v) {
			out = append(out, v)
		}
	}
	slices.Sort(out)
	return out
}

func one[T any](t *rapid.T, what string, from ...T) T { return rapid.SampledFrom(from).Draw(t, what) }

func table(t *rapid.T, what string, keys ...string) map[string]string {
	out := map[string]string{}
	for _, k := range some(t, what, keys...) {
		out[k] = one(t, what+" of "+k, "", "1", "two words", `"`)
	}
	return out
}

func process(t *rapid.T, w *spec.Workspace, n Names) {
	for _, k := range some(t, "env", "A", "B", "TOKEN", "Z") {
		e := spec.Env{Name: k, Value: one(t, "value of "+k, "", "1", "image", "a=b")}
		if len(n.Secrets) > 0 && rapid.Bool().Draw(t, k+" is secret") {
			e = spec.Env{Name: k, Secret: rapid.SampledFrom(n.Secrets).Draw(t, "secret")}
		}
		w.Env = append(w.Env, e)
	}
	maybe(t, "labels", func() { w.Labels = table(t, "label", "a", "of", "x.y") })
	maybe(t, "workdir", func() { w.WorkingDir = one(t, "folder", "/tmp", "/", "/tmp/") })
	maybe(t, "user", func() { w.User = one(t, "user", "0", "7", "7:8") })
	maybe(t, "hostname", func() { w.Hostname = one(t, "host name", "a", "b.test") })
	maybe(t, "groups", func() { w.GroupAdd = some(t, "group", "3", "9", "20") })
	maybe(t, "tty", func() { w.TTY, w.StdinOpen = true, rapid.Bool().Draw(t, "stdin") })
	maybe(t, "init", func() { v := false; w.Init = &v })
	maybe(t, "signal", func() { w.StopSignal = one(t, "stop signal", "KILL", "SIGTERM", "9") })
	maybe(t, "grace", func() {
		d := clock.Duration(rapid.IntRange(0, 3000).Draw(t, "stop grace"))
		w.StopGrace = &d
	})
	w.Restart = one(t, "restart", spec.Restart{}, spec.Restart{Policy: "no"}, spec.Restart{Policy: "always"},
		spec.Restart{Policy: "unless-stopped"}, spec.Restart{Policy: "on-failure"}, spec.Restart{Policy: "on-failure", Max: 4})
	maybe(t, "health", func() {
		w.Health = one(t, "healthcheck", &spec.Health{Disable: true},
			&spec.Health{Test: []string{"CMD", "true"}, Interval: 90 * clock.Second, Retries: 2},
			&spec.Health{Test: []string{"CMD-SHELL", "true && true"}, Interval: clock.Minute, Timeout: 1500, StartPeriod: clock.Second})
	})
}

func network(t *rapid.T, w *spec.Workspace, n Names) {
	switch one(t, "network", "networks", "networks", "networks", "bridge", "none", "host") {
	case "bridge":
		w.NetworkMode = one(t, "said", "", "bridge")
	case "none":
		w.NetworkMode = "none"
	case "host":
		w.NetworkMode = "host"
		return
	default:
		for _, name := range some(t, "joined", n.Networks...) {
			w.Networks = append(w.Networks, spec.Attachment{Network: name, Aliases: some(t, "alias", "db", "web", w.Name),
				Priority: rapid.IntRange(0, 2).Draw(t, "priority")})
		}
		maybe(t, "ports", func() {
			for _, p := range some(t, "port", "80/tcp", "80/udp", "81/tcp") {
				var port spec.Port
				_, _ = fmt.Sscanf(strings.Replace(p, "/", " ", 1), "%d %s", &port.Port, &port.Protocol)
				port.HostIP = one(t, "address", "", "127.0.0.1")
				w.Ports = append(w.Ports, port)
			}
		})
	}
	maybe(t, "expose", func() { w.Expose = some(t, "exposed", "90/tcp", "91/udp") })
	maybe(t, "dns", func() {
		w.DNS, w.DNSSearch, w.DNSOptions = some(t, "server", "10.0.0.1", "10.0.0.2"), some(t, "search", "a.test", "b.test"), some(t, "option", "attempts:1", "ndots:2")
	})
	maybe(t, "hosts", func() { w.ExtraHosts = some(t, "host", "a:10.0.0.1", "b:10.0.0.2") })
}

func storage(t *rapid.T, w *spec.Workspace, n Names) {
	for _, v := range some(t, "mounted", n.Volumes...) {
		w.Mounts = append(w.Mounts, spec.Mount{Type: spec.MountVolume, Source: v, Target: "/mnt/" + v,
			ReadOnly: rapid.Bool().Draw(t, "read-only"), NoCopy: rapid.Bool().Draw(t, "no copy")})
	}
	maybe(t, "anonymous", func() {
		w.Mounts = append(w.Mounts, spec.Mount{Type: spec.MountAnonymous, Target: "/scratch"})
	})
	maybe(t, "tmpfs", func() {
		w.Mounts = append(w.Mounts, spec.Mount{Type: spec.MountTmpfs, Target: "/volatile", Size: one[int64](t, "size", 0, 1<<20), Mode: one[uint32](t, "mode", 0, 0o700)})
	})
	slices.SortFunc(w.Mounts, func(a, b spec.Mount) int { return strings.Compare(a.Target, b.Target) })
	maybe(t, "device", func() {
		w.Devices = []spec.Device{{Host: "/dev/null", Container: one(t, "device", "/dev/null", "/dev/n"), Permissions: one(t, "permissions", "r", "rw", "rwm")}}
	})
	maybe(t, "shm", func() { w.ShmSize = one[int64](t, "shm size", 1<<20, 64<<20) })
}

func limits(t *rapid.T, w *spec.Workspace) {
	l := &w.Limits
	maybe(t, "memory", func() {
		l.Memory = one[int64](t, "bound of memory", 32<<20, 64<<20)
		l.MemorySwap = one[int64](t, "bound of swap", 0, -1, 128<<20)
		l.MemoryReservation = one[int64](t, "reservation", 0, 16<<20)
	})
	switch one(t, "cpu", "none", "none", "cpus", "quota") {
	case "cpus":
		l.NanoCPUs = one[int64](t, "cpus", 250_000_000, 1_000_000_000)
	case "quota":
		l.CPUQuota, l.CPUPeriod = 50_000, one[int64](t, "period", 50_000, 100_000)
	}
	maybe(t, "shares", func() { l.CPUShares = one[int64](t, "cpu shares", 100, 2048) })
	maybe(t, "pids", func() { v := one[int64](t, "bound of pids", -1, 60); l.PIDs = &v })
	maybe(t, "oom", func() { l.OOMScoreAdj = 200 })
	maybe(t, "ulimit", func() { w.Ulimits = []spec.Ulimit{{Name: "nofile", Soft: 100, Hard: 200}} })
}

func security(t *rapid.T, w *spec.Workspace) {
	maybe(t, "capabilities", func() {
		w.Security.CapAdd, w.Security.CapDrop = some(t, "added", "CAP_CHOWN", "NET_RAW"), some(t, "dropped", "CAP_KILL", "mknod")
	})
	maybe(t, "privileges", func() { w.Security.Options = []string{"no-new-privileges:true"} })
	maybe(t, "root", func() { w.Security.ReadOnly = true })
	maybe(t, "logging", func() {
		w.Logging = &spec.Logging{Driver: one(t, "log driver", "json-file", "none")}
		if w.Logging.Driver == "json-file" && rapid.Bool().Draw(t, "log options") {
			w.Logging.Options = map[string]string{"max-size": "1m"}
		}
	})
}
