package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/steadyfleet/steady/internal/testkit"
)

// TestAgentsOf32Bits: an agent as small boards with armv7 run it, under qemu, enrols with a server of 64 bits, converges on
// files and steps, comes back on its state, and takes the next release.
func TestAgentsOf32Bits(t *testing.T) {
	t.Parallel()
	testkit.Only(t, testkit.Nightly(), "builds the agent for another architecture: STEADY_NIGHTLY=1")
	testkit.Needs(t, testkit.Qemu)
	dir := t.TempDir()
	build := exec.CommandContext(t.Context(), "go", "build", "-o", filepath.Join(dir, "arm"), "./cmd/steady-agent")
	build.Dir, build.Env = "../..", append(os.Environ(), "GOOS=linux", "GOARCH=arm", "GOARM=7", "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	// The server and the agent are two programs: what begins with "agent" is for the second.
	program := filepath.Join(dir, "steady")
	script := fmt.Sprintf("#!/bin/sh\nif [ \"$1\" = agent ]; then shift; exec qemu-arm-static %s/arm \"$@\"; fi\nexec env %s=1 %q \"$@\"\n", dir, actAsSteady, testkit.Value(os.Executable())(t))
	testkit.Must(t, os.WriteFile(program, []byte(script), 0o755))
	y := newYard(t, program)
	var last made
	for i, ref := range []string{"v1", "v2"} {
		last = y.estate.release(ref, declare{"fleet.yaml": compatFleet("board-1"), "bundles/web/bundle.yaml": killBundle(ref)})
		y.push(last)
		if i == 0 {
			y.enrol("board-1")
		} else {
			y.agents["board-1"].stop()
			y.startAgent("board-1")
		}
		for !y.follow("stable@"+ref, 1) {
		}
	}
	y.settle()
	y.converged(last, 2)
}
