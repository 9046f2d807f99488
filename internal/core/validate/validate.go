// Package validate says what is wrong with a declared set of containers: names,
// references, conflicts and the fields of every resource.
package validate

import (
	"maps"
	"slices"
	"strings"

	"github.com/steadyfleet/steady/internal/core/container"
	"github.com/steadyfleet/steady/internal/core/imageref"
)

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

// Set checks the whole set: names, references, conflicts and the fields of
// every resource. It is total: any value gives problems or none. The set need
// not be normalized.
func Set(s *container.Set) []container.Problem {
	var out []container.Problem
	if s == nil {
		return out
	}
	c := container.NewChecker(&out)
	checkList(c, "networks", s.Networks, MaxNetworks, func(v *container.Network) string { return v.Name }, checkNetwork)
	checkList(c, "volumes", s.Volumes, MaxVolumes, func(v *container.Volume) string { return v.Name }, checkVolume)
	checkList(c, "images", s.Images, MaxImages, func(v *container.Image) string { return v.Name }, checkImage)
	checkList(c, "workspaces", s.Workspaces, MaxWorkspaces, func(v *container.Workspace) string { return v.Name }, checkWorkspace)
	checkList(c, "snapshots", s.Snapshots, MaxSnapshots, func(v *container.Snapshot) string { return v.Name }, checkSnapshot)
	checkList(c, "routes", s.Routes, MaxRoutes, func(v *container.Route) string { return v.Name }, checkRoute)
	if len(out) > 0 {
		return out // what follows builds on names and sizes
	}
	checkReferences(c, s)
	checkCycles(c, s)
	checkTitles(c, s)
	checkRoutes(c, s)
	checkHostPorts(c, s)
	return out
}

// Spec checks one resource by itself, as a pointer to it.
func Spec(spec any) []container.Problem {
	var out []container.Problem
	c := container.NewChecker(&out)
	switch v := spec.(type) {
	case *container.Network:
		checkName(c.In("name"), v.Name)
		checkNetwork(c, v)
	case *container.Volume:
		checkName(c.In("name"), v.Name)
		checkVolume(c, v)
	case *container.Image:
		checkName(c.In("name"), v.Name)
		checkImage(c, v)
	case *container.Workspace:
		checkName(c.In("name"), v.Name)
		checkWorkspace(c, v)
	case *container.Snapshot:
		checkName(c.In("name"), v.Name)
		checkSnapshot(c, v)
	case *container.Route:
		checkName(c.In("name"), v.Name)
		checkRoute(c, v)
	default:
		c.Addf("a %T is no container resource", spec)
	}
	return out
}

func checkList[T any](c container.Checker, key string, list []T, most int, name func(*T) string, check func(container.Checker, *T)) {
	if len(list) > most {
		c.In(key).Addf("%d %s: expected at most %d", len(list), key, most)
		return
	}
	seen := map[string]bool{}
	for i := range list {
		n := name(&list[i])
		ci := c.In(key, n)
		checkName(ci.In("name"), n)
		if seen[n] {
			ci.Addf("%q is declared twice: expected each name once", n)
		}
		seen[n] = true
		check(ci, &list[i])
	}
}

// checkName takes the names of the project: 1 to 63 of a-z 0-9 . _ - starting
// with a letter or digit.
func checkName(c container.Checker, name string) {
	ok := name != "" && len(name) <= 63
	for i := range len(name) {
		b := name[i]
		ok = ok && (b >= 'a' && b <= 'z' || b >= '0' && b <= '9' || i > 0 && (b == '.' || b == '_' || b == '-'))
	}
	if !ok {
		c.Addf("name %q: expected 1 to 63 of a-z 0-9 . _ - starting with a letter or digit", name)
	}
}

// checkTitle takes what an engine takes as a name, with room for a prefix.
func checkTitle(c container.Checker, title string) {
	ok := len(title) <= maxTitle
	for i := range len(title) {
		b := title[i]
		ok = ok && (b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' || b >= '0' && b <= '9' || i > 0 && (b == '.' || b == '_' || b == '-'))
	}
	if !ok {
		c.Addf("title %q: expected at most %d of a-z A-Z 0-9 . _ - starting with a letter or digit", title, maxTitle)
	}
}

func checkText(c container.Checker, values ...string) {
	for _, v := range values {
		if len(v) > MaxText {
			c.Addf("a text of %d bytes: expected at most %d", len(v), MaxText)
		}
		if strings.ContainsRune(v, 0) {
			c.Addf("a text with a NUL byte: expected none")
		}
	}
}

func checkTexts(c container.Checker, list []string) {
	if len(list) > MaxEntries {
		c.Addf("%d entries: expected at most %d", len(list), MaxEntries)
		return
	}
	checkText(c, list...)
}

func checkMap(c container.Checker, m map[string]string) {
	if len(m) > MaxEntries {
		c.Addf("%d entries: expected at most %d", len(m), MaxEntries)
		return
	}
	for _, k := range slices.Sorted(maps.Keys(m)) {
		if k == "" {
			c.Addf("an entry without a name")
		}
		checkText(c.In(k), k, m[k])
	}
}

func checkLabels(c container.Checker, m map[string]string) {
	checkMap(c, m)
	for _, k := range slices.Sorted(maps.Keys(m)) {
		if strings.HasPrefix(k, LabelPrefix) {
			c.In(k).Addf("label %q: labels that begin with %s belong to the agent", k, LabelPrefix)
		}
	}
}

// checkSize takes a count or size of 0 to 2^53 - 1.
func checkSize(c container.Checker, key string, n int64) {
	if n < 0 || n > MaxInteger {
		c.In(key).Addf("%s is %d: expected 0 to %d", key, n, int64(MaxInteger))
	}
}

func checkNetwork(c container.Checker, n *container.Network) {
	checkTitle(c.In("title"), n.Title)
	checkText(c.In("driver"), n.Driver, n.IPAMDriver, n.External)
	checkMap(c.In("options"), n.Options)
	checkMap(c.In("ipamOptions"), n.IPAMOpts)
	checkLabels(c.In("labels"), n.Labels)
	if n.External != "" && (n.Title != "" || n.Driver != "" || len(n.Options)+len(n.Labels)+len(n.Pools)+len(n.IPAMOpts) > 0 || n.IPAMDriver != "" || n.Internal || n.Attachable || n.IPv6) {
		c.Addf("an external network is never made or changed: expected nothing but its name")
	}
	if len(n.Pools) > 64 {
		c.In("pools").Addf("%d address pools: expected at most 64", len(n.Pools))
		return
	}
	for i, p := range n.Pools {
		checkText(c.Item("pools", i), p.Subnet, p.Range, p.Gateway)
		checkMap(c.Item("pools", i).In("aux"), p.Aux)
		if p.Subnet == "" && (p.Range != "" || p.Gateway != "" || len(p.Aux) > 0) {
			c.Item("pools", i).Addf("an address pool without a subnet: expected one, such as 10.9.0.0/24")
		}
	}
}

func checkVolume(c container.Checker, v *container.Volume) {
	checkTitle(c.In("title"), v.Title)
	checkText(c.In("driver"), v.Driver, v.External)
	checkMap(c.In("options"), v.Options)
	checkLabels(c.In("labels"), v.Labels)
	if v.External != "" && (v.Title != "" || v.Driver != "" || len(v.Options)+len(v.Labels) > 0) {
		c.Addf("an external volume is never made or changed: expected nothing but its name")
	}
}

func checkImage(c container.Checker, i *container.Image) {
	ways := 0
	for _, set := range []bool{i.Pull != nil, i.Build != nil, i.Load != nil} {
		if set {
			ways++
		}
	}
	if ways != 1 {
		c.Addf("image %q has %d sources: expected one of pull, build and load", i.Name, ways)
	}
	if i.Ref == "" && i.Build == nil {
		c.In("ref").Addf("image %q has no reference: expected how the engine names it, such as registry.example/app:1", i.Name)
	}
	if i.Ref != "" {
		if _, err := imageref.Parse(i.Ref); err != nil {
			c.In("ref").Addf("%v", err)
		}
	}
	if i.Pull != nil && i.Pull.Policy != "" && i.Pull.Policy != container.PullMissing && i.Pull.Policy != container.PullAlways && i.Pull.Policy != container.PullNever {
		c.In("pull", "policy").Addf("policy %q: expected missing, always or never", i.Pull.Policy)
	}
	if i.Load != nil {
		checkBlob(c.In("load", "archive"), &i.Load.Archive)
	}
	if i.Build != nil {
		checkBuild(c.In("build"), i.Build)
	}
}

func checkBuild(c container.Checker, b *container.Build) {
	switch {
	case b.Context == nil && b.Inline == "":
		c.Addf("a build without context and without inline Dockerfile: expected one of them")
	case b.Inline != "" && b.Dockerfile != "":
		c.In("dockerfile").Addf("inline and dockerfile are both set: expected one of them")
	}
	if b.Context != nil {
		checkBlob(c.In("context"), b.Context)
	}
	checkText(c, b.Inline, b.Dockerfile, b.Target, b.Platform)
	if strings.HasPrefix(b.Dockerfile, "/") || slices.Contains(strings.Split(b.Dockerfile, "/"), "..") {
		c.In("dockerfile").Addf("%q: expected a path inside the build context", b.Dockerfile)
	}
	if b.Network != "" && b.Network != "host" && b.Network != "none" && b.Network != "default" {
		c.In("network").Addf("network %q: expected host, none or nothing", b.Network)
	}
	checkMap(c.In("args"), b.Args)
	checkLabels(c.In("labels"), b.Labels)
	checkTexts(c.In("extraHosts"), b.ExtraHosts)
	checkTexts(c.In("tags"), b.Tags)
	for _, t := range b.Tags {
		if _, err := imageref.Parse(t); err != nil {
			c.In("tags").Addf("%v", err)
		}
	}
	checkMap(c.In("bases"), b.Bases)
	for _, ref := range slices.Sorted(maps.Keys(b.Bases)) {
		if imageref.Pinned(ref) || !imageref.Pinned(ref+"@"+b.Bases[ref]) {
			c.In("bases", ref).Addf("digest %q of base image %q: expected sha256: and its digest, of an image that is named by tag", b.Bases[ref], ref)
		}
	}
	checkSize(c, "shmSize", b.ShmSize)
	checkSize(c, "timeout", int64(b.Timeout))
}

func checkBlob(c container.Checker, b *container.Blob) {
	if b.Digest == "" || b.Size < 0 || b.Size > 1<<40 {
		c.Addf("content needs a digest and a size of 0 to %d bytes", int64(1<<40))
	}
}

func checkSnapshot(c container.Checker, s *container.Snapshot) {
	checkName(c.In("workspace"), s.Workspace)
	checkSize(c, "take", s.Take)
	checkTexts(c.In("keep"), s.Keep)
	if s.Ref != "" {
		if _, err := imageref.Parse(s.Ref); err != nil {
			c.In("ref").Addf("%v", err)
		}
	}
}

func checkRoute(c container.Checker, r *container.Route) {
	checkName(c.In("workspace"), r.Workspace)
	if r.Port < 1 || r.Port > 65535 {
		c.In("port").Addf("port %d: expected 1 to 65535", r.Port)
	}
	if !validHost(r.Host) {
		c.In("host").Addf("host %q: expected a host name such as app.example.org, or nothing for any", r.Host)
	}
	if r.Path != "" && (!strings.HasPrefix(r.Path, "/") || strings.ContainsAny(r.Path, "?#\x00 \t\r\n") || len(r.Path) > 1024) {
		c.In("path").Addf("path %q: expected a prefix that begins with /", r.Path)
	}
	checkText(c, r.TLS, r.ForwardAuth)
	if r.ForwardAuth != "" && !strings.HasPrefix(r.ForwardAuth, "http://") && !strings.HasPrefix(r.ForwardAuth, "https://") {
		c.In("forwardAuth").Addf("%q: expected an http or https URL", r.ForwardAuth)
	}
	if r.RedirectHTTP && r.TLS == "" {
		c.In("redirectHTTP").Addf("there is no certificate to redirect to: expected tls as well")
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
