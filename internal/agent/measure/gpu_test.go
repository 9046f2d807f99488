package measure

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/steadyfleet/steady/internal/testkit"
)

// What nvidia-smi tells is in the sample, and what is wrong with it is reported
// once, however often it is told. It is a script here, which fails the first time.
func TestGPUsAreInTheSample(t *testing.T) {
	command := filepath.Join(t.TempDir(), "nvidia-smi")
	testkit.Must(t, os.WriteFile(command, []byte(`#!/bin/sh
test -e "$0.ok" || { touch "$0.ok"; exit 9; }
echo GPU-1, A, 1, 1, 1, 1, 1, 1, 1
`), 0o755))
	var reports []string
	c := New(Options{Settings: Settings{GPU: true}, GPUs: GPUOptions{Command: command}, Report: func(p string) { reports = append(reports, p) }})
	t.Cleanup(c.Close)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	var s Sample
	for s = c.Collect(t.Context(), 1, Input{}); len(s.Problems) == 0; s = c.Collect(t.Context(), 1, Input{}) {
		<-tick.C
	}
	s = c.Collect(t.Context(), 1, Input{})
	if len(s.GPUs) != 0 || len(s.Problems) != 1 || len(reports) != 1 || reports[0] != s.Problems[0] {
		t.Errorf("got %+v after reports %q", s, reports)
	}
	for s = c.Collect(t.Context(), 600_000, Input{}); len(s.GPUs) == 0; s = c.Collect(t.Context(), 600_000, Input{}) {
		<-tick.C
	}
	if len(s.Problems) != 0 || s.GPUs[0].UUID != "GPU-1" || len(reports) != 1 {
		t.Errorf("got %+v after reports %q", s, reports)
	}
}
