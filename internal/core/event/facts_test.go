package event_test

import (
	"strings"
	"testing"

	"github.com/steadyfleet/steady/internal/core/event"
)

func TestBoundsOfFacts(t *testing.T) {
	long, most := strings.Repeat("x", event.MaxFactText), int64(1<<53-1)
	full := func() event.HostFacts {
		f := event.HostFacts{CPUs: most, Memory: most, Disk: most, Arch: long, OS: long, Kernel: long, Engine: long, EngineAPI: long}
		for range event.MaxGPUs {
			f.GPUs = append(f.GPUs, event.GPU{Vendor: long, Model: long, Memory: most})
		}
		return f
	}
	if err := full().Check(); err != nil {
		t.Error(err)
	}
	if err := (event.HostFacts{}).Check(); err != nil {
		t.Error(err)
	}
	last := event.MaxGPUs - 1
	for what, spoil := range map[string]func(*event.HostFacts){
		"CPUs": func(f *event.HostFacts) { f.CPUs = -1 }, "memory": func(f *event.HostFacts) { f.Memory++ }, "disk": func(f *event.HostFacts) { f.Disk = -1 },
		"architecture": func(f *event.HostFacts) { f.Arch += "x" }, "system": func(f *event.HostFacts) { f.OS += "x" }, "kernel": func(f *event.HostFacts) { f.Kernel += "x" },
		"engine": func(f *event.HostFacts) { f.Engine += "x" }, "API": func(f *event.HostFacts) { f.EngineAPI += "x" },
		"GPUs": func(f *event.HostFacts) { f.GPUs = append(f.GPUs, event.GPU{}) }, "vendor": func(f *event.HostFacts) { f.GPUs[last].Vendor += "x" },
		"model": func(f *event.HostFacts) { f.GPUs[0].Model += "x" }, "memory of a GPU": func(f *event.HostFacts) { f.GPUs[last].Memory++ },
	} {
		f := full()
		if spoil(&f); f.Check() == nil {
			t.Errorf("%s beyond the bound is taken", what)
		}
		if f.Equal(full()) {
			t.Errorf("another %s makes no difference", what)
		}
	}
	if f := full(); !f.Equal(full()) || !(event.HostFacts{GPUs: []event.GPU{}}).Equal(event.HostFacts{}) {
		t.Error("the same facts are others")
	}
}
