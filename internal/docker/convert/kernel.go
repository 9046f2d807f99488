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

// settings are what is asked of the host's side that the workspace alone says: without
// namespaces of others, networks, links and mounts.
func settings(w *spec.Workspace, in *Inputs) *container.HostConfig {
	n := &w.Namespaces
	h := &container.HostConfig{
		RestartPolicy: restartPolicy(w), CapAdd: w.Security.CapAdd, CapDrop: w.Security.CapDrop, Privileged: w.Security.Privileged,
		ReadonlyRootfs: w.Security.ReadOnly, SecurityOpt: slices.DeleteFunc(options(w), unmasks),
		CgroupnsMode: container.CgroupnsMode(n.Cgroup), UTSMode: container.UTSMode(n.UTS), UsernsMode: container.UsernsMode(n.User),
		Isolation: container.Isolation(n.Isolation), DNSOptions: w.DNSOptions, DNSSearch: w.DNSSearch, ExtraHosts: w.ExtraHosts,
		GroupAdd: w.GroupAdd, OomScoreAdj: w.Limits.OOMScoreAdj, ShmSize: w.ShmSize, Sysctls: w.Sysctls, StorageOpt: w.StorageOpt,
		Runtime: w.Runtime, Init: w.Init, Resources: resources(w, in), Annotations: w.Annotation,
	}
	if slices.ContainsFunc(options(w), unmasks) {
		h.MaskedPaths, h.ReadonlyPaths = []string{}, []string{}
	}
	if w.Logging != nil {
		h.LogConfig = container.LogConfig{Type: w.Logging.Driver, Config: w.Logging.Options}
	}
	return h
}

// setNamespaces sets the namespaces that may be another container's.
func setNamespaces(h *container.HostConfig, d *spec.Deployment, in *Inputs) error {
	network, err := mode(d, in)
	if err != nil {
		return err
	}
	ipc, err := shared(d, d.Workspace.Namespaces.IPC, in)
	if err != nil {
		return err
	}
	pid, err := shared(d, d.Workspace.Namespaces.PID, in)
	h.NetworkMode, h.IpcMode, h.PidMode = container.NetworkMode(network), container.IpcMode(ipc), container.PidMode(pid)
	return err
}

// host writes those settings of either side. Servers of names come beside them: declared
// ones may be none, with which the request fails.
func host(f diff.Form, h *container.HostConfig, dns []string, in *Inputs) {
	pairs(f, "annotation", h.Annotations, in)
	set(f, "restart", restart(h.RestartPolicy.Name, h.RestartPolicy.MaximumRetryCount))
	if h.Init != nil {
		f["init"] = strconv.FormatBool(*h.Init)
	}
	set(f, "ipc", string(h.IpcMode))
	set(f, "pid", string(h.PidMode))
	set(f, "uts", string(h.UTSMode))
	set(f, "userns", string(h.UsernsMode))
	set(f, "cgroupns", string(h.CgroupnsMode))
	set(f, "cgroup-parent", h.CgroupParent)
	if h.Isolation != "default" {
		set(f, "isolation", string(h.Isolation))
	}
	security(f, h)
	setBool(f, "read-only", h.ReadonlyRootfs)
	each(f, "group-add", h.GroupAdd)
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
	limits(f, h.Resources, h.OomScoreAdj, in)
	devices(f, h.Devices, h.DeviceCgroupRules, h.DeviceRequests)
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
// privileged one nothing is reported.
func unmasked(h *container.HostConfig) []string {
	if h.Privileged || h.MaskedPaths == nil || len(h.MaskedPaths)+len(h.ReadonlyPaths) > 0 {
		return nil
	}
	return []string{"systempaths=unconfined"}
}

func security(f diff.Form, h *container.HostConfig) {
	setBool(f, "privileged", h.Privileged)
	each(f, "cap-add", capabilities(h.CapAdd))
	each(f, "cap-drop", capabilities(h.CapDrop))
	unlabelled := h.Privileged || h.IpcMode == "host" || h.PidMode == "host"
	for _, o := range append(slices.Clone(h.SecurityOpt), unmasked(h)...) {
		k, v := securityOption(o)
		if k == "label" && v == "disable" && unlabelled {
			continue // which the engine adds by itself
		}
		if h.Privileged && k == "systempaths" {
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

func addresses(list []string) []string {
	var out []string
	for _, a := range list {
		out = append(out, address(a))
	}
	return out
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
	parts := []string{cmp.Or(r.Driver, "any")}
	if r.Count != 0 {
		parts = append(parts, "count="+strconv.Itoa(r.Count))
	}
	if len(r.DeviceIDs) > 0 {
		parts = append(parts, "ids="+compact(sorted(r.DeviceIDs)))
	}
	var all []string
	for _, c := range r.Capabilities {
		all = append(all, compact(sorted(c)))
	}
	parts = append(parts, "capabilities="+strings.Join(sorted(all), "|"))
	if len(r.Options) > 0 {
		parts = append(parts, "options="+compact(r.Options))
	}
	return strings.Join(parts, " ")
}
