package operator

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/prose"
	"github.com/steadyfleet/steady/internal/core/warning"
)

// FactsMessages say what a host is: its hardware, its system, its engine, and each GPU.
func FactsMessages(f event.HostFacts) []string {
	machine := fmt.Sprintf("%s, %s, %s", prose.Count(f.CPUs, "CPU"), memoryWords(f.Memory), cmp.Or(f.Arch, "unknown architecture"))
	if f.Disk > 0 {
		machine += ", disk of " + warning.Bytes(f.Disk)
	}
	words := []string{machine, fmt.Sprintf("%s, kernel %s", cmp.Or(f.OS, "unknown system"), cmp.Or(f.Kernel, "unknown"))}
	engine := "no container engine"
	if f.Engine != "" {
		engine = fmt.Sprintf("engine %s, API %s", f.Engine, cmp.Or(f.EngineAPI, "unknown"))
	}
	words = append(words, engine)
	for _, g := range f.GPUs {
		words = append(words, strings.TrimSpace("GPU "+g.Vendor+" "+g.Model)+", "+memoryWords(g.Memory))
	}
	if len(f.NeedsReboot) > 0 {
		words = append(words, "needs a reboot: "+strings.Join(f.NeedsReboot, ", "))
	}
	return words
}

func memoryWords(n int64) string {
	if n == 0 {
		return "memory unknown"
	}
	return warning.Bytes(n) + " of memory"
}
