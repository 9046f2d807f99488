package event

import (
	"fmt"
	"reflect"
)

// HostFacts says what a host is. It replaces what the host said before, and comes when that
// changed; what changes all the time, such as free memory, is no part of it.
type HostFacts struct {
	CPUs   int64  `json:"cpus"`   // logical ones that are online
	Memory int64  `json:"memory"` // in bytes
	Arch   string `json:"arch"`   // as Go names it
	OS     string `json:"os,omitempty"`
	Kernel string `json:"kernel,omitempty"` // its release
	// Engine is the container engine, and EngineAPI the version of its API: empty without an
	// engine, or until it has answered.
	Engine    string `json:"engine,omitempty"`
	EngineAPI string `json:"engineApi,omitempty"`
	// Disk is the size of the file system that holds the data root of the engine, or the state
	// folder of a host without one, in bytes; 0: not known.
	Disk int64 `json:"disk,omitempty"`
	GPUs []GPU `json:"gpus,omitempty"` // in the order of their addresses
	// NeedsReboot names what the machine runs otherwise than its system has it until it is
	// rebooted, such as the kernel, sorted; packages where the distribution says so.
	NeedsReboot []string `json:"needsReboot,omitempty"`
}

// GPU is a display controller on the bus of a host.
type GPU struct {
	Vendor string `json:"vendor"`
	Model  string `json:"model"`            // its number where no driver tells the name
	Memory int64  `json:"memory,omitempty"` // in bytes; 0: not known
}

// Bounds of what a host says of itself.
const (
	MaxGPUs     = 16
	MaxReboot   = 16 // names of what needs a reboot
	MaxFactText = 64 // bytes of a string
	maxFact     = 1<<53 - 1
)

// Check refuses what is beyond the bounds.
func (e HostFacts) Check() error {
	if len(e.GPUs) > MaxGPUs {
		return fmt.Errorf("it has %d GPUs, at most %d are allowed", len(e.GPUs), MaxGPUs)
	}
	if len(e.NeedsReboot) > MaxReboot {
		return fmt.Errorf("it names %d parts that need a reboot, at most %d are allowed", len(e.NeedsReboot), MaxReboot)
	}
	texts, numbers := []string{e.Arch, e.OS, e.Kernel, e.Engine, e.EngineAPI}, []int64{e.CPUs, e.Memory, e.Disk}
	texts = append(texts, e.NeedsReboot...)
	for _, g := range e.GPUs {
		texts, numbers = append(texts, g.Vendor, g.Model), append(numbers, g.Memory)
	}
	for _, s := range texts {
		if len(s) > MaxFactText {
			return fmt.Errorf("a text of its facts has %d bytes, at most %d are allowed", len(s), MaxFactText)
		}
	}
	for _, n := range numbers {
		if n < 0 || n > maxFact {
			return fmt.Errorf("a number of its facts is %d: expected 0 to %d", n, int64(maxFact))
		}
	}
	return nil
}

// Equal reports whether two hosts are the same by their facts.
func (e HostFacts) Equal(o HostFacts) bool {
	if len(e.GPUs) == 0 && len(o.GPUs) == 0 {
		e.GPUs, o.GPUs = nil, nil
	}
	if len(e.NeedsReboot) == 0 && len(o.NeedsReboot) == 0 {
		e.NeedsReboot, o.NeedsReboot = nil, nil
	}
	return reflect.DeepEqual(e, o)
}

// EventType names the event.
func (HostFacts) EventType() string { return "host.facts" }

func init() { add(HostFacts{}, reported) }
