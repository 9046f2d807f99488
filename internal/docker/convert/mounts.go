package convert

import (
	"cmp"
	"fmt"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/mount"

	"github.com/steadyfleet/steady/internal/core/diff"
	"github.com/steadyfleet/steady/internal/core/spec"
)

// mountForm is one mount in the terms of both sides.
type mountForm struct {
	kind, source string
	readOnly     bool
	noCopy       bool
	propagation  string
	selinux      string
	recursive    string
	size         int64
	mode         uint32
	options      string // of a tmpfs, all of them as one text
}

// write makes one field of it. How later mounts spread is another one, because
// engines set it by themselves for a folder that holds their own.
func (m mountForm) write(f diff.Form, target string) {
	f["mount/"+target] = m.String()
	set(f, "propagation/"+target, m.propagation)
}

func (m mountForm) String() string {
	if m.options != "" {
		return m.kind + " " + m.options
	}
	parts := []string{m.kind}
	add := func(on bool, w string) {
		if on {
			parts = append(parts, w)
		}
	}
	add(m.source != "", m.source)
	add(m.readOnly, "ro")
	add(m.noCopy, "nocopy")
	add(m.selinux != "", "selinux="+m.selinux)
	add(m.recursive != "", "recursive="+m.recursive)
	add(m.size != 0, "size="+strconv.FormatInt(m.size, 10))
	add(m.mode != 0, "mode="+strconv.FormatUint(uint64(m.mode), 8))
	return strings.Join(parts, " ")
}

// desiredMounts writes the declared mounts and contents, and a volume without a
// name for each that the image asks for at another target.
func desiredMounts(f diff.Form, d *spec.Deployment, img *defaults, in *Inputs) error {
	taken := map[string]bool{}
	for _, m := range d.Workspace.Mounts {
		target := path.Clean(m.Target)
		taken[target] = true
		if m.Type == spec.MountAnonymous {
			f["anonymous/"+target] = "volume"
			continue
		}
		source, err := mountSource(d, m)
		if err != nil {
			return err
		}
		desiredMount(m, source).write(f, target)
	}
	for target, file := range filesOf(&d.Workspace) {
		f[FieldFile+"/"+target] = file
	}
	for _, c := range d.Workspace.Contents {
		v, err := content(d, c, in)
		if err != nil {
			return err
		}
		f[FieldContent+"/"+path.Clean(c.Target)] = v
	}
	for target := range img.volumes {
		if target = path.Clean(target); !taken[target] {
			f["anonymous/"+target] = "volume"
		}
	}
	return nil
}

// filesOf are the digests of the bundle's files that a workspace mounts, by target.
func filesOf(w *spec.Workspace) map[string]string {
	out := map[string]string{}
	for _, m := range w.Mounts {
		if m.File != "" {
			out[path.Clean(m.Target)] = string(m.File)
		}
	}
	return out
}

func mountSource(d *spec.Deployment, m spec.Mount) (string, error) {
	if m.Type != spec.MountVolume {
		return m.Source, nil
	}
	name, known := d.Uses.Volumes[m.Source]
	if !known {
		return "", fmt.Errorf("workspace %s: volume %s is not declared: declare it, or leave out the mount at %s", d.Workspace.Name, m.Source, m.Target)
	}
	return name, nil
}

func desiredMount(m spec.Mount, source string) mountForm {
	out := mountForm{kind: string(m.Type), source: source, readOnly: m.ReadOnly}
	switch m.Type {
	case spec.MountBind:
		out.source = path.Clean(source)
		out.selinux = m.SELinux
		out.propagation = propagation(m.Propagation)
		if m.Recursive != "enabled" {
			out.recursive = m.Recursive
		}
	case spec.MountVolume:
		out.noCopy = m.NoCopy
	case spec.MountTmpfs:
		out.source, out.size, out.mode, out.options = "", m.Size, m.Mode, tmpfsText(m)
	}
	return out
}

// tmpfsText is a tmpfs as engines take one with further options; empty for one without, which is a mount like others.
func tmpfsText(m spec.Mount) string {
	if m.Type != spec.MountTmpfs || len(m.Options) == 0 {
		return ""
	}
	parts := slices.Clone(m.Options)
	if m.ReadOnly {
		parts = append(parts, "ro")
	}
	if m.Size != 0 {
		parts = append(parts, "size="+strconv.FormatInt(m.Size, 10))
	}
	if m.Mode != 0 {
		parts = append(parts, "mode="+strconv.FormatUint(uint64(m.Mode), 8))
	}
	return strings.Join(parts, ",")
}

// tmpfsConfig is the part of a request for those with further options, by target.
func tmpfsConfig(w *spec.Workspace) map[string]string {
	out := map[string]string{}
	for _, m := range w.Mounts {
		if text := tmpfsText(m); text != "" {
			out[path.Clean(m.Target)] = text
		}
	}
	return out
}

// propagation is empty for the engine's default.
func propagation(p string) string {
	if p == string(mount.PropagationRPrivate) {
		return ""
	}
	return p
}

// content spells what a content is, by digest.
func content(d *spec.Deployment, c spec.Content, in *Inputs) (string, error) {
	what := ""
	if c.Blob != nil {
		what = string(c.Blob.Digest)
	} else {
		sum, known := in.Secrets[c.Secret]
		if !known {
			return "", fmt.Errorf("workspace %s: the host has no secret %s for %s: put it into the host's secret store", d.Workspace.Name, c.Secret, c.Target)
		}
		what = sum
	}
	parts := fmt.Sprintf("%s %d:%d", what, c.UID, c.GID)
	if c.Tree {
		parts += " tree"
	} else {
		parts += fmt.Sprintf(" %04o", cmp.Or(c.Mode, 0o444))
	}
	if c.Writable {
		parts += " writable"
	}
	if c.Shared != "" {
		parts += " shared " + path.Join(c.Shared, c.Below)
	}
	return parts, nil
}

// observedMounts reads what is mounted, with what only the request says of it.
func observedMounts(f diff.Form, c *container.InspectResponse, contents map[string]string) {
	requested := map[string]mount.Mount{}
	for _, m := range c.HostConfig.Mounts {
		requested[path.Clean(m.Target)] = m
	}
	seen := map[string]bool{}
	for _, m := range c.Mounts {
		target := path.Clean(m.Destination)
		seen[target] = true
		if _, ours := contents[target]; ours {
			continue
		}
		a := requested[target]
		if m.Type == mount.TypeVolume && anonymous(m.Name) {
			f["anonymous/"+target] = "volume"
			continue
		}
		observedMount(m, a).write(f, target)
	}
	for target, a := range requested { // engines that do not list those in memory
		if a.Type == mount.TypeTmpfs && !seen[target] {
			tmpfs(a).write(f, target)
		}
	}
	for target, text := range c.HostConfig.Tmpfs {
		f["mount/"+path.Clean(target)] = strings.TrimSpace("tmpfs " + text)
	}
	for target, v := range contents {
		f[FieldContent+"/"+target] = v
	}
}

func observedMount(m container.MountPoint, a mount.Mount) mountForm {
	out := mountForm{kind: string(m.Type), source: m.Source, readOnly: !m.RW}
	flags := strings.Split(m.Mode, ",")
	switch m.Type {
	case mount.TypeVolume:
		out.source = m.Name
		out.noCopy = a.VolumeOptions != nil && a.VolumeOptions.NoCopy || slices.Contains(flags, "nocopy")
	case mount.TypeBind:
		out.source = path.Clean(m.Source)
		out.propagation = propagation(string(m.Propagation))
		for _, z := range []string{"z", "Z"} {
			if slices.Contains(flags, z) {
				out.selinux = z
			}
		}
		out.recursive = recursive(a.BindOptions)
	case mount.TypeTmpfs:
		return tmpfs(a)
	}
	return out
}

func recursive(o *mount.BindOptions) string {
	switch {
	case o == nil:
		return ""
	case o.NonRecursive:
		return "disabled"
	case o.ReadOnlyNonRecursive:
		return "writable"
	case o.ReadOnlyForceRecursive:
		return "readonly"
	}
	return ""
}

func tmpfs(a mount.Mount) mountForm {
	out := mountForm{kind: "tmpfs", readOnly: a.ReadOnly}
	if o := a.TmpfsOptions; o != nil {
		out.size, out.mode = o.SizeBytes, uint32(o.Mode)
	}
	return out
}

// anonymous reports the name of a volume that the engine named.
func anonymous(name string) bool {
	return len(name) == 64 && strings.Trim(name, "0123456789abcdef") == ""
}

// AnonymousVolumes are the volumes without a name of a container, by target. A
// container that replaces it is made with them, so that no data is lost.
func AnonymousVolumes(c *container.InspectResponse) map[string]string {
	out := map[string]string{}
	for _, m := range c.Mounts {
		if m.Type == mount.TypeVolume && anonymous(m.Name) {
			out[path.Clean(m.Destination)] = m.Name
		}
	}
	return out
}

// mountConfig is the mounts of a request: binds as text where the other way cannot
// make the folder, on older engines, or relabel it.
func mountConfig(d *spec.Deployment, img *defaults, in *CreateInputs) (binds []string, mounts []mount.Mount, err error) {
	taken := map[string]bool{}
	for _, m := range d.Workspace.Mounts {
		taken[path.Clean(m.Target)] = true
		source, err := mountSource(d, m)
		if err != nil {
			return nil, nil, err
		}
		if tmpfsText(m) != "" {
			continue
		}
		if m.Type == spec.MountBind && (m.CreateHost || m.SELinux != "") && !long(m) {
			binds = append(binds, bindText(m))
			continue
		}
		r := mountRequest(m, source, in.Anonymous[path.Clean(m.Target)])
		if m.CreateHost && diff.AtLeast(in.API, 42) { // older ones refuse a folder that is not there
			if r.BindOptions == nil {
				r.BindOptions = &mount.BindOptions{}
			}
			r.BindOptions.CreateMountpoint = true
		}
		mounts = append(mounts, r)
	}
	for target := range img.volumes {
		target = path.Clean(target)
		if name := in.Anonymous[target]; name != "" && !taken[target] {
			mounts = append(mounts, mount.Mount{Type: mount.TypeVolume, Source: name, Target: target})
		}
	}
	for _, c := range d.Workspace.Contents {
		if file := in.Files[c.Target]; file != "" {
			mounts = append(mounts, mount.Mount{Type: mount.TypeBind, Source: file, Target: c.Target, ReadOnly: !c.Writable})
		}
	}
	slices.SortFunc(mounts, func(a, b mount.Mount) int { return strings.Compare(a.Target, b.Target) })
	return binds, mounts, nil
}

// long reports a bind that has no spelling with colons.
func long(m spec.Mount) bool {
	return m.Recursive != "" && m.Recursive != "enabled" || strings.Contains(m.Source+m.Target, ":")
}

// bindText spells a bind with colons.
func bindText(m spec.Mount) string {
	flags := []string{"rw"}
	if m.ReadOnly {
		flags[0] = "ro"
	}
	for _, x := range []string{m.SELinux, m.Propagation} {
		if x != "" {
			flags = append(flags, x)
		}
	}
	return m.Source + ":" + m.Target + ":" + strings.Join(flags, ",")
}

func mountRequest(m spec.Mount, source, kept string) mount.Mount {
	out := mount.Mount{Type: mount.Type(m.Type), Source: source, Target: m.Target, ReadOnly: m.ReadOnly}
	switch m.Type {
	case spec.MountAnonymous:
		out.Type, out.Source = mount.TypeVolume, kept
		if m.NoCopy {
			out.VolumeOptions = &mount.VolumeOptions{NoCopy: true}
		}
	case spec.MountVolume:
		if m.NoCopy {
			out.VolumeOptions = &mount.VolumeOptions{NoCopy: true}
		}
	case spec.MountBind:
		o := mount.BindOptions{Propagation: mount.Propagation(m.Propagation), NonRecursive: m.Recursive == "disabled",
			ReadOnlyNonRecursive: m.Recursive == "writable", ReadOnlyForceRecursive: m.Recursive == "readonly"}
		if o != (mount.BindOptions{}) {
			out.BindOptions = &o
		}
	case spec.MountTmpfs:
		out.Source = ""
		if m.Size != 0 || m.Mode != 0 {
			out.TmpfsOptions = &mount.TmpfsOptions{SizeBytes: m.Size, Mode: os.FileMode(m.Mode)}
		}
	}
	return out
}
