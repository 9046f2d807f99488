package operate

import (
	"slices"
	"testing"

	"github.com/steadyfleet/steady/internal/core/event"
)

func TestFactsAreSaidOrUnknown(t *testing.T) {
	for what, c := range map[string]struct {
		facts *event.HostFacts
		want  []string
	}{
		"an agent that tells none": {nil, []string{"unknown: its agent has reported none"}},
		"nothing of it is known":   {&event.HostFacts{}, []string{"0 CPUs, memory unknown, unknown architecture", "unknown system, kernel unknown", "no container engine"}},
		"all of it": {&event.HostFacts{CPUs: 1, Memory: 2 << 30, Arch: "arm64", OS: "Alpine", Kernel: "6.6", Engine: "docker", Disk: 1 << 40,
			GPUs: []event.GPU{{Vendor: "amd", Model: "MI210", Memory: 64 << 30}, {Vendor: "0x1a03", Model: "0x2000"}}},
			[]string{"1 CPU, 2.0 GiB of memory, arm64, disk of 1.0 TiB", "Alpine, kernel 6.6", "engine docker, API unknown", "GPU amd MI210, 64.0 GiB of memory", "GPU 0x1a03 0x2000, memory unknown"}},
	} {
		if got := factsMessages(c.facts); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", what, got, c.want)
		}
	}
}
