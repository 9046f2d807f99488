package metrics

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/steadyfleet/steady/internal/core/clock"
)

// The machines that run these tests have no GPU: nvidia-smi is a script here
// that prints what the real one is known to print.
func fakeSMI(t *testing.T, body string) Options {
	t.Helper()
	dir := t.TempDir()
	put(t, filepath.Join(dir, "nvidia-smi"), "#!/bin/sh\necho \"$@\" >>"+dir+"/calls\n"+body+"\n")
	if err := os.Chmod(filepath.Join(dir, "nvidia-smi"), 0o755); err != nil {
		t.Fatal(err)
	}
	return Options{Settings: Settings{GPU: true}, NvidiaSMI: filepath.Join(dir, "nvidia-smi"), GPUInterval: 10 * clock.Second}
}

func calls(t *testing.T, o Options) []string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(filepath.Dir(o.NvidiaSMI), "calls"))
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return strings.FieldsFunc(string(b), func(r rune) bool { return r == '\n' })
}

func gpuCollector(t *testing.T, o Options) (*Collector, func(now clock.Instant) Sample) {
	c := New(o)
	t.Cleanup(c.Close)
	return c, func(now clock.Instant) Sample {
		c.Collect(t.Context(), now, Input{})
		c.gpu.workers.Wait()
		return c.Collect(t.Context(), now, Input{})
	}
}

func TestGPUs(t *testing.T) {
	o := fakeSMI(t, `cat <<'X'
GPU-5d3c, NVIDIA GeForce RTX 3090, 37, 24576, 24000, 576, 61, 123.45, 535.104.05
GPU-77aa, Tesla K80, [N/A], 11441, 11441, 0, 30, [Not Supported], 535.104.05
GPU-88bb, Odd, with comma, [Unknown Error], [N/A], [N/A], [N/A], [GPU requires reset], N/A, [N/A]
X`)
	_, take := gpuCollector(t, o)
	s := take(1000)
	want := []GPU{
		{UUID: "GPU-5d3c", Name: "NVIDIA GeForce RTX 3090", UtilPermille: new(int64(370)), MemTotalBytes: new(int64(24576 << 20)), MemFreeBytes: new(int64(24000 << 20)),
			MemUsedBytes: new(int64(576 << 20)), TemperatureC: new(int64(61)), PowerMilliwatt: new(int64(123450)), Driver: "535.104.05"},
		{UUID: "GPU-77aa", Name: "Tesla K80", MemTotalBytes: new(int64(11441 << 20)), MemFreeBytes: new(int64(11441 << 20)),
			MemUsedBytes: new(int64(0)), TemperatureC: new(int64(30)), Driver: "535.104.05"},
		{UUID: "GPU-88bb", Name: "Odd, with comma"},
	}
	if d := cmp.Diff(want, s.GPUs); d != "" || len(s.Problems) > 0 {
		t.Errorf("-want +got:\n%s%q", d, s.Problems)
	}
	if got := calls(t, o); len(got) != 1 || got[0] != "--query-gpu="+gpuFields+" --format=csv,noheader,nounits" {
		t.Errorf("nvidia-smi was called %q", got)
	}
	take(10_999)
	if n := len(calls(t, o)); n != 1 {
		t.Errorf("%d runs within an interval", n)
	}
	take(11_000)
	if n := len(calls(t, o)); n != 2 {
		t.Errorf("%d runs in two intervals", n)
	}
}

func TestNoGPUIsNoProblem(t *testing.T) {
	_, take := gpuCollector(t, Options{Settings: Settings{GPU: true}, NvidiaSMI: filepath.Join(t.TempDir(), "nvidia-smi")})
	if s := take(1); len(s.GPUs)+len(s.Problems) != 0 {
		t.Errorf("without nvidia-smi: %+v", s)
	}
	_, take = gpuCollector(t, fakeSMI(t, "echo No devices were found; exit 6"))
	if s := take(1); len(s.GPUs)+len(s.Problems) != 0 {
		t.Errorf("without a device: %+v", s)
	}
}

func TestFailingGPUIsReportedOnceAndBacksOff(t *testing.T) {
	for name, c := range map[string]struct{ script, words string }{
		"driver":  {"echo NVIDIA-SMI has failed because it could not talk to the driver; exit 9", "could not talk to the driver"},
		"garbage": {"head -c 3000 /dev/urandom", "nvidia-smi printed"},
		"words":   {"echo GPU-1, A, many, 1, 1, 1, 1, 1, 1", `"many"`},
		"short":   {"echo GPU-1, A", "not a line of 9 values"},
		"flood":   {"yes", "more than"},
	} {
		t.Run(name, func(t *testing.T) {
			o := fakeSMI(t, c.script)
			if name == "flood" {
				o = fakeSMI(t, "yes | head -c 300000")
			}
			var reports []string
			o.Report = func(p string) { reports = append(reports, p) }
			_, take := gpuCollector(t, o)
			for now := clock.Instant(1); now < clock.Instant(310*clock.Second); now += clock.Instant(10 * clock.Second) {
				s := take(now)
				if len(s.GPUs) != 0 || len(s.Problems) != 1 || !strings.Contains(s.Problems[0], c.words) {
					t.Fatalf("at %d: %+v", now, s)
				}
				if err := s.Check(); err != nil {
					t.Fatal(err)
				}
			}
			// At 0, 20, 60, 140 and 300 seconds.
			if n := len(calls(t, o)); n != 5 {
				t.Errorf("%d runs, expected 5", n)
			}
			if name != "garbage" && len(reports) != 1 {
				t.Errorf("reported %d times: %q", len(reports), reports)
			}
		})
	}
	if b := backoff(10*clock.Second, 1000); b != maxBackoff {
		t.Errorf("the longest pause is %s", b)
	}
}

func TestGPURecovers(t *testing.T) {
	o := fakeSMI(t, `test -e "$0.ok" || exit 9; echo GPU-1, A, 1, 1, 1, 1, 1, 1, 1`)
	var reports int
	o.Report = func(string) { reports++ }
	_, take := gpuCollector(t, o)
	take(1)
	put(t, o.NvidiaSMI+".ok", "")
	if s := take(30_000); len(s.GPUs) != 1 || len(s.Problems) != 0 {
		t.Errorf("got %+v", s)
	}
	os.Remove(o.NvidiaSMI + ".ok")
	if s := take(60_000); len(s.GPUs) != 0 || len(s.Problems) != 1 || reports != 2 {
		t.Errorf("got %+v after %d reports", s, reports)
	}
}

// A hanging nvidia-smi never delays a sample, and dies with its children: both
// hold the write end of a pipe that ends with the last of them.
func TestHangingGPUIsKilledWithItsGroup(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	o := fakeSMI(t, "exec 9>"+pipe+"\nsleep 100000 &\nwait")
	o.GPUTimeout = 300 * clock.Millisecond
	c := New(o)
	t.Cleanup(c.Close)
	if s := c.Collect(t.Context(), 1000, Input{}); len(s.Problems) != 0 {
		t.Errorf("got %+v", s)
	}
	r, err := os.Open(pipe) // returns when the script opened its end
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if s := c.Collect(t.Context(), 100_000, Input{}); len(s.Problems) != 1 || !strings.Contains(s.Problems[0], "even when killed") {
		t.Errorf("one that outlives its end is not reported: %+v", s)
	}
	if _, err := io.ReadAll(r); err != nil {
		t.Fatal(err)
	}
	c.gpu.workers.Wait()
	if s := c.Collect(t.Context(), 2000, Input{}); len(s.Problems) != 1 || !strings.Contains(s.Problems[0], "did not end within 300ms and was killed") {
		t.Errorf("got %+v", s)
	}
	if n := len(calls(t, o)); n != 1 {
		t.Errorf("%d runs", n)
	}
}

func TestCloseEndsARunningQuery(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	c := New(fakeSMI(t, "exec 9>"+pipe+"\nsleep 100000"))
	c.Collect(t.Context(), 1, Input{})
	r, err := os.Open(pipe)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	c.Close()
	if _, err := io.ReadAll(r); err != nil {
		t.Fatal(err)
	}
}
