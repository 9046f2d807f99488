package simulate

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/steadyfleet/steady/internal/cli/command"
	"github.com/steadyfleet/steady/internal/cli/exit"
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/plan"
	"github.com/steadyfleet/steady/internal/core/server"
	"github.com/steadyfleet/steady/internal/forecast"
	"github.com/steadyfleet/steady/internal/release"
	"github.com/steadyfleet/steady/internal/release/fleetdir"
	"github.com/steadyfleet/steady/internal/replay"
	"github.com/steadyfleet/steady/internal/testkit"
)

type luck struct{}

// Behave has every host activate in a minute, and web-2 fail.
func (luck) Behave(host string, _ *fleet.HostPlan) forecast.Behaviour {
	b := forecast.Behaviour{Claim: clock.Second, Activation: clock.Minute, Revert: clock.Minute, Report: 20}
	if host == "web-2" {
		b.Fails = "exit-1"
	}
	return b
}

// kept is a file with the history of a rollout of the sample fleet.
func kept(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	testkit.Value(fleetdir.Sample(filepath.Join(dir, "fleet")))(t)
	src, _ := fleetdir.Load(filepath.Join(dir, "fleet"))
	rel, problems := release.Build(src, release.BuildOptions{Ref: "v1", Now: 1_800_000_000_000})
	if rel == nil {
		t.Fatal(problems)
	}
	p := testkit.Value(rel.Plans())(t)
	h := &replay.History{Manifests: p.Manifests}
	const start clock.Instant = 1_800_000_000_000
	s := plan.New(h)
	w := forecast.NewWorld(s, h, start, luck{})
	w.Committed = func(entries []event.Entry) {
		for _, e := range entries {
			h.Records = append(h.Records, event.Record{Entry: e, Seq: uint64(len(h.Records)) + 1, Term: 1})
		}
	}
	for name := range p.Roster.Hosts { // order-free: they are alike
		w.Fail(w.Step(forecast.Record(name, event.HostEnrolled{Incarnation: 1, Token: name})))
		w.Fail(w.Step(server.Connected{Host: name}))
		w.Drive(name, 0)
	}
	w.Fail(w.Step(forecast.Record("", p.Accepted(), event.TimestampAccepted{Version: 1, IssuedAt: start})))
	testkit.Value(w.Run(start.Add(clock.Hour)))(t)
	file := filepath.Join(dir, "fleet.history")
	testkit.Must(t, save(file, h))
	return file
}

// steady runs steady replay.
func steady(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	cmd := Replay(command.New(command.Streams{Out: &out, Err: &out, Getenv: func(string) string { return "" }}))
	cmd.SetArgs(args)
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	err := cmd.ExecuteContext(context.Background())
	return out.String(), err
}

func TestReplayCommand(t *testing.T) {
	file := kept(t)
	for _, c := range []struct {
		args []string
		want []string // patterns, in any order
	}{
		{nil, []string{`(?m)^After event \d+, 2027-\S+: release v1$`, `stable@v1: reverted at wave rest`, `web-2 +online +reverted +stable@v1`}},
		{[]string{"--at", "2027-01-15T08:00:30Z"}, []string{`stable@v1: active at wave canary`, `canary-1 +online +activating`}},
		{[]string{"--at", "2027-01-15T08:00:30Z", "--why", "web-3"}, []string{`blocks wave: the host is in wave rest`}},
		{[]string{"--diff", "0..20"}, []string{`From event 0 \(never\) to event 20`, `channel stable\n +before: nothing`}},
		{[]string{"--check"}, []string{`decides exactly what is in the log`}},
		{[]string{"--policy", "maxFailures=1"}, []string{`First other decision at 2027-`, `recorded +\S+: bundle|recorded +server: `, `instead +nothing`,
			`recorded: reverted at wave rest`, `instead: done`, `Modelled: \d hosts left it`}},
		{[]string{"--policy", "lab:soak=5m", "-o", "json"}, []string{`"firstNew": \[`, `"differences": \[`, `"modelled": \[`}},
		{[]string{"--budget", "tags:web=1"}, []string{`First other decision`}},
	} {
		out, err := steady(t, append([]string{"--file", file}, c.args...)...)
		if err != nil {
			t.Errorf("%v: %v", c.args, err)
		}
		for _, p := range c.want {
			if !regexp.MustCompile(p).MatchString(out) {
				t.Errorf("%v: no %q in\n%s", c.args, p, out)
			}
		}
		if strings.Contains(strings.Join(c.args, " "), "json") && !json.Valid([]byte(out)) {
			t.Errorf("%v: no JSON: %s", c.args, out)
		}
	}
}

func TestReplayRefuses(t *testing.T) {
	file := kept(t)
	for _, args := range [][]string{
		{"--seq", "99999"}, {"--at", "noon"}, {"--diff", "5"}, {"--diff", "9..2"}, {"--delay", "5"}, {"--delay", "1=x"}, {"--drop", "99999"},
		{"--policy", "speed=9"}, {"--policy", "soak=x"}, {"--policy", "onHealthFailure=maybe"}, {"--policy", "nowhere:soak=1m"},
		{"--budget", "tags:web"}, {"--budget", "tags:web=0"}, {"--budget", "nobody=1"}, {"--check", "--drop", "5"}, {"--why", "nobody"},
	} {
		out, err := steady(t, append([]string{"--file", file}, args...)...)
		if f, ok := errors.AsType[*exit.Failure](err); !ok || f.Code != exit.BadInput && f.Code != exit.NotFound {
			t.Errorf("%v: %v\n%s", args, err, out)
		}
	}
}
