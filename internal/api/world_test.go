package api_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/steadyfleet/steady/internal/api"
	"github.com/steadyfleet/steady/internal/api/operator"
	"github.com/steadyfleet/steady/internal/control"
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/server"
	"github.com/steadyfleet/steady/internal/release"
	"github.com/steadyfleet/steady/internal/release/fleetdir"
	"github.com/steadyfleet/steady/internal/replay"
	"github.com/steadyfleet/steady/internal/testkit"
	"github.com/steadyfleet/steady/internal/testkit/testfleet"
	"github.com/steadyfleet/steady/internal/web/browse"
)

const testFleet = testfleet.Name

func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == replay.WorkerVerb { // of a server of these tests
		if err := replay.Work(os.Stdin, os.Stdout, operator.Messages); err != nil {
			panic(err)
		}
		return
	}
	if dir := os.Getenv(childDir); dir != "" {
		serveAsChild(dir)
		return
	}
	if job := os.Getenv(attackerJob); job != "" {
		runAttack(job)
		return
	}
	// They wait for time to pass; -parallel on the command line counts.
	if err := flag.Set("test.parallel", "4"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(browse.Tests{M: m})
}

// world is a fleet's keys with a server on real storage and TLS.
type world struct {
	t        testing.TB
	restored bool // from a backup
	dir      string
	keys     testfleet.Keys
	root     []byte
	opts     api.Options
	server   *api.Server
	stop     context.CancelFunc
	op       *operator.Client
	prev     *release.Verified
	child    *child // a server in a process of its own, instead of server
}

func (w *world) url() string {
	if w.child != nil {
		return w.child.url
	}
	return w.server.URL()
}

func (w *world) ca() []byte {
	if w.child != nil {
		return w.child.ca
	}
	return w.server.ServerCA()
}

// newKeys is a world without a server.
func newKeys(t testing.TB) *world {
	t.Helper()
	w := &world{t: t, dir: t.TempDir(), keys: testfleet.NewKeys("")}
	w.root = testkit.Value(w.keys.First())(t)
	return w
}

func newWorld(t testing.TB, change ...func(*api.Options)) *world {
	t.Helper()
	w := newKeys(t)
	w.opts = api.Options{DataDir: filepath.Join(w.dir, "server"), Root: w.root, Listen: "127.0.0.1:0",
		Control: control.Config{Config: server.Config{MaxTickGap: 50 * clock.Millisecond}}}
	for _, f := range change {
		f(&w.opts)
	}
	w.start()
	t.Cleanup(w.close)
	return w
}

func (w *world) start() {
	w.t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	o := w.opts
	o.Names = nil
	s, err := api.Start(ctx, o)
	if err != nil {
		stop()
		w.t.Fatal(err)
	}
	w.server, w.stop = s, stop
	secret, err := os.ReadFile(s.AdminTokenFile())
	testkit.Must(w.t, err)
	w.op = w.client(strings.TrimSpace(string(secret)))
}

func (w *world) client(secret string) *operator.Client {
	w.t.Helper()
	c := testkit.Value(operator.NewClient(operator.Options{URL: w.server.OperatorURL(), Token: secret, ServerCA: w.server.ServerCA()}))(w.t)
	w.t.Cleanup(c.Close)
	return c
}

// halt stops the server cleanly.
func (w *world) halt() {
	w.t.Helper()
	w.op.Close()
	w.stop()
	if err := w.server.Wait(); err != nil {
		w.t.Error(err)
	}
	w.server = nil
}

func (w *world) close() {
	if w.server != nil {
		w.halt()
	}
}

// patience bounds every wait for something that must come, however slow the machine.
const patience = 3 * time.Minute

func (w *world) ctx() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	w.t.Cleanup(cancel)
	return ctx
}

// plan is what a test declares.
type plan struct {
	hosts   int
	content string // of the one file of the bundle
	waves   string // "" means all at once
	policy  string // further lines of the policy
	more    string // further lines of the declaration
	host    string // further keys of every host
	first   string // another name of the first host
	bundle  string // further lines of the bundle
	archive string // of a system that comes path by path
	late    bool   // the hosts but the first two are of a channel that waits for the first
}

func hostName(i int) string { return fmt.Sprintf("h-%04d", i) }

// build writes and signs a release; ref must be new.
func (w *world) build(ref string, p plan) string {
	w.t.Helper()
	src := w.t.TempDir()
	var hosts strings.Builder
	for i := range p.hosts {
		tag := "rest"
		if i == 0 {
			tag = "canary"
		}
		channel := "stable"
		if p.late && i == 2 {
			tag = "canary"
		}
		if p.late && i > 1 {
			channel = "late"
		}
		name := hostName(i)
		if i == 0 && p.first != "" {
			name = p.first
		}
		fmt.Fprintf(&hosts, "  %s: {channel: %s, tags: [%s], bundle: web%s}\n", name, channel, tag, p.host)
	}
	late := ""
	if p.late {
		late = "  late: {rolloutPolicy: p, freshnessWindow: 24h}\nchannelEdges: [{gates: stable, gated: late}]\n"
	}
	waves := p.waves
	if waves == "" {
		waves = "    waves: [{name: all, selector: {all: true}}]\n"
	}
	text := "apiVersion: steady/v1\nkind: Fleet\nmetadata: {name: " + testFleet + "}\nhosts:\n" + hosts.String() +
		"channels:\n  stable: {rolloutPolicy: p, freshnessWindow: 24h}\n" + late + "rolloutPolicies:\n  p:\n" + waves + p.policy +
		"bundles: {web: {path: web}}\nallowMassChange: true\n" + p.more
	files := map[string]string{}
	if p.archive != "" {
		p.bundle += cachedSystem(files, p.archive)
	}
	files[fleetdir.FleetFile] = text
	files["web/"+fleetdir.BundleFile] = "files:\n  - {path: a, content: \"" + p.content + "\"}\n" + p.bundle
	testkit.Files(w.t, src, files)
	dir := filepath.Join(w.t.TempDir(), "release")
	w.prev = testkit.Value(w.keys.Release(src, dir, ref, w.prev, w.root))(w.t)
	return dir
}

// push sends a release folder through the operator API.
func (w *world) push(dir string) (operator.Pushed, error) {
	w.t.Helper()
	packed := release.Pack(os.DirFS(dir))
	defer packed.Close()
	if w.restored { // the server may lack what the release follows
		return w.op.PushRestored(w.ctx(), packed)
	}
	return w.op.Push(w.ctx(), packed)
}

func (w *world) release(ref string, p plan) {
	w.t.Helper()
	got := testkit.Value(w.push(w.build(ref, p)))(w.t)
	if got.Outcome != control.Accepted {
		w.t.Fatalf("release %s was %s", ref, got.Outcome)
	}
}

// token signs an enrolment token for a host.
func (w *world) token(host string) []byte {
	w.t.Helper()
	return testkit.Value(w.keys.Token(host, w.root))(w.t)
}

// until waits for a condition on the log: it is asked again after every event.
func (w *world) until(what string, done func() bool) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	news := make(chan struct{}, 1)
	go func() {
		// Its error is the end of ctx, or shows in what is waited for.
		_ = w.op.Follow(ctx, operator.EventQuery{}, func(operator.Event) error {
			select {
			case news <- struct{}{}:
			default:
			}
			return nil
		})
	}()
	// What is shown may follow the event by a moment, and no other event may come.
	again := time.NewTicker(100 * time.Millisecond)
	defer again.Stop()
	for !done() {
		select {
		case <-news:
		case <-again.C:
		case <-ctx.Done():
			w.t.Fatalf("waited in vain for %s", what)
		}
	}
}

var errDone = fmt.Errorf("done")

// operatorAll asks for the first thousand events.
var operatorAll = operator.EventQuery{Limit: 1000}
