package bench

import (
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/steadyfleet/steady/internal/testkit"
)

func sampleReport(hosts int) *Report {
	r := newReport(Options{Hosts: hosts})
	s := Spent{Seconds: 2.25, ServerMillisPerHost: 2.5, AgentsMillisPerHost: 3.125, Requests: int64(13 * hosts), RequestsPerSecond: 12345, OthersPercent: 101}
	c := Change{Spent: s, Rollout: "stable@r2", HalfSeconds: 1.5, LastSeconds: 2.25, PushSeconds: 0.125, ServerRSS: 99 << 20}
	r.Enrol = Enrolment{Spent: s, AtOnce: 64}
	r.First = c
	r.Plain.Rounds = []Change{c, c}
	p := c
	p.Policy, p.Seconds = true, 4
	r.Policy.Rounds = []Change{p, p}
	r.Idle = Idle{Spent: Spent{Seconds: 60, Requests: int64(2 * hosts)}, ServerPercent: 0.75, AgentsPercent: 1.5, ServerRSS: 101 << 20, ServerPSS: 99 << 20, AgentsRSS: 900 << 20}
	c0 := &crowd{}
	c0.failures.Store(1)
	c0.notes = []string{"host-00001: dispatch: " + strings.Repeat("x", 200)}
	r.finish(c0)
	return r
}

func TestReportFitsATerminal(t *testing.T) {
	for _, hosts := range []int{3, 100, 1000, 10_000, MaxHosts} {
		var b strings.Builder
		testkit.Must(t, sampleReport(hosts).Print(&b))
		for line := range strings.Lines(b.String()) {
			if n := utf8.RuneCountInString(strings.TrimRight(line, "\n")); n > columns {
				t.Errorf("%d hosts: %d columns in %q", hosts, n, line)
			}
		}
	}
}

func TestReportSaysWhatWasMeasured(t *testing.T) {
	var b strings.Builder
	testkit.Must(t, sampleReport(1000).Print(&b))
	for _, want := range []string{
		"1000 simulated hosts", "--verify", "first release", "change, policy",
		"30.8 s at 1000", "≤ 3.00 s", "24.5 ms at 1000", "98.7 s at 100", "Flight Control v1.4.0-main", "1 errors",
		"2000 requests came in that time; 2000 are", "Others used up to 101 %",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("the report does not say %q:\n%s", want, b.String())
		}
	}
	r := sampleReport(1000)
	r.Verified = true
	b.Reset()
	testkit.Must(t, r.Print(&b))
	if !strings.Contains(b.String(), "check every signature") || strings.Contains(b.String(), "--verify") {
		t.Errorf("the report of verifying agents says:\n%s", b.String())
	}
}

func TestReportIsOneObject(t *testing.T) {
	want := sampleReport(500)
	raw := testkit.Value(json.Marshal(want))(t)
	var got Report
	testkit.Must(t, json.Unmarshal(raw, &got))
	if d := cmp.Diff(want, &got); d != "" {
		t.Error(d)
	}
	var keys map[string]any
	testkit.Must(t, json.Unmarshal(raw, &keys))
	if plain, ok := keys["plain"].(map[string]any); !ok || plain["medianSeconds"] != 2.25 {
		t.Errorf("plain is %v", keys["plain"])
	}
}

func TestComparison(t *testing.T) {
	tests := []struct {
		hosts     int
		peerHosts int
		change    float64 // target
		memory    float64
		met       []bool
	}{
		{20, 100, 3, 120, []bool{true, true, false, true, true, true, true}},
		{600, 500, 3, 120, []bool{true, true, false, true, true, true, true}},
		{1000, 1000, 3, 120, []bool{true, true, false, true, true, true, true}},
		{10_000, 1000, 30, 1024, []bool{true, true, false, true, true, true, true}},
	}
	for _, tt := range tests {
		rows := sampleReport(tt.hosts).Compared
		if rows[0].PeerHosts != tt.peerHosts || rows[0].Target != tt.change || rows[5].Target != tt.memory {
			t.Errorf("%d hosts: %+v and %+v", tt.hosts, rows[0], rows[5])
		}
		for i, met := range tt.met {
			if rows[i].Met != met {
				t.Errorf("%d hosts: %s is %g with target %g, met %t", tt.hosts, rows[i].What, rows[i].Here, rows[i].Target, rows[i].Met)
			}
		}
	}
}

func TestMedian(t *testing.T) {
	for _, tt := range []struct {
		in   []float64
		want float64
	}{{nil, 0}, {[]float64{3}, 3}, {[]float64{3, 1, 2}, 2}, {[]float64{4, 1, 3, 2}, 2.5}} {
		if got := median(tt.in); got != tt.want {
			t.Errorf("median(%v) = %g, want %g", tt.in, got, tt.want)
		}
	}
}

func TestGaugesOfThisProcess(t *testing.T) {
	cpu, err := cpuOf(os.Getpid())
	all, err2 := cpuOfAll()
	m, err3 := memoryOf(os.Getpid())
	if err := errors.Join(err, err2, err3); err != nil || cpu > all || m.pss <= 0 || m.pss > m.rss {
		t.Errorf("%s of %s, %+v, %v", cpu, all, m, err)
	}
	if _, err := cpuOf(-1); err == nil {
		t.Error("a process that is not there was read")
	}
}

func TestWavesShareTheFleet(t *testing.T) {
	for hosts, want := range map[int]map[string]int{
		3:    {"wave-1": 1, "wave-2": 1, "rest": 1},
		20:   {"wave-1": 1, "wave-2": 2, "rest": 17},
		1000: {"wave-1": 10, "wave-2": 100, "rest": 890},
	} {
		got := map[string]int{}
		for i := range hosts {
			got[waveOf(i, hosts)]++
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%d hosts: %s", hosts, d)
		}
	}
}

func TestOptionsAreChecked(t *testing.T) {
	good := Options{Hosts: 3, Rounds: 1, Idle: time.Second}
	testkit.Must(t, good.check())
	for want, o := range map[string]Options{
		"2 hosts":  {Hosts: 2, Rounds: 1, Idle: time.Second},
		"0 rounds": {Hosts: 3, Idle: time.Second},
		"idle for": {Hosts: 3, Rounds: 1},
		"viewers":  {Hosts: 3, Rounds: 1, Viewers: MaxViewers + 1, Idle: time.Second},
		"100001":   {Hosts: MaxHosts + 1, Rounds: 1, Idle: time.Second},
	} {
		if err := o.check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v", o, err)
		}
	}
}
