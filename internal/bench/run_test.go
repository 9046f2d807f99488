package bench_test

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/steadyfleet/steady/internal/bench"
	"github.com/steadyfleet/steady/internal/cli"
	"github.com/steadyfleet/steady/internal/cli/command"
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
	if testing.Short() {
		t.Skip("starts a server and twenty agents")
	}
	for name, verify := range map[string]bool{"plain": false, "verified": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
			defer cancel()
			r, err := bench.Run(ctx, bench.Options{
				Hosts: 20, Rounds: 1, Idle: time.Second, Verify: verify,
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
		// Every host asked for documents, claimed and reported.
		if c.Seconds <= 0 || c.LastSeconds < c.HalfSeconds || c.Requests < 20*9 || c.Rollout == "" {
			t.Errorf("change %+v", c)
		}
	}
	if len(r.Plain.Rounds) != 1 || len(r.Policy.Rounds) != 1 || !r.Policy.Rounds[0].Policy {
		t.Errorf("rounds %+v and %+v", r.Plain, r.Policy)
	}
	if r.Idle.ServerPSS <= 0 || r.Idle.ServerRSS < r.Idle.ServerPSS || r.Enrol.Requests < 40 {
		t.Errorf("idle %+v, enrolment %+v", r.Idle, r.Enrol)
	}
	if r.Troubles.Errors+r.Troubles.Declined+r.Troubles.Refused != 0 {
		t.Errorf("agents met %+v", r.Troubles)
	}
	var b strings.Builder
	testkit.Must(t, r.Print(&b))
	t.Log("\n" + b.String())
}

// TestServerThatEndsIsReported names how the server ended and its log.
func TestServerThatEndsIsReported(t *testing.T) {
	_, err := bench.Run(t.Context(), bench.Options{Hosts: 3, Rounds: 1, Idle: time.Second, Exe: "/bin/false"})
	if err == nil || !strings.Contains(err.Error(), "the server ended before it was ready") || !strings.Contains(err.Error(), "server.log") {
		t.Errorf("got %v", err)
	}
}
