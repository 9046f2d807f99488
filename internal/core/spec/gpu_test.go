package spec

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestGPUsLacking(t *testing.T) {
	gpus := func(g ...GPU) Workspace { return Workspace{GPUs: g} }
	all := GPU{Count: -1, Capabilities: []string{"gpu"}}
	good := GPUFacts{Driver: "535.54.03", Devices: 2, Toolkit: true, Hook: true, Runtime: true, CDI: []string{"nvidia.com/gpu"}, EngineCDI: true}
	with := func(f func(*GPUFacts)) GPUFacts { g := good; f(&g); return g }
	for name, c := range map[string]struct {
		w           Workspace
		f           GPUFacts
		want, setup string
	}{
		"asks for none":          {w: Workspace{}},
		"another driver's":       {w: gpus(GPU{Driver: "amd", Capabilities: []string{"gpu"}})},
		"all is there":           {w: gpus(all), f: good},
		"no driver":              {gpus(all), with(func(f *GPUFacts) { f.Driver = "" }), "driver is not loaded", ""},
		"no device":              {gpus(all), with(func(f *GPUFacts) { f.Devices = 0 }), "shows no GPU", ""},
		"more than there are":    {gpus(GPU{Count: 3, Capabilities: []string{"gpu"}}), good, "3 GPUs are asked for and this host has 2", ""},
		"one that is not there":  {gpus(GPU{IDs: []string{"2"}, Capabilities: []string{"gpu"}}), good, "GPU 2 is asked for", ""},
		"by UUID":                {w: gpus(GPU{IDs: []string{"GPU-1234"}, Capabilities: []string{"gpu"}}), f: good},
		"no toolkit":             {gpus(all), with(func(f *GPUFacts) { f.Hook, f.EngineCDI = false, false }), "Toolkit is not there", ""},
		"by CDI instead of hook": {w: gpus(all), f: with(func(f *GPUFacts) { f.Hook = false })},
		"no runtime":             {Workspace{Runtime: "nvidia"}, with(func(f *GPUFacts) { f.Runtime = false }), "no runtime nvidia", GPUSetupRuntime},
		"no runtime, no toolkit": {Workspace{Runtime: "nvidia"}, with(func(f *GPUFacts) { f.Runtime, f.Toolkit = false, false }), "Toolkit is not there", ""},
		"no spec":                {gpus(GPU{Driver: "cdi", IDs: []string{"nvidia.com/gpu=all"}}), with(func(f *GPUFacts) { f.CDI = nil }), "no CDI spec", GPUSetupCDI},
		"no spec of another":     {gpus(GPU{Driver: "cdi", IDs: []string{"vendor.example/thing=0"}}), good, "vendor.example/thing", ""},
		"engine without CDI":     {gpus(GPU{Driver: "cdi", IDs: []string{"nvidia.com/gpu=all"}}), with(func(f *GPUFacts) { f.EngineCDI = false }), "reads no CDI", ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := c.w.MissingForGPUs(c.f)
			if (got == nil) != (c.want == "") || got != nil && (!strings.Contains(got.Message, c.want) || got.Setup != c.setup) {
				t.Errorf("%+v, expected %q", got, c.want)
			}
		})
	}
}

// TestGPUsLackingIsCured: whatever a host lacks, setting up what is named and installing
// the rest leads to a host that lacks nothing, one step at a time and never in a circle.
func TestGPUsLackingIsCured(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		flag := rapid.Bool()
		f := GPUFacts{Toolkit: flag.Draw(t, "toolkit"), Hook: flag.Draw(t, "hook"), Runtime: flag.Draw(t, "runtime"), EngineCDI: flag.Draw(t, "engine cdi"), Devices: rapid.IntRange(0, 2).Draw(t, "devices")}
		if flag.Draw(t, "driver") {
			f.Driver = "1.2"
		}
		w := Workspace{Runtime: rapid.SampledFrom([]string{"", "nvidia", "runc"}).Draw(t, "of"), GPUs: rapid.SliceOfN(rapid.SampledFrom([]GPU{
			{Capabilities: []string{"gpu"}, Count: -1}, {Driver: "nvidia", Count: 2}, {Driver: "cdi", IDs: []string{"nvidia.com/gpu=0"}}, {Driver: "amd"}}), 0, 2).Draw(t, "gpus")}
		for range 8 {
			need := w.MissingForGPUs(f)
			switch {
			case need == nil:
				return
			case !w.NeedsGPUs():
				t.Fatalf("it asks for none and lacks %q", need.Message)
			case need.Setup == GPUSetupRuntime:
				f.Runtime = true
			case need.Setup == GPUSetupCDI:
				f.CDI = append(f.CDI, "nvidia.com/gpu")
			case strings.Contains(need.Message, "driver is not loaded"):
				f.Driver = "1.2"
			case strings.Contains(need.Message, "shows no GPU"), strings.Contains(need.Message, "asked for"):
				f.Devices = 2
			case strings.Contains(need.Message, "Toolkit"):
				f.Toolkit, f.Hook = true, true
			case strings.Contains(need.Message, "reads no CDI"):
				f.EngineCDI = true
			default:
				t.Fatalf("nobody knows how to cure %q", need.Message)
			}
		}
		t.Fatal("it is never cured")
	})
}
