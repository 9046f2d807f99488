// Package bench measures a server under a fleet of simulated agents: how long a
// change takes until every host has converged, with and without a policy, and
// what the server spends on it. The server is a process of its own. The agents
// share this process, and are real in all that the server can see of them:
// keys, certificates, connections, long-polls, documents, claims and signed
// events. Only their disks, and what they change on their hosts, are missing.
package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/steadyfleet/steady/internal/release"
)

// Options say what to measure.
type Options struct {
	// Hosts is how many agents there are, 3 to MaxHosts.
	Hosts int
	// Rounds is how many changes are made without the policy, and as many with
	// it in turn, after the first release. At least 1.
	Rounds int
	// Soak is how many changes are made after these, one after the other, 9 or more; in every
	// tenth the server is killed. 0 is none.
	Soak int
	// SoakEvery is the least time from one change of a soak to the next. A change also waits
	// until the server's running audit has read what the one before it left in the log.
	SoakEvery time.Duration
	// Viewers is how many look at the fleet in as many changes more; 0 to MaxViewers.
	Viewers int
	// Forecasts has the server play forecasts during as many changes more.
	Forecasts bool
	// Nodes is how many nodes that own their configuration are connected, and lose their
	// connections at once in as many changes more; 0 to MaxNodes.
	Nodes int
	// KeepLog is how long the server keeps the log; empty is its default.
	KeepLog string
	// Idle is how long the fleet at rest is watched, at least 1 s.
	Idle time.Duration
	// Verify makes agents check every signature, as real ones do.
	Verify bool
	// Version names this build in the report.
	Version string
	// Dir keeps all that the run makes; empty is a folder of its own that is
	// removed.
	Dir string
	// Exe is the program whose verb server is the server; empty is this one.
	Exe string
	// Progress is told what happens, if not nil.
	Progress func(line string)
}

// MaxHosts is the most hosts of a run.
const MaxHosts = 100_000

// MaxNodes is the most nodes of a run.
const MaxNodes = 10_000

func (o Options) check() error {
	switch {
	case o.Hosts < 3 || o.Hosts > MaxHosts:
		return fmt.Errorf("%d hosts: expected 3 to %d", o.Hosts, MaxHosts)
	case o.Rounds < 1:
		return fmt.Errorf("%d rounds: expected at least 1", o.Rounds)
	case o.Soak != 0 && o.Soak < 9:
		return fmt.Errorf("a soak of %d changes: expected none or at least 9", o.Soak)
	case o.Viewers < 0 || o.Viewers > MaxViewers:
		return fmt.Errorf("%d viewers: expected 0 to %d", o.Viewers, MaxViewers)
	case o.Nodes < 0 || o.Nodes > MaxNodes:
		return fmt.Errorf("%d nodes: expected 0 to %d", o.Nodes, MaxNodes)
	case o.Idle < time.Second:
		return fmt.Errorf("idle for %s: expected at least 1s", o.Idle)
	}
	return files(o.Hosts + o.Viewers + o.Nodes)
}

// Run measures. Ending ctx ends it early, with an error.
func Run(ctx context.Context, o Options) (*Report, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	if o.Progress == nil {
		o.Progress = func(string) {}
	}
	if o.Exe == "" {
		exe, err := os.Executable()
		if err != nil {
			return nil, err
		}
		o.Exe = exe
	}
	dir, remove, err := folder(o.Dir)
	if err != nil {
		return nil, err
	}
	defer remove()
	whole := ctx
	ctx, stop := context.WithCancelCause(ctx)
	b := &bench{o: o, dir: dir, ctx: ctx, crowd: &crowd{bootID: "bench", stop: stop}}
	b.report = newReport(o)
	err = b.run()
	if cause := context.Cause(ctx); err != nil && cause != nil && !errors.Is(cause, context.Canceled) {
		err = cause // what ended the run, rather than what noticed
	}
	stop(nil)
	b.leave()
	if err == nil {
		b.ctx = whole
		err = b.floor()
	}
	if err != nil {
		return nil, err
	}
	b.report.finish(b.crowd)
	return b.report, nil
}

// leave ends the agents and the server.
func (b *bench) leave() {
	b.crowd.group.Wait()
	b.restarts.Wait()
	for _, a := range b.crowd.agents {
		if a != nil {
			a.client.Renew() // connections have goroutines of their own
		}
	}
	if b.server != nil {
		b.server.op.Close()
		b.server.Stop(stopIn)
	}
}

// folder makes the folder of a run.
func folder(dir string) (string, func(), error) {
	if dir == "" {
		dir, err := os.MkdirTemp("", "steady-bench-")
		return dir, func() { _ = os.RemoveAll(dir) }, err
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", nil, err
	}
	if entries, err := os.ReadDir(dir); err == nil && len(entries) > 0 {
		return "", nil, fmt.Errorf("%s is not empty; give a new folder", dir)
	}
	return dir, func() {}, os.MkdirAll(dir, 0o755)
}

// bench is one run.
type bench struct {
	o        Options
	dir      string
	ctx      context.Context
	fleet    *fleetDir
	pushed   chan struct{}  // closed when the next release is pushed, or nil
	restarts sync.WaitGroup // of the server that are under way
	server   *server
	cut      func() error // ends the connections of all nodes; nil without nodes
	crowd    *crowd
	report   *Report
}

func (b *bench) progress(format string, args ...any) { b.o.Progress(fmt.Sprintf(format, args...)) }

func (b *bench) run() error {
	b.progress("making keys and %d tokens", b.o.Hosts)
	f, enrol, err := newFleet(b.dir, b.o.Hosts)
	if err != nil {
		return err
	}
	b.fleet = f
	invited, err := invite(f, enrol)
	if err != nil {
		return err
	}
	if b.server, err = startServer(b.ctx, b.o.Exe, b.dir, f.rootFile(), "127.0.0.1:0", b.o.KeepLog); err != nil {
		return err
	}
	b.watch(b.server)
	if err := b.enrol(invited); err != nil {
		return err
	}
	if err := b.nodes(enrol); err != nil {
		return err
	}
	if err := b.changes(); err != nil {
		return err
	}
	if err := b.soak(); err != nil {
		return err
	}
	return b.idle()
}

// watch ends the run when a server ends that nobody killed.
func (b *bench) watch(s *server) {
	ctx := b.ctx // the floor is measured under another
	go func() {
		<-s.Exited
		if ctx.Err() == nil && !s.planned.Load() {
			b.crowd.stop(s.Failure("ended early"))
		}
	}()
}

// patience bounds a wait that grows with the fleet.
func (b *bench) patience() time.Duration {
	return time.Minute + time.Duration(b.o.Hosts)*50*time.Millisecond
}

// enrol measures how every host gets its identity and a connection.
func (b *bench) enrol(invited []invitation) error {
	d, err := newDoor(b.server.url, b.server.ca, &b.crowd.traffic)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(b.ctx, b.patience(), fmt.Errorf("%d hosts had not enrolled after %s", b.o.Hosts, b.patience()))
	defer cancel()
	b.progress("enrolling %d hosts, %d at a time", b.o.Hosts, enrolAtOnce)
	before, err := b.read()
	if err != nil {
		return err
	}
	if err := b.crowd.enrol(ctx, d, invited, b.fleet, b.o.Verify); err != nil {
		return errors.Join(err, context.Cause(ctx))
	}
	after, err := b.read()
	if err != nil {
		return err
	}
	b.report.Enrol = Enrolment{AtOnce: enrolAtOnce, Spent: spent(before, after, b.o.Hosts)}
	b.progress("enrolled in %.2f s", b.report.Enrol.Seconds)
	b.crowd.start(b.ctx)
	return nil
}

// changes makes the first release, and then changes without and with the policy
// in turn, so that what else the machine does falls on both alike.
func (b *bench) changes() error {
	first, err := b.fleet.release(false)
	if err != nil {
		return err
	}
	m, err := b.measure(first)
	if err != nil {
		return err
	}
	b.report.First = m
	for range b.o.Rounds {
		for _, policy := range []bool{false, true} {
			c, err := b.next(policy)
			if err != nil {
				return err
			}
			m, err := b.measure(c)
			if err != nil {
				return err
			}
			if policy {
				b.report.Policy.Rounds = append(b.report.Policy.Rounds, m)
			} else {
				b.report.Plain.Rounds = append(b.report.Plain.Rounds, m)
			}
		}
		if err := b.viewed(); err != nil {
			return err
		}
		if err := b.forecast(); err != nil {
			return err
		}
		if err := b.storm(); err != nil {
			return err
		}
	}
	return nil
}

// next makes a change. Where it is compared with changes beside which something else goes on, all
// of them begin with nothing left to read for the running audit.
func (b *bench) next(policy bool) (change, error) {
	c, err := b.fleet.release(policy)
	if err != nil || b.o.Viewers == 0 && !b.o.Forecasts && b.o.Nodes == 0 {
		return c, err
	}
	return c, b.settle(0)
}

// measure pushes a change and waits until the log says that its rollout is
// terminal and every agent's own machine has converged.
func (b *bench) measure(c change) (m Change, err error) {
	before, err := b.read()
	if err != nil {
		return m, err
	}
	r := b.crowd.expect(c.manifest)
	m.PushSeconds, err = b.push(c)
	if b.pushed != nil {
		close(b.pushed)
		b.pushed = nil
	}
	if err != nil {
		return m, err
	}
	err = b.crowd.await(b.ctx, r, b.patience())
	b.restarts.Wait()
	if err != nil {
		return m, b.explain(r, fmt.Errorf("rollout %s: %w", c.rollout, err))
	}
	ended, err := b.server.terminal(b.ctx, c.rollout, time.Minute)
	if err != nil {
		return m, err
	}
	after, err := b.read()
	if err != nil {
		return m, err
	}
	if err := b.crowd.converged(); err != nil {
		return m, err
	}
	arrivals := b.crowd.arrivals(r)
	m.Rollout, m.Policy = c.rollout, c.policy
	m.Spent = spent(before, after, b.o.Hosts)
	m.SentPerHost, m.ReceivedPerHost = (after.sent-before.sent)/int64(b.o.Hosts), (after.received-before.received)/int64(b.o.Hosts)
	m.HalfSeconds = arrivals[len(arrivals)/2].Seconds()
	m.LastSeconds = arrivals[len(arrivals)-1].Seconds()
	m.Seconds = max(m.LastSeconds, ended.Sub(r.began).Seconds())
	mem, err := memoryOf(b.server.PID())
	m.ServerRSS = mem.rss
	b.progress("%s%s: all converged after %.2f s, server CPU %.2f ms per host", c.rollout, describePolicy(c.policy), m.Seconds, m.ServerMillisPerHost)
	return m, err
}

func (b *bench) push(c change) (float64, error) {
	ctx, cancel := context.WithTimeoutCause(b.ctx, b.patience(), fmt.Errorf("the server had not taken release %s after %s", c.rollout, b.patience()))
	defer cancel()
	began := time.Now()
	packed := release.Pack(os.DirFS(c.dir))
	p, err := b.server.op.Push(ctx, packed)
	if err := errors.Join(err, packed.Close()); err != nil {
		return 0, errors.Join(fmt.Errorf("push %s: %w", c.rollout, err), context.Cause(ctx))
	}
	if p.Outcome != "accepted" {
		return 0, fmt.Errorf("push %s: the server said %q instead of accepted", c.rollout, p.Outcome)
	}
	return time.Since(began).Seconds(), nil
}

// explain asks the server why a host waits.
func (b *bench) explain(r *round, err error) error {
	name := b.crowd.waiting(r)
	if name == "" || b.ctx.Err() != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(b.ctx, 10*time.Second)
	defer cancel()
	why, asked := b.server.op.Why(ctx, name)
	if asked != nil {
		return fmt.Errorf("%w; the server does not say why: %v", err, asked)
	}
	return fmt.Errorf("%w; the server on %s: %+v", err, name, why)
}

// quiesce is how long after the last change the fleet counts as at rest: by then
// the server has cleaned up after it.
const quiesce = 9 * time.Second

// pause waits, or fails with what ended the run.
func (b *bench) pause(d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-b.ctx.Done():
		return context.Cause(b.ctx)
	}
}

// idle watches the fleet at rest.
func (b *bench) idle() error {
	b.progress("watching %d idle hosts for %s, after %s to come to rest", b.o.Hosts, b.o.Idle, quiesce)
	if err := b.pause(quiesce); err != nil {
		return err
	}
	before, err := b.read()
	if err != nil {
		return err
	}
	if err := b.pause(b.o.Idle); err != nil {
		return err
	}
	after, err := b.read()
	if err != nil {
		return err
	}
	server, err := memoryOf(b.server.PID())
	if err != nil {
		return err
	}
	agents, err := memoryOf(os.Getpid())
	if err != nil {
		return err
	}
	s := spent(before, after, b.o.Hosts)
	b.report.Idle = Idle{
		Spent: s, ServerRSS: server.rss, ServerPSS: server.pss, AgentsRSS: agents.rss,
		ServerPercent: share(after.server-before.server, s.Seconds), AgentsPercent: share(after.agents-before.agents, s.Seconds),
	}
	return nil
}
