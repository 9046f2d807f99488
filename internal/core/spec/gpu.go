package spec

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// GPUFacts is what a host and its engine have for containers with GPUs of NVIDIA.
type GPUFacts struct {
	Driver  string   `json:"driver,omitempty"`  // version of the one that is loaded; empty: none
	Devices int      `json:"devices,omitempty"` // GPUs with a device file
	Toolkit bool     `json:"toolkit,omitempty"` // nvidia-ctk is there
	Hook    bool     `json:"hook,omitempty"`    // nvidia-container-runtime-hook is there: engines need it for gpus
	Runtime bool     `json:"runtime,omitempty"` // the engine has the runtime nvidia
	CDI     []string `json:"cdi,omitempty"`     // kinds of devices of the host's CDI specs, such as nvidia.com/gpu
	// EngineCDI says that the engine reads CDI specs.
	EngineCDI bool `json:"engineCDI,omitempty"`
}

// Any reports whether there is anything of it.
func (f *GPUFacts) Any() bool {
	return f.Driver != "" || f.Devices > 0 || f.Toolkit || f.Hook || f.Runtime || len(f.CDI) > 0
}

const (
	runtimeNVIDIA = "nvidia"
	driverCDI     = "cdi"
	kindNVIDIA    = "nvidia.com/gpu"
)

// nvidia reports whether a device request is for NVIDIA's driver: by its name, or by
// asking any driver for a GPU.
func (g *GPU) nvidia() bool {
	switch g.Driver {
	case runtimeNVIDIA:
		return true
	case "":
		return slices.ContainsFunc(g.Capabilities, func(c string) bool { return c == "gpu" || c == runtimeNVIDIA })
	}
	return false
}

func (g *GPU) cdi() (kinds []string) {
	if g.Driver != driverCDI {
		return nil
	}
	for _, id := range g.IDs {
		kind, _, _ := strings.Cut(id, "=")
		kinds = append(kinds, kind)
	}
	return kinds
}

// NeedsGPUs reports whether the workspace needs what GPUFacts tells of.
func (w *Workspace) NeedsGPUs() bool {
	return w.Runtime == runtimeNVIDIA || slices.ContainsFunc(w.GPUs, func(g GPU) bool { return g.nvidia() || g.Driver == driverCDI })
}

// GPUNeed is one thing that a host lacks for a workspace's GPUs, for people. Setup
// names what the toolkit can set up itself: GPUSetupRuntime or GPUSetupCDI.
type GPUNeed struct {
	Message string
	Setup   string
}

// What nvidia-ctk can set up.
const (
	GPUSetupRuntime = "runtime"
	GPUSetupCDI     = "cdi"
)

// MissingForGPUs is the first thing that a host lacks for the workspace's GPUs, in the order
// in which they have to be cured; nil if it lacks nothing.
func (w *Workspace) MissingForGPUs(f GPUFacts) *GPUNeed {
	if !w.NeedsGPUs() {
		return nil
	}
	vendor := w.Runtime == runtimeNVIDIA
	for i := range w.GPUs {
		vendor = vendor || w.GPUs[i].nvidia() || slices.Contains(w.GPUs[i].cdi(), kindNVIDIA)
	}
	switch {
	case vendor && f.Driver == "":
		return &GPUNeed{Message: "the NVIDIA driver is not loaded: /proc/driver/nvidia/version is not there; install the driver and reboot"}
	case vendor && f.Devices == 0:
		return &GPUNeed{Message: "the NVIDIA driver " + f.Driver + " shows no GPU: there is no /dev/nvidia0; look at what nvidia-smi says"}
	}
	for i := range w.GPUs {
		if need := w.GPUs[i].lacking(f); need != nil {
			return need
		}
	}
	if w.Runtime == runtimeNVIDIA && !f.Runtime {
		if !f.Toolkit {
			return noToolkit()
		}
		return &GPUNeed{Setup: GPUSetupRuntime, Message: "the engine has no runtime nvidia; run nvidia-ctk runtime configure --runtime=docker and restart the engine, or put gpuRuntime: configure into bundle.yaml"}
	}
	return nil
}

func noToolkit() *GPUNeed {
	return &GPUNeed{Message: "the NVIDIA Container Toolkit is not there; install nvidia-container-toolkit and restart the engine"}
}

func (g *GPU) lacking(f GPUFacts) *GPUNeed {
	if g.nvidia() {
		if g.Count > f.Devices {
			return &GPUNeed{Message: fmt.Sprintf("%d GPUs are asked for and this host has %d", g.Count, f.Devices)}
		}
		for _, id := range g.IDs {
			if n, err := strconv.Atoi(id); err == nil && n >= f.Devices {
				return &GPUNeed{Message: fmt.Sprintf("GPU %s is asked for and this host has %d, from 0 on", id, f.Devices)}
			}
		}
		if !f.Hook && !(f.EngineCDI && slices.Contains(f.CDI, kindNVIDIA)) {
			return noToolkit()
		}
		return nil
	}
	for _, kind := range g.cdi() {
		switch {
		case !f.EngineCDI:
			return &GPUNeed{Message: "the engine reads no CDI specs: it needs Docker 25 or newer, and features: {cdi: true} in its daemon.json before Docker 28.2"}
		case slices.Contains(f.CDI, kind):
		case kind == kindNVIDIA && f.Toolkit:
			return &GPUNeed{Setup: GPUSetupCDI, Message: "the host has no CDI spec of " + kind + "; run nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml, or put gpuRuntime: configure into bundle.yaml"}
		case kind == kindNVIDIA:
			return noToolkit()
		default:
			return &GPUNeed{Message: "the host has no CDI spec of " + kind + " in /etc/cdi or /var/run/cdi"}
		}
	}
	return nil
}
