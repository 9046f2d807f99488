package convert_test

import (
	"fmt"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/diff"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/spec"
	"github.com/steadyfleet/steady/internal/testkit"
)

func ptr[T any](v T) *T { return &v }

type variant struct {
	name string
	set  func(s *spec.Workspace)
	// quirk marks limits that kernels lack: without baseline they may differ.
	quirk bool
	// rests is a container that the machine cannot start.
	rests bool
	// again marks settings from which an engine makes something anew at each start:
	// every run starts these alone and twice, the nightly run all.
	again bool
}

func front(s *spec.Workspace) { s.Networks = []spec.Attachment{{Network: "front"}} }

var specs = []variant{
	{name: "nothing", set: func(s *spec.Workspace) {}, again: true},
	{name: "image defaults", set: func(s *spec.Workspace) { s.Image, s.Command = "rich", nil }},
	{name: "env over the image's", set: func(s *spec.Workspace) {
		s.Image, s.Command, s.Env = "rich", nil, []spec.Env{{Name: "A", Value: "mine"}, {Name: "B", Value: "image"}, {Name: "C"}, {Name: "Q", Value: `"`}}
	}},
	{name: "env of secrets", set: func(s *spec.Workspace) {
		s.Env = []spec.Env{{Name: "DB_PASSWORD", Secret: "db"}, {Name: "PLAIN", Secret: "tls"}}
	}},
	{name: "command over the image's", set: func(s *spec.Workspace) { s.Image, s.Command = "rich", []string{"901"} }},
	{name: "entrypoint over the image's", set: func(s *spec.Workspace) {
		s.Image, s.Entrypoint, s.Command = "rich", []string{"sleep", "902"}, nil
	}},
	{name: "no entrypoint", set: func(s *spec.Workspace) { s.Image, s.NoEntry = "rich", true }},
	{name: "no command", set: func(s *spec.Workspace) { s.Image, s.Command, s.NoCommand = "rich", nil, true }, rests: true},
	{name: "both", set: func(s *spec.Workspace) { s.Entrypoint, s.Command = []string{"sleep"}, []string{"900"} }},
	{name: "process", set: func(s *spec.Workspace) {
		s.WorkingDir, s.User, s.GroupAdd, s.TTY, s.StdinOpen, s.Init, s.StopSignal, s.StopGrace = "/tmp/", "7:8", []string{"9", "3"}, true, true, ptr(false), "usr1", ptr(1500*clock.Millisecond)
	}},
	{name: "names", set: func(s *spec.Workspace) {
		s.Hostname, s.Domainname = "me", "example.test"
		s.Labels = map[string]string{"a": "", "b": "x", "of": "mine", "api_token": "t"}
	}},
	{name: "labels over the image's", set: func(s *spec.Workspace) {
		s.Image, s.Command, s.Labels = "rich", nil, map[string]string{"both": "mine", "of": "image"}
	}},
	{name: "restart always", set: func(s *spec.Workspace) { s.Restart.Policy = "always" }},
	{name: "restart on failure", set: func(s *spec.Workspace) { s.Restart = spec.Restart{Policy: "on-failure", Max: 3} }},
	{name: "restart no", set: func(s *spec.Workspace) { s.Restart.Policy = "no" }},
	{name: "restart unless stopped", set: func(s *spec.Workspace) { s.Restart.Policy = "unless-stopped" }},
	{name: "health", set: func(s *spec.Workspace) {
		s.Health = &spec.Health{Test: []string{"CMD-SHELL", "true"}, Interval: 1500 * clock.Millisecond, Timeout: clock.Second, StartPeriod: clock.Minute, Retries: 2}
	}, again: true},
	{name: "health over the image's", set: func(s *spec.Workspace) {
		s.Image, s.Command, s.Health = "rich", nil, &spec.Health{Interval: clock.Minute}
	}},
	{name: "health off", set: func(s *spec.Workspace) { s.Image, s.Command, s.Health = "rich", nil, &spec.Health{Disable: true} }},
	{name: "ports", set: func(s *spec.Workspace) {
		front(s)
		s.Ports = []spec.Port{{Port: 80, Protocol: "tcp"}, {Port: 81, Protocol: "udp", HostIP: "127.0.0.1", HostPort: 18081}, {Port: 82, Protocol: "tcp", HostPort: 18082}, {Port: 82, Protocol: "tcp", HostPort: 18083, HostIP: "127.0.0.1"}}
		s.Expose = []string{"90", "91/udp"}
	}, again: true},
	{name: "a port of a range", set: func(s *spec.Workspace) {
		front(s)
		s.Ports = []spec.Port{{Port: 84, Protocol: "tcp", HostPort: 18090, HostPortEnd: 18099}}
	}, again: true},
	{name: "a variable taken away", set: func(s *spec.Workspace) { s.Image, s.Command, s.Env = "rich", nil, []spec.Env{{Name: "A", Unset: true}} }},
	{name: "no entrypoint and the image's command", set: func(s *spec.Workspace) { s.Image, s.Command, s.NoEntry = "rich", nil, true }, rests: true},
	{name: "commands around", set: func(s *spec.Workspace) {
		s.PostStart, s.PreStop = []spec.Hook{{Command: []string{"true"}, User: "5", Env: []string{"A=1"}}}, []spec.Hook{{Command: []string{"false"}}}
	}},
	{name: "links", set: func(s *spec.Workspace) {
		front(s)
		s.Links = []spec.Link{{Target: "other", Alias: "mysql"}, {Target: "other", Alias: "other"}}
	}, again: true},
	{name: "links on the bridge", set: func(s *spec.Workspace) {
		s.NetworkMode, s.Links = "bridge", []spec.Link{{Target: "other", Alias: "mysql"}}
	}, rests: true},
	{name: "every path of the kernel", set: func(s *spec.Workspace) { s.Security.Options = []string{"systempaths=unconfined"} }},
	{name: "binds that the engine makes without what is below", set: func(s *spec.Workspace) {
		s.Mounts = []spec.Mount{{Type: spec.MountBind, Target: "/a", CreateHost: true, Recursive: "disabled"}}
	}},
	{name: "ports over the image's", set: func(s *spec.Workspace) {
		s.Image, s.Command, s.Ports = "rich", nil, []spec.Port{{Port: 70, Protocol: "tcp", HostIP: "127.0.0.1"}}
	}, again: true},
	{name: "volumes", set: func(s *spec.Workspace) {
		s.Mounts = []spec.Mount{{Type: spec.MountVolume, Source: "data", Target: "/data/"}, {Type: spec.MountVolume, Source: "logs", Target: "/logs", ReadOnly: true, NoCopy: true}, {Type: spec.MountAnonymous, Target: "/scratch"}}
	}, again: true},
	{name: "a volume over the image's", set: func(s *spec.Workspace) {
		s.Image, s.Command, s.Mounts = "rich", nil, []spec.Mount{{Type: spec.MountVolume, Source: "data", Target: "/kept"}, {Type: spec.MountAnonymous, Target: "/other"}}
	}},
	{name: "binds", set: func(s *spec.Workspace) {
		s.Mounts = []spec.Mount{{Type: spec.MountBind, Target: "/a"}, {Type: spec.MountBind, Target: "/b", ReadOnly: true, Propagation: "private", Recursive: "disabled"}, {Type: spec.MountBind, Target: "/c", Propagation: "rprivate", Recursive: "enabled"}}
	}},
	{name: "binds that the engine makes", set: func(s *spec.Workspace) {
		s.Mounts = []spec.Mount{{Type: spec.MountBind, Target: "/a", CreateHost: true}, {Type: spec.MountBind, Target: "/b", ReadOnly: true, CreateHost: true, SELinux: "z"}, {Type: spec.MountBind, Target: "/c", SELinux: "Z", Propagation: "private"}}
	}},
	{name: "tmpfs", set: func(s *spec.Workspace) {
		s.Mounts = []spec.Mount{{Type: spec.MountTmpfs, Target: "/a"}, {Type: spec.MountTmpfs, Target: "/b", Size: 1 << 20, Mode: 0o1777}}
	}},
	{name: "contents", set: func(s *spec.Workspace) {
		s.Security.ReadOnly = true
		s.Contents = []spec.Content{{Target: "/etc/tls.key", Secret: "tls", Mode: 0o400, UID: 5}, {Target: "/etc/app.conf", Blob: &spec.Blob{Digest: digest.Of([]byte("app"))}, Writable: true},
			{Target: "/etc/app.d", Blob: &spec.Blob{Digest: digest.Of([]byte("app"))}, Tree: true}}
	}},
	{name: "one network", set: front, again: true},
	{name: "three networks", set: func(s *spec.Workspace) {
		s.Networks = []spec.Attachment{{Network: "back", Aliases: []string{"db", "db2"}, IPv4: "10.77.2.50"}, {Network: "far", Priority: 5}, {Network: "front", Aliases: []string{"x", s.Name}}}
	}, again: true},
	{name: "bridge", set: func(s *spec.Workspace) { s.NetworkMode = "bridge" }},
	{name: "host network", set: func(s *spec.Workspace) { s.NetworkMode = "host" }},
	{name: "host network with a name", set: func(s *spec.Workspace) { s.NetworkMode, s.Hostname = "host", "me" }},
	{name: "no network", set: func(s *spec.Workspace) { s.NetworkMode = "none" }},
	{name: "another's network", set: func(s *spec.Workspace) { s.NetworkMode = "workspace:other" }, again: true},
	{name: "another's namespaces", set: func(s *spec.Workspace) {
		s.Namespaces.IPC, s.Namespaces.PID = "workspace:other", "workspace:other"
	}},
	{name: "host namespaces", set: func(s *spec.Workspace) {
		s.Namespaces = spec.Namespaces{IPC: "host", PID: "host", UTS: "host", User: "host", Cgroup: "private"}
	}},
	{name: "shareable ipc", set: func(s *spec.Workspace) { s.Namespaces.IPC = "shareable" }},
	{name: "dns", set: func(s *spec.Workspace) {
		front(s)
		s.DNS, s.DNSSearch, s.DNSOptions, s.ExtraHosts = []string{"10.0.0.2", "10.0.0.1"}, []string{"b.test", "a.test"}, []string{"ndots:2", "attempts:1"}, []string{"h:10.0.0.9", "g:host-gateway"}
	}},
	{name: "devices", set: func(s *spec.Workspace) {
		s.Devices = []spec.Device{{Host: "/dev/null", Container: "/dev/n", Permissions: "mr"}, {Host: "/dev/zero", Container: "/dev/zero", Permissions: "rwm"}}
		s.DeviceRules = []string{"c 1:3 mr", "a 7:* rmw"}
	}},
	{name: "gpus", set: func(s *spec.Workspace) {
		s.GPUs = []spec.GPU{{Count: -1, Capabilities: []string{"gpu"}}, {Driver: "nvidia", IDs: []string{"1", "0"}, Capabilities: []string{"utility", "gpu"}, Options: map[string]string{"a": "b"}}}
	}, rests: true},
	{name: "memory", set: func(s *spec.Workspace) { s.Limits.Memory = 64 << 20 }},
	{name: "memory and swap", set: func(s *spec.Workspace) {
		s.Limits.Memory, s.Limits.MemorySwap, s.Limits.MemoryReservation, s.Limits.Swappiness = 64<<20, 96<<20, 32<<20, ptr(int64(10))
	}, again: true},
	{name: "memory and swap without limit", set: func(s *spec.Workspace) { s.Limits.Memory, s.Limits.MemorySwap = 64<<20, -1 }},
	{name: "cpus", set: func(s *spec.Workspace) {
		s.Limits.NanoCPUs, s.Limits.CPUShares, s.Limits.CPUSet = 500_000_000, 512, "0"
	}},
	{name: "cpu quota", set: func(s *spec.Workspace) { s.Limits.CPUQuota, s.Limits.CPUPeriod = 40000, 80000 }},
	{name: "pids and oom", set: func(s *spec.Workspace) {
		s.Limits.PIDs, s.Limits.OOMScoreAdj, s.Limits.OOMKillDisable, s.Limits.Memory = ptr(int64(50)), 100, ptr(true), 64<<20
	}},
	{name: "pids without limit", set: func(s *spec.Workspace) { s.Limits.PIDs = ptr(int64(-1)) }},
	{name: "blkio", set: func(s *spec.Workspace) {
		s.Limits.BlkioWeight = 300
	}, quirk: true},
	{name: "blkio devices", set: func(s *spec.Workspace) {
		for i, what := range []string{"weight", "read_bps", "read_iops", "write_bps", "write_iops"} {
			s.Limits.BlkioDevices = append(s.Limits.BlkioDevices, spec.BlkioLimit{What: what, Path: "/dev/loop0", Rate: int64(100 + i)})
		}
	}, quirk: true, rests: true},
	{name: "cgroup parent", set: func(s *spec.Workspace) { s.Namespaces.CgroupParent = "/steady" }, rests: true},
	{name: "endpoint options", set: func(s *spec.Workspace) {
		s.Networks = []spec.Attachment{{Network: "back", DriverOpts: map[string]string{"x": "1"}}, {Network: "front", LinkLocal: []string{"169.254.9.9", "169.254.9.8"}, DriverOpts: map[string]string{"y": ""}}}
	}, again: true},
	{name: "real time", set: func(s *spec.Workspace) { s.Limits.CPURTPeriod, s.Limits.CPURTRuntime = 1000000, 10000 }, quirk: true, rests: true},
	{name: "capabilities", set: func(s *spec.Workspace) {
		s.Security.CapAdd, s.Security.CapDrop = []string{"net_admin", "CAP_SYS_TIME"}, []string{"all"}
	}},
	{name: "security", set: func(s *spec.Workspace) {
		s.Security.Options, s.Security.ReadOnly = []string{"no-new-privileges", "seccomp=unconfined"}, true
	}},
	{name: "privileged", set: func(s *spec.Workspace) { s.Security.Privileged = true }, rests: true},
	{name: "kernel", set: func(s *spec.Workspace) {
		s.Sysctls, s.ShmSize = map[string]string{"net.ipv4.ip_forward": "1"}, 1<<20
		s.Ulimits = []spec.Ulimit{{Name: "nofile", Soft: 100, Hard: 200}, {Name: "core", Soft: -1, Hard: -1}}
	}},
	{name: "default shm", set: func(s *spec.Workspace) { s.ShmSize = 64 << 20 }},
	{name: "logging", set: func(s *spec.Workspace) {
		s.Logging = &spec.Logging{Driver: "json-file", Options: map[string]string{"max-size": "1m", "max-file": "2"}}
	}},
	{name: "no logging", set: func(s *spec.Workspace) { s.Logging = &spec.Logging{Driver: "none"} }},
	{name: "runtime", set: func(s *spec.Workspace) { s.Runtime = "runc" }},
}

// together are the others that start: every run starts those of a row as one
// container, the nightly run each alone as well.
var together = [][]string{
	{"env of secrets", "both", "process", "names", "restart always", "tmpfs", "contents", "bridge", "shareable ipc", "devices", "memory", "cpus",
		"pids without limit", "capabilities", "kernel", "logging", "runtime"},
	{"restart on failure", "binds", "dns", "cpu quota", "pids and oom", "security", "default shm", "no logging"},
	{"image defaults", "env over the image's", "labels over the image's", "health over the image's", "a volume over the image's", "restart no"},
	{"command over the image's", "host network", "host namespaces", "memory and swap without limit", "restart unless stopped"},
	{"entrypoint over the image's", "health off", "host network with a name", "binds that the engine makes", "another's namespaces"},
	{"no entrypoint", "no network", "commands around", "every path of the kernel", "binds that the engine makes without what is below"},
	{"a variable taken away"},
	{"blkio"},
}

// place gives binds a folder of the engine's machine.
func (w *world) place(s *spec.Workspace) {
	for i := range s.Mounts {
		if s.Mounts[i].Type == spec.MountBind && s.Mounts[i].Source == "" {
			s.Mounts[i].Source = w.folder
		}
	}
}

var serial atomic.Int64

// workspace is a running one without anything set.
func workspace() spec.Workspace {
	return spec.Workspace{Name: fmt.Sprintf("w%d", serial.Add(1)), Image: "plain", Command: []string{"sleep", "900"}, StopSignal: ""}
}

// TestS36NothingDiffers makes, compares, starts, stops and starts containers of
// every sort of setting on a real engine: nothing ever differs.
func TestS36NothingDiffers(t *testing.T) {
	w := newWorld(t)
	byName, started := map[string]variant{}, map[string]int{}
	for _, x := range specs {
		byName[x.name] = x
		if x.again || x.rests {
			started[x.name]++
		}
	}
	t.Run("alone", func(t *testing.T) {
		for _, x := range specs {
			t.Run(strings.ReplaceAll(x.name, " ", "-"), func(t *testing.T) {
				t.Parallel()
				w.lives(t, x, !x.rests && (x.again || testkit.Nightly()))
			})
		}
	})
	t.Run("together", func(t *testing.T) {
		for _, row := range together {
			all := variant{name: strings.Join(row, ", "), set: func(s *spec.Workspace) {
				for _, name := range row {
					byName[name].set(s)
				}
			}}
			s := workspace()
			all.set(&s)
			for _, name := range row {
				started[name]++
				all.quirk = all.quirk || byName[name].quirk
				one := s
				if byName[name].set(&one); !reflect.DeepEqual(one, s) {
					t.Errorf("%s: another setting of its row replaces it", name)
				}
			}
			t.Run(strings.ReplaceAll(row[0], " ", "-"), func(t *testing.T) {
				t.Parallel()
				w.lives(t, all, true)
			})
		}
	})
	for _, x := range specs {
		if started[x.name] != 1 {
			t.Errorf("%s is in %d rows of what starts together", x.name, started[x.name])
		}
	}
}

// lives takes a container of a spec through its life and compares it at each step.
func (w *world) lives(t *testing.T, x variant, starts bool) {
	s := workspace()
	x.set(&s)
	w.place(&s)
	id := w.create(t, s)
	rec := w.record(t, s, id)
	compare := func(when string) {
		t.Helper()
		if !x.quirk {
			same(t, when+", no baseline", w.compare(t, s, id, nil))
		}
		same(t, when, w.compare(t, s, id, rec))
	}
	compare("made")
	if !starts {
		return
	}
	w.start(t, id)
	compare("started")
	w.stop(t, id)
	compare("stopped")
	if x.again || testkit.Nightly() {
		w.start(t, id)
		compare("started again")
	}
}

// TestS36EveryFieldIsSeen holds each spec against a container of another one: a
// form that leaves a field out would see no difference.
func TestS36EveryFieldIsSeen(t *testing.T) {
	w := newWorld(t)
	plain := workspace()
	id := w.create(t, plain)
	rec := w.record(t, plain, id)
	for _, x := range specs {
		s := workspace()
		s.Name = plain.Name
		x.set(&s)
		w.place(&s)
		ds := w.compare(t, s, id, rec)
		switch x.name {
		case "nothing", "restart no", "bridge", "default shm", "runtime", "pids without limit":
			same(t, x.name, ds)
		default:
			if len(ds) == 0 {
				t.Errorf("%s: no difference from a container with nothing of it", x.name)
			}
			for _, d := range ds {
				if d.Cause != diff.Declared {
					t.Errorf("%s: %s", x.name, d.Show())
				}
			}
		}
	}
}
