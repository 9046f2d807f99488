package cli_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/steadyfleet/steady/internal/api/operator"
	"github.com/steadyfleet/steady/internal/cli"
	"github.com/steadyfleet/steady/internal/cli/command"
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/release"
	"github.com/steadyfleet/steady/internal/testkit"
)

// owners publish one fleet, of which each has a channel, a bundle and hosts.
var owners = []string{"ann", "bob"}

// publishers are two people with a checkout each, and the server that they publish to.
type publishers struct {
	*testing.T
	rnd    *rand.Rand
	home   string
	env    map[string]string
	client *operator.Client
	log    []string // what was done, for whoever reads a failure

	edits map[string]int // by owner: what their bundle holds counts up
	// The newest release of the server: what it gives each channel, the hosts that it
	// declares, and what a rollback took from a channel since its owner changed it.
	newest digest.Digest
	gives  map[string]int
	hosts  map[string]bool
	taken  map[string]int
}

func (p *publishers) run(args ...string) (code int, out, errs string) {
	var o, e bytes.Buffer
	code = cli.Run(p.Context(), args, command.Streams{In: strings.NewReader(""), Out: &o, Err: &e, Getenv: func(k string) string { return p.env[k] }})
	return code, o.String(), e.String()
}

func (p *publishers) must(args ...string) {
	p.Helper()
	if code, out, errs := p.run(args...); code != 0 {
		p.Fatalf("steady %s: code %d\n%s%s\n%s", strings.Join(args, " "), code, out, errs, p.story())
	}
}

func (p *publishers) story() string { return strings.Join(p.log[max(0, len(p.log)-40):], "\n") }

func (p *publishers) git(who string, args ...string) error {
	cmd := exec.Command("git", append([]string{"-C", filepath.Join(p.home, who), "-c", "user.name=" + who, "-c", "user.email=" + who + "@example.org", "-c", "commit.gpgsign=false"}, args...)...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("git %s: %w: %s", strings.Join(args, " "), err, out)
	}
	return nil
}

func (p *publishers) at(who string, parts ...string) string {
	return filepath.Join(append([]string{p.home, who}, parts...)...)
}

func (p *publishers) write(who, name, text string) {
	p.Helper()
	testkit.Must(p.T, os.MkdirAll(filepath.Dir(p.at(who, name)), 0o755))
	testkit.Must(p.T, os.WriteFile(p.at(who, name), []byte(text), 0o644))
}

// declared is fleet.yaml; the owners' hosts are far enough apart for git to merge them.
const declared = `apiVersion: steady/v1
kind: Fleet
metadata: {name: acme}
hosts:
  # ann
  ann-0: {channel: ann, bundle: ann}
  # two people
  # who add hosts
  # at once
  # do not touch
  # the same lines
  # bob
  bob-0: {channel: bob, bundle: bob}
channels:
  ann: {rolloutPolicy: once, freshnessWindow: 168h}
  bob: {rolloutPolicy: once, freshnessWindow: 168h}
rolloutPolicies: {once: {waves: [{name: all, selector: {all: true}}]}}
bundles: {ann: {path: ann}, bob: {path: bob}}
`

func newPublishers(t *testing.T, seed uint64) *publishers {
	testkit.Needs(t, testkit.Git)
	p := &publishers{T: t, rnd: rand.New(rand.NewPCG(seed, 0)), home: t.TempDir(), env: map[string]string{},
		edits: map[string]int{}, gives: map[string]int{}, hosts: map[string]bool{}, taken: map[string]int{}}
	testkit.Must(t, os.Mkdir(p.at("ann"), 0o755))
	testkit.Must(t, p.git("ann", "init", "-q", "-b", "main"))
	p.write("ann", "fleet.yaml", declared)
	for _, who := range owners {
		p.write("ann", who+"/bundle.yaml", "files: [{path: v, source: v}]\n")
		p.write("ann", who+"/v", who+" 0")
	}
	testkit.Must(t, p.git("ann", "add", "."))
	testkit.Must(t, p.git("ann", "commit", "-q", "-m", "fleet"))
	testkit.Must(t, p.git("", "clone", "-q", "--bare", "ann", "origin"))
	testkit.Must(t, p.git("ann", "remote", "add", "origin", p.at("origin")))
	testkit.Must(t, p.git("", "clone", "-q", "origin", "bob"))
	p.must("keys", "init", "--dir", p.at("keys"), "--fleet", "acme")
	ctx, stop := context.WithCancel(context.Background())
	var server sync.WaitGroup
	server.Go(func() {
		cli.Run(ctx, []string{"server", "--data", p.at("data"), "--root", p.at("keys", "1.root.json"), "--listen", "127.0.0.1:0"},
			command.Streams{Out: io.Discard, Err: io.Discard, Getenv: func(string) string { return "" }})
	})
	t.Cleanup(server.Wait)
	t.Cleanup(stop)
	where := p.at("data", "operator.json")
	testkit.Eventually(t, "the server to say how it is reached", func() bool {
		_, err := os.Stat(where)
		return err == nil
	})
	var context struct{ Server, CA, Token string }
	testkit.Must(t, json.Unmarshal(testkit.Value(os.ReadFile(where))(t), &context))
	p.env["STEADY_CONTEXT"] = where
	p.client = testkit.Value(operator.NewClient(operator.Options{URL: context.Server, Token: context.Token, ServerCA: []byte(context.CA)}))(t)
	t.Cleanup(p.client.Close)
	return p
}

// sources are what a checkout holds: what each bundle counts, and the hosts.
func (p *publishers) sources(who string) (counts map[string]int, hosts map[string]bool) {
	counts, hosts = map[string]int{}, map[string]bool{}
	for _, o := range owners {
		_, n, _ := strings.Cut(string(testkit.Value(os.ReadFile(p.at(who, o, "v")))(p.T)), " ")
		counts[o] = testkit.Value(strconv.Atoi(n))(p.T)
	}
	for line := range strings.Lines(string(testkit.Value(os.ReadFile(p.at(who, "fleet.yaml")))(p.T))) {
		if name, rest, ok := strings.Cut(strings.TrimSpace(line), ": {channel:"); ok && rest != "" {
			hosts[name] = true
		}
	}
	return counts, hosts
}

func (p *publishers) edit(who string) {
	p.edits[who]++
	p.write(who, who+"/v", fmt.Sprintf("%s %d", who, p.edits[who]))
	testkit.Must(p.T, p.git(who, "commit", "-q", "-a", "-m", "edit"))
}

func (p *publishers) addHost(who string) {
	p.edits[who]++
	raw := string(testkit.Value(os.ReadFile(p.at(who, "fleet.yaml")))(p.T))
	line := fmt.Sprintf("  # %s\n  %s-%d: {channel: %s, bundle: %s}\n", who, who, p.edits[who], who, who)
	p.write(who, "fleet.yaml", strings.Replace(raw, "  # "+who+"\n", line, 1))
	testkit.Must(p.T, p.git(who, "commit", "-q", "-a", "-m", "host"))
}

func (p *publishers) pull(who string) {
	testkit.Must(p.T, p.git(who, "pull", "-q", "--no-rebase", "--no-edit", "origin", "main"))
}

// pushGit shares what was committed, or is refused like everybody who is behind.
func (p *publishers) pushGit(who string) { _ = p.git(who, "push", "-q", "origin", "HEAD:main") }

// served is the newest release that the server accepted.
func (p *publishers) served() digest.Digest {
	return testkit.Value(p.client.Status(p.Context()))(p.T).Release.Resolved
}

// publish carries one out and holds what the server has then against the model. meant says
// that the command names what it may undo.
func (p *publishers) publish(who string, meant bool, args ...string) (accepted bool) {
	p.Helper()
	code, out, errs := p.run(args...)
	p.log = append(p.log, fmt.Sprintf("%s: steady %s: code %d %s", who, strings.Join(args, " "), code, strings.TrimSpace(errs)))
	now := p.served()
	if code != 0 {
		if now != p.newest {
			p.Fatalf("code %d, and the server has another release\n%s", code, p.story())
		}
		if strings.TrimSpace(errs+out) == "" {
			p.Fatalf("refused without a word\n%s", p.story())
		}
		return false
	}
	if now == p.newest {
		return true // the same again
	}
	counts, hosts := p.sources(who)
	for _, o := range owners {
		switch {
		case meant:
		case counts[o] < p.gives[o] && p.taken[o] == 0:
			p.Fatalf("%s undid %s %d by %d in silence\n%s%s", who, o, p.gives[o], counts[o], out, p.story())
		case p.taken[o] != 0 && counts[o] <= p.taken[o] && counts[o] != p.gives[o]:
			p.Fatalf("%s gave %s %d again, which was rolled back to %d, in silence\n%s%s", who, o, counts[o], p.gives[o], out, p.story())
		}
		if counts[o] != p.gives[o] {
			delete(p.taken, o)
		}
	}
	for h := range p.hosts {
		if !hosts[h] && !meant {
			p.Fatalf("%s removed %s in silence\n%s%s", who, h, out, p.story())
		}
	}
	p.newest, p.gives, p.hosts = now, counts, hosts
	return true
}

// again says the same once more: what was refused stays so.
func (p *publishers) again(who string, accepted bool, args ...string) {
	p.Helper()
	if p.publish(who, false, args...) != accepted {
		p.Fatalf("said again, it is another answer\n%s", p.story())
	}
}

func (p *publishers) habit(who string, more ...string) []string {
	return append([]string{"release", "publish", p.at(who), "--out", p.at(who + "-release"), "--keys", p.at("keys")}, more...)
}

// byHand builds on the release that the folder holds, as a script of before may do.
func (p *publishers) byHand(who string) {
	p.Helper()
	out := p.at(who + "-release")
	code, _, errs := p.run("release", "build", p.at(who), "--out", out, "--root", p.at("keys", "1.root.json"))
	p.log = append(p.log, fmt.Sprintf("%s: build: code %d %s", who, code, strings.TrimSpace(errs)))
	if code != 0 {
		return
	}
	if code, _, errs = p.run("release", "sign", out, "--keys", p.at("keys")); code != 0 {
		p.Fatalf("sign: %s\n%s", errs, p.story())
	}
	origin, err := release.OriginOf(out)
	testkit.Must(p.T, err)
	before := p.newest
	if p.publish(who, true, "release", "push", out) && p.newest != before && before != "" && origin.Follows[0].Digest != before {
		p.Fatalf("what was built on %s was accepted after %s\n%s", origin.Follows[0].Digest.Short(), before.Short(), p.story())
	}
}

// rollback gives a channel what it had before, by a release that another folder holds.
func (p *publishers) rollback(who, channel string) {
	p.Helper()
	out := p.at(who + "-back")
	dir := filepath.Join(p.TempDir(), "newest")
	testkit.Must(p.T, os.Mkdir(dir, 0o755))
	err := p.client.NewestRelease(p.Context(), func(r io.Reader) error { return release.Unpack(r, dir, release.DefaultCaps()) })
	if err != nil {
		return // there is none yet
	}
	r, err := release.Snapshot(dir)
	testkit.Must(p.T, err)
	list := r.Channels[channel].Manifests
	if len(list) < 2 || p.taken[channel] != 0 {
		return
	}
	code, _, errs := p.run("release", "rollback", channel, "--to", fmt.Sprint(list[1].Version), "--previous", dir, "--out", out, "--keys", p.at("keys"))
	p.log = append(p.log, fmt.Sprintf("%s: rollback %s to %s: code %d %s", who, channel, list[1].Rollout, code, strings.TrimSpace(errs)))
	if code != 0 {
		return // the plans differ in something else than bundles
	}
	counts := p.contents(out)
	if code, _, errs := p.run("release", "push", out); code != 0 {
		p.Fatalf("the rollback is refused: %s\n%s", errs, p.story())
	}
	p.taken[channel] = p.gives[channel]
	p.newest, p.gives = p.served(), counts
}

// contents are what a release gives each channel.
func (p *publishers) contents(dir string) map[string]int {
	state := testkit.Value(release.Trust(testkit.Value(os.ReadFile(p.at("keys", "1.root.json")))(p.T)))(p.T)
	v := testkit.Value(release.VerifyDir(dir, state, clock.FromTime(time.Now())))(p.T)
	counts := map[string]int{}
	for _, o := range owners {
		leaf := v.Manifests[o][0].Leaves.Value()[0]
		bundle := v.Bundles[leaf.Target]
		raw := testkit.Value(v.ReadFile(release.BlobPath(bundle.Files[0].Blob)))(p.T)
		_, n, _ := strings.Cut(string(raw), " ")
		counts[o] = testkit.Value(strconv.Atoi(n))(p.T)
	}
	return counts
}

func (p *publishers) round() {
	p.Helper()
	who := owners[p.rnd.IntN(len(owners))]
	switch n := p.rnd.IntN(20); {
	case n < 5:
		p.edit(who)
	case n < 6:
		p.addHost(who)
	case n < 9: // the habit, and the same command again
		args := p.habit(who)
		p.again(who, p.publish(who, false, args...), args...)
	case n < 13:
		p.pull(who)
		if p.publish(who, false, p.habit(who)...) {
			p.pushGit(who)
		}
	case n < 14:
		p.pull(who)
		p.pushGit(who)
	case n < 15:
		p.publish(who, true, p.habit(who, "--previous", "server")...)
	case n < 16:
		p.publish(who, true, p.habit(who, "--again", strings.Join(owners, ","))...)
	case n < 18:
		p.byHand(who)
	default:
		p.rollback(who, owners[p.rnd.IntN(len(owners))])
	}
	if got := p.served(); got != p.newest {
		p.Fatalf("the server has %s, and %s was accepted last\n%s", got.Short(), p.newest.Short(), p.story())
	}
}

// Whatever two people do in turn with one fleet, what either published is undone by nobody who
// does not say so: the other is refused, also when they say the same again.
func TestTwoPublishers(t *testing.T) {
	rounds, seed := 60, uint64(time.Now().UnixNano())
	if text := os.Getenv("STEADY_PUBLISH_ROUNDS"); text != "" {
		rounds = testkit.Value(strconv.Atoi(text))(t)
	}
	if text := os.Getenv("STEADY_SEED"); text != "" {
		seed = testkit.Value(strconv.ParseUint(text, 10, 64))(t)
	}
	t.Logf("STEADY_SEED=%d", seed)
	p := newPublishers(t, seed)
	p.publish("ann", false, p.habit("ann")...)
	for range rounds {
		p.round()
	}
	refused := slices.IndexFunc(p.log, func(l string) bool { return strings.Contains(l, "code 3") })
	if refused < 0 {
		t.Error("nobody was refused: the rounds say nothing")
	}
}
