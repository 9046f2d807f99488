package measure

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/steadyfleet/steady/internal/agent/metrics"
	"github.com/steadyfleet/steady/internal/core/clock"
)

func TestParseStat(t *testing.T) {
	for in, want := range map[string]struct {
		t  cpuTimes
		ok bool
	}{
		"cpu  100 10 20 500 30 1 2 3 50 5\ncpu0 1 1 1 1\ncpu1 1 1 1 1\nintr 5\n": {cpuTimes{136, 666, 2}, true},
		"cpu  1 2 3 4\n":    {cpuTimes{6, 10, 0}, true},
		"cpu  1 2 3\n":      {cpuTimes{}, false},
		"cpu  1 2 -3 4 5\n": {cpuTimes{}, false},
		"intr 1\n":          {cpuTimes{}, false},
		"":                  {cpuTimes{}, false},
	} {
		got, ok := parseStat([]byte(in))
		if ok != want.ok || ok && got != want.t {
			t.Errorf("%q: got %+v, %v", in, got, ok)
		}
	}
}

func TestParseSmallFiles(t *testing.T) {
	m := parseMeminfo([]byte("MemTotal:       24684084 kB\nMemFree: 1 kB\nSwapTotal:             0 kB\n"))
	if *m.total != 24684084*1024 || *m.swapTotal != 0 || m.available != nil || m.swapFree != nil {
		t.Errorf("meminfo is %+v", m)
	}
	var seen []string
	parseNetDev([]byte("Inter-| Receive\n face |bytes\n eth0:1 2 3 4 5 6 7 8 9 10\nveth:1: 5 0 0 0 0 0 0 0 6\nbad: x\n"), func(l netLine) {
		seen = append(seen, fmt.Sprint(string(l.name), l.rx, l.tx))
	})
	if got := strings.Join(seen, ";"); got != "eth01 9;veth:15 6" {
		t.Errorf("interfaces are %s", got)
	}
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
		if r != nil && (*r < 0 || *r > metrics.MaxInteger) {
			t.Fatalf("the rate is %d", *r)
		}
		a := cpuTimes{busy: rapid.Uint64().Draw(t, "busy"), total: rapid.Uint64().Draw(t, "total")}
		b := cpuTimes{busy: rapid.Uint64().Draw(t, "busy2"), total: rapid.Uint64().Draw(t, "total2")}
		share, ok := busyShare(a, b)
		if ok != (b.total > a.total) || share < 0 || share > 1000 {
			t.Fatalf("the share is %d, %v", share, ok)
		}
	})
	if r := rate(1_000_000, 3_000_000, clock.Second); *r != 2000 {
		t.Errorf("two busy CPUs are %d thousandths", *r)
	}
	if s, _ := busyShare(cpuTimes{busy: 100, total: 1000}, cpuTimes{busy: 150, total: 1200}); s != 250 {
		t.Errorf("a quarter is %d thousandths", s)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte("cpu  100 10 20 500 30 1 2 3 50 5\ncpu0 1 1 1 1\n"))
	f.Add([]byte("MemTotal:       24684084 kB\n"))
	f.Add([]byte(" 254 0 vda 45998 16498 2643490 9646 7609028 757253 129870064 938954 0 1 1\n"))
	f.Add([]byte("  eth0: 217646812 13539 0 0 0 0 0 0 1361237 14414 0\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if s, ok := parseStat(b); ok && (s.busy > s.total || s.cpus < 0) {
			t.Errorf("times are %+v", s)
		}
		m := parseMeminfo(b)
		for _, v := range []*int64{m.total, m.available, m.swapTotal, m.swapFree} {
			if v != nil && (*v < 0 || *v > metrics.MaxInteger) {
				t.Errorf("memory is %d", *v)
			}
		}
		parseNetDev(b, func(l netLine) {
			if len(l.name) == 0 {
				t.Error("an interface without a name")
			}
		})
		parseDiskstats(b, func(name []byte, _, _ uint64) {
			if len(name) == 0 {
				t.Error("a disk without a name")
			}
		})
	})
}
