package convert

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/moby/moby/api/types/container"

	"github.com/steadyfleet/steady/internal/core/diff"
	"github.com/steadyfleet/steady/internal/core/spec"
)

// namespaces writes the modes.
func namespaces(f diff.Form, d *spec.Deployment, in *Inputs) error {
	n := d.Workspace.Namespaces
	m, err := mode(d, in)
	if err != nil {
		return err
	}
	set(f, "network-mode", m)
	for _, x := range []struct{ field, value string }{{"ipc", n.IPC}, {"pid", n.PID}} {
		v, err := shared(d, x.value, in)
		if err != nil {
			return err
		}
		set(f, x.field, v)
	}
	modes(f, n.UTS, n.User, n.Cgroup, n.CgroupParent, n.Isolation)
	return nil
}

func modes(f diff.Form, uts, user, cgroup, parent, isolation string) {
	set(f, "uts", uts)
	set(f, "userns", user)
	set(f, "cgroupns", cgroup)
	set(f, "cgroup-parent", parent)
	if isolation != "default" {
		set(f, "isolation", isolation)
	}
}

// shares reports a mode that makes the engine turn labelling off.
func shares(d *spec.Deployment) bool {
	return d.Workspace.Namespaces.IPC == "host" || d.Workspace.Namespaces.PID == "host"
}

// options are the security options that are asked for.
func options(w *spec.Workspace) []string {
	out := slices.Clone(w.Security.Options)
	if w.Security.Credential != "" {
		out = append(out, "credentialspec="+w.Security.Credential)
	}
	return out
}

// unmasks reports the option for which engines show every path of the kernel. It
// is one of the docker command: engines have lists of paths instead.
func unmasks(option string) bool {
	k, v := securityOption(option)
	return k == "systempaths" && v == "unconfined"
}

// unmasked is that option for a container which hides no path of the kernel; of a
// privileged one nothing is told.
func unmasked(h *container.HostConfig) []string {
	if h.Privileged || h.MaskedPaths == nil || len(h.MaskedPaths)+len(h.ReadonlyPaths) > 0 {
		return nil
	}
	return []string{"systempaths=unconfined"}
}

func security(f diff.Form, privileged bool, add, drop, opts []string, shares bool) {
	setBool(f, "privileged", privileged)
	each(f, "cap-add", capabilities(add))
	each(f, "cap-drop", capabilities(drop))
	for _, o := range opts {
		k, v := securityOption(o)
		if k == "label" && v == "disable" && (privileged || shares) {
			continue // which the engine adds by itself
		}
		if privileged && k == "systempaths" {
			continue // nothing is hidden anyway
		}
		f["security-opt/"+k+"="+v] = "set"
	}
}

// capabilities spells them as newer engines do: CAP_ in front, except ALL.
func capabilities(names []string) []string {
	var out []string
	for _, n := range names {
		n = strings.ToUpper(n)
		if n != "ALL" && !strings.HasPrefix(n, "CAP_") {
			n = "CAP_" + n
		}
		out = append(out, n)
	}
	return sorted(out)
}

// securityOption splits an option at its first sign; one without is true.
func securityOption(o string) (k, v string) {
	i := strings.IndexAny(o, "=:")
	if i < 0 {
		return o, "true"
	}
	return o[:i], o[i+1:]
}

// kernel writes what the kernel and the engine set up around the processes.
func kernel(f diff.Form, w *spec.Workspace, in *Inputs) {
	setBool(f, "read-only", w.Security.ReadOnly)
	each(f, "group-add", w.GroupAdd)
	list(f, "dns", addresses(w.DNS))
	list(f, "dns-search", w.DNSSearch)
	each(f, "dns-option", w.DNSOptions)
	each(f, "extra-host", w.ExtraHosts)
	if w.Logging != nil {
		set(f, "log/driver", w.Logging.Driver)
		pairs(f, "log/option", w.Logging.Options, in)
	}
	set(f, "runtime", w.Runtime)
	pairs(f, "storage-opt", w.StorageOpt, in)
	pairs(f, "sysctl", w.Sysctls, in)
	for _, u := range w.Ulimits {
		f["ulimit/"+u.Name] = fmt.Sprintf("%d:%d", u.Soft, u.Hard)
	}
	setInt(f, "shm-size", w.ShmSize)
}

func addresses(list []string) []string {
	var out []string
	for _, a := range list {
		out = append(out, address(a))
	}
	return out
}

// observedKernel reads what kernel writes.
func observedKernel(f diff.Form, h *container.HostConfig, in *Inputs) {
	setBool(f, "read-only", h.ReadonlyRootfs)
	each(f, "group-add", h.GroupAdd)
	var dns []string
	for _, a := range h.DNS {
		dns = append(dns, a.String())
	}
	list(f, "dns", dns)
	list(f, "dns-search", h.DNSSearch)
	each(f, "dns-option", h.DNSOptions)
	each(f, "extra-host", h.ExtraHosts)
	set(f, "log/driver", h.LogConfig.Type)
	pairs(f, "log/option", h.LogConfig.Config, in)
	set(f, "runtime", h.Runtime)
	pairs(f, "storage-opt", h.StorageOpt, in)
	pairs(f, "sysctl", h.Sysctls, in)
	for _, u := range h.Ulimits {
		f["ulimit/"+u.Name] = fmt.Sprintf("%d:%d", u.Soft, u.Hard)
	}
	setInt(f, "shm-size", h.ShmSize)
}

func deviceMappings(w *spec.Workspace) []container.DeviceMapping {
	var out []container.DeviceMapping
	for _, d := range w.Devices {
		out = append(out, container.DeviceMapping{PathOnHost: d.Host, PathInContainer: cmp.Or(d.Container, d.Host), CgroupPermissions: cmp.Or(d.Permissions, "rwm")})
	}
	return out
}

func deviceRequests(w *spec.Workspace) []container.DeviceRequest {
	var out []container.DeviceRequest
	for _, g := range w.GPUs {
		out = append(out, container.DeviceRequest{Driver: g.Driver, Count: g.Count, DeviceIDs: g.IDs,
			Capabilities: [][]string{g.Capabilities}, Options: g.Options})
	}
	return out
}

func devices(f diff.Form, mapped []container.DeviceMapping, rules []string, requests []container.DeviceRequest) {
	for _, d := range mapped {
		f["device/"+cmp.Or(d.PathInContainer, d.PathOnHost)] = d.PathOnHost + " " + permissions(d.CgroupPermissions)
	}
	each(f, "device-rule", rules)
	var gpus []string
	for _, r := range requests {
		gpus = append(gpus, gpu(r))
	}
	slices.Sort(gpus)
	set(f, "gpus", strings.Join(gpus, " + "))
}

// permissions spells them in one order; what is none stays, and the engine
// refuses it.
func permissions(p string) string {
	if strings.Trim(p, "rwm") != "" {
		return p
	}
	out := ""
	for _, c := range "rwm" {
		if strings.ContainsRune(cmp.Or(p, "rwm"), c) {
			out += string(c)
		}
	}
	return out
}

func gpu(r container.DeviceRequest) string {
	words := []string{cmp.Or(r.Driver, "any")}
	if r.Count != 0 {
		words = append(words, "count="+strconv.Itoa(r.Count))
	}
	if len(r.DeviceIDs) > 0 {
		words = append(words, "ids="+compact(sorted(r.DeviceIDs)))
	}
	var all []string
	for _, c := range r.Capabilities {
		all = append(all, compact(sorted(c)))
	}
	words = append(words, "capabilities="+strings.Join(sorted(all), "|"))
	if len(r.Options) > 0 {
		words = append(words, "options="+compact(r.Options))
	}
	return strings.Join(words, " ")
}
