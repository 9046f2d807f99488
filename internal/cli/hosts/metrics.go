package hosts

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/steadyfleet/steady/internal/agent/measure"
	"github.com/steadyfleet/steady/internal/api/operator"
	"github.com/steadyfleet/steady/internal/cli/command"
	"github.com/steadyfleet/steady/internal/cli/term"
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/prose"
	"github.com/steadyfleet/steady/internal/core/spec"
	"github.com/steadyfleet/steady/internal/core/warning"
)

func (a verbs) metricsCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use: "metrics HOST", Short: "Show what a host last measured",
		Example: "  steady host metrics gpu-1\n  steady host metrics gpu-1 -o json",
	}
	return a.HostNames(command.Shows(a.Env, cmd, func(ctx context.Context, c *operator.Client, args []string) (operator.HostMetrics, error) {
		return c.HostMetrics(ctx, args[0])
	}, a.showMetrics))
}

func (a verbs) showMetrics(m operator.HostMetrics) error {
	if m.At == 0 {
		a.Printf("Host %s has not reported since the server started\n", m.Host)
		return nil
	}
	a.Printf("Host %s, %s ago\n", m.Host, prose.Span(a.Wall().Sub(m.At)))
	a.Printf("  agent:    %s, up %s\n", cmp.Or(m.AgentVersion, "unknown"), prose.Span(clock.Duration(m.Uptime)*clock.Second))
	switch e := m.Engine; {
	case e == nil:
		a.Printf("  engine:   none\n")
	case e.Problem != "":
		a.Printf("  engine:   %s\n", term.Printable(e.Problem))
	default:
		a.Printf("  engine:   %s %s, API %s, storage %s, cgroup v%d, %d containers, %d run\n", cmp.Or(e.Name, "engine"), e.Version, e.API, cmp.Or(e.Storage, "unknown"), e.Cgroup, e.Containers, e.Running)
	}
	if m.Engine != nil && m.Engine.GPUs != nil {
		a.Printf("  GPUs:     %s\n", term.Printable(describeGPU(m.Engine.GPUs)))
	}
	if len(m.Runtimes) > 0 {
		a.Printf("  runtimes: %s\n", strings.Join(m.Runtimes, ", "))
	}
	if len(m.Metrics) == 0 {
		a.Printf("  It measures nothing. Next: steady host set %s --metrics host,gpu,workspaces\n", m.Host)
		return nil
	}
	var s measure.Sample
	err := json.Unmarshal(m.Metrics, &s)
	if err == nil {
		err = s.Check()
	}
	if err != nil {
		return fmt.Errorf("what host %s measured cannot be read: %w; -o json shows it", m.Host, err)
	}
	a.showHost(s.Host)
	if err := a.showGPUs(s.GPUs); err != nil {
		return err
	}
	if err := a.showWorkspaces(s.Workspaces); err != nil {
		return err
	}
	for _, p := range s.Problems {
		a.Printf("  not read: %s\n", term.Printable(p))
	}
	return nil
}

func (a verbs) showHost(h *measure.Host) {
	if h == nil {
		return
	}
	a.Printf("  CPU:      %s of %s, load %s\n", permille(h.CPUPermille), number(h.CPUCount), milli(h.Load1Milli))
	a.Printf("  memory:   %s free of %s, swap %s free of %s\n", bytesOf(h.MemAvailableBytes), bytesOf(h.MemTotalBytes), bytesOf(h.SwapFreeBytes), bytesOf(h.SwapTotalBytes))
	for _, d := range h.Disks {
		a.Printf("  disk:     %s free of %s at %s\n", bytesOf(&d.FreeBytes), bytesOf(&d.TotalBytes), term.Printable(d.Path))
	}
	a.Printf("  network:  %s received, %s sent\n", bytesOf(h.NetRxBytes), bytesOf(h.NetTxBytes))
	if h.Kernel != "" {
		a.Printf("  kernel:   %s\n", term.Printable(h.Kernel))
	}
}

func (a verbs) showGPUs(gpus []measure.GPU) error {
	if len(gpus) == 0 {
		return nil
	}
	var rows [][]string
	for _, g := range gpus {
		rows = append(rows, []string{cmp.Or(g.Name, g.UUID), permille(g.UtilPermille), bytesOf(g.MemUsedBytes) + " of " + bytesOf(g.MemTotalBytes), number(g.TemperatureC) + " °C", milli(g.PowerMilliwatt) + " W"})
	}
	return a.Table([]string{"gpu", "busy", "memory", "temperature", "power"}, rows)
}

func (a verbs) showWorkspaces(list []measure.Workspace) error {
	if len(list) == 0 {
		return nil
	}
	var rows [][]string
	for _, w := range list {
		memory := bytesOf(w.MemBytes)
		if w.MemLimitBytes != nil {
			memory += " of " + bytesOf(w.MemLimitBytes)
		}
		rows = append(rows, []string{w.Name, permille(w.CPUPermille), memory, number(w.Pids), bytesOf(w.NetRxBytes) + " / " + bytesOf(w.NetTxBytes), bytesOf(w.IOReadBytes) + " / " + bytesOf(w.IOWrittenBytes)})
	}
	return a.Table([]string{"workspace", "cpu", "memory", "pids", "net rx / tx", "disk read / write"}, rows)
}

// measured words what may not be known.
func measured(words func(int64) string) func(*int64) string {
	return func(n *int64) string {
		if n == nil {
			return "?"
		}
		return words(*n)
	}
}

var (
	number   = measured(func(n int64) string { return fmt.Sprint(n) })
	permille = measured(func(n int64) string { return fmt.Sprintf("%d.%d %%", n/10, n%10) })
	milli    = measured(func(n int64) string { return fmt.Sprintf("%d.%02d", n/1000, n%1000/10) })
	bytesOf  = measured(warning.Bytes)
)

// describeGPU tells what a host has for containers with GPUs, and what it has not.
func describeGPU(f *spec.GPUFacts) string {
	have := func(on bool, what string) string {
		if on {
			return what
		}
		return "no " + what
	}
	words := []string{"no driver"}
	if f.Driver != "" {
		words[0] = "driver " + f.Driver
	}
	words = append(words, fmt.Sprintf("%d devices", f.Devices), have(f.Toolkit || f.Hook, "toolkit"), have(f.Runtime, "runtime nvidia"))
	if len(f.CDI) > 0 {
		words = append(words, "CDI "+strings.Join(f.CDI, " "))
	}
	return strings.Join(words, ", ")
}
