package spec

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/steadyfleet/steady/internal/core/clock"
)

func plain() *Workspace {
	return &Workspace{Name: "web", Image: "app", Security: Security{CapAdd: []string{"NET_RAW"}, Options: []string{"no-new-privileges"}}}
}

func pids(n int64) *int64 { return &n }

func yes() *bool { t := true; return &t }

// Check checks one resource by itself.
func (b *Bounds) Check(kind string, r Resource) []Problem {
	var out []Problem
	b.check(Checker{out: &out}, kind, r)
	return out
}

// danger is what a workspace could do to its host, and the bounds that allow it.
var danger = []struct {
	name   string
	do     func(w *Workspace)
	bounds Bounds
}{
	{"privileged", func(w *Workspace) { w.Security.Privileged = true }, Bounds{Privileged: true}},
	{"capability", func(w *Workspace) { w.Security.CapAdd = append(w.Security.CapAdd, "sys_admin") }, Bounds{Privileged: true}},
	{"all capabilities", func(w *Workspace) { w.Security.CapAdd = append(w.Security.CapAdd, "CAP_ALL") }, Bounds{Privileged: true}},
	{"no seccomp", func(w *Workspace) { w.Security.Options = append(w.Security.Options, "seccomp=unconfined") }, Bounds{Privileged: true}},
	{"no apparmor", func(w *Workspace) { w.Security.Options = append(w.Security.Options, "apparmor:unconfined") }, Bounds{Privileged: true}},
	{"no masks", func(w *Workspace) {
		w.Security.Options = append(w.Security.Options, "systempaths=unconfined")
	}, Bounds{Privileged: true}},
	{"credentials", func(w *Workspace) { w.Security.Credential = "file://x" }, Bounds{Privileged: true}},
	{"sysctl", func(w *Workspace) { w.Sysctls = map[string]string{"kernel.shmmax": "1"} }, Bounds{Privileged: true}},
	{"annotation", func(w *Workspace) { w.Annotation = map[string]string{"run.oci.hooks": "x"} }, Bounds{Privileged: true}},
	{"runtime", func(w *Workspace) { w.Runtime = "kata" }, Bounds{Privileged: true}},
	{"never killed", func(w *Workspace) { w.Limits.OOMKillDisable = yes() }, Bounds{Privileged: true}},
	{"killed last", func(w *Workspace) { w.Limits.OOMScoreAdj = -1 }, Bounds{Privileged: true}},
	{"real time", func(w *Workspace) { w.Limits.CPURTRuntime = 1000 }, Bounds{Privileged: true}},
	{"real time by a limit", func(w *Workspace) { w.Ulimits = []Ulimit{{Name: "rtprio", Soft: 99, Hard: 99}} }, Bounds{Privileged: true}},
	{"nice by a limit", func(w *Workspace) { w.Ulimits = []Ulimit{{Name: "nice", Soft: 40, Hard: 40}} }, Bounds{Privileged: true}},
	{"all files", func(w *Workspace) { w.Ulimits = []Ulimit{{Name: "nofile", Soft: -1, Hard: -1}} }, Bounds{Privileged: true}},
	{"shares", func(w *Workspace) { w.Limits.CPUShares = 262144 }, Bounds{Privileged: true}},
	{"I/O weight", func(w *Workspace) { w.Limits.BlkioWeight = 1000 }, Bounds{Privileged: true}},
	{"endpoint sysctl", func(w *Workspace) {
		w.Networks = append(w.Networks, Attachment{Network: "a", DriverOpts: map[string]string{"com.docker.network.endpoint.sysctls": "x"}})
	}, Bounds{Privileged: true}},
	{"host network", func(w *Workspace) { w.NetworkMode = "host" }, Bounds{HostNamespaces: true}},
	{"host pid", func(w *Workspace) { w.Namespaces.PID = "host" }, Bounds{HostNamespaces: true}},
	{"host ipc", func(w *Workspace) { w.Namespaces.IPC = "host" }, Bounds{HostNamespaces: true}},
	{"host uts", func(w *Workspace) { w.Namespaces.UTS = "host" }, Bounds{HostNamespaces: true}},
	{"host users", func(w *Workspace) { w.Namespaces.User = "host" }, Bounds{HostNamespaces: true}},
	{"host cgroup", func(w *Workspace) { w.Namespaces.Cgroup = "host" }, Bounds{HostNamespaces: true}},
	{"cgroup parent", func(w *Workspace) { w.Namespaces.CgroupParent = "/" }, Bounds{HostNamespaces: true}},
	{"root", func(w *Workspace) {
		w.Mounts = append(w.Mounts, Mount{Type: MountBind, Source: "/", Target: "/host"})
	}, Bounds{HostMounts: []string{"/"}, Privileged: true}},
	{"engine", func(w *Workspace) {
		w.Mounts = append(w.Mounts, Mount{Type: MountBind, Source: "/var/run/docker.sock", Target: "/s"})
	}, Bounds{HostMounts: []string{"/var/run"}, Privileged: true}},
	{"folder", func(w *Workspace) {
		w.Mounts = append(w.Mounts, Mount{Type: MountBind, Source: "/srv/data/a", Target: "/d"})
	}, Bounds{HostMounts: []string{"/srv/data/"}}},
	{"device", func(w *Workspace) { w.Devices = append(w.Devices, Device{Host: "/dev/sda"}) }, Bounds{Devices: true}},
	{"device rule", func(w *Workspace) { w.DeviceRules = append(w.DeviceRules, "a *:* rwm") }, Bounds{Devices: true}},
	{"gpu", func(w *Workspace) { w.GPUs = append(w.GPUs, GPU{Count: -1}) }, Bounds{Devices: true}},
	{"privileged command", func(w *Workspace) {
		w.PreStop = append(w.PreStop, Hook{Command: []string{"mount"}, Privileged: true})
	}, Bounds{Privileged: true}},
	{"port", func(w *Workspace) { w.Ports = append(w.Ports, Port{HostPort: 8080, Port: 80}) }, Bounds{Ports: &PortRange{8000, 8099}}},
	{"secret variable", func(w *Workspace) { w.Env = append(w.Env, Env{Name: "A", Secret: "root"}) }, Bounds{Secrets: []string{"root"}}},
	{"secret file", func(w *Workspace) {
		w.Contents = append(w.Contents, Content{Target: "/s", Secret: "root"})
	}, Bounds{Secrets: []string{"root"}}},
}

// never is not allowed by any bounds.
var never = map[string]func(w *Workspace){
	"foreign network": func(w *Workspace) { w.NetworkMode = "container:db" },
	"path namespace":  func(w *Workspace) { w.NetworkMode = "ns:/proc/1/ns/net" },
	"foreign pid":     func(w *Workspace) { w.Namespaces.PID = "container:db" },
	"shared mounts": func(w *Workspace) {
		w.Mounts = []Mount{{Type: MountBind, Source: "/srv/a", Target: "/a", Propagation: "rshared"}}
	},
	"dots": func(w *Workspace) {
		w.Mounts = []Mount{{Type: MountBind, Source: "/srv/../etc", Target: "/a"}}
	},
	"sibling": func(w *Workspace) {
		w.Mounts = []Mount{{Type: MountBind, Source: "/srvx", Target: "/a"}}
	},
	"unknown mount": func(w *Workspace) { w.Mounts = []Mount{{Type: "npipe", Source: "x", Target: "/a"}} },
	"port outside":  func(w *Workspace) { w.Ports = []Port{{HostPort: 22, Port: 22}} },
	"range of ports": func(w *Workspace) {
		w.Ports = []Port{{HostPort: 8090, HostPortEnd: 9000, Port: 22}}
	},
	"any port":         func(w *Workspace) { w.Ports = []Port{{Port: 22}} },
	"logs sent away":   func(w *Workspace) { w.Logging = &Logging{Driver: "syslog"} },
	"secret of others": func(w *Workspace) { w.Env = []Env{{Name: "A", Secret: "other"}} },
}

// What Check passes grants nothing dangerous: any mix of dangers is found, under
// bounds that allow some of them.
func TestBoundsFindEveryDanger(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w, b, found := plain(), Bounds{Kinds: Kinds}, 0
		for _, d := range danger {
			switch rapid.SampledFrom([]string{"no", "no", "no", "forbidden"}).Draw(t, d.name) {
			case "forbidden":
				d.do(w)
				found++
			}
		}
		if got := len(b.Check(KindWorkspace, w)); (got == 0) != (found == 0) {
			t.Fatalf("%d problems for %d dangers in %+v", got, found, *w)
		}
	})
}

func TestBoundsOneByOne(t *testing.T) {
	none := Bounds{Kinds: Kinds}
	if ps := none.Check(KindWorkspace, plain()); len(ps) > 0 {
		t.Fatalf("a plain workspace: %v", ps)
	}
	for _, d := range danger {
		w := plain()
		d.do(w)
		if len(none.Check(KindWorkspace, w)) == 0 {
			t.Errorf("%s is allowed by nothing", d.name)
		}
		d.bounds.Kinds = Kinds
		if ps := d.bounds.Check(KindWorkspace, w); len(ps) > 0 {
			t.Errorf("%s under the bounds for it: %v", d.name, ps)
		}
	}
	all := Bounds{Kinds: Kinds, Images: []string{"*"}, Privileged: true, HostNamespaces: true, Devices: true, HostMounts: []string{"/srv"}, Ports: &PortRange{8000, 8099}, Secrets: []string{"root"}}
	for name, do := range never {
		w := plain()
		do(w)
		if len(all.Check(KindWorkspace, w)) == 0 {
			t.Errorf("%s is allowed", name)
		}
	}
}

func TestBoundsOfTheOtherKinds(t *testing.T) {
	none := Bounds{Kinds: Kinds, Images: []string{"registry.example/team", "nginx"}, HostMounts: []string{"/srv", "/srv/inner"}, Subnets: []string{"10.20.0.0/16"}, MaxMemory: 1 << 30, MaxNanoCPUs: 2e9,
		Routes: &RouteBounds{Hosts: []string{"app.example", "*.lab.example"}, Certificates: []string{"lab"}}}
	build := func(text string) *Image { return &Image{Build: &Build{Inline: text}} }
	for name, c := range map[string]struct {
		kind string
		spec Resource
		ok   bool
	}{
		"network":              {KindNetwork, &Network{Name: "a", Driver: "bridge", Options: map[string]string{"com.docker.network.driver.mtu": "1400"}}, true},
		"external network":     {KindNetwork, &Network{External: "company"}, false},
		"macvlan":              {KindNetwork, &Network{Driver: "macvlan"}, false},
		"bridge of the host":   {KindNetwork, &Network{Options: map[string]string{"com.docker.network.bridge.name": "docker0"}}, false},
		"address driver":       {KindNetwork, &Network{IPAMDriver: "dhcp"}, false},
		"volume":               {KindVolume, &Volume{Name: "a", Driver: "local"}, true},
		"tmpfs volume":         {KindVolume, &Volume{Options: map[string]string{"type": "tmpfs", "device": "tmpfs", "o": "size=1m"}}, true},
		"external volume":      {KindVolume, &Volume{External: "data"}, false},
		"plugin volume":        {KindVolume, &Volume{Driver: "rexray"}, false},
		"bind volume":          {KindVolume, &Volume{Options: map[string]string{"type": "none", "o": "bind", "device": "/"}}, false},
		"bind without type":    {KindVolume, &Volume{Options: map[string]string{"o": "bind", "device": "/etc"}}, false},
		"bind named":           {KindVolume, &Volume{Options: map[string]string{"type": "none", "o": "bind", "device": "/srv"}}, true},
		"bind below":           {KindVolume, &Volume{Options: map[string]string{"type": "none", "o": "bind", "device": "/srv/a"}}, false},
		"bind below another":   {KindVolume, &Volume{Options: map[string]string{"type": "none", "o": "bind", "device": "/srv/inner"}}, false},
		"tmpfs of a folder":    {KindVolume, &Volume{Options: map[string]string{"type": "tmpfs", "device": "tmpfs", "o": "size=1m,bind"}}, false},
		"subnet":               {KindNetwork, &Network{Pools: []Pool{{Subnet: "10.20.4.0/24"}}}, true},
		"wide subnet":          {KindNetwork, &Network{Pools: []Pool{{Subnet: "0.0.0.0/1"}}}, false},
		"wider subnet":         {KindNetwork, &Network{Pools: []Pool{{Subnet: "10.0.0.0/8"}}}, false},
		"subnet of others":     {KindNetwork, &Network{Pools: []Pool{{Subnet: "10.20.4.0/24"}, {Subnet: "8.8.8.0/24", Gateway: "8.8.8.8"}}}, false},
		"gateway inside":       {KindNetwork, &Network{Pools: []Pool{{Subnet: "10.20.4.0/24", Gateway: "10.20.4.1", Range: "10.20.4.128/25", Aux: map[string]string{"a": "10.20.4.2"}}}}, true},
		"gateway elsewhere":    {KindNetwork, &Network{Pools: []Pool{{Subnet: "10.20.4.0/24", Gateway: "10.20.5.1"}}}, false},
		"gateway of IPv6":      {KindNetwork, &Network{Pools: []Pool{{Subnet: "10.20.4.0/24", Gateway: "::ffff:10.20.4.1"}}}, false},
		"range elsewhere":      {KindNetwork, &Network{Pools: []Pool{{Subnet: "10.20.4.0/24", Range: "192.168.0.0/25"}}}, false},
		"range that is wider":  {KindNetwork, &Network{Pools: []Pool{{Subnet: "10.20.4.0/24", Range: "10.20.4.0/16"}}}, false},
		"aux elsewhere":        {KindNetwork, &Network{Pools: []Pool{{Subnet: "10.20.4.0/24", Aux: map[string]string{"a": "8.8.8.8"}}}}, false},
		"aux that is none":     {KindNetwork, &Network{Pools: []Pool{{Subnet: "10.20.4.0/24", Aux: map[string]string{"a": "host"}}}}, false},
		"subnet of the engine": {KindNetwork, &Network{Pools: []Pool{{}}}, false},
		"slash frontend":       {KindImage, build("// syntax=evil/frontend\nFROM nginx"), false},
		"JSON frontend":        {KindImage, build("\n{\"syntax\": \"evil/frontend\"}\nFROM nginx"), false},
		"argument frontend":    {KindImage, &Image{Build: &Build{Inline: "FROM nginx", Args: map[string]string{"BUILDKIT_SYNTAX": "evil"}}}, false},
		"long build":           {KindImage, &Image{Build: &Build{Inline: "FROM nginx", Timeout: 9e15}}, false},
		"large build":          {KindImage, &Image{Build: &Build{Inline: "FROM nginx", Memory: 1 << 40}}, false},
		"fast build":           {KindImage, &Image{Build: &Build{Inline: "FROM nginx", NanoCPUs: 1 << 40}}, false},
		"build without limits": {KindImage, &Image{Build: &Build{Inline: "FROM nginx", Memory: -1}}, false},
		"route elsewhere":      {KindRoute, &Route{Workspace: "a", Host: "bank.example"}, false},
		"route below":          {KindRoute, &Route{Workspace: "a", Host: "x.lab.example", TLS: "lab"}, true},
		"route deep below":     {KindRoute, &Route{Workspace: "a", Host: "y.x.lab.example"}, false},
		"route for all":        {KindRoute, &Route{Workspace: "a"}, false},
		"other certificate":    {KindRoute, &Route{Workspace: "a", Host: "app.example", TLS: "other"}, false},
		"climbing certificate": {KindRoute, &Route{Workspace: "a", Host: "app.example", TLS: "../../x"}, false},
		"disk volume":          {KindVolume, &Volume{Options: map[string]string{"type": "ext4", "device": "/dev/sda1"}}, false},
		"overlay volume":       {KindVolume, &Volume{Options: map[string]string{"type": "overlay", "device": "overlay", "o": "lowerdir=/"}}, false},
		"pull":                 {KindImage, &Image{Ref: "registry.example/team/app:1", Pull: &Pull{}}, true},
		"official pull":        {KindImage, &Image{Ref: "docker.io/library/nginx:1", Pull: &Pull{}}, true},
		"other pull":           {KindImage, &Image{Ref: "registry.example/teams/app:1", Pull: &Pull{}}, false},
		"pull by ID":           {KindImage, &Image{Ref: "deadbeef", Pull: &Pull{}}, false},
		"load":                 {KindImage, &Image{Ref: "nginx", Load: &Load{}}, false},
		"build named":          {KindImage, &Image{Ref: "nginx", Build: &Build{Inline: "FROM nginx"}}, false},
		"build tagged":         {KindImage, &Image{Build: &Build{Inline: "FROM nginx", Tags: []string{"x"}}}, false},
		"build on the host":    {KindImage, &Image{Build: &Build{Inline: "FROM nginx", Network: "host"}}, false},
		"build from a context": {KindImage, &Image{Build: &Build{Context: &Blob{}}}, false},
		"build with bases":     {KindImage, &Image{Build: &Build{Inline: "FROM nginx", Bases: map[string]string{"nginx": "sha256:" + strings.Repeat("0a", 32)}}}, false},
		"build":                {KindImage, build("# a note\nFROM registry.example/team/go:1 AS b\nRUN make\nFROM scratch\nCOPY --from=b /x /x\nCOPY --from=0 /x /x\n"), true},
		"other base":           {KindImage, build("FROM evil"), false},
		"continued base":       {KindImage, build("FROM nginx\nFR\\\n# note\nOM evil"), false},
		"lower case":           {KindImage, build("from evil as x"), false},
		"variable base":        {KindImage, build("ARG A=evil\nFROM $A"), false},
		"other copy":           {KindImage, build("FROM nginx\nCOPY --from=evil / /"), false},
		"other mount":          {KindImage, build("FROM nginx\nRUN --mount=type=bind,from=evil,target=/x ls"), false},
		"frontend":             {KindImage, build("# syntax = evil/frontend\nFROM nginx"), false},
		"escape":               {KindImage, build("# escape=`\nFROM nginx"), false},
		"here-document":        {KindImage, build("FROM nginx\nRUN <<E\nls\nE\n"), false},
		"insecure":             {KindImage, build("FROM nginx\nRUN --security=insecure ls"), false},
		"onbuild":              {KindImage, build("FROM nginx\nONBUILD COPY --from=evil / /"), false},
		"snapshot":             {KindSnapshot, &Snapshot{Workspace: "a"}, true},
		"named snapshot":       {KindSnapshot, &Snapshot{Workspace: "a", Ref: "nginx"}, false},
		"route":                {KindRoute, &Route{Workspace: "a", Host: "App.example"}, true},
		"route that asks":      {KindRoute, &Route{Workspace: "a", ForwardAuth: "http://169.254.169.254/"}, false},
		"unknown kind":         {"pod", &Route{}, false},
	} {
		if ps := none.Check(c.kind, c.spec); (len(ps) == 0) != c.ok {
			t.Errorf("%s: %v", name, ps)
		}
	}
	// Where an entry needs a signature, the signature says which image it is.
	signed := Bounds{Kinds: Kinds, Images: none.Images, RequireSigned: true}
	for ref, ok := range map[string]bool{"nginx:1": false, "nginx": false, "nginx:1@sha256:" + strings.Repeat("0a", 32): true} {
		if ps := signed.Check(KindImage, &Image{Ref: ref, Pull: &Pull{}}); (len(ps) == 0) != ok {
			t.Errorf("%s, to be signed: %v", ref, ps)
		}
	}
	if len((&Bounds{Kinds: []string{KindRoute}}).Check(KindImage, &Image{})) == 0 {
		t.Error("a kind that is not listed is allowed")
	}
}

func TestBoundsLimits(t *testing.T) {
	b := Bounds{Kinds: Kinds, MaxMemory: 1 << 30, MaxNanoCPUs: 2e9, MaxWorkspaces: 1, MaxPIDs: 100}
	for name, c := range map[string]struct {
		l  Limits
		ok bool
	}{
		"fits":        {Limits{Memory: 1 << 30, NanoCPUs: 2e9, PIDs: pids(100)}, true},
		"no limit":    {Limits{}, false},
		"memory":      {Limits{Memory: 1<<30 + 1, NanoCPUs: 1e9}, false},
		"swap":        {Limits{Memory: 1 << 29, MemorySwap: -1, NanoCPUs: 1e9}, false},
		"cpus":        {Limits{Memory: 1 << 29, NanoCPUs: 3e9}, false},
		"quota":       {Limits{Memory: 1 << 29, NanoCPUs: 1e9, CPUQuota: 400000}, false},
		"negative":    {Limits{Memory: -1, NanoCPUs: -1}, false},
		"pids":        {Limits{Memory: 1 << 29, NanoCPUs: 1e9, PIDs: pids(-1)}, false},
		"more pids":   {Limits{Memory: 1 << 29, NanoCPUs: 1e9, PIDs: pids(101)}, false},
		"no pids":     {Limits{Memory: 1 << 29, NanoCPUs: 1e9}, false},
		"reservation": {Limits{Memory: 1 << 29, MemoryReservation: 1 << 40, NanoCPUs: 1e9}, false},
	} {
		w := plain()
		w.Limits = c.l
		if ps := b.Check(KindWorkspace, w); (len(ps) == 0) != c.ok {
			t.Errorf("%s: %v", name, ps)
		}
	}
	w := *plain()
	w.Limits = Limits{Memory: 1 << 20, NanoCPUs: 1, PIDs: pids(1)}
	if ps := b.CheckSet(&Set{Workspaces: []Workspace{w, w}}); len(ps) != 1 {
		t.Errorf("two workspaces where one is allowed: %v", ps)
	}
}

// TestBoundsStops: the longest grace is one of what a workspace takes to stop, commands before that included.
func TestBoundsStops(t *testing.T) {
	minute, hour, none := clock.Minute, clock.Hour, clock.Duration(0)
	for name, c := range map[string]struct {
		most  clock.Duration
		grace *clock.Duration
		hooks int
		words string // empty: it is taken
	}{
		"no limit":               {0, &hour, 9, ""},
		"as long as is allowed":  {clock.Minute, &minute, 0, ""},
		"longer":                 {clock.Minute, &hour, 0, "stopGrace: a stop grace of 1h is not allowed here: expected at most 1m"},
		"the engine's own":       {5 * clock.Second, nil, 0, "a stop grace of 10s"},
		"commands before a stop": {3 * clock.Minute, &none, 2, "preStop: a stop grace of 0s and 2 commands"},
		"one command":            {3 * clock.Minute, &minute, 1, ""},
	} {
		w := plain()
		w.StopGrace, w.PreStop = c.grace, make([]Hook, c.hooks)
		b := Bounds{Kinds: Kinds, MaxStopGrace: Span(c.most)}
		ps := b.Check(KindWorkspace, w)
		if got := Problems(ps).Error(); (c.words == "") != (len(ps) == 0) || !strings.Contains(got, c.words) {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// TestNobodyWritesAboveAMount: a workspace that could put a link in the place of another's
// mount is not allowed beside it, whoever of the two comes later, and whatever is made of
// the set carries the bounds along.
func TestNobodyWritesAboveAMount(t *testing.T) {
	b := Bounds{Kinds: Kinds, HostMounts: []string{"/srv/data", "/srv/data/deep"}, MaxMemory: 1 << 30, MaxNanoCPUs: 1e9}
	bind := func(name, source string, readOnly bool) Workspace {
		w := *plain()
		w.Name, w.Limits = name, Limits{Memory: 1 << 20, NanoCPUs: 1e8}
		w.Mounts = []Mount{{Type: MountBind, Source: source, Target: "/d", ReadOnly: readOnly, Beneath: "/forged"}}
		return w
	}
	volume := Volume{Name: "v", Options: map[string]string{"type": "none", "o": "bind", "device": "/srv/data"}}
	for name, c := range map[string]struct {
		set Set
		ok  bool
	}{
		"apart":            {Set{Workspaces: []Workspace{bind("a", "/srv/data/a", false), bind("b", "/srv/data/b", false)}}, true},
		"the same":         {Set{Workspaces: []Workspace{bind("a", "/srv/data", false), bind("b", "/srv/data", false)}}, true},
		"above":            {Set{Workspaces: []Workspace{bind("a", "/srv/data", false), bind("b", "/srv/data/link", false)}}, false},
		"above, later":     {Set{Workspaces: []Workspace{bind("a", "/srv/data/deep/x", true), bind("b", "/srv/data/", false)}}, false},
		"read above":       {Set{Workspaces: []Workspace{bind("a", "/srv/data", true), bind("b", "/srv/data/b", false)}}, true},
		"above by volume":  {Set{Volumes: []Volume{volume}, Workspaces: []Workspace{bind("b", "/srv/data/b", false)}}, false},
		"with like a name": {Set{Workspaces: []Workspace{bind("a", "/srv/data/a", false), bind("b", "/srv/data/ab", false)}}, true},
	} {
		if ps := b.CheckSet(&c.set); (len(ps) == 0) != c.ok {
			t.Errorf("%s: %v", name, ps)
		}
	}
	build := &Build{Inline: "FROM scratch"}
	set := Set{Workspaces: []Workspace{bind("a", "/srv/data/deep/x", false)}, Images: []Image{{Name: "i", Build: build}},
		Networks: []Network{{Name: "n", Pools: []Pool{{Subnet: "10.0.0.0/8"}}}, {Name: "plain"}}}
	given := set.Workspaces[0].Mounts
	b.Confine(&set)
	if m := set.Workspaces[0].Mounts[0]; m.Beneath != "/srv/data" || given[0].Beneath != "/forged" {
		t.Errorf("a mount is held below %q, and the given one %q", m.Beneath, given[0].Beneath)
	}
	if got := set.Images[0].Build; got.Memory != 1<<30 || got.NanoCPUs != 1e9 || got.Timeout != longestBuild || build.Memory != 0 {
		t.Errorf("the build has %+v", got)
	}
	if !set.Networks[0].Apart || set.Networks[1].Apart {
		t.Errorf("networks are %+v", set.Networks)
	}
}

// A field that is new has to be put into one of these lists, after it was
// thought of what it lets a container do.
func TestBoundsKnowEveryField(t *testing.T) {
	judged := strings.Fields(`Annotation Contents DeviceRules Devices Env GPUs Limits Logging Mounts StopGrace NetworkMode Networks
		Ports PostStart PreStop Runtime Security Sysctls Namespaces
		External Driver Options IPAMDriver IPAMOpts Ref Pull Build Load ForwardAuth Pools Apart Host TLS Ulimits`)
	harmless := strings.Fields(`Name Title Owner Image State ReportOnly Update Entrypoint Command NoCommand NoEntry WorkingDir User
		GroupAdd Hostname Domainname Labels Init TTY StdinOpen StopSignal Restart Health Expose Links MAC DNS DNSSearch
		DNSOptions ExtraHosts Platform StorageOpt ShmSize DependsOn
		Internal Attachable IPv6 Workspace Take Live Keep Path StripPath Port RedirectHTTP MaxBody HeaderWait`)
	for _, v := range []any{Workspace{}, Network{}, Volume{}, Image{}, Snapshot{}, Route{}} {
		for f := range reflect.TypeOf(v).Fields() {
			if !slices.Contains(judged, f.Name) && !slices.Contains(harmless, f.Name) {
				t.Errorf("%T.%s: judge it in Check, or say that it is harmless", v, f.Name)
			}
		}
	}
	known := map[reflect.Type]string{
		reflect.TypeFor[Security]():   "Privileged CapAdd CapDrop Options ReadOnly Credential",
		reflect.TypeFor[Namespaces](): "IPC PID UTS User Cgroup CgroupParent Isolation",
		reflect.TypeFor[Mount]():      "Type Source Target ReadOnly NoCopy Propagation CreateHost SELinux Size Mode Recursive Beneath Options File",
		reflect.TypeFor[Attachment](): "Network Aliases IPv4 IPv6 LinkLocal MAC DriverOpts Priority GatewayPriority",
		reflect.TypeFor[Build]():      "Context Inline Dockerfile Target Args Labels Network ExtraHosts ShmSize Platform NoCache Pull Tags Bases Timeout Memory NanoCPUs",
		reflect.TypeFor[Limits](): `NanoCPUs CPUShares CPUPeriod CPUQuota CPURTPeriod CPURTRuntime CPUSet CPUMems CPUCount
			CPUPerMille Memory MemoryReservation MemorySwap Swappiness OOMKillDisable OOMScoreAdj PIDs BlkioWeight BlkioDevices`,
	}
	for ty, names := range known {
		for f := range ty.Fields() {
			if !slices.Contains(strings.Fields(names), f.Name) {
				t.Errorf("%v.%s: judge it in Check, or say that it is harmless", ty, f.Name)
			}
		}
	}
}

func TestBoundsAllowImages(t *testing.T) {
	b := Bounds{Images: []string{"r.example", "docker.io/acme", "busybox:1.37", "localhost:5000", "q.example/a@sha256:" + strings.Repeat("0a", 32)}}
	for ref, ok := range map[string]bool{
		"r.example/x": true, "r.example.org/x": false, "acme/app": true, "acmex/app": false, "busybox:1.37": true, "busybox:1.36": false,
		"busybox:1.37@sha256:" + strings.Repeat("0a", 32): false, "busybox": false, "localhost:5000/z": true, "localhost:5001/z": false,
		"q.example/a@sha256:" + strings.Repeat("0a", 32): true, "q.example/a": false,
	} {
		if b.Allows(ref) != ok {
			t.Errorf("%q: allowed %v, want %v", ref, !ok, ok)
		}
	}
}
