package spec

import (
	"cmp"
	"slices"
	"strings"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
)

// RunState is whether a workspace runs.
type RunState string

// The run states. Once runs to its end: an exit with code 0 is as desired.
const (
	Running RunState = "running" // also the empty one
	Stopped RunState = "stopped"
	Once    RunState = "once"
)

// Order says how a replacement goes.
type Order string

// Auto starts the new container first unless a fixed port, a writable volume or
// a missing healthcheck forbids it.
const (
	Auto       Order = "" // the default
	StopFirst  Order = "stop-first"
	StartFirst Order = "start-first"
)

// Workspace is a long-lived container with an identity (Name), a name on the
// engine (Title) and storage that survive a replace. Nil pointers and lists are
// what the image or the engine has; an empty list is none.
type Workspace struct {
	Name       string   `json:"name"`
	Title      string   `json:"title,omitempty" doc:"name on the engine, after the host's prefix; by default that of the resource"`
	Image      string   `json:"image" required:"true" example:"box" doc:"the name of an image resource of the host, or snapshot/NAME"`
	State      RunState `json:"state,omitempty" enum:"running,stopped,once" doc:"by default running; once runs to its end"`
	ReportOnly bool     `json:"reportOnly,omitempty" doc:"leaves outside changes alone and reports them"`
	Update     Update   `json:"update"`

	Entrypoint []string          `json:"entrypoint,omitempty"`
	Command    []string          `json:"command,omitempty" example:"[\"sh\",\"-c\",\"echo hello; exec sleep 1d\"]"`
	NoCommand  bool              `json:"noCommand,omitempty" doc:"an explicit empty command"`
	NoEntry    bool              `json:"noEntrypoint,omitempty" doc:"an explicit empty entrypoint"`
	Env        []Env             `json:"env,omitempty" example:"[{\"name\":\"GREETING\",\"value\":\"hello\"}]"` // sorted by name
	WorkingDir string            `json:"workingDir,omitempty"`
	User       string            `json:"user,omitempty"`
	GroupAdd   []string          `json:"groupAdd,omitempty"`
	Hostname   string            `json:"hostname,omitempty"`
	Domainname string            `json:"domainname,omitempty"`
	Labels     map[string]string `json:"labels,omitempty"`
	Annotation map[string]string `json:"annotations,omitempty"`
	Init       *bool             `json:"init,omitempty"`
	TTY        bool              `json:"tty,omitempty"`
	StdinOpen  bool              `json:"stdinOpen,omitempty"`
	StopSignal string            `json:"stopSignal,omitempty"`
	StopGrace  *clock.Duration   `json:"stopGrace,omitempty"`
	Restart    Restart           `json:"restart"`
	Health     *Health           `json:"health,omitempty"`
	PostStart  []Hook            `json:"postStart,omitempty" doc:"in order, after every start"`
	PreStop    []Hook            `json:"preStop,omitempty" doc:"in order, before a stop"`

	Ports       []Port       `json:"ports,omitempty"`
	Expose      []string     `json:"expose,omitempty" doc:"such as 80/tcp"`
	Mounts      []Mount      `json:"mounts,omitempty" example:"[{\"type\":\"volume\",\"source\":\"data\",\"target\":\"/data\"}]"` // sorted by target
	Contents    []Content    `json:"contents,omitempty"`
	Networks    []Attachment `json:"networks,omitempty" example:"[{\"network\":\"back\"}]"` // sorted by network
	NetworkMode string       `json:"networkMode,omitempty" doc:"bridge, host, none or workspace:NAME; empty with networks"`
	Links       []Link       `json:"links,omitempty"` // sorted by alias
	MAC         string       `json:"mac,omitempty"`
	DNS         []string     `json:"dns,omitempty"`       // in order
	DNSSearch   []string     `json:"dnsSearch,omitempty"` // in order
	DNSOptions  []string     `json:"dnsOptions,omitempty"`
	ExtraHosts  []string     `json:"extraHosts,omitempty" doc:"name:address"`
	Devices     []Device     `json:"devices,omitempty"`
	DeviceRules []string     `json:"deviceRules,omitempty"`
	GPUs        []GPU        `json:"gpus,omitempty"`
	Limits      Limits       `json:"limits"`
	Security    Security     `json:"security"`
	Namespaces  Namespaces   `json:"namespaces"`
	Logging     *Logging     `json:"logging,omitempty"`

	Runtime    string            `json:"runtime,omitempty"`
	Platform   string            `json:"platform,omitempty"`
	StorageOpt map[string]string `json:"storageOpt,omitempty"`
	Sysctls    map[string]string `json:"sysctls,omitempty"`
	Ulimits    []Ulimit          `json:"ulimits,omitempty"`
	ShmSize    int64             `json:"shmSize,omitempty" doc:"bytes"`

	DependsOn []Dependency `json:"dependsOn,omitempty"` // sorted by workspace
}

// Update says how a replacement is carried out and when it is good.
type Update struct {
	Order      Order          `json:"order,omitempty" enum:"stop-first,start-first" doc:"by default what the workspace allows"`
	Monitor    clock.Duration `json:"monitor,omitempty" doc:"how long a new container without healthcheck must run before the old one goes; 0 takes 5 s"`
	HealthWait clock.Duration `json:"healthWait,omitempty" doc:"bounds the wait for a healthcheck to pass; 0 takes what the healthcheck's own times add up to, at least 2 min"`
}

// Env is one environment variable: a value, or the name of a secret in the
// host's own store. Unset takes away the image's variable of this name.
type Env struct {
	Name   string `json:"name"`
	Value  string `json:"value,omitempty"`
	Secret string `json:"secret,omitempty"`
	Unset  bool   `json:"unset,omitempty"`
}

// Hook is a command that runs in the container beside its own process. Empty
// fields take what the container has.
type Hook struct {
	Command    []string `json:"command"`
	User       string   `json:"user,omitempty"`
	WorkingDir string   `json:"workingDir,omitempty"`
	Env        []string `json:"env,omitempty"` // NAME=value, sorted
	Privileged bool     `json:"privileged,omitempty"`
}

// Link gives this workspace alone a further name for another. Target is what the
// other is called on their network; under network mode bridge, the workspace.
type Link struct {
	Target string `json:"target"`
	Alias  string `json:"alias"`
}

// Restart is the engine's restart policy: no, always, unless-stopped or
// on-failure with at most Max tries (0: no bound).
type Restart struct {
	Policy string `json:"policy,omitempty" enum:"no,always,unless-stopped,on-failure" doc:"by default no"`
	Max    int    `json:"max,omitempty"`
}

// Health is a healthcheck; Disable turns off the image's own. Zero fields take
// what the image or the engine has.
type Health struct {
	Test          []string       `json:"test,omitempty"` // CMD or CMD-SHELL first
	Interval      clock.Duration `json:"interval,omitempty"`
	Timeout       clock.Duration `json:"timeout,omitempty"`
	StartPeriod   clock.Duration `json:"startPeriod,omitempty"`
	StartInterval clock.Duration `json:"startInterval,omitempty"` // needs engine API 1.44
	Retries       int            `json:"retries,omitempty"`
	Disable       bool           `json:"disable,omitempty"`
}

// Defaults of engines for what a healthcheck leaves out.
const (
	defaultInterval = 30 * clock.Second
	defaultTimeout  = 30 * clock.Second
	defaultRetries  = 3
)

// Patience is how long the check may take to pass after a start, by its own settings: until then the engine itself
// has not called the container unhealthy.
func (h *Health) Patience() clock.Duration {
	each := cmp.Or(h.Interval, defaultInterval) + cmp.Or(h.Timeout, defaultTimeout)
	return h.StartPeriod + clock.Duration(cmp.Or(h.Retries, defaultRetries))*each
}

// Port publishes a container's port on the host; HostPort 0 lets the engine
// choose, HostPortEnd lets it choose one from HostPort on.
type Port struct {
	HostIP      string `json:"hostIP,omitempty"`
	HostPort    int    `json:"hostPort,omitempty"`
	HostPortEnd int    `json:"hostPortEnd,omitempty" doc:"included"`
	Port        int    `json:"port"`
	Protocol    string `json:"protocol" enum:"tcp,udp,sctp"`
}

// Fixed reports whether the port of the host is one certain port.
func (p *Port) Fixed() bool { return p.HostPort != 0 && p.HostPortEnd == 0 }

// MountType is what is mounted.
type MountType string

// Anonymous is a volume without a name; it is kept over a replace like a named
// one.
const (
	MountVolume    MountType = "volume"
	MountBind      MountType = "bind"
	MountTmpfs     MountType = "tmpfs"
	MountAnonymous MountType = "anonymous"
)

// Mount is one mount. Source names a Volume of the set or is a path on the host.
type Mount struct {
	Type        MountType `json:"type"`
	Source      string    `json:"source,omitempty"`
	Target      string    `json:"target"`
	ReadOnly    bool      `json:"readOnly,omitempty"`
	NoCopy      bool      `json:"noCopy,omitempty"`
	Propagation string    `json:"propagation,omitempty"`
	// CreateHost makes a missing folder on the host for a bind.
	CreateHost bool   `json:"createHost,omitempty"`
	SELinux    string `json:"selinux,omitempty"` // z or Z
	Size       int64  `json:"size,omitempty"`    // of a tmpfs, in bytes
	Mode       uint32 `json:"mode,omitempty"`    // of a tmpfs
	// Options are further ones of a tmpfs, sorted; see TmpfsOption.
	Options   []string `json:"options,omitempty"`
	Recursive string   `json:"recursive,omitempty"` // of a bind: disabled
	// File is the digest of the file that the bundle writes at the source of a bind: the
	// container is made again with it, since one file is mounted as it was at the start.
	File digest.Digest `json:"file,omitempty"`
	// Beneath is a folder that holds the source of a bind: no link may lead on from
	// there when the container is made or started. Agents set it in the managed layer.
	Beneath string `json:"beneath,omitempty"`
}

// tmpfsOptions are those that engines take beside size, mode and ro; with = those that have a value.
var tmpfsOptions = []string{"async", "dev", "dirsync", "exec", "gid=", "mpol=", "noatime", "nodiratime", "nr_blocks=", "nr_inodes=", "relatime", "strictatime", "suid", "sync", "uid="}

// TmpfsOption reports whether an option of a tmpfs is one that engines take.
func TmpfsOption(text string) bool {
	key, value, has := strings.Cut(text, "=")
	if has {
		key += "="
	}
	return slices.Contains(tmpfsOptions, key) && has == (value != "") && !strings.ContainsAny(value, ", \t\n")
}

// Content is a file or folder put into the container: a part of the bundle, or a
// secret of the host's own store. Unless it is Writable it is mounted read-only;
// a writable one is a copy of this workspace alone, made once for each content.
type Content struct {
	Target   string `json:"target"` // absolute path
	Blob     *Blob  `json:"blob,omitempty"`
	Tree     bool   `json:"tree,omitempty"` // the blob is a tar of a folder
	Secret   string `json:"secret,omitempty"`
	UID      int    `json:"uid,omitempty"`
	GID      int    `json:"gid,omitempty"`
	Mode     uint32 `json:"mode,omitempty"` // 0: 0444, of a tree what is in it
	Writable bool   `json:"writable,omitempty"`
	// Shared names the one copy on the host that all contents of this name and blob see, and
	// Below the path in it that is mounted; empty for all of it.
	Shared string `json:"shared,omitempty"`
	Below  string `json:"below,omitempty"`
}

// Attachment joins a workspace to a network under its own name and Aliases.
type Attachment struct {
	Network    string            `json:"network"`
	Aliases    []string          `json:"aliases,omitempty"`
	IPv4       string            `json:"ipv4,omitempty"`
	IPv6       string            `json:"ipv6,omitempty"`
	LinkLocal  []string          `json:"linkLocal,omitempty"`
	MAC        string            `json:"mac,omitempty"`
	DriverOpts map[string]string `json:"driverOpts,omitempty"`
	Priority   int               `json:"priority,omitempty"` // the highest is connected first
	// GatewayPriority is the highest for the network of the default gateway. It
	// needs engine API 1.48.
	GatewayPriority int `json:"gatewayPriority,omitempty"`
}

// Device is a device of the host.
type Device struct {
	Host        string `json:"host"`
	Container   string `json:"container"`
	Permissions string `json:"permissions"` // of r, w and m
}

// GPU requests devices from a driver of the engine.
type GPU struct {
	Driver       string            `json:"driver,omitempty"`
	Count        int               `json:"count,omitempty"` // -1: all
	IDs          []string          `json:"ids,omitempty"`
	Capabilities []string          `json:"capabilities"`
	Options      map[string]string `json:"options,omitempty"`
}

// Limits bounds resources; zero and nil leave the engine's default.
type Limits struct {
	NanoCPUs          int64        `json:"nanoCPUs,omitempty" doc:"a CPU is 1000000000"`
	CPUShares         int64        `json:"cpuShares,omitempty"`
	CPUPeriod         int64        `json:"cpuPeriod,omitempty" doc:"µs"`
	CPUQuota          int64        `json:"cpuQuota,omitempty" doc:"µs"`
	CPURTPeriod       int64        `json:"cpuRTPeriod,omitempty"`
	CPURTRuntime      int64        `json:"cpuRTRuntime,omitempty"`
	CPUSet            string       `json:"cpuSet,omitempty"`
	CPUMems           string       `json:"cpuMems,omitempty"`
	CPUCount          int64        `json:"cpuCount,omitempty"`
	CPUPerMille       int64        `json:"cpuPerMille,omitempty"`
	Memory            int64        `json:"memory,omitempty" doc:"bytes"`
	MemoryReservation int64        `json:"memoryReservation,omitempty" doc:"bytes"`
	MemorySwap        int64        `json:"memorySwap,omitempty" doc:"bytes of memory and swap; -1: no limit"`
	Swappiness        *int64       `json:"swappiness,omitempty"`
	OOMKillDisable    *bool        `json:"oomKillDisable,omitempty"`
	OOMScoreAdj       int          `json:"oomScoreAdj,omitempty"`
	PIDs              *int64       `json:"pids,omitempty" doc:"-1: no limit"`
	BlkioWeight       int          `json:"blkioWeight,omitempty"`
	BlkioDevices      []BlkioLimit `json:"blkioDevices,omitempty"`
}

// BlkioLimit is one limit of one block device.
type BlkioLimit struct {
	What string `json:"what"` // weight, read_bps, read_iops, write_bps or write_iops
	Path string `json:"path"`
	Rate int64  `json:"rate"`
}

// Security is what a container may do.
type Security struct {
	Privileged bool     `json:"privileged,omitempty"`
	CapAdd     []string `json:"capAdd,omitempty"`
	CapDrop    []string `json:"capDrop,omitempty"`
	Options    []string `json:"options,omitempty"`
	ReadOnly   bool     `json:"readOnlyRoot,omitempty"`
	Credential string   `json:"credentialSpec,omitempty"`
}

// Namespaces are the engine's modes; "workspace:NAME" shares another's.
type Namespaces struct {
	IPC          string `json:"ipc,omitempty"`
	PID          string `json:"pid,omitempty"`
	UTS          string `json:"uts,omitempty"`
	User         string `json:"user,omitempty"`
	Cgroup       string `json:"cgroup,omitempty"` // host or private
	CgroupParent string `json:"cgroupParent,omitempty"`
	Isolation    string `json:"isolation,omitempty"`
}

// Logging is the engine's log driver.
type Logging struct {
	Driver  string            `json:"driver,omitempty"`
	Options map[string]string `json:"options,omitempty"`
}

// Ulimit is one limit of the kernel for the container's processes.
type Ulimit struct {
	Name string `json:"name"`
	Soft int64  `json:"soft"`
	Hard int64  `json:"hard"`
}

// Condition is what a dependency waits for.
type Condition string

// The conditions.
const (
	Started   Condition = "started"
	Healthy   Condition = "healthy"
	Completed Condition = "completed" // ended with exit code 0
)

// Dependency makes a workspace wait for another at deployment. Restart starts
// this one again when the other was replaced. One that is not Required is waited
// for only while it has not failed.
type Dependency struct {
	Workspace string    `json:"workspace"`
	Condition Condition `json:"condition"`
	Restart   bool      `json:"restart,omitempty"`
	Required  bool      `json:"required"`
}
