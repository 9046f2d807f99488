package compose

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/compose-spec/compose-go/v2/types"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/spec"
)

func (l *load) convert() {
	l.resolve()
	l.rename()
	l.loads()
	l.networks()
	l.volumes()
	l.shares()
	for _, name := range slices.Sorted(maps.Keys(l.project.Services)) {
		s := l.project.Services[name]
		l.service(&s)
	}
	for _, p := range slices.Sorted(maps.Keys(l.o.Paths)) {
		if !l.listed[p] {
			l.note("", 0, 0, "paths of bundle.yaml lists %q, which no service mounts: expected a relative path of one", p)
		}
	}
	l.completed()
	l.topRoutes()
	for _, key := range slices.Sorted(maps.Keys(l.images.byKey)) {
		l.set.Images = append(l.set.Images, *l.images.byKey[key])
	}
}

func (l *load) finish() {
	l.set.Normalize()
	for _, p := range l.set.Check() {
		l.addf(l.origin(p.Path), "%s", p.Message)
	}
}

// origin finds in the model what a path of the set was made from.
func (l *load) origin(at []string) []string {
	if len(at) < 2 {
		return nil
	}
	switch at[0] {
	case "workspaces":
		name := at[1]
		if _, ok := l.project.Services[name]; !ok {
			if i := strings.LastIndexByte(name, '-'); i > 0 {
				name = name[:i]
			}
		}
		out := []string{"services", name}
		if len(at) > 2 {
			if key, ok := attributeOf[at[2]]; ok {
				return append(out, key)
			}
		}
		return out
	case "networks", "volumes":
		return at[:2]
	case "images":
		if _, ok := l.project.Services[at[1]]; ok {
			return []string{"services", at[1], "build"}
		}
		return l.images.from[at[1]]
	case "routes", "snapshots":
		if _, ok := l.project.Services[at[1]]; ok {
			return []string{"services", at[1], steadyKey}
		}
		return []string{steadyKey, at[0], at[1]}
	}
	return nil
}

// attributeOf names the attribute that a field of a workspace comes from.
var attributeOf = map[string]string{
	"env": "environment", "ports": "ports", "expose": "expose", "mounts": "volumes", "contents": "secrets",
	"networks": "networks", "networkMode": "network_mode", "devices": "devices", "dependsOn": "depends_on",
	"health": "healthcheck", "restart": "restart", "labels": "labels", "extraHosts": "extra_hosts", "gpus": "gpus",
	"ulimits": "ulimits", "title": "container_name", "state": steadyKey, "update": steadyKey, "sysctls": "sysctls",
}

func (l *load) replicas(s *types.ServiceConfig) []string {
	n := s.GetScale()
	switch {
	case n > MaxReplicas:
		l.addf([]string{"services", s.Name, "deploy", "replicas"}, "%d replicas: expected at most %d", n, MaxReplicas)
		return nil
	case n == 1:
		return []string{s.Name}
	}
	out := []string{}
	for i := range n {
		out = append(out, fmt.Sprintf("%s-%d", s.Name, i+1))
	}
	return out
}

// completed makes the services that others wait for to the end run once.
func (l *load) completed() {
	waited := map[string]string{}
	for _, w := range l.set.Workspaces {
		for _, d := range w.DependsOn {
			if d.Condition == spec.Completed {
				waited[d.Workspace] = w.Name
			}
		}
	}
	for i := range l.set.Workspaces {
		w := &l.set.Workspaces[i]
		if waiter, ok := waited[w.Name]; ok && w.State == "" {
			w.State = spec.Once
			if p := w.Restart.Policy; p == "always" || p == "unless-stopped" {
				l.addf([]string{"services", w.Name, "restart"}, "restart is %s and %q waits for the service to end: expected no or on-failure", p, waiter)
			}
		}
	}
}

func (l *load) replicasOf(name string) []string {
	s, ok := l.project.Services[name]
	if !ok {
		return nil
	}
	return l.replicas(&s)
}

// rel turns a path as the library resolved it into one of the root. Not ok for a
// path of the host.
func (l *load) rel(p string) (string, bool) {
	switch {
	case p == l.stage:
		return ".", true
	case strings.HasPrefix(p, l.stage+"/"):
		return strings.TrimPrefix(p, l.stage+"/"), true
	case strings.HasPrefix(p, l.scratch+"/"):
		return "../" + path.Base(p), true // refused by whoever opens it
	case strings.HasPrefix(p, "/"):
		return p, false
	}
	return path.Join(l.dir, p), true
}

// content reads a file of the bundle folder into a blob.
func (l *load) content(p string) (*spec.Blob, error) {
	name, ok := l.rel(p)
	if !ok || strings.HasPrefix(name, "../") {
		return nil, fmt.Errorf("%q is outside the bundle folder", path.Base(p))
	}
	data, err := l.root.ReadFile(name, MaxContent)
	if err != nil {
		return nil, err
	}
	return l.blob(data), nil
}

func (l *load) blob(data []byte) *spec.Blob {
	b := &spec.Blob{Digest: digest.Of(data), Size: int64(len(data))}
	l.blobs[b.Digest] = data
	return b
}

var errFine = errors.New("is finer than a millisecond")

// duration converts to whole milliseconds.
func (l *load) duration(at []string, d *types.Duration) clock.Duration {
	if d == nil {
		return 0
	}
	if t := time.Duration(*d); t%time.Millisecond != 0 {
		l.addf(at, "%v %v: expected whole milliseconds", t, errFine)
	}
	return clock.Duration(time.Duration(*d) / time.Millisecond)
}

// nanoCPUs converts by the shortest decimal, so that 0.1 is 100,000,000.
func nanoCPUs(cpus float32) int64 {
	f, err := strconv.ParseFloat(strconv.FormatFloat(float64(cpus), 'f', -1, 32), 64)
	if err != nil {
		return 0
	}
	return int64(math.Round(f * 1e9))
}

func plainMap[M ~map[string]string](m M) map[string]string {
	if len(m) == 0 {
		return nil
	}
	return maps.Clone(map[string]string(m))
}

func (l *load) networks() {
	for _, name := range slices.Sorted(maps.Keys(l.project.Networks)) {
		n, at := l.project.Networks[name], []string{"networks", name}
		if !l.used(at, "on it", func(s *types.ServiceConfig) bool { _, ok := s.Networks[name]; return ok }) {
			continue
		}
		if n.External {
			l.set.Networks = append(l.set.Networks, spec.Network{Name: name, External: n.Name})
			continue
		}
		out := spec.Network{
			Name: name, Driver: n.Driver, Options: plainMap(n.DriverOpts), Internal: n.Internal, Attachable: n.Attachable,
			IPAMDriver: n.Ipam.Driver, IPAMOpts: plainMap(n.Ipam.Options), Labels: plainMap(n.Labels),
		}
		if n.Name != l.projectName()+"_"+name {
			out.Title = n.Name
		}
		if n.EnableIPv4 != nil && !*n.EnableIPv4 {
			l.addf(append(at, "enable_ipv4"), "enable_ipv4 is false, which needs a newer engine than is asked for: expected true")
		}
		out.IPv6 = n.EnableIPv6 != nil && *n.EnableIPv6
		for _, p := range n.Ipam.Config {
			if p != nil {
				out.Pools = append(out.Pools, spec.Pool{Subnet: p.Subnet, Range: p.IPRange, Gateway: p.Gateway, Aux: plainMap(p.AuxiliaryAddresses)})
			}
		}
		l.set.Networks = append(l.set.Networks, out)
	}
}

// used reports whether an active service uses a network or volume. One that no
// service uses, of whatever profile, is worth a warning.
func (l *load) used(at []string, how string, uses func(s *types.ServiceConfig) bool) bool {
	any := func(services types.Services) bool {
		for _, s := range services {
			if uses(&s) {
				return true
			}
		}
		return false
	}
	if any(l.project.Services) {
		return true
	}
	if !any(l.project.DisabledServices) {
		l.warnf(at, "no service uses %q, so it is not made: expected a service %s", at[1], how)
	}
	return false
}

func (l *load) volumes() {
	for _, name := range slices.Sorted(maps.Keys(l.project.Volumes)) {
		v, at := l.project.Volumes[name], []string{"volumes", name}
		if !l.used(at, "that mounts it", func(s *types.ServiceConfig) bool {
			return slices.ContainsFunc(s.Volumes, func(m types.ServiceVolumeConfig) bool { return m.Type == types.VolumeTypeVolume && m.Source == name })
		}) {
			continue
		}
		if v.External {
			l.set.Volumes = append(l.set.Volumes, spec.Volume{Name: name, External: v.Name})
			continue
		}
		out := spec.Volume{Name: name, Driver: v.Driver, Options: plainMap(v.DriverOpts), Labels: plainMap(v.Labels)}
		if v.Name != l.projectName()+"_"+name {
			out.Title = v.Name
		}
		if device := v.DriverOpts["device"]; strings.Contains(device, l.scratch) {
			l.addf(append(at, "driver_opts", "device"), "the device is a path in the bundle folder, which is not on the host: expected an absolute path of the host")
		}
		l.set.Volumes = append(l.set.Volumes, out)
	}
}
