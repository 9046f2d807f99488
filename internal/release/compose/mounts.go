package compose

import (
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/compose-spec/compose-go/v2/types"
	"github.com/steadyfleet/steady/internal/core/spec"
)

// mounts are the volumes, tmpfs and volumes_from of a service.
func (l *load) mounts(w *spec.Workspace, s *types.ServiceConfig) {
	w.Mounts, w.Contents = l.volumeMounts(s)
	w.Mounts = append(w.Mounts, l.tmpfs(s)...)
	taken := func(target string) bool {
		return slices.ContainsFunc(w.Mounts, func(m spec.Mount) bool { return m.Target == target }) ||
			slices.ContainsFunc(w.Contents, func(c spec.Content) bool { return c.Target == target })
	}
	mounts, contents := l.volumesFrom(s, map[string]bool{s.Name: true})
	for _, m := range mounts {
		if !taken(m.Target) {
			w.Mounts = append(w.Mounts, m)
		}
	}
	for _, c := range contents {
		if !taken(c.Target) {
			w.Contents = append(w.Contents, c)
		}
	}
}

// volumeMounts are what a service mounts: files and folders of the bundle are
// contents.
func (l *load) volumeMounts(s *types.ServiceConfig) (mounts []spec.Mount, contents []spec.Content) {
	for i, v := range s.Volumes {
		at := itemAt(s.Name, "volumes", i)
		m := spec.Mount{Target: v.Target, ReadOnly: v.ReadOnly}
		switch v.Type {
		case types.VolumeTypeVolume:
			m.Type, m.Source = spec.MountVolume, v.Source
			if v.Source == "" {
				m.Type = spec.MountAnonymous
			}
			m.NoCopy = v.Volume != nil && v.Volume.NoCopy
		case types.VolumeTypeBind:
			name, inRoot := l.rel(v.Source)
			if inRoot {
				c, ok := l.bundlePath(at, s, &v, name, &m)
				if !ok {
					continue
				}
				if c != nil {
					contents = append(contents, *c)
					continue
				}
				break
			}
			m.Type, m.Source, m.CreateHost = spec.MountBind, v.Source, true
			if b := v.Bind; b != nil {
				m.CreateHost, m.Propagation, m.SELinux = bool(b.CreateHostPath), b.Propagation, b.SELinux
				if b.Recursive != "" && b.Recursive != "enabled" {
					m.Recursive = b.Recursive
				}
				if m.Recursive != "" && m.Recursive != "disabled" {
					l.addf(at, "recursive %q needs a newer engine than is asked for: expected enabled or disabled", b.Recursive)
				}
			}
		case types.VolumeTypeTmpfs:
			m.Type = spec.MountTmpfs
			if v.Tmpfs != nil {
				m.Size, m.Mode = int64(v.Tmpfs.Size), v.Tmpfs.Mode
			}
		case types.VolumeTypeImage:
			l.addf(at, "an image as a volume is refused: mounting an image needs a newer engine than is asked for: expected a volume, or the files in the service's own image")
			continue
		default:
			l.addf(at, "volume type %q is not supported: expected volume, bind or tmpfs", v.Type)
			continue
		}
		mounts = append(mounts, m)
	}
	return mounts, contents
}

// tmpfs reads the short form, target:size=64m,mode=1777.
func (l *load) tmpfs(s *types.ServiceConfig) []spec.Mount {
	var out []spec.Mount
	for i, text := range s.Tmpfs {
		at := itemAt(s.Name, "tmpfs", i)
		target, options, _ := strings.Cut(text, ":")
		m := spec.Mount{Type: spec.MountTmpfs, Target: path.Clean(target)}
		for option := range strings.SplitSeq(options, ",") {
			key, value, _ := strings.Cut(option, "=")
			switch key {
			case "", "rw", "nosuid", "nodev", "noexec", "defaults": // rw and the rest are so anyway
			case "ro":
				m.ReadOnly = true
			case "size":
				var n types.UnitBytes
				if err := n.DecodeMapstructure(value); err != nil {
					l.addf(at, "size %q: expected bytes such as 64m", value)
				}
				m.Size = int64(n)
			case "mode":
				n, err := strconv.ParseUint(value, 8, 12)
				if err != nil {
					l.addf(at, "mode %q: expected permission bits such as 1777", value)
				}
				m.Mode = uint32(n)
			default:
				if !spec.TmpfsOption(option) {
					l.addf(at, "tmpfs option %q is not supported: expected size, mode, ro, exec, suid, dev, uid, gid, nr_inodes or another that engines take", option)
				}
				m.Options = append(m.Options, option)
			}
		}
		slices.Sort(m.Options)
		m.Options = slices.Compact(m.Options)
		out = append(out, m)
	}
	return out
}

func (l *load) volumesFrom(s *types.ServiceConfig, seen map[string]bool) (mounts []spec.Mount, contents []spec.Content) {
	for i, text := range s.VolumesFrom {
		at := itemAt(s.Name, "volumes_from", i)
		ref, foreign := strings.CutPrefix(text, types.ContainerPrefix)
		name, mode, _ := strings.Cut(ref, ":")
		if foreign {
			own, ok := l.ownContainer(name)
			if !ok {
				l.addf(at, "%q is no container of this file, and those of other owners are not touched: expected a service of this file", text)
				continue
			}
			name = own
		}
		other, ok := l.project.Services[name]
		if !ok || seen[name] {
			l.addf(at, "%q is not declared, or takes the volumes of this one: expected another service of this file", name)
			continue
		}
		seen[name] = true
		own, files := l.volumeMounts(&other)
		more, moreFiles := l.volumesFrom(&other, seen)
		for _, m := range append(own, more...) {
			if m.Type == spec.MountAnonymous {
				l.addf(at, "%q of service %q is a volume without a name, which cannot be shared: expected a name for it under volumes", m.Target, name)
				continue
			}
			m.ReadOnly = m.ReadOnly || mode == "ro"
			mounts = append(mounts, m)
		}
		for _, c := range append(files, moreFiles...) {
			c.Writable = c.Writable && mode != "ro"
			contents = append(contents, c)
		}
		delete(seen, name)
	}
	return mounts, contents
}
