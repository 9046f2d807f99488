package compliance

import "github.com/steadyfleet/steady/internal/core/fleet"

type pack struct {
	name     string
	controls []fleet.Control
}

// What the controls cite. docs/controls.md says for each what it was compared with
// and where it asks something else; a test holds both equal.
const (
	cisDocker = "CIS Docker Benchmark v1.6.0, "
	cisLinux  = "CIS Distribution Independent Linux Benchmark v2.0.0, "
	nist190   = "NIST SP 800-190, "
	nist128   = "NIST SP 800-128, "
)

// packs are sorted by name, their controls by id. A pack's controls are part of
// the release that names it: a newer version of this program changes none that
// was signed.
var packs = []pack{
	{"container-baseline", []fleet.Control{
		{ID: "container-capabilities", Title: "no capabilities are added beyond the engine's own, nor NET_RAW", Severity: "high", Source: cisDocker + "5.4",
			Expression: `container.capAdd.all(c, c.upperAscii().replace("CAP_", "") in ["AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD", "NET_BIND_SERVICE", "SETFCAP", "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT"])`},
		{ID: "container-cpu-limit", Title: "CPU is limited or weighted", Severity: "low", Source: cisDocker + "5.12",
			Expression: `container.milliCPUs > 0 || container.cpuShares > 0`},
		{ID: "container-devices", Title: "no devices of the host", Severity: "medium", Source: cisDocker + "5.18",
			Expression: `container.devices.size() == 0`},
		{ID: "container-healthcheck", Title: "a healthcheck is declared", Severity: "low", Source: cisDocker + "5.27",
			Expression: `container.healthcheck`},
		{ID: "container-host-ipc", Title: "the host's IPC namespace is not shared", Severity: "high", Source: cisDocker + "5.17",
			Expression: `container.ipc != "host"`},
		{ID: "container-host-mounts", Title: "no sensitive folders of the host are mounted", Severity: "high", Source: cisDocker + "5.6",
			Expression: `container.mounts.all(m, !(m.source in ["/", "/boot", "/dev", "/etc", "/lib", "/proc", "/sys", "/usr"] || ["/boot/", "/dev/", "/etc/", "/lib/", "/proc/", "/sys/", "/usr/"].exists(p, m.source.startsWith(p))))`},
		{ID: "container-host-network", Title: "the host's network is not shared", Severity: "high", Source: cisDocker + "5.10",
			Expression: `container.networkMode != "host"`},
		{ID: "container-host-pid", Title: "the host's process namespace is not shared", Severity: "high", Source: cisDocker + "5.16",
			Expression: `container.pid != "host"`},
		{ID: "container-host-user", Title: "the host's user namespace is not shared", Severity: "high", Source: cisDocker + "5.31",
			Expression: `container.userNamespace != "host"`},
		{ID: "container-host-uts", Title: "the host's UTS namespace is not shared", Severity: "medium", Source: cisDocker + "5.21",
			Expression: `container.uts != "host"`},
		{ID: "container-image-pinned", Title: "images are named by digest", Severity: "medium", Source: nist190 + "4.1.5",
			Expression: `container.pinned`},
		{ID: "container-memory-limit", Title: "memory is limited", Severity: "medium", Source: cisDocker + "5.11",
			Expression: `container.memory > 0`},
		{ID: "container-mount-propagation", Title: "mounts do not propagate to the host", Severity: "medium", Source: cisDocker + "5.20",
			Expression: `container.mounts.all(m, !(m.propagation in ["shared", "rshared"]))`},
		{ID: "container-no-new-privileges", Title: "processes gain no privileges", Severity: "medium", Source: cisDocker + "5.26",
			Expression: `container.securityOptions.exists(o, o in ["no-new-privileges", "no-new-privileges:true", "no-new-privileges=true"])`},
		{ID: "container-not-root", Title: "the user is not root", Severity: "medium", Source: cisDocker + "4.1",
			Expression: `container.user != "" && !(container.user.split(":")[0] in ["root", "0"])`},
		{ID: "container-pids-limit", Title: "the number of processes is limited", Severity: "medium", Source: cisDocker + "5.29",
			Expression: `container.pids > 0`},
		{ID: "container-privileged", Title: "no privileged containers", Severity: "critical", Source: cisDocker + "5.5",
			Expression: `!container.privileged`},
		{ID: "container-read-only-root", Title: "the root file system is read-only", Severity: "low", Source: cisDocker + "5.13",
			Expression: `container.readOnlyRoot`},
		{ID: "container-restart-bounded", Title: "restarts after a failure are bounded", Severity: "low", Source: cisDocker + "5.15",
			Expression: `!(container.restart in ["always", "unless-stopped"]) && (container.restart != "on-failure" || container.restartMax > 0 && container.restartMax <= 5)`},
		{ID: "container-seccomp", Title: "seccomp, AppArmor and SELinux are not turned off", Severity: "high", Source: cisDocker + "5.2, 5.3 and 5.22",
			Expression: `container.securityOptions.all(o, !(o.replace("=", ":") in ["seccomp:unconfined", "apparmor:unconfined", "systempaths:unconfined", "label:disable"]))`},
		{ID: "container-socket", Title: "the engine's socket is not mounted", Severity: "critical", Source: cisDocker + "5.32",
			Expression: `container.mounts.all(m, !(m.source in ["/", "/run", "/var", "/var/run", "/run/containerd", "/run/podman", "/run/crio", "/var/run/containerd", "/var/lib/docker"] || m.source.endsWith("/docker.sock") || m.source.endsWith("/containerd.sock") || m.source.endsWith("/podman.sock") || m.source.endsWith("/crio.sock")))`},
	}},
	{"host-baseline", []fleet.Control{
		{ID: "host-file-setid", Title: "no file is set-user-id or set-group-id", Severity: "high", Source: cisLinux + "6.1.13 and 6.1.14",
			Expression: `file.mode < 512 || (file.mode / 1024) % 4 == 0`},
		{ID: "host-file-world-writable", Title: "no file is writable by everybody", Severity: "high", Source: cisLinux + "6.1.10",
			Expression: `(file.mode / 2) % 2 == 0`},
		{ID: "host-probes", Title: "a required probe watches what runs", Severity: "medium", Source: nist128 + "3.4",
			Expression: `bundle.containers.size() + bundle.commands.size() == 0 || bundle.probes.exists(p, p.mode == "enforce")`},
	}},
}
