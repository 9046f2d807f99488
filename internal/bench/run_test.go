package bench_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/steadyfleet/steady/internal/bench"
	"github.com/steadyfleet/steady/internal/cli"
	"github.com/steadyfleet/steady/internal/cli/command"
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/store/embedded"
	"github.com/steadyfleet/steady/internal/testkit"
)

// asSteady makes the test's binary the program under test: the run starts it
// again as its server.
const asSteady = "STEADY_BENCH_TEST_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asSteady) != "" {
		os.Exit(cli.Run(context.Background(), os.Args[1:], command.Process()))
	}
	if err := os.Setenv(asSteady, "1"); err != nil { // for the processes that the tests start
		panic(err)
	}
	os.Exit(m.Run())
}

// TestRun drives real server processes with twenty agents each through everything: one
// run whose agents verify, and beside it one whose agents do not, as a run waits
// most of its time.
func TestRun(t *testing.T) {
	t.Parallel()
	testkit.Long(t, "starts a server and twenty agents")
	for name, verify := range map[string]bool{"plain": false, "verified": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
			defer cancel()
			r, err := bench.Run(ctx, bench.Options{
				Hosts: 20, Rounds: 1, Viewers: 5, Forecasts: true, Nodes: 10, Idle: time.Second, Verify: verify,
				Progress: func(line string) { t.Log(line) },
			})
			testkit.Must(t, err)
			check(t, r, verify)
		})
	}
}

func check(t *testing.T, r *bench.Report, verify bool) {
	t.Helper()
	if r.Verified != verify || r.Hosts != 20 {
		t.Errorf("the report is of %d hosts, verified %t", r.Hosts, r.Verified)
	}
	for _, c := range append(append([]bench.Change{r.First}, r.Plain.Rounds...), r.Policy.Rounds...) {
		// Every host was offered its grant with all documents, claimed, reported twice and asked again.
		if c.Seconds <= 0 || c.LastSeconds < c.HalfSeconds || c.Requests < 20*4 || c.Requests > 20*5 || c.Rollout == "" {
			t.Errorf("change %+v", c)
		}
	}
	if len(r.Plain.Rounds) != 1 || len(r.Policy.Rounds) != 1 || !r.Policy.Rounds[0].Policy {
		t.Errorf("rounds %+v and %+v", r.Plain, r.Policy)
	}
	if v := r.Viewed; v == nil || v.Viewers != 5 || len(v.Rounds) != 1 || v.Ratio <= 0 || v.Frames <= 0 || v.Bytes <= 0 {
		t.Errorf("viewed %+v", v)
	}
	if f := r.Forecast; f == nil || len(f.Rounds) != 1 || f.Ratio <= 0 || f.Begun == 0 {
		t.Errorf("with forecasts %+v", f)
	}
	if s := r.Storm; s == nil || len(s.Rounds) != 1 || s.Ratio <= 0 || s.Registered <= 0 || s.Reconciled <= 0 {
		t.Errorf("with nodes %+v", s)
	}
	if r.Idle.ServerPSS <= 0 || r.Idle.ServerRSS < r.Idle.ServerPSS || r.Enrol.Requests < 40 {
		t.Errorf("idle %+v, enrolment %+v", r.Idle, r.Enrol)
	}
	// The bare server got what a change sends, as often, and did less with it.
	f := r.Floor
	if f.Requests < 4 || f.Requests > 5 || f.HTTP.Requests != 20*f.Requests || f.Synced.Requests != 20*f.Requests || f.Sent < 500 || f.Received < 500 || f.SecondsRatio <= 0 {
		t.Errorf("the floor is %+v", f)
	}
	if r.Troubles.Errors+r.Troubles.Declined+r.Troubles.Refused != 0 {
		t.Errorf("agents met %+v", r.Troubles)
	}
	var b strings.Builder
	testkit.Must(t, r.Print(&b))
	t.Log("\n" + b.String())
}

// soakOf is how many hosts and changes the soak has: a slice, and at night a week with a
// change every hour.
func soakOf() (hosts, changes int) {
	if os.Getenv("STEADY_NIGHTLY") != "" {
		return 1000, 168
	}
	return 20, 30
}

// TestSoakIsFlat: changes made for long, with the server killed in every tenth, leave no
// more behind at the end than in the middle: of the log and of blobs per change, of
// goroutines, and at night, when there are enough to tell, of memory and processor time.
func TestSoakIsFlat(t *testing.T) {
	t.Parallel()
	testkit.Long(t, "starts a server and its agents")
	hosts, changes := soakOf()
	r, err := bench.Run(t.Context(), bench.Options{Hosts: hosts, Rounds: 1, Soak: changes, Idle: time.Second})
	testkit.Must(t, err)
	var b strings.Builder
	testkit.Must(t, r.Print(&b))
	t.Log("\n" + b.String())
	second, last := r.Soak.Second, r.Soak.Last
	flat := func(what string, second, last, slack float64) {
		if second <= 0 || last > second*slack {
			t.Errorf("%s: %.2f in the second third, %.2f in the last", what, second, last)
		}
	}
	flat("log of a change", float64(second.LogPerChange), float64(last.LogPerChange), 1.15)
	flat("blobs of a change", float64(second.BlobsPerChange), float64(last.BlobsPerChange), 1.05)
	flat("goroutines", float64(second.Goroutines), float64(last.Goroutines), 1.2)
	if hosts >= 1000 {
		flat("memory", float64(second.PSS), float64(last.PSS), 1.1)
		flat("server CPU of a change", second.CPU, last.CPU, 1.25)
	}
	if n := len(r.Soak.Changes); n != changes {
		t.Errorf("%d changes of %d", n, changes)
	}
	fiveYears(t, int64(hosts), max(second.LogPerChange, last.LogPerChange), max(second.BlobsPerChange, last.BlobsPerChange))
}

// TestPrunedSoakIsFlat: a log that is pruned while changes are made, and the server killed in
// every tenth, is no larger at the end than in the middle. One that is not pruned is larger by
// two thirds.
func TestPrunedSoakIsFlat(t *testing.T) {
	testkit.Long(t, "starts a server and its agents")
	hosts, changes := 20, 90
	if os.Getenv("STEADY_NIGHTLY") != "" {
		changes = 500
	}
	r, err := bench.Run(t.Context(), bench.Options{Hosts: hosts, Rounds: 1, Soak: changes, Idle: time.Second, KeepLog: "1s", SoakEvery: 200 * time.Millisecond})
	testkit.Must(t, err)
	second, last, end := r.Soak.Second, r.Soak.Last, r.Soak.Changes[changes-1]
	t.Logf("the log had %d KiB, then %d KiB, and begins behind record %d", second.Log>>10, last.Log>>10, end.Pruned)
	if end.Pruned == 0 {
		t.Error("nothing was pruned")
	}
	if changes >= 500 && float64(last.Blobs) > 1.3*float64(second.Blobs) { // more than the rollouts that are kept
		t.Errorf("%d bytes of blobs in the second third, %d in the last", second.Blobs, last.Blobs)
	}
	if float64(last.Log) > 1.3*float64(second.Log) || float64(last.Goroutines) > 1.2*float64(second.Goroutines) {
		t.Errorf("%d bytes of log and %d goroutines in the second third, %d and %d in the last", second.Log, second.Goroutines, last.Log, last.Goroutines)
	}
}

// fiveYears holds the model of docs/retention.md: what a change leaves behind is what the
// soak measured, the rest is measured here, in a store with its index.
func fiveYears(t *testing.T, measured, logPerChange, blobsPerChange int64) {
	const (
		hosts, years = 10_000, 5
		kept         = 115            // days of the log: 90, those between two checkpoints, and some
		changes      = 1              // a day, of every host
		renewals     = kept * 10 / 45 // of every host's certificate: 7 days, renewed after about 4.5
		absences     = kept / 7       // of every host
		timestamps   = kept * 24
		checkpoints  = 6
		checkpoint   = 16 << 10       // of every host, by the state and by the audit
		content      = 50 * 100 << 20 // of the rollouts that are kept
		block        = 4096           // that a small blob takes
	)
	renewal := eventSize(t, event.CertificateRenewed{Serial: strings.Repeat("f", 32), Presented: strings.Repeat("e", 32), NotAfter: 1 << 40, KeyDigest: digest.Of(nil)})
	absence := eventSize(t, event.HostSilent{LastSeen: 1 << 40}) + eventSize(t, event.HostReturned{})
	stamp := eventSize(t, event.TimestampAccepted{Version: 1 << 16, IssuedAt: 1 << 40, Resolved: digest.Of(nil), Envelope: digest.Of(nil)})
	parts := []struct {
		what  string
		bytes int64
	}{
		{"changes, in the log", hosts * kept * changes * logPerChange / measured},
		{"changes, documents", hosts * kept * changes * blobsPerChange / measured},
		{"certificates", hosts * renewals * renewal},
		{"absences", hosts * absences * absence},
		{"timestamps", timestamps * (stamp + block)},
		{"checkpoints", checkpoints * hosts * checkpoint},
		{"content", content},
	}
	var sum int64
	for _, p := range parts {
		t.Logf("%-20s %6.2f GiB", p.what, float64(p.bytes)/(1<<30))
		sum += p.bytes
	}
	if t.Logf("%-20s %6.2f GiB", "all", float64(sum)/(1<<30)); sum > 50<<30 {
		t.Errorf("%d hosts fill %.1f GiB in %d years", hosts, float64(sum)/(1<<30), years)
	}
}

// eventSize is what an event of a host adds to a log on disk, its place in the index included.
func eventSize(t *testing.T, ev event.Event) int64 {
	const batches, batch = 30, 200
	st := testkit.Value(embedded.Open(t.Context(), t.TempDir(), embedded.Options{FlushEvery: batch}))(t)
	defer st.Close()
	head := testkit.Value(st.Acquire(t.Context(), "model", 1))(t)
	before := testkit.Value(st.Size(t.Context()))(t)
	for i := range batches {
		var entries []event.Entry
		for j := range batch {
			entries = append(entries, testkit.Value(event.NewEntry(clock.Instant(i), event.HostSubject(fmt.Sprintf("host-%05d", j)), ev))(t))
		}
		head = testkit.Value(st.Append(t.Context(), head.Seq, head.Term, entries))(t)
	}
	after := testkit.Value(st.Size(t.Context()))(t)
	return (after.Log - before.Log) / (batches * batch)
}

// TestServerThatEndsIsReported names how the server ended and its log.
func TestServerThatEndsIsReported(t *testing.T) {
	_, err := bench.Run(t.Context(), bench.Options{Hosts: 3, Rounds: 1, Idle: time.Second, Exe: "/bin/false"})
	if err == nil || !strings.Contains(err.Error(), "the server ended before it was ready") || !strings.Contains(err.Error(), "server.log") {
		t.Errorf("got %v", err)
	}
}
