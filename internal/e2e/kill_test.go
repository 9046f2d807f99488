package e2e

import (
	"context"
	"errors"
	"fmt"
	mrand "math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/steadyfleet/steady/internal/api/operator"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/host"
	"github.com/steadyfleet/steady/internal/core/rollout"
	"github.com/steadyfleet/steady/internal/testkit"
)

const killFleet = `apiVersion: steady/v1
kind: Fleet
metadata: {name: acme}
hosts:
  canary-1: {channel: stable, tags: [canary, web], bundle: web}
  web-1:    {channel: stable, tags: [web], bundle: web}
  web-2:    {channel: stable, tags: [web], bundle: web}
  web-3:    {channel: stable, tags: [web], bundle: web}
  web-4:    {channel: stable, tags: [web], bundle: web}
  db-1:     {channel: stable, tags: [db],  bundle: web}
channels:
  stable: {rolloutPolicy: careful, freshnessWindow: 24h, signingInterval: 1h, reconcileInterval: 5s}
rolloutPolicies:
  careful:
    waves:
      - {name: canary, selector: {tags: [canary]}, soak: 1s, minSoaked: 1}
      - {name: rest,   selector: {all: true}, soak: 1s}
    healthGate: {maxFailures: 0}
    confirmWindow: 1m
disruptionBudgets:
  - {selector: {tags: [web]}, maxInFlight: 2}
edges:
  - {gated: web-4, gates: db-1, reason: the schema comes first}
allowMassChange: true # each release drops a file of the one before
bundles: {web: {path: bundles/web}}
`

// killBundle is one version of what the hosts run. Its step shows which version
// it activated last, and may be run again after a crash.
func killBundle(ref string) string {
	return fmt.Sprintf(`files:
  - {path: www/index.html, content: "release %[1]s\n"}
  - {path: etc/only-%[1]s.conf, content: "of %[1]s\n", mode: "0640"}
system:
  - driver: exec
    name: publish
    activate: [sh, -c, "mkdir -p run && cp www/index.html run/next && mv run/next run/published"]
    check: [cmp, -s, www/index.html, run/published]
    timeout: 30s
probes:
  published:
    interval: 1s
    timeout: 1s
    exec: {command: [grep, -q, release, run/published]}
`, ref)
}

var killHosts = []string{"canary-1", "db-1", "web-1", "web-2", "web-3", "web-4"}

// yard is a fleet of real processes.
type yard struct {
	t      *testing.T
	estate *estate
	dir    string
	rng    *mrand.Rand
	hosts  []string

	serverOf, agentOf string // the programs

	server *process
	where  serverReady
	listen string
	more   []string // flags of the server
	client *operator.Client
	agents map[string]*process
	events chan operator.Event
}

// serverReady is what the server says of itself.
type serverReady struct {
	Server     string `json:"server"`
	Operator   string `json:"operator"`
	Context    string `json:"context"`
	AdminToken string `json:"adminToken"`
}

// newYard starts a server and the agents of hosts, all of one program.
func newYard(t *testing.T, program string, hosts ...string) *yard {
	y := &yard{t: t, estate: newEstate(t), dir: t.TempDir(), rng: newRand(t), listen: testkit.FreeAddr(t), // so that it comes back where agents look for it
		serverOf: program, agentOf: program, agents: map[string]*process{}, events: make(chan operator.Event, 4096)}
	y.startServer()
	conn := readContext(t, y.where.Context)
	y.client = testkit.Value(operator.NewClient(operator.Options{URL: y.where.Operator, Token: conn.Token, ServerCA: []byte(conn.CA)}))(t)
	for _, h := range hosts {
		y.enrol(h)
	}
	ctx, cancel := context.WithCancel(context.Background())
	watching := make(chan struct{})
	go func() {
		defer close(watching)
		y.watch(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		y.client.Close()
		<-watching
		for _, p := range y.agents {
			p.kill()
		}
		y.server.kill()
	})
	return y
}

// enrol starts the agent of one more host.
func (y *yard) enrol(h string) {
	y.t.Helper()
	y.hosts = append(y.hosts, h)
	testkit.Must(y.t, os.MkdirAll(y.root(h), 0o755))
	y.startAgent(h, "--token", y.estate.token(h, y.where.Server, []byte(readContext(y.t, y.where.Context).CA)))
}

func (y *yard) root(h string) string  { return filepath.Join(y.dir, h, "root") }
func (y *yard) state(h string) string { return filepath.Join(y.dir, h, "state") }
func (y *yard) log() string           { return filepath.Join(y.dir, "server", "store") }

func (y *yard) startServer() {
	y.t.Helper()
	y.server = launchOf(y.t, y.serverOf, y.dir, "server", append([]string{"server", "--data", filepath.Join(y.dir, "server"),
		"--root", y.estate.rootFile(), "--listen", y.listen, "--heartbeat", "5s", "-o", "json"}, y.more...)...)
	y.server.until(&y.where)
}

func (y *yard) startAgent(h string, more ...string) {
	y.t.Helper()
	p := launchOf(y.t, y.agentOf, y.dir, h, append([]string{"agent", "--state", y.state(h), "--root", y.root(h), "--resync", "5s", "--engine", "none"}, more...)...)
	y.agents[h] = p
	var ready struct{ Host string }
	p.until(&ready)
	if ready.Host != h {
		y.t.Fatalf("agent %s says that it is %q", h, ready.Host)
	}
}

// watch hands on every event of the log, over every restart of the server.
func (y *yard) watch(ctx context.Context) {
	var after uint64
	for ctx.Err() == nil {
		err := y.client.Follow(ctx, operator.EventQuery{After: after}, func(e operator.Event) error {
			after = e.Seq
			select {
			case y.events <- e:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
		if ctx.Err() == nil && err != nil {
			select { // the server is away
			case <-time.After(5 * time.Millisecond):
			case <-ctx.Done():
			}
		}
	}
}

// push hands a release to the server, which may be restarting.
func (y *yard) push(m made) {
	y.t.Helper()
	testkit.Eventually(y.t, "release "+m.ref+" taken", func() bool {
		packed := m.packed()
		defer packed.Close()
		_, err := y.client.Push(context.Background(), packed)
		var refused *operator.Error
		if errors.As(err, &refused) && refused.Status < 500 {
			y.t.Fatalf("push of %s: %v", m.ref, err)
		}
		return err == nil
	})
}

// follow reads n events, or fewer if the rollout ends, which it reports. It
// fails the test if the rollout goes wrong.
func (y *yard) follow(name string, n int) (ended bool) {
	y.t.Helper()
	limit := time.NewTimer(patience)
	defer limit.Stop()
	for range n {
		select {
		case e := <-y.events:
			ev := testkit.Value(event.DecodeBody(e.Type, e.Body))(y.t)
			moved, ok := ev.(event.RolloutMoved)
			if !ok || moved.Rollout != name {
				continue
			}
			switch rollout.Phase(moved.To) {
			case rollout.Terminal:
				return true
			case rollout.Failed, rollout.Reverted, rollout.Superseded, rollout.Pruned:
				y.t.Fatalf("rollout %s is %s: %s\n%s", name, moved.To, moved.Reason, y.server.Tail())
			}
		case <-limit.C:
			y.t.Fatalf("nothing more happened in rollout %s\n%s", name, y.server.Tail())
		}
	}
	return false
}

// sleep stops the server or one agent as a paused machine does, and lets it go on
// where it was (F13).
func (y *yard) sleep() {
	y.t.Helper()
	p := y.server
	if h := y.rng.IntN(2 * len(y.hosts)); h < len(y.hosts) {
		p = y.agents[y.hosts[h]]
	}
	testkit.Must(y.t, p.cmd.Process.Signal(syscall.SIGSTOP))
	<-time.After(time.Duration(y.rng.IntN(3000)) * time.Millisecond)
	testkit.Must(y.t, p.cmd.Process.Signal(syscall.SIGCONT))
}

// strike kills the server or one agent at a random instant, and starts it again
// at once, or has it sleep. Behind a killed server it checks that nothing acknowledged was lost.
func (y *yard) strike(n int) {
	y.t.Helper()
	<-time.After(time.Duration(y.rng.IntN(40_000)) * time.Microsecond) // not only right after a commit
	if y.rng.IntN(4) == 0 {
		y.sleep()
		return
	}
	if h := y.rng.IntN(2 * len(y.hosts)); h < len(y.hosts) {
		name := y.hosts[h]
		y.agents[name].kill()
		y.startAgent(name)
		return
	}
	y.server.kill()
	var boxes []outbox
	for _, h := range y.hosts {
		boxes = append(boxes, readOutbox(y.t, h, y.state(h)))
	}
	left := filepath.Join(y.dir, fmt.Sprintf("left-%d", n))
	copyLog(y.t, y.log(), left)
	y.startServer()
	l := readLedger(y.t, left)
	for _, o := range boxes {
		l.holds(y.t, o)
	}
}

// TestKilledProcessesLoseNothing kills the server and agents with SIGKILL, or stops
// them for a while, at random points of rollouts and checks S33, the whole log, and that every host
// runs what was released.
func TestKilledProcessesLoseNothing(t *testing.T) {
	t.Parallel()
	want := 10
	if s := os.Getenv("STEADY_KILLS"); s != "" {
		want = testkit.Value(strconv.Atoi(s))(t)
	}
	y := newYard(t, testkit.Value(os.Executable())(t), killHosts...)
	release := func(ref string) (made, string) {
		m := y.estate.release(ref, declare{"fleet.yaml": killFleet, "bundles/web/bundle.yaml": killBundle(ref)})
		y.push(m)
		return m, "stable@" + ref
	}
	_, first := release("v1")
	for !y.follow(first, 1) {
	}
	var last made
	kills := 0
	for version := 2; kills < want; version++ {
		var name string
		last, name = release(fmt.Sprintf("v%d", version))
		ended := false
		for kills < want && !ended {
			if ended = y.follow(name, 1+y.rng.IntN(6)); !ended {
				y.strike(kills)
				kills++
			}
		}
		for !ended {
			ended = y.follow(name, 1)
		}
	}
	t.Logf("%d kills and stops over %d releases", kills, len(y.estate.made))
	y.settle()
	y.converged(last, len(killHosts)*len(y.estate.made))
}

// settle waits until every host's events are acknowledged, and stops everything.
func (y *yard) settle() {
	y.t.Helper()
	for _, h := range y.hosts {
		testkit.Eventually(y.t, h+" acknowledged", func() bool {
			o := readOutbox(y.t, h, y.state(h))
			return o.acked == uint64(len(o.events))
		})
	}
	for _, h := range y.hosts {
		y.agents[h].stop()
	}
	y.server.stop()
}

// converged checks the log, in which so many grants were claimed, the hosts' own
// records, and the hosts' files.
func (y *yard) converged(last made, claims int) {
	y.t.Helper()
	l := readLedger(y.t, y.log())
	r := l.state.Find("stable@" + last.ref)
	if r == nil || r.Phase != rollout.Terminal {
		y.t.Fatalf("rollout stable@%s did not end well: %+v\n%s", last.ref, r, l.tail(40))
	}
	for _, h := range y.hosts {
		o := readOutbox(y.t, h, y.state(h))
		l.holds(y.t, o)
		if l.heads[h] == 0 {
			y.t.Errorf("host %s signed nothing", h)
		}
		m := &l.state.Hosts[h].Machine
		if m.Phase != host.Converged || m.Current != last.leaf(y.t, "stable", h).Target || m.Rollout != "stable@"+last.ref {
			y.t.Errorf("the log says that host %s is %s on %s in %s", h, m.Phase, m.Current.Short(), m.Rollout)
		}
		want := tree{
			"www": "drwxr-xr-x", "etc": "drwxr-xr-x", "run": "drwxr-xr-x",
			"www/index.html":                 fmt.Sprintf("-rw-r--r-- %q", "release "+last.ref+"\n"),
			"run/published":                  fmt.Sprintf("-rw-r--r-- %q", "release "+last.ref+"\n"),
			"etc/only-" + last.ref + ".conf": fmt.Sprintf("-rw-r----- %q", "of "+last.ref+"\n"),
		}
		if d := want.diff(readTree(y.t, y.root(h))); d != "" {
			y.t.Errorf("the files of host %s differ:\n%s", h, d)
		}
	}
	y.onceEach(l, claims)
	if y.t.Failed() {
		y.t.Logf("the log ends with\n%s", l.tail(200))
	}
}

// onceEach checks that every claimed grant was one activation: begun once and
// completed once (S2).
func (y *yard) onceEach(l *ledger, claims int) {
	y.t.Helper()
	claimed := map[string]string{} // host by grant
	grants, at := eventsOf[event.GrantClaimed](y.t, l)
	for i, g := range grants {
		if _, twice := claimed[g.Grant]; twice {
			y.t.Errorf("grant %s was claimed twice", g.Grant)
		}
		claimed[g.Grant] = at[i].Host()
	}
	begun, completed, open := map[string]int{}, map[string]int{}, map[string]string{}
	steps, at := eventsOf[event.HostStepped](y.t, l)
	for i, s := range steps {
		switch in := testkit.Value(host.DecodeInput(s.Input, s.Data))(y.t).(type) {
		case host.Claimed:
			if claimed[in.Grant] != at[i].Host() {
				y.t.Errorf("host %s began grant %s, which it had not claimed", at[i].Host(), in.Grant)
			}
			begun[in.Grant]++
			open[at[i].Host()] = in.Grant
		case host.Activated:
			completed[open[at[i].Host()]]++
		}
	}
	for g, h := range claimed {
		if begun[g] != 1 || completed[g] != 1 {
			y.t.Errorf("host %s began claimed grant %s %d times and completed it %d times", h, g, begun[g], completed[g])
		}
	}
	if len(claimed) < claims {
		y.t.Errorf("%d grants were claimed, expected at least %d", len(claimed), claims)
	}
}

// operatorContext is what the server writes for operators.
type operatorContext struct {
	Token string `json:"token"`
	CA    string `json:"ca"`
}

func readContext(t testing.TB, path string) (c operatorContext) {
	t.Helper()
	testkit.Must(t, unmarshalFile(path, &c))
	return c
}
