package container

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func plain() *Workspace {
	return &Workspace{Name: "web", Image: "app", Security: Security{CapAdd: []string{"NET_RAW"}, Options: []string{"no-new-privileges"}}}
}

func yes() *bool { t := true; return &t }

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
	{"no masks", func(w *Workspace) { w.Security.Options = append(w.Security.Options, "systempaths=unconfined") }, Bounds{Privileged: true}},
	{"credentials", func(w *Workspace) { w.Security.Credential = "file://x" }, Bounds{Privileged: true}},
	{"sysctl", func(w *Workspace) { w.Sysctls = map[string]string{"kernel.shmmax": "1"} }, Bounds{Privileged: true}},
	{"annotation", func(w *Workspace) { w.Annotation = map[string]string{"run.oci.hooks": "x"} }, Bounds{Privileged: true}},
	{"runtime", func(w *Workspace) { w.Runtime = "kata" }, Bounds{Privileged: true}},
	{"never killed", func(w *Workspace) { w.Limits.OOMKillDisable = yes() }, Bounds{Privileged: true}},
	{"killed last", func(w *Workspace) { w.Limits.OOMScoreAdj = -1 }, Bounds{Privileged: true}},
	{"real time", func(w *Workspace) { w.Limits.CPURTRuntime = 1000 }, Bounds{Privileged: true}},
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
	{"port", func(w *Workspace) { w.Ports = append(w.Ports, Port{HostPort: 8080, Port: 80}) }, Bounds{Ports: &PortRange{8000, 8099}}},
	{"secret variable", func(w *Workspace) { w.Env = append(w.Env, Env{Name: "A", Secret: "root"}) }, Bounds{Secrets: []string{"root"}}},
	{"secret file", func(w *Workspace) { w.Contents = append(w.Contents, Content{Target: "/s", Secret: "root"}) }, Bounds{Secrets: []string{"root"}}},
}

// never is not allowed by any bounds.
var never = map[string]func(w *Workspace){
	"foreign network": func(w *Workspace) { w.NetworkMode = "container:db" },
	"path namespace":  func(w *Workspace) { w.NetworkMode = "ns:/proc/1/ns/net" },
	"foreign pid":     func(w *Workspace) { w.Namespaces.PID = "container:db" },
	"shared mounts": func(w *Workspace) {
		w.Mounts = []Mount{{Type: MountBind, Source: "/srv/a", Target: "/a", Propagation: "rshared"}}
	},
	"dots":             func(w *Workspace) { w.Mounts = []Mount{{Type: MountBind, Source: "/srv/../etc", Target: "/a"}} },
	"sibling":          func(w *Workspace) { w.Mounts = []Mount{{Type: MountBind, Source: "/srvx", Target: "/a"}} },
	"unknown mount":    func(w *Workspace) { w.Mounts = []Mount{{Type: "npipe", Source: "x", Target: "/a"}} },
	"port outside":     func(w *Workspace) { w.Ports = []Port{{HostPort: 22, Port: 22}} },
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
			t.Fatalf("%d problems for %d dangers in %s", got, found, encoded(w))
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
	none := Bounds{Kinds: Kinds, Images: []string{"registry.example/team", "nginx"}, HostMounts: []string{"/srv"}}
	build := func(text string) *Image { return &Image{Build: &Build{Inline: text}} }
	for name, c := range map[string]struct {
		kind string
		spec any
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
		"bind below":           {KindVolume, &Volume{Options: map[string]string{"type": "none", "o": "bind", "device": "/srv/a"}}, true},
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
		"route":                {KindRoute, &Route{Workspace: "a"}, true},
		"route that asks":      {KindRoute, &Route{Workspace: "a", ForwardAuth: "http://169.254.169.254/"}, false},
		"wrong type":           {KindRoute, &Volume{}, false},
		"nothing":              {KindRoute, (*Route)(nil), false},
		"unknown kind":         {"pod", &Route{}, false},
	} {
		if ps := none.Check(c.kind, c.spec); (len(ps) == 0) != c.ok {
			t.Errorf("%s: %v", name, ps)
		}
	}
	if len((&Bounds{Kinds: []string{KindRoute}}).Check(KindImage, &Image{})) == 0 {
		t.Error("a kind that is not listed is allowed")
	}
}

func TestBoundsLimits(t *testing.T) {
	b := Bounds{Kinds: Kinds, MaxMemory: 1 << 30, MaxNanoCPUs: 2e9, MaxWorkspaces: 1}
	for name, c := range map[string]struct {
		l  Limits
		ok bool
	}{
		"fits":        {Limits{Memory: 1 << 30, NanoCPUs: 2e9}, true},
		"no limit":    {Limits{}, false},
		"memory":      {Limits{Memory: 1<<30 + 1, NanoCPUs: 1e9}, false},
		"swap":        {Limits{Memory: 1 << 29, MemorySwap: -1, NanoCPUs: 1e9}, false},
		"cpus":        {Limits{Memory: 1 << 29, NanoCPUs: 3e9}, false},
		"quota":       {Limits{Memory: 1 << 29, NanoCPUs: 1e9, CPUQuota: 400000}, false},
		"negative":    {Limits{Memory: -1, NanoCPUs: -1}, false},
		"reservation": {Limits{Memory: 1 << 29, MemoryReservation: 1 << 40, NanoCPUs: 1e9}, false},
	} {
		w := plain()
		w.Limits = c.l
		if ps := b.Check(KindWorkspace, w); (len(ps) == 0) != c.ok {
			t.Errorf("%s: %v", name, ps)
		}
	}
	w := *plain()
	w.Limits = Limits{Memory: 1 << 20, NanoCPUs: 1}
	if ps := b.CheckSet(&Set{Workspaces: []Workspace{w, w}}); len(ps) != 1 {
		t.Errorf("two workspaces where one is allowed: %v", ps)
	}
}

// A field that is new has to be put into one of these lists, after it was
// thought of what it lets a container do.
func TestBoundsKnowEveryField(t *testing.T) {
	judged := strings.Fields(`Annotation Contents DeviceRules Devices Env GPUs Limits Logging Mounts NetworkMode Networks
		Ports Runtime Security Sysctls Namespaces
		External Driver Options IPAMDriver IPAMOpts Ref Pull Build Load ForwardAuth`)
	harmless := strings.Fields(`Name Title Image State ReportOnly Update Entrypoint Command NoCommand NoEntry WorkingDir User
		GroupAdd Hostname Domainname Labels Init TTY StdinOpen StopSignal StopGrace Restart Health Expose MAC DNS DNSSearch
		DNSOptions ExtraHosts Platform StorageOpt Ulimits ShmSize DependsOn
		Internal Attachable IPv6 Pools Workspace Take Live Keep Host Path StripPath Port TLS RedirectHTTP MaxBody HeaderWait`)
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
		reflect.TypeFor[Mount]():      "Type Source Target ReadOnly NoCopy Propagation CreateHost SELinux Size Mode Recursive",
		reflect.TypeFor[Attachment](): "Network Aliases IPv4 IPv6 LinkLocal MAC DriverOpts Priority",
		reflect.TypeFor[Build]():      "Context Inline Dockerfile Target Args Labels Network ExtraHosts ShmSize Platform NoCache Pull Tags Timeout",
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

func TestReferences(t *testing.T) {
	for ref, want := range map[string]string{
		"nginx": "docker.io/library/nginx", "acme/app:1": "docker.io/acme/app:1", "localhost/app": "localhost/app",
		"localhost:5000/a/b:c": "localhost:5000/a/b:c", "index.docker.io/library/nginx": "docker.io/library/nginx",
		"r.example/a@sha256:" + strings.Repeat("0a", 32): "r.example/a@sha256:" + strings.Repeat("0a", 32),
		"": "", "a b": "", "A": "", "cafe": "", "cafe:1": "docker.io/library/cafe:1", "a:": "", "a@sha256:1": "", "/a": "", "a//b": "", "../a": "",
		"sha256:" + strings.Repeat("0a", 32): "", strings.Repeat("0a", 32): "",
	} {
		r, err := ParseRef(ref)
		got := r.String()
		if err != nil {
			got = ""
		}
		if got != want {
			t.Errorf("%q is %q, want %q (%v)", ref, got, want, err)
		}
	}
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
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringOf(rapid.SampledFrom([]rune("ab0.:/@-_A"))).Draw(t, "ref")
		r, err := ParseRef(text)
		if err != nil {
			return
		}
		again, err := ParseRef(r.String())
		if err != nil || again != r {
			t.Fatalf("%q reads as %v, and that as %v, %v", text, r, again, fmt.Sprint(err))
		}
	})
}
