package measure

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/testkit"
)

// The machines that run these tests have no GPU: nvidia-smi is a script here
// that prints what the real one is known to print.
func fakeSMI(t *testing.T, body string) GPUOptions {
	t.Helper()
	command := filepath.Join(t.TempDir(), "nvidia-smi")
	testkit.Must(t, os.WriteFile(command, []byte("#!/bin/sh\necho \"$@\" >>"+filepath.Dir(command)+"/calls\n"+body+"\n"), 0o755))
	return GPUOptions{Command: command, Interval: 10 * clock.Second}
}

func calls(t *testing.T, o GPUOptions) []string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(filepath.Dir(o.Command), "calls"))
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return strings.FieldsFunc(string(b), func(r rune) bool { return r == '\n' })
}

// settled returns a function that samples, waits for the run that this began, and
// samples again.
func settled(t *testing.T, o GPUOptions) func(now clock.Instant) ([]GPU, error) {
	s := newGPUSampler(o)
	t.Cleanup(s.Close)
	return func(now clock.Instant) ([]GPU, error) {
		_, _ = s.Sample(now)
		s.workers.Wait()
		return s.Sample(now)
	}
}

func TestGPUs(t *testing.T) {
	o := fakeSMI(t, `cat <<'X'
GPU-5d3c, NVIDIA GeForce RTX 3090, 37, 24576, 24000, 576, 61, 123.45, 535.104.05
GPU-77aa, Tesla K80, [N/A], 11441, 11441, 0, 30, [Not Supported], 535.104.05
GPU-88bb, Odd, with comma, [Unknown Error], [N/A], [N/A], [N/A], [GPU requires reset], N/A, [N/A]
X`)
	take := settled(t, o)
	list, err := take(1000)
	want := []GPU{
		{UUID: "GPU-5d3c", Name: "NVIDIA GeForce RTX 3090", UtilPermille: new(int64(370)), MemTotalBytes: new(int64(24576 << 20)), MemFreeBytes: new(int64(24000 << 20)),
			MemUsedBytes: new(int64(576 << 20)), TemperatureC: new(int64(61)), PowerMilliwatt: new(int64(123450)), Driver: "535.104.05"},
		{UUID: "GPU-77aa", Name: "Tesla K80", MemTotalBytes: new(int64(11441 << 20)), MemFreeBytes: new(int64(11441 << 20)),
			MemUsedBytes: new(int64(0)), TemperatureC: new(int64(30)), Driver: "535.104.05"},
		{UUID: "GPU-88bb", Name: "Odd, with comma"},
	}
	if d := cmp.Diff(want, list); d != "" || err != nil {
		t.Errorf("-want +got:\n%s%v", d, err)
	}
	if got := calls(t, o); len(got) != 1 || got[0] != "--query-gpu="+gpuFields+" --format=csv,noheader,nounits" {
		t.Errorf("nvidia-smi was called %q", got)
	}
	testkit.Value(take(10_999))(t)
	if n := len(calls(t, o)); n != 1 {
		t.Errorf("%d runs within an interval", n)
	}
	testkit.Value(take(11_000))(t)
	if n := len(calls(t, o)); n != 2 {
		t.Errorf("%d runs in two intervals", n)
	}
}

func TestNoGPUIsNoProblem(t *testing.T) {
	take := settled(t, GPUOptions{Command: filepath.Join(t.TempDir(), "nvidia-smi")})
	if list, err := take(1); len(list) != 0 || err != nil {
		t.Errorf("without nvidia-smi: %v, %v", list, err)
	}
	take = settled(t, fakeSMI(t, "echo No devices were found; exit 6"))
	if list, err := take(1); len(list) != 0 || err != nil {
		t.Errorf("without a device: %v, %v", list, err)
	}
}

func TestFailingGPUBacksOff(t *testing.T) {
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
			take := settled(t, o)
			for now := clock.Instant(1); now < clock.Instant(310*clock.Second); now += clock.Instant(10 * clock.Second) {
				list, err := take(now)
				if len(list) != 0 || err == nil || !strings.Contains(Text(err.Error()), c.words) {
					t.Fatalf("at %d: %v, %v", now, list, err)
				}
			}
			// At 0, 20, 60, 140 and 300 seconds.
			if n := len(calls(t, o)); n != 5 {
				t.Errorf("%d runs, expected 5", n)
			}
		})
	}
	if b := gpuBackoff(10*clock.Second, 1000); b != maxBackoff {
		t.Errorf("the longest pause is %s", b)
	}
}

func TestGPURecovers(t *testing.T) {
	o := fakeSMI(t, `test -e "$0.ok" || exit 9; echo GPU-1, A, 1, 1, 1, 1, 1, 1, 1`)
	take := settled(t, o)
	if _, err := take(1); err == nil {
		t.Error("a failing run is no error")
	}
	testkit.Must(t, os.WriteFile(o.Command+".ok", nil, 0o644))
	if list, err := take(30_000); len(list) != 1 || err != nil {
		t.Errorf("got %v, %v", list, err)
	}
	os.Remove(o.Command + ".ok")
	if list, err := take(60_000); len(list) != 0 || err == nil {
		t.Errorf("got %v, %v", list, err)
	}
}

// A hanging nvidia-smi never delays a sample, and dies with its children: both
// hold the write end of a pipe that ends with the last of them.
func TestHangingGPUIsKilledWithItsGroup(t *testing.T) {
	t.Parallel()
	pipe := filepath.Join(t.TempDir(), "pipe")
	testkit.Must(t, syscall.Mkfifo(pipe, 0o600))
	o := fakeSMI(t, "exec 9>"+pipe+"\nsleep 100000 &\nwait")
	o.Timeout = 2 * clock.Second                                   // by then its script is well under way
	r, err := os.OpenFile(pipe, os.O_RDONLY|syscall.O_NONBLOCK, 0) // waits for no writer, which may be killed before it is one
	testkit.Must(t, err)
	defer r.Close()
	s := newGPUSampler(o)
	t.Cleanup(s.Close)
	if _, err := s.Sample(1000); err != nil {
		t.Error(err)
	}
	if _, err := s.Sample(100_000); err == nil || !strings.Contains(err.Error(), "even when killed") {
		t.Errorf("one that outlives its end is not reported: %v", err)
	}
	s.workers.Wait()
	testkit.Value(io.ReadAll(r))(t)
	if _, err := s.Sample(2000); err == nil || !strings.Contains(err.Error(), "did not end within 2s and was killed") {
		t.Errorf("the error is %v", err)
	}
	if n := len(calls(t, o)); n != 1 {
		t.Errorf("%d runs", n)
	}
}

func TestCloseEndsARunningQuery(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	testkit.Must(t, syscall.Mkfifo(pipe, 0o600))
	o := fakeSMI(t, "exec 9>"+pipe+"\nsleep 100000")
	o.Timeout = clock.Hour
	s := newGPUSampler(o)
	if _, err := s.Sample(1); err != nil {
		t.Error(err)
	}
	r := testkit.Value(os.Open(pipe))(t)
	defer r.Close()
	s.Close()
	testkit.Value(io.ReadAll(r))(t)
}

func FuzzParseGPUs(f *testing.F) {
	f.Add([]byte("GPU-1, Tesla T4, 12, 15360, 15000, 360, 41, 26.55, 535.104.05\n"))
	f.Add([]byte("GPU-1, A, [N/A], [N/A], , [Not Supported], -3, 1.2345, \n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		list, err := parseGPUs(b)
		if bad := (Sample{GPUs: list}).Check(); bad != nil {
			t.Error(bad)
		}
		if err != nil && Text(err.Error()) == "" {
			t.Error("an error without words")
		}
	})
}
