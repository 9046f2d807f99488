package compose

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/compose-spec/compose-go/v2/types"

	"github.com/steadyfleet/steady/internal/core/imageref"
	"github.com/steadyfleet/steady/internal/core/spec"
	"github.com/steadyfleet/steady/internal/trust"
)

// images are those that services share, each once.
type images struct {
	byKey  map[string]*spec.Image
	byName map[string]string   // name to key
	from   map[string][]string // name to the place that asked for it first
}

// add takes an image in, under its name or that with a number, and returns the
// name. Equal images are one.
func (m *images) add(key, name string, i spec.Image, at []string) string {
	if m.byKey == nil {
		m.byKey, m.byName, m.from = map[string]*spec.Image{}, map[string]string{}, map[string][]string{}
	}
	if have := m.byKey[key]; have != nil {
		return have.Name
	}
	i.Name = name
	for n := 2; m.byName[i.Name] != ""; n++ {
		i.Name = fmt.Sprintf("%s-%d", name[:min(len(name), 58)], n)
	}
	m.byKey[key], m.byName[i.Name], m.from[i.Name] = &i, key, at
	return i.Name
}

// addImage takes an image in under its name here.
func (l *load) addImage(key, name string, i spec.Image, at []string) string {
	if room := max(60-len(l.o.Prefix), 1); l.o.Prefix != "" {
		name = l.o.Prefix + strings.TrimLeft(name[max(len(name)-room, 0):], "._-")
	}
	return l.images.add(key, name, i, at)
}

// readable makes a name out of a reference: nginx:1.27 is nginx-1.27.
func readable(ref string) string {
	ref, _, _ = strings.Cut(ref, "@")
	out := strings.TrimLeft(plainName(ref), "._-")
	return cmp.Or(strings.TrimLeft(out[max(len(out)-60, 0):], "._-"), "image")
}

// plainName puts - for whatever a name cannot have.
func plainName(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 'A' && r <= 'Z':
			return r + 'a' - 'A'
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9', strings.ContainsRune("._-", r):
			return r
		}
		return '-'
	}, s)
}

// loads declares the archives of x-steady.
func (l *load) loads() {
	for _, name := range slices.Sorted(maps.Keys(l.steady.Images)) {
		d, at := l.steady.Images[name], []string{steadyKey, "images", name}
		if d.Ref == "" || d.Load == "" {
			l.addf(at, "image %q has no load or no ref: expected an archive of the bundle folder and the image's name in it", name)
			continue
		}
		file, err := inside(l.dir, d.Load)
		if err == nil {
			var data []byte
			if data, err = l.root.ReadFile(file, MaxContent); err == nil {
				l.addImage("ref "+d.Ref, name, spec.Image{Ref: d.Ref, Load: &spec.Load{Archive: *l.blob(data)}}, at)
				continue
			}
		}
		l.addf(append(at, "load"), "%v: expected an archive of the bundle folder", err)
	}
}

func (l *load) imageOf(s *types.ServiceConfig, x *serviceSteady) string {
	at := []string{"services", s.Name}
	if x.FromSnapshot != "" {
		return spec.SnapshotImage + x.FromSnapshot
	}
	if s.Image != "" {
		if _, err := imageref.Parse(s.Image); err != nil {
			l.addf(append(at, "image"), "%v", err)
			return ""
		}
	}
	if s.Build != nil {
		return l.build(s)
	}
	if have := l.images.byKey["ref "+s.Image]; have != nil && have.Load != nil {
		return have.Name
	}
	p := &spec.Pull{Platform: s.Platform}
	policy := append(at, "pull_policy")
	switch s.PullPolicy {
	case "", types.PullPolicyMissing, types.PullPolicyIfNotPresent:
	case types.PullPolicyAlways:
		p.Policy = spec.PullAlways
	case types.PullPolicyNever:
		p.Policy = spec.PullNever
	case types.PullPolicyBuild:
		l.addf(policy, "pull_policy is build and the service has no build: expected build, or another policy")
	default: // by age, as the library has checked
		l.warnf(policy, "pull_policy %s works as missing: a release names the image, and the next release a newer one", s.PullPolicy)
	}
	ref := l.pin(append(at, "image"), s.Image)
	key := fmt.Sprintf("ref %s %s %s", ref, p.Policy, p.Platform)
	return l.addImage(key, readable(s.Image), spec.Image{Ref: ref, Pull: p}, append(at, "image"))
}

// pin gives the reference that the bundle has in place of the one at a place.
func (l *load) pin(at []string, ref string) string {
	if l.o.Pin == nil || ref == "" {
		return ref
	}
	pinned, p := l.o.Pin(ref)
	if p != nil {
		l.report(at, p.IsWarning, p.Message)
	}
	return pinned
}

func (l *load) build(s *types.ServiceConfig) string {
	at := []string{"services", s.Name, "build"}
	b := s.Build
	switch p := s.PullPolicy; p {
	case "", types.PullPolicyBuild, types.PullPolicyMissing, types.PullPolicyIfNotPresent, types.PullPolicyNever:
	default:
		l.warnf([]string{"services", s.Name, "pull_policy"}, "pull_policy %s is without effect: the image is built, when its context changes: expected build, or no build", p)
	}
	out := &spec.Build{
		Inline: b.DockerfileInline, Target: b.Target, Labels: plainMap(b.Labels), Network: b.Network,
		ExtraHosts: b.ExtraHosts.AsList(":"), ShmSize: int64(b.ShmSize), Platform: s.Platform, NoCache: b.NoCache, Pull: b.Pull,
		Tags: slices.Clone(b.Tags), Args: map[string]string{},
	}
	for _, name := range slices.Sorted(maps.Keys(b.Args)) {
		if v := b.Args[name]; v != nil {
			out.Args[name] = *v
		} else {
			l.warnf(append(at, "args", name), "argument %s has no value and is left out: expected one, in .env or under composeEnv of bundle.yaml", name)
		}
	}
	switch {
	case len(b.Platforms) > 1 && out.Platform == "":
		l.warnf(append(at, "platforms"), "a host builds for one platform, its own: expected platform of the service to name another of %s", strings.Join(b.Platforms, ", "))
	case len(b.Platforms) == 1 && out.Platform == "":
		out.Platform = b.Platforms[0]
	}
	if b.DockerfileInline == "" {
		out.Dockerfile = path.Clean(b.Dockerfile)
		if path.IsAbs(out.Dockerfile) || out.Dockerfile == ".." || strings.HasPrefix(out.Dockerfile, "../") {
			l.addf(append(at, "dockerfile"), "dockerfile %q is outside the build context: expected a path inside it", b.Dockerfile)
			return ""
		}
	}
	if strings.Contains(b.Context, "://") || strings.HasPrefix(b.Context, "git@") || strings.HasPrefix(b.Context, "github.com/") {
		l.addf(append(at, "context"), "the build context %q is on the network: expected a folder of the bundle, because a release holds all that it is made of", b.Context)
		return ""
	}
	folder, inRoot := l.rel(b.Context)
	if !inRoot || strings.HasPrefix(folder, "../") {
		l.addf(append(at, "context"), "the build context is outside the bundle folder: expected a folder inside it")
		return ""
	}
	data, err := packContext(l.root, folder, out.Dockerfile)
	if err != nil {
		l.addf(append(at, "context"), "%v: expected a folder of the bundle with what the image is built from", err)
		return ""
	}
	out.Context = l.blob(data)
	l.bases(at, out, folder)
	i := spec.Image{Ref: s.Image, Build: out}
	i.Normalize()
	key, err := trust.Canonical(i)
	if err != nil {
		l.addf(at, "the build does not encode: %v: expected plain values", err)
		return ""
	}
	if s.Image == "" {
		key = append(key, s.Name...)
	}
	return l.addImage("build "+string(key), s.Name, i, at)
}

// bases gives the digests of the images that a Dockerfile names by tag. One that
// nobody locked is the author's, and worth a warning.
func (l *load) bases(at []string, b *spec.Build, folder string) {
	if l.o.Pin == nil {
		return
	}
	text := b.Inline
	if text == "" {
		raw, err := l.root.ReadFile(path.Join(folder, b.Dockerfile), MaxFileBytes)
		if err != nil {
			return // what is packed has it: the host says what is wrong with it
		}
		text = string(raw)
	}
	for _, ref := range imageref.Bases(text, b.Args) {
		if _, err := imageref.Parse(ref); err != nil || imageref.Pinned(ref) {
			continue
		}
		pinned, p := l.o.Pin(ref)
		if p != nil {
			l.warnf(at, "base image %q has no digest, so hosts may build on different ones: expected it in images.lock, which steady image lock writes", ref)
			continue
		}
		if b.Bases == nil {
			b.Bases = map[string]string{}
		}
		_, b.Bases[ref], _ = strings.Cut(pinned, "@")
	}
}
