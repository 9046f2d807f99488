package sim

import (
	"os"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/steadyfleet/steady/internal/core/digest"
)

// drilled plays a drill with STEADY_DRILL_SEEDS seeds: no bundle harms more hosts than the
// canary wave has (S40), and no more are repaired at once than their budget allows.
func drilled(t *testing.T, name string) {
	n := 50
	if s := os.Getenv("STEADY_DRILL_SEEDS"); s != "" {
		var err error
		if n, err = strconv.Atoi(s); err != nil {
			t.Fatalf("STEADY_DRILL_SEEDS: %v", err)
		}
	}
	var d *Drill
	for _, other := range Drills() {
		if other.Name == name {
			d = &other
		}
	}
	if d == nil {
		t.Fatalf("there is no drill %s", name)
	}
	t.Parallel()
	var next, harmed, failed, repaired atomic.Int64
	began := time.Now()
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for i := next.Add(1); i <= int64(n) && failed.Load() < 3; i = next.Add(1) {
				r := Run(d.Seed(uint64(i)))
				for _, v := range r.Violations {
					failed.Add(1)
					t.Errorf("seed %d: %s: %s", i, v.Invariant, v.Message)
				}
				harmed.Add(int64(most(r.Affected)))
				repaired.Add(int64(r.Disrupted))
				if got := most(r.Affected); got > Canary || d.budget > 0 && r.Disrupted > d.budget {
					failed.Add(1)
					t.Errorf("seed %d: S40: %d hosts are affected and %d repaired at once, the canary wave has %d", i, got, r.Disrupted, Canary)
				}
			}
		})
	}
	wg.Wait()
	if d.budget == 0 && harmed.Load() < int64(n)/2 || d.budget > 0 && repaired.Load() < int64(n)/2 {
		t.Errorf("the incident hardly happened: %d hosts harmed, %d repaired in %d schedules", harmed.Load(), repaired.Load(), n)
	}
	t.Logf("%d schedules in %s; %s", n, time.Since(began).Round(time.Millisecond), d.Facts)
}

func most(affected map[digest.Digest]int) int {
	n := 0
	for _, hosts := range affected { // order-free
		n = max(n, hosts)
	}
	return n
}

func TestDrillCrowdStrike2024(t *testing.T)        { drilled(t, "CrowdStrike2024") }
func TestDrillCloudflareNovember2025(t *testing.T) { drilled(t, "CloudflareNovember2025") }
func TestDrillCloudflareDecember2025(t *testing.T) { drilled(t, "CloudflareDecember2025") }
func TestDrillGoogleCloud2025(t *testing.T)        { drilled(t, "GoogleCloud2025") }
func TestDrillAWS2025(t *testing.T)                { drilled(t, "AWS2025") }
func TestDrillDatadog2023(t *testing.T)            { drilled(t, "Datadog2023") }
func TestDrillFacebook2021(t *testing.T)           { drilled(t, "Facebook2021") }
