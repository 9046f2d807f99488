package measure

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/steadyfleet/steady/internal/core/clock"
)

func TestHostIsReadFromProc(t *testing.T) {
	root := tree(t, "common", "v2-systemd")
	for name, content := range map[string]string{
		"stat":                 "cpu  100 10 20 500 30 1 2 3 50 5\ncpu0 1 1 1 1\ncpu1 1 1 1 1\nintr 5\n",
		"loadavg":              "0.15 0.1 0.2 1/99 4242\n",
		"meminfo":              "MemTotal:       24684084 kB\nMemFree: 1 kB\nSwapTotal:             0 kB\n",
		"uptime":               "12345.67 2.1\n",
		"sys/kernel/osrelease": "6.1.0-steady\n",
		"1/net/dev":            "Inter-| Receive | Transmit\n face |bytes\n    lo: 9 0 0 0 0 0 0 0 9 0 0 0 0 0 0 0\n  eth0: 1 0 0 0 0 0 0 0 2 0 0 0 0 0 0 0\n",
		"diskstats":            " 254 0 vda 45998 16498 2643490 9646 7609028 757253 129870064 938954 0 1 1\n   7 0 loop0 1 1 1 1 1 1 1 1 1 1 1\n",
	} {
		put(t, root+"/proc/"+name, content)
	}
	put(t, root+"/sys/block/vda/device/vendor", "x")
	c := New(Options{Settings: Settings{Host: true}, Proc: root + "/proc", Sys: root + "/sys"})
	t.Cleanup(c.Close)
	s := c.Collect(t.Context(), 1000, Input{})
	if len(s.Problems) > 0 || s.Host == nil {
		t.Fatalf("problems: %q", s.Problems)
	}
	h := s.Host
	for name, v := range map[string]struct{ got, want *int64 }{
		"cpus": {h.CPUCount, new(int64(2))}, "load": {h.Load1Milli, new(int64(150))}, "share": {h.CPUPermille, nil},
		"memory": {h.MemTotalBytes, new(int64(24684084 * 1024))}, "available": {h.MemAvailableBytes, nil}, "swap": {h.SwapTotalBytes, new(int64(0))},
		"uptime": {h.UptimeSeconds, new(int64(12345))}, "rx": {h.NetRxBytes, new(int64(1))}, "tx": {h.NetTxBytes, new(int64(2))},
		"read": {h.DiskReadBytes, new(int64(2643490 * 512))}, "written": {h.DiskWrittenBytes, new(int64(129870064 * 512))},
	} {
		if (v.got == nil) != (v.want == nil) || v.got != nil && *v.got != *v.want {
			t.Errorf("%s is %v, want %v", name, deref(v.got), deref(v.want))
		}
	}
	if h.Kernel != "6.1.0-steady" || len(h.Interfaces) != 1 || h.Interfaces[0] != "eth0" {
		t.Errorf("got kernel %q, interfaces %q", h.Kernel, h.Interfaces)
	}
	put(t, root+"/proc/stat", "cpu  200 10 20 700 30 1 2 3 50 5\ncpu0 1 1 1 1\ncpu1 1 1 1 1\nintr 5\n")
	if s = c.Collect(t.Context(), 2000, Input{}); s.Host.CPUPermille == nil || *s.Host.CPUPermille != 333 {
		t.Errorf("a third of the time busy is %v thousandths", deref(s.Host.CPUPermille))
	}
}

func deref(n *int64) any {
	if n == nil {
		return "absent"
	}
	return *n
}

// Whatever the counters do, a rate is in bounds or absent: never negative.
func TestRatesAreNeverNegative(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		before, now := rapid.Uint64().Draw(t, "before"), rapid.Uint64().Draw(t, "now")
		interval := clock.Duration(rapid.Int64().Draw(t, "interval"))
		r := rate(before, now, interval)
		if (r == nil) != (now < before || interval <= 0) {
			t.Fatalf("the rate is %v", r)
		}
		if r != nil && (*r < 0 || *r > MaxInteger) {
			t.Fatalf("the rate is %d", *r)
		}
		seconds := rapid.Float64Range(0, 1e12)
		a := cpuTimes{busy: seconds.Draw(t, "busy"), total: seconds.Draw(t, "total")}
		b := cpuTimes{busy: seconds.Draw(t, "busy2"), total: seconds.Draw(t, "total2")}
		share := busyShare(a, b)
		if (share != nil) != (b.total > a.total) || share != nil && (*share < 0 || *share > 1000) {
			t.Fatalf("the share is %v", share)
		}
	})
	if r := rate(1_000_000, 3_000_000, clock.Second); *r != 2000 {
		t.Errorf("two busy CPUs are %d thousandths", *r)
	}
	if s := busyShare(cpuTimes{busy: 1, total: 10}, cpuTimes{busy: 1.5, total: 12}); *s != 250 {
		t.Errorf("a quarter is %d thousandths", *s)
	}
}
