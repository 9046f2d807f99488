package session

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/steadyfleet/steady/internal/core/place"
	"github.com/steadyfleet/steady/internal/testkit"
)

// TestContainersHaveTheGPUsThatAreBooked: two pods on one host with one GPU each have different ones.
func TestContainersHaveTheGPUsThatAreBooked(t *testing.T) {
	workspace := func(name, gpus string) Workload {
		return Workload{Kind: "workspace", Name: name, Spec: json.RawMessage(`{"image":"box","gpus":` + gpus + `}`)}
	}
	facts := &place.Facts{GPUs: []place.GPU{{Vendor: "intel"}, {Vendor: NVIDIA}, {Vendor: NVIDIA}, {Vendor: NVIDIA}}}
	for _, c := range []struct {
		booked []int
		want   []string // in the spec of each workload, or the error
	}{
		{[]int{1, 2}, []string{`"ids":["0"]`, `"ids":["1"]`}},
		{[]int{3, 2}, []string{`"ids":["2"]`, `"ids":["1"]`}},
		{[]int{3}, []string{"workspace/b asks for more GPUs of nvidia than the pod has booked"}},
		{[]int{0, 1}, []string{"workspace/b asks for more GPUs"}},
		{[]int{2, 9}, []string{"workspace/b asks for more GPUs"}},
	} {
		p := Pod{Workloads: []Workload{workspace("a", `[{"count":1,"capabilities":["gpu"]}]`), workspace("b", `[{"count":1,"capabilities":["gpu"]}]`)}}
		got, err := p.On(facts, c.booked)
		if len(c.want) == 1 {
			if err == nil || !strings.Contains(err.Error(), c.want[0]) {
				t.Errorf("%v: %v, want %s", c.booked, err, c.want[0])
			}
			continue
		}
		testkit.Must(t, err)
		for i, want := range c.want {
			if s := string(got[i].Spec); !strings.Contains(s, want) || strings.Contains(s, `"count"`) {
				t.Errorf("%v: %s, want %s", c.booked, s, want)
			}
		}
	}
	for _, c := range []struct {
		gpus string
		pod  place.GPURequest
		want string
	}{
		{`[{"count":1,"capabilities":["gpu"]}]`, place.GPURequest{Count: 1, Vendor: NVIDIA}, ""},
		{`[{"count":2,"capabilities":["gpu"]}]`, place.GPURequest{Count: 1, Vendor: NVIDIA}, "parts[0].pods[0].gpus.count: its containers ask for 2 GPUs, and it books 1"},
		{`[{"count":1,"capabilities":["gpu"]}]`, place.GPURequest{Count: 1}, `parts[0].pods[0].gpus.vendor: "": expected nvidia`},
		{`[{"count":-1,"capabilities":["gpu"]}]`, place.GPURequest{Count: 1, Vendor: NVIDIA}, "names GPUs, or asks for all of them"},
		{`[{"ids":["1"],"capabilities":["gpu"]}]`, place.GPURequest{Count: 1, Vendor: NVIDIA}, "names GPUs, or asks for all of them"},
	} {
		s := sound()
		s.Parts[0].Pods[0].Workloads = []Workload{workspace("a", c.gpus)}
		s.Parts[0].Pods[0].GPU = c.pod
		got := ""
		if err := Validate("lab", s, now); err != nil {
			got = err.Error()
		}
		if c.want == "" && got != "" || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", c.gpus, got, c.want)
		}
	}
}
