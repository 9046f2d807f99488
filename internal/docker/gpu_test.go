package docker

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/moby/moby/api/types/system"

	"github.com/steadyfleet/steady/internal/core/spec"
	"github.com/steadyfleet/steady/internal/testkit"
)

func plant(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		path := filepath.Join(root, name)
		mode := os.FileMode(0o644)
		if filepath.Base(filepath.Dir(path)) == "bin" {
			mode = 0o755
		}
		testkit.Must(t, os.MkdirAll(filepath.Dir(path), 0o755))
		testkit.Must(t, os.WriteFile(path, []byte(text), mode))
	}
	return root
}

const procVersion = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.54.03  Tue Jun  6 22:20:39 UTC 2023\nGCC version:  gcc version 12.2.0\n"

// TestFacts reads planted trees as hosts have them: without anything, with the driver
// alone, with the toolkit, with specs in either format.
func TestFacts(t *testing.T) {
	for name, c := range map[string]struct {
		files map[string]string
		info  system.Info
		want  spec.GPUFacts
	}{
		"nothing": {},
		"driver": {files: map[string]string{"proc/driver/nvidia/version": procVersion, "dev/nvidia0": "", "dev/nvidia1": "", "dev/nvidiactl": "", "dev/nvidia-uvm": ""},
			want: spec.GPUFacts{Driver: "535.54.03", Devices: 2}},
		"toolkit": {files: map[string]string{"usr/bin/nvidia-ctk": "x", "usr/local/bin/nvidia-container-runtime-hook": "x"},
			info: system.Info{Runtimes: map[string]system.RuntimeWithStatus{"nvidia": {}, "runc": {}}}, want: spec.GPUFacts{Toolkit: true, Hook: true, Runtime: true}},
		"not a program": {files: map[string]string{"usr/lib/nvidia-ctk": "x"}},
		"specs": {files: map[string]string{"etc/cdi/nvidia.yaml": "---\ncdiVersion: 0.5.0\nkind: nvidia.com/gpu\ndevices: []\n",
			"var/run/cdi/other.json": `{"cdiVersion":"0.5.0","kind":"vendor.example/thing","devices":[]}`, "etc/cdi/readme.txt": "kind: no/spec"},
			info: system.Info{CDISpecDirs: []string{"/etc/cdi"}},
			want: spec.GPUFacts{CDI: []string{"nvidia.com/gpu", "vendor.example/thing"}, EngineCDI: true}},
	} {
		t.Run(name, func(t *testing.T) {
			got := testkit.Value(GPUHost{Root: plant(t, c.files)}.FactsOf(c.info))(t)
			if d := cmp.Diff(c.want, got); d != "" {
				t.Error(d)
			}
		})
	}
}
