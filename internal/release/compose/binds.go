package compose

import (
	"errors"
	"io/fs"
	"path"
	"strconv"
	"strings"

	"github.com/compose-spec/compose-go/v2/types"

	"github.com/steadyfleet/steady/internal/core/spec"
	"github.com/steadyfleet/steady/internal/disk"
)

// bundlePath mounts a path that a service names relative to the bundle folder. What
// the folder has is content of the bundle; what it has not is storage, a volume of
// the path's name, which m becomes. Not ok after a problem.
func (l *load) bundlePath(at []string, s *types.ServiceConfig, v *types.ServiceVolumeConfig, name string, m *spec.Mount) (*spec.Content, bool) {
	if strings.HasPrefix(name, "../") {
		l.addf(at, "%q is outside the bundle folder: expected a path inside it, or an absolute path of the host", name)
		return nil, false
	}
	if b := v.Bind; b != nil && b.SELinux+b.Propagation+b.Recursive != "" {
		l.warnf(at, "options of the bind of %q are without effect: files of a bundle are mounted as they are, and storage is a volume", name)
	}
	one, shared := l.copies[name]
	if !shared {
		one = copyOf{name, s.User}
	}
	said := l.said(name)
	info, err := l.root.Stat(one.top)
	switch {
	case said == Storage, said == "" && errors.Is(err, fs.ErrNotExist):
		l.notePath(at, s, v, name, Storage)
		return nil, l.storage(at, s, v, name, m)
	case errors.Is(err, fs.ErrNotExist):
		l.addf(at, "the bundle folder has no %q, and paths of bundle.yaml has it as files: expected it there", name)
		return nil, false
	case err != nil:
		l.addf(at, "%q cannot be read: %v: expected a file or folder of the bundle folder", name, disk.Cause(err))
		return nil, false
	}
	c := &spec.Content{Target: v.Target, Writable: !v.ReadOnly}
	if shared {
		c.Shared, c.Below = one.top, one.below(name)
	}
	if c.Writable || shared {
		c.UID, c.GID = owner(one.user)
	}
	switch {
	case info.IsDir():
		c.Tree = true
		data, err := packTree(l.root, one.top)
		if err != nil {
			l.addf(at, "%v: expected a folder that a release can carry, or an absolute path of the host", err)
			return nil, false
		}
		c.Blob = l.blob(data)
	case info.Mode().IsRegular():
		data, err := l.root.ReadFile(one.top, MaxContent)
		if err != nil {
			l.addf(at, "%v: expected a file that a release can carry, or an absolute path of the host", err)
			return nil, false
		}
		c.Blob, c.Mode = l.blob(data), l.modeOf(one.top, c.Writable || shared)
	default:
		l.addf(at, "%q is neither a file nor a folder: expected one of them, or an absolute path of the host", name)
		return nil, false
	}
	l.notePath(at, s, v, name, Files)
	if !shared {
		l.noteCopies(at, s, c, name)
	}
	return c, true
}

// said is what the options have a path as; empty where they do not list it.
func (l *load) said(name string) PathKind {
	for p, kind := range l.o.Paths {
		if path.Clean(p) == name {
			l.listed[p] = true
			return kind
		}
	}
	return ""
}

func (l *load) notePath(at []string, s *types.ServiceConfig, v *types.ServiceVolumeConfig, name string, kind PathKind) {
	for _, w := range l.replicas(s) {
		l.paths = append(l.paths, Path{w, path.Clean(v.Target), name, kind, l.said(name) != "", l.place(at)})
	}
}

// noteCopies warns of what differs from a folder of the host: the copy is made for each
// version of the files.
func (l *load) noteCopies(at []string, s *types.ServiceConfig, c *spec.Content, name string) {
	if !c.Writable {
		return
	}
	if l.copied[name] {
		return
	}
	l.copied[name] = true
	l.warnf(at, "%q is files of the bundle that the container may write: each host has a copy, made anew when the files of the bundle change, and what was written is kept beside it: expected :ro, or a volume for data", name)
}

// storage makes a volume for a path that the bundle folder has not, as compose makes
// a folder.
func (l *load) storage(at []string, s *types.ServiceConfig, v *types.ServiceVolumeConfig, name string, m *spec.Mount) bool {
	ext := path.Ext(name)
	switch {
	case v.Bind != nil && !bool(v.Bind.CreateHostPath):
		l.addf(at, "the bundle folder has no %q, and create_host_path is false: expected it there, or an absolute path of the host", name)
		return false
	case ext != "" && ext != path.Base(name) && ext == path.Ext(v.Target):
		l.addf(at, "the bundle folder has no %q, and the name is one of a file: expected it there; a missing path becomes a folder", name)
		return false
	}
	title := strings.Trim(plainName(name), "._-") // ./db/data is db-data
	if title == "" || len(title) > 63 {
		l.addf(at, "the bundle folder has no %q, and no volume can have its name: expected a shorter or plainer path, or a volume", name)
		return false
	}
	_, declared := l.project.Volumes[title]
	if other, taken := l.folders[title]; declared || taken && other != name {
		l.addf(at, "the bundle folder has no %q, and volume %q for it is there already: expected another path, or that volume", name, title)
		return false
	}
	if _, again := l.folders[title]; !again {
		l.folders[title] = name
		l.set.Volumes = append(l.set.Volumes, spec.Volume{Name: title})
		has := "the bundle folder has no %q, so it"
		switch {
		case l.said(name) == Storage:
			has = "%q"
		case l.root.Hides(name):
			has = "git tracks no file in %q, so it"
		}
		l.warnf(at, has+" is storage of the host: the volume %q, which stays when containers are replaced", name, title)
	}
	m.Type, m.Source = spec.MountVolume, title
	return true
}

// owner reads a user and group that are numbers; names mean something in the image
// alone, which is not known here.
func owner(user string) (uid, gid int) {
	u, g, _ := strings.Cut(user, ":")
	uid, err := strconv.Atoi(u)
	if err != nil || uid < 0 {
		return 0, 0
	}
	if gid, err = strconv.Atoi(g); err != nil || gid < 0 {
		gid = 0
	}
	return uid, gid
}

// modeOf are the permissions of a file of the bundle folder, as git keeps them
// apart; without those to write, which a file that is only read has no use for.
func (l *load) modeOf(name string, writable bool) uint32 {
	info, err := l.root.Stat(name)
	if err != nil {
		return 0
	}
	mode := permissions(info.Mode())
	if !writable {
		mode &= 0o555
	}
	return uint32(mode)
}
