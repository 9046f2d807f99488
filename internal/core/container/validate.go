package container

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Problem is one finding on a set or a resource. Path leads to it by the names
// of the JSON form; within a Set a list's entry is named by the resource's name,
// deeper ones by position.
type Problem struct {
	Path  []string `json:"path"`
	Words string   `json:"words"`
}

func (p Problem) String() string { return strings.Join(p.Path, ".") + ": " + p.Words }

// Bounds of a set.
const (
	MaxNetworks   = 200
	MaxVolumes    = 1_000
	MaxImages     = 1_000
	MaxWorkspaces = 1_000
	MaxSnapshots  = 1_000
	MaxRoutes     = 10_000
	MaxEntries    = 4_096     // of any list or map of one resource
	MaxText       = 128 << 10 // bytes of any one text
	MaxInteger    = 1<<53 - 1

	maxTitle = 128
)

// LabelPrefix begins the labels that the agent itself puts on what it makes;
// nobody else may.
const LabelPrefix = "io.steady."

// checker collects problems below a path.
type checker struct {
	at  []string
	out *[]Problem
}

func (c checker) in(parts ...string) checker {
	return checker{append(slices.Clip(slices.Clone(c.at)), parts...), c.out}
}

func (c checker) item(key string, i int) checker { return c.in(key, strconv.Itoa(i)) }

func (c checker) addf(format string, args ...any) {
	*c.out = append(*c.out, Problem{Path: c.at, Words: fmt.Sprintf(format, args...)})
}

// Validate checks the whole set: names, references, conflicts and the fields of
// every resource. It is total: any value gives problems or none. The set need
// not be normalized.
func Validate(s *Set) []Problem {
	var out []Problem
	if s == nil {
		return out
	}
	c := checker{out: &out}
	checkList(c, "networks", s.Networks, MaxNetworks, func(v *Network) string { return v.Name }, checkNetwork)
	checkList(c, "volumes", s.Volumes, MaxVolumes, func(v *Volume) string { return v.Name }, checkVolume)
	checkList(c, "images", s.Images, MaxImages, func(v *Image) string { return v.Name }, checkImage)
	checkList(c, "workspaces", s.Workspaces, MaxWorkspaces, func(v *Workspace) string { return v.Name }, checkWorkspace)
	checkList(c, "snapshots", s.Snapshots, MaxSnapshots, func(v *Snapshot) string { return v.Name }, checkSnapshot)
	checkList(c, "routes", s.Routes, MaxRoutes, func(v *Route) string { return v.Name }, checkRoute)
	if len(out) > 0 {
		return out // what follows builds on names and sizes
	}
	s.checkReferences(c)
	s.checkCycles(c)
	s.checkTitles(c)
	s.checkRoutes(c)
	s.checkHostPorts(c)
	return out
}

// ValidateSpec checks one resource by itself, as a pointer to it.
func ValidateSpec(spec any) []Problem {
	var out []Problem
	c := checker{out: &out}
	switch v := spec.(type) {
	case *Network:
		checkName(c.in("name"), v.Name)
		checkNetwork(c, v)
	case *Volume:
		checkName(c.in("name"), v.Name)
		checkVolume(c, v)
	case *Image:
		checkName(c.in("name"), v.Name)
		checkImage(c, v)
	case *Workspace:
		checkName(c.in("name"), v.Name)
		checkWorkspace(c, v)
	case *Snapshot:
		checkName(c.in("name"), v.Name)
		checkSnapshot(c, v)
	case *Route:
		checkName(c.in("name"), v.Name)
		checkRoute(c, v)
	default:
		c.addf("a %T is no container resource", spec)
	}
	return out
}

func checkList[T any](c checker, key string, list []T, most int, name func(*T) string, check func(checker, *T)) {
	if len(list) > most {
		c.in(key).addf("%d %s: expected at most %d", len(list), key, most)
		return
	}
	seen := map[string]bool{}
	for i := range list {
		n := name(&list[i])
		ci := c.in(key, n)
		checkName(ci.in("name"), n)
		if seen[n] {
			ci.addf("%q is declared twice: expected each name once", n)
		}
		seen[n] = true
		check(ci, &list[i])
	}
}

// checkName takes the names of the project: 1 to 63 of a-z 0-9 . _ - starting
// with a letter or digit.
func checkName(c checker, name string) {
	ok := name != "" && len(name) <= 63
	for i := range len(name) {
		b := name[i]
		ok = ok && (b >= 'a' && b <= 'z' || b >= '0' && b <= '9' || i > 0 && (b == '.' || b == '_' || b == '-'))
	}
	if !ok {
		c.addf("name %q: expected 1 to 63 of a-z 0-9 . _ - starting with a letter or digit", name)
	}
}

// checkTitle takes what an engine takes as a name, with room for a prefix.
func checkTitle(c checker, title string) {
	ok := len(title) <= maxTitle
	for i := range len(title) {
		b := title[i]
		ok = ok && (b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' || b >= '0' && b <= '9' || i > 0 && (b == '.' || b == '_' || b == '-'))
	}
	if !ok {
		c.addf("title %q: expected at most %d of a-z A-Z 0-9 . _ - starting with a letter or digit", title, maxTitle)
	}
}

func checkText(c checker, values ...string) {
	for _, v := range values {
		if len(v) > MaxText {
			c.addf("a text of %d bytes: expected at most %d", len(v), MaxText)
		}
		if strings.ContainsRune(v, 0) {
			c.addf("a text with a NUL byte: expected none")
		}
	}
}

func checkTexts(c checker, list []string) {
	if len(list) > MaxEntries {
		c.addf("%d entries: expected at most %d", len(list), MaxEntries)
		return
	}
	checkText(c, list...)
}

func checkMap(c checker, m map[string]string) {
	if len(m) > MaxEntries {
		c.addf("%d entries: expected at most %d", len(m), MaxEntries)
		return
	}
	for _, k := range slices.Sorted(maps.Keys(m)) {
		if k == "" {
			c.addf("an entry without a name")
		}
		checkText(c.in(k), k, m[k])
	}
}

func checkLabels(c checker, m map[string]string) {
	checkMap(c, m)
	for _, k := range slices.Sorted(maps.Keys(m)) {
		if strings.HasPrefix(k, LabelPrefix) {
			c.in(k).addf("label %q: labels that begin with %s belong to the agent", k, LabelPrefix)
		}
	}
}

// checkSize takes a count or size of 0 to 2^53 - 1.
func checkSize(c checker, key string, n int64) {
	if n < 0 || n > MaxInteger {
		c.in(key).addf("%s is %d: expected 0 to %d", key, n, int64(MaxInteger))
	}
}

func checkNetwork(c checker, n *Network) {
	checkTitle(c.in("title"), n.Title)
	checkText(c.in("driver"), n.Driver, n.IPAMDriver, n.External)
	checkMap(c.in("options"), n.Options)
	checkMap(c.in("ipamOptions"), n.IPAMOpts)
	checkLabels(c.in("labels"), n.Labels)
	if n.External != "" && (n.Title != "" || n.Driver != "" || len(n.Options)+len(n.Labels)+len(n.Pools)+len(n.IPAMOpts) > 0 || n.IPAMDriver != "" || n.Internal || n.Attachable || n.IPv6) {
		c.addf("an external network is never made or changed: expected nothing but its name")
	}
	if len(n.Pools) > 64 {
		c.in("pools").addf("%d address pools: expected at most 64", len(n.Pools))
		return
	}
	for i, p := range n.Pools {
		checkText(c.item("pools", i), p.Subnet, p.Range, p.Gateway)
		checkMap(c.item("pools", i).in("aux"), p.Aux)
		if p.Subnet == "" && (p.Range != "" || p.Gateway != "" || len(p.Aux) > 0) {
			c.item("pools", i).addf("an address pool without a subnet: expected one, such as 10.9.0.0/24")
		}
	}
}

func checkVolume(c checker, v *Volume) {
	checkTitle(c.in("title"), v.Title)
	checkText(c.in("driver"), v.Driver, v.External)
	checkMap(c.in("options"), v.Options)
	checkLabels(c.in("labels"), v.Labels)
	if v.External != "" && (v.Title != "" || v.Driver != "" || len(v.Options)+len(v.Labels) > 0) {
		c.addf("an external volume is never made or changed: expected nothing but its name")
	}
}

func checkImage(c checker, i *Image) {
	ways := 0
	for _, set := range []bool{i.Pull != nil, i.Build != nil, i.Load != nil} {
		if set {
			ways++
		}
	}
	if ways != 1 {
		c.addf("image %q has %d sources: expected one of pull, build and load", i.Name, ways)
	}
	if i.Ref == "" && i.Build == nil {
		c.in("ref").addf("image %q has no reference: expected how the engine names it, such as registry.example/app:1", i.Name)
	}
	if i.Ref != "" {
		if _, err := ParseRef(i.Ref); err != nil {
			c.in("ref").addf("%v", err)
		}
	}
	if i.Pull != nil && i.Pull.Policy != "" && i.Pull.Policy != PullMissing && i.Pull.Policy != PullAlways && i.Pull.Policy != PullNever {
		c.in("pull", "policy").addf("policy %q: expected missing, always or never", i.Pull.Policy)
	}
	if i.Load != nil {
		checkBlob(c.in("load", "archive"), &i.Load.Archive)
	}
	if i.Build != nil {
		checkBuild(c.in("build"), i.Build)
	}
}

func checkBuild(c checker, b *Build) {
	switch {
	case b.Context == nil && b.Inline == "":
		c.addf("a build without context and without inline Dockerfile: expected one of them")
	case b.Inline != "" && b.Dockerfile != "":
		c.in("dockerfile").addf("inline and dockerfile are both set: expected one of them")
	}
	if b.Context != nil {
		checkBlob(c.in("context"), b.Context)
	}
	checkText(c, b.Inline, b.Dockerfile, b.Target, b.Platform)
	if strings.HasPrefix(b.Dockerfile, "/") || slices.Contains(strings.Split(b.Dockerfile, "/"), "..") {
		c.in("dockerfile").addf("%q: expected a path inside the build context", b.Dockerfile)
	}
	if b.Network != "" && b.Network != "host" && b.Network != "none" && b.Network != "default" {
		c.in("network").addf("network %q: expected host, none or nothing", b.Network)
	}
	checkMap(c.in("args"), b.Args)
	checkLabels(c.in("labels"), b.Labels)
	checkTexts(c.in("extraHosts"), b.ExtraHosts)
	checkTexts(c.in("tags"), b.Tags)
	for _, t := range b.Tags {
		if _, err := ParseRef(t); err != nil {
			c.in("tags").addf("%v", err)
		}
	}
	checkSize(c, "shmSize", b.ShmSize)
	checkSize(c, "timeout", int64(b.Timeout))
}

func checkBlob(c checker, b *Blob) {
	if b.Digest == "" || b.Size < 0 || b.Size > 1<<40 {
		c.addf("content needs a digest and a size of 0 to %d bytes", int64(1<<40))
	}
}

func checkSnapshot(c checker, s *Snapshot) {
	checkName(c.in("workspace"), s.Workspace)
	checkSize(c, "take", s.Take)
	checkTexts(c.in("keep"), s.Keep)
	if s.Ref != "" {
		if _, err := ParseRef(s.Ref); err != nil {
			c.in("ref").addf("%v", err)
		}
	}
}

func checkRoute(c checker, r *Route) {
	checkName(c.in("workspace"), r.Workspace)
	if r.Port < 1 || r.Port > 65535 {
		c.in("port").addf("port %d: expected 1 to 65535", r.Port)
	}
	if !validHost(r.Host) {
		c.in("host").addf("host %q: expected a host name such as app.example.org, or nothing for any", r.Host)
	}
	if r.Path != "" && (!strings.HasPrefix(r.Path, "/") || strings.ContainsAny(r.Path, "?#\x00 \t\r\n") || len(r.Path) > 1024) {
		c.in("path").addf("path %q: expected a prefix that begins with /", r.Path)
	}
	checkText(c, r.TLS, r.ForwardAuth)
	if r.ForwardAuth != "" && !strings.HasPrefix(r.ForwardAuth, "http://") && !strings.HasPrefix(r.ForwardAuth, "https://") {
		c.in("forwardAuth").addf("%q: expected an http or https URL", r.ForwardAuth)
	}
	if r.RedirectHTTP && r.TLS == "" {
		c.in("redirectHTTP").addf("there is no certificate to redirect to: expected tls as well")
	}
	checkSize(c, "maxBody", r.MaxBody)
	checkSize(c, "headerWait", int64(r.HeaderWait))
}

func validHost(h string) bool {
	if h == "" {
		return true
	}
	h = strings.TrimSuffix(h, ".")
	if len(h) > 253 {
		return false
	}
	for label := range strings.SplitSeq(strings.ToLower(h), ".") {
		ok := label != "" && len(label) <= 63 && label[0] != '-' && label[len(label)-1] != '-'
		for i := range len(label) {
			b := label[i]
			ok = ok && (b >= 'a' && b <= 'z' || b >= '0' && b <= '9' || b == '-' || b == '_')
		}
		if !ok {
			return false
		}
	}
	return true
}
