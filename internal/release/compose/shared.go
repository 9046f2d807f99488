package compose

import (
	"errors"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"github.com/compose-spec/compose-go/v2/types"
)

// use is one mount of a path of the bundle folder.
type use struct {
	service, name string // of the service, and of the path
	at            []string
	writable      bool
	user          string
	containers    int
}

// shares finds the paths of the bundle folder that are mounted more than once, or of which one lies below another,
// and one may be written: on a host they are one folder, and so every such mount is of the same copy.
// l.copies gives the topmost path of the copy by each path.
func (l *load) shares() {
	var all []use
	for _, name := range slices.Sorted(maps.Keys(l.project.Services)) {
		s := l.project.Services[name]
		all = append(all, l.uses(&s, &s, map[string]bool{s.Name: true})...)
	}
	groups := map[string][]use{}
	for _, u := range all {
		top := u
		for _, o := range all {
			if within(u.name, o.name) && len(o.name) < len(top.name) {
				top = o
			}
		}
		groups[top.name] = append(groups[top.name], u)
	}
	for _, top := range slices.Sorted(maps.Keys(groups)) {
		l.share(top, groups[top])
	}
}

// uses are what a service mounts of the bundle folder, those of the services whose volumes it takes counted in.
func (l *load) uses(s, by *types.ServiceConfig, seen map[string]bool) (out []use) {
	containers := len(l.replicas(by))
	for i, v := range s.Volumes {
		name, inRoot := l.rel(v.Source)
		if v.Type != types.VolumeTypeBind || !inRoot || strings.HasPrefix(name, "../") || containers == 0 {
			continue
		}
		out = append(out, use{by.Name, name, itemAt(s.Name, "volumes", i), !v.ReadOnly, by.User, containers})
	}
	for _, text := range s.VolumesFrom {
		name, _, _ := strings.Cut(strings.TrimPrefix(text, types.ContainerPrefix), ":")
		if other, ok := l.project.Services[name]; ok && !seen[name] {
			seen[name] = true
			out = append(out, l.uses(&other, by, seen)...)
		}
	}
	return out
}

// within reports whether a path is another one or lies below it.
func within(name, top string) bool {
	return name == top || top == "." || strings.HasPrefix(name, top+"/")
}

func (l *load) share(top string, group []use) {
	services, mounts, writable := map[string]bool{}, 0, false
	for _, u := range group {
		services[u.service], writable = true, writable || u.writable
		mounts += u.containers
	}
	missing := l.isStorage(top)
	for _, u := range group {
		if u.name == top {
			continue
		}
		if missing || l.isStorage(u.name) {
			first := group[slices.IndexFunc(group, func(o use) bool { return o.name == top })]
			l.addf(u.at, "%q lies below %q, which %s mounts too, and it is storage: expected both in the bundle folder, or one volume for both", u.name, top, l.where(first.at...))
			return
		}
	}
	if !writable || mounts < 2 || missing {
		return
	}
	names := slices.Sorted(maps.Keys(services))
	at := group[slices.IndexFunc(group, func(o use) bool { return o.writable })].at
	l.warnf(at, "%q is files of the bundle that containers may write, and %s have one copy of it on each host, made anew when the files of the bundle change; what was written is kept beside it: expected :ro, or a volume for data",
		top, strings.Join(names, ", "))
	var owner string
	for _, u := range group {
		if u.writable && owner == "" {
			owner = u.user
		}
	}
	for _, u := range group {
		l.copies[u.name] = copyOf{top, owner}
	}
}

// isStorage reports whether a path becomes a volume.
func (l *load) isStorage(name string) bool {
	if said := l.said(name); said != "" {
		return said == Storage
	}
	_, err := l.root.Stat(name)
	return errors.Is(err, fs.ErrNotExist)
}

// copyOf is the copy that a path is part of, and whose it is.
type copyOf struct{ top, user string }

// below is the part of a copy that a path is; empty for all of it.
func (c copyOf) below(name string) string {
	switch {
	case name == c.top:
		return ""
	case c.top == ".":
		return name
	}
	return strings.TrimPrefix(name, c.top+"/")
}
