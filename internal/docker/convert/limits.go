package convert

import (
	"cmp"
	"fmt"
	"strconv"
	"time"

	"github.com/moby/moby/api/types/blkiodev"
	"github.com/moby/moby/api/types/container"

	"github.com/steadyfleet/steady/internal/core/diff"
	"github.com/steadyfleet/steady/internal/core/spec"
)

// resources are the declared limits as they are asked for. Memory without a
// bound of swap takes twice as much of both, which engines store too.
func resources(w *spec.Workspace, in *Inputs) container.Resources {
	l := &w.Limits
	r := container.Resources{
		NanoCPUs: l.NanoCPUs, CPUShares: l.CPUShares, CPUPeriod: l.CPUPeriod, CPUQuota: l.CPUQuota,
		CPURealtimePeriod: l.CPURTPeriod, CPURealtimeRuntime: l.CPURTRuntime, CpusetCpus: l.CPUSet, CpusetMems: l.CPUMems,
		CPUCount: l.CPUCount, CPUPercent: l.CPUPerMille / 10,
		Memory: l.Memory, MemoryReservation: l.MemoryReservation, MemorySwap: swap(l, in), MemorySwappiness: l.Swappiness,
		OomKillDisable: l.OOMKillDisable, PidsLimit: l.PIDs, BlkioWeight: uint16(l.BlkioWeight),
		CgroupParent: w.Namespaces.CgroupParent, DeviceCgroupRules: w.DeviceRules,
		Devices: deviceMappings(w), DeviceRequests: deviceRequests(w),
	}
	for _, u := range w.Ulimits {
		r.Ulimits = append(r.Ulimits, &container.Ulimit{Name: u.Name, Soft: u.Soft, Hard: u.Hard})
	}
	for _, b := range l.BlkioDevices {
		throttle(&r, b)
	}
	return r
}

func swap(l *spec.Limits, in *Inputs) int64 {
	if l.MemorySwap == 0 && l.Memory > 0 && !in.NoSwap {
		return 2 * l.Memory
	}
	return l.MemorySwap
}

func throttle(r *container.Resources, b spec.BlkioLimit) {
	d := &blkiodev.ThrottleDevice{Path: b.Path, Rate: uint64(b.Rate)}
	switch b.What {
	case "weight":
		r.BlkioWeightDevice = append(r.BlkioWeightDevice, &blkiodev.WeightDevice{Path: b.Path, Weight: uint16(b.Rate)})
	case "read_bps":
		r.BlkioDeviceReadBps = append(r.BlkioDeviceReadBps, d)
	case "read_iops":
		r.BlkioDeviceReadIOps = append(r.BlkioDeviceReadIOps, d)
	case "write_bps":
		r.BlkioDeviceWriteBps = append(r.BlkioDeviceWriteBps, d)
	case "write_iops":
		r.BlkioDeviceWriteIOps = append(r.BlkioDeviceWriteIOps, d)
	}
}

// limits writes bounds; what means "no bound" is none.
func limits(f diff.Form, r container.Resources, oomScore int, in *Inputs) {
	setInt(f, "limit/cpus", r.NanoCPUs)
	setInt(f, "limit/cpu-shares", r.CPUShares)
	setInt(f, "limit/cpu-period", r.CPUPeriod)
	setInt(f, "limit/cpu-quota", r.CPUQuota)
	setInt(f, "limit/cpu-rt-period", r.CPURealtimePeriod)
	setInt(f, "limit/cpu-rt-runtime", r.CPURealtimeRuntime)
	set(f, "limit/cpuset", r.CpusetCpus)
	set(f, "limit/cpuset-mems", r.CpusetMems)
	setInt(f, "limit/cpu-count", r.CPUCount)
	setInt(f, "limit/cpu-percent", r.CPUPercent)
	setInt(f, "limit/memory", r.Memory)
	setInt(f, "limit/memory-reservation", r.MemoryReservation)
	if !in.NoSwap {
		setInt(f, "limit/memory-swap", r.MemorySwap)
	}
	if r.MemorySwappiness != nil && *r.MemorySwappiness != -1 {
		f["limit/swappiness"] = strconv.FormatInt(*r.MemorySwappiness, 10)
	}
	setBool(f, "limit/oom-kill-disable", r.OomKillDisable != nil && *r.OomKillDisable)
	setInt(f, "limit/oom-score-adj", oomScore)
	if r.PidsLimit != nil && *r.PidsLimit > 0 {
		setInt(f, "limit/pids", *r.PidsLimit)
	}
	setInt(f, "limit/blkio-weight", r.BlkioWeight)
	for _, d := range r.BlkioWeightDevice {
		f["limit/blkio/weight/"+d.Path] = fmt.Sprint(d.Weight)
	}
	for what, devices := range map[string][]*blkiodev.ThrottleDevice{
		"read_bps": r.BlkioDeviceReadBps, "read_iops": r.BlkioDeviceReadIOps,
		"write_bps": r.BlkioDeviceWriteBps, "write_iops": r.BlkioDeviceWriteIOps} {
		for _, d := range devices {
			f["limit/blkio/"+what+"/"+d.Path] = fmt.Sprint(d.Rate)
		}
	}
}

// Update turns the differences that an update in place cures into the engine's
// request. The memory's bound goes with that of swap always: engines refuse one
// above the other. A limit that is not wanted is not in it, except of processes.
func Update(ds []diff.Difference, d *spec.Deployment, in Inputs) Changes {
	want := resources(&d.Workspace, &in)
	var r container.Resources
	var out Changes
	for _, x := range ds {
		if x.Class != diff.InPlace {
			continue
		}
		switch x.Field {
		case "restart":
			p := restartPolicy(&d.Workspace)
			out.Restart = &p
			continue
		case "limit/memory", "limit/memory-swap":
			r.Memory, r.MemorySwap = want.Memory, want.MemorySwap
		case "limit/memory-reservation":
			r.MemoryReservation = want.MemoryReservation
		case "limit/cpus":
			r.NanoCPUs = want.NanoCPUs
		case "limit/cpu-shares":
			r.CPUShares = want.CPUShares
		case "limit/cpu-period", "limit/cpu-quota":
			r.CPUPeriod, r.CPUQuota = want.CPUPeriod, want.CPUQuota
		case "limit/cpuset":
			r.CpusetCpus = want.CpusetCpus
		case "limit/cpuset-mems":
			r.CpusetMems = want.CpusetMems
		case "limit/pids":
			r.PidsLimit = want.PidsLimit
			if r.PidsLimit == nil {
				none := int64(-1)
				r.PidsLimit = &none
			}
		case "limit/blkio-weight":
			r.BlkioWeight = want.BlkioWeight
		default:
			continue
		}
		out.Resources = &r
	}
	return out
}

// restartPolicy is the declared one; none is "no", because an empty one asks an
// engine for no change.
func restartPolicy(w *spec.Workspace) container.RestartPolicy {
	out := container.RestartPolicy{Name: cmp.Or(container.RestartPolicyMode(w.Restart.Policy), container.RestartPolicyDisabled)}
	if out.Name == container.RestartPolicyOnFailure {
		out.MaximumRetryCount = w.Restart.Max
	}
	return out
}

// SameRestart reports whether two policies mean the same.
func SameRestart(a, b container.RestartPolicy) bool {
	return restart(a.Name, a.MaximumRetryCount) == restart(b.Name, b.MaximumRetryCount)
}

// StopGrace is the time between the signal that asks a container to stop and the one that kills
// it: 10 s where the container has none of its own, as the engine has it.
func StopGrace(c *container.Config) time.Duration {
	if c == nil || c.StopTimeout == nil || *c.StopTimeout < 0 {
		return 10 * time.Second
	}
	return time.Duration(*c.StopTimeout) * time.Second
}

// Revives reports whether the engine may start a container by itself.
func Revives(c *container.InspectResponse) bool {
	return c.HostConfig != nil && !SameRestart(c.HostConfig.RestartPolicy, container.RestartPolicy{})
}
