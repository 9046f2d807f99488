package docker_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	mobyc "github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"
	"pgregory.net/rapid"

	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/spec"
	"github.com/steadyfleet/steady/internal/docker/dockertest"
	"github.com/steadyfleet/steady/internal/system"
	"github.com/steadyfleet/steady/reconcile/engine"
)

// historiesEnv is how many histories are played; the default fits into a check of every change.
const historiesEnv = "STEADY_HISTORIES"

// Services of histories. Each notes every start of its process below /log, by its name and the version of its spec.
const (
	serves = "echo $NAME $V >>/log/runs; sleep 100000 & wait"
	dies   = "echo $NAME $V >>/log/runs; exit 3"
)

// catalogue is how each service is written, without the keys that all have. POLICY is drawn.
var catalogue = map[string]string{
	"web":   "command: [sh, -c, 'trap \"exit 0\" TERM; " + serves + "'], POLICY, volumes: [\"LOG:/log\", \"./conf:/conf\"]",
	"plain": "command: [sh, -c, 'trap \"exit 0\" TERM; " + serves + "'], volumes: [\"LOG:/log\", \"data:/data\"]",
	"slow": "command: [sh, -c, 'trap \"exit 0\" TERM; rm -f /up; (sleep 1; touch /up) & " + serves + "'], POLICY, volumes: [\"LOG:/log\"]," +
		" healthcheck: {test: [CMD, test, -f, /up], interval: 500ms, timeout: 2s, retries: 2, start_period: 20s}",
	"drain": "command: [sh, -c, 'trap \"sleep 1; exit 0\" TERM; " + serves + "'], POLICY, stop_grace_period: 30s, volumes: [\"LOG:/log\"]",
	"job":   "command: [sh, -c, 'echo $NAME $V >>/log/runs'], ENDS, volumes: [\"LOG:/log\"]",
	"after": "command: [sh, -c, 'trap \"exit 0\" TERM; " + serves + "'], POLICY, volumes: [\"LOG:/log\"], depends_on: {job: {condition: service_completed_successfully}}",
	"bad":   "command: [sh, -c, '" + dies + "'], restart: always, volumes: [\"LOG:/log\"]",
}

var (
	policies = map[string]string{"always": "restart: always", "unless": "restart: unless-stopped", "none": "labels: {a: b}"}
	ends     = map[string]string{"no": `restart: "no"`, "none": "labels: {a: b}", "failure": "restart: on-failure", "once": "x-steady: {state: once}"}
)

// bundle is what a release gives the host: services by name, with the version of each spec.
type bundle map[string]string

func randomBundle(t *rapid.T, bad bool) bundle {
	b := bundle{}
	for _, name := range slices.Sorted(maps.Keys(catalogue)) {
		if name == "bad" || rapid.IntRange(0, 2).Draw(t, name+" is left out") == 0 {
			continue
		}
		of := policies
		if name == "job" {
			of = ends
		}
		b[name] = fmt.Sprint(rapid.IntRange(1, 2).Draw(t, "version of "+name), "-", rapid.SampledFrom(slices.Sorted(maps.Keys(of))).Draw(t, "policy of "+name))
	}
	if b["after"] != "" && b["job"] == "" {
		delete(b, "after")
	}
	if bad {
		b["bad"] = "1-none"
	}
	if len(b) == 0 {
		b["web"] = "1-always"
	}
	return b
}

// compose is the bundle's Compose file.
func (b bundle) compose(log string) string {
	var out strings.Builder
	out.WriteString("-- img/none --\n-- conf/app.conf --\nconf\n-- compose.yaml --\nvolumes: {data: {}}\nservices:\n")
	for _, name := range slices.Sorted(maps.Keys(b)) {
		version, policy, _ := strings.Cut(b[name], "-")
		text := strings.NewReplacer("POLICY", policies[policy], "ENDS", ends[policy], "LOG", log, "$", "$$").Replace(catalogue[name])
		monitor := "100ms"
		if name == "bad" { // a busy machine takes longer to end it
			monitor = "5s"
		}
		if !strings.Contains(text, "x-steady") {
			text += ", x-steady: {update: {monitor: " + monitor + "}}"
		}
		fmt.Fprintf(&out, "  %s: {build: {context: ./img, dockerfile_inline: \"FROM IMAGE\\nLABEL version=%s\"}, environment: {NAME: %s, V: %q}, %s}\n", name, version, name, b[name], text)
	}
	return out.String()
}

// deed is one event of a history.
type deed struct {
	what   string
	on     string // a service
	bundle bundle
	hand   int
	check  bool // the host is held against the model afterwards
}

// sweeps are what cron jobs and people do to free space.
var sweeps = map[string]func(w *world) error{
	"container prune": func(w *world) error {
		_, err := w.api.ContainerPrune(w.ctx, client.ContainerPruneOptions{})
		return err
	},
	"image prune": func(w *world) error {
		_, err := w.api.ImagePrune(w.ctx, client.ImagePruneOptions{Filters: client.Filters{}.Add("dangling", "false").Add("label", "version")})
		return err
	},
	"network prune": func(w *world) error {
		_, err := w.api.NetworkPrune(w.ctx, client.NetworkPruneOptions{})
		return err
	},
}

// handOn are what people do to one container, beside what byHand has.
var handOn = append(slices.Clone(byHand[:6]), byHand[8], struct {
	what string
	on   []string
	do   func(w *world, name string) error
}{"update --restart=always", nil, func(w *world, n string) error {
	_, err := w.api.ContainerUpdate(w.ctx, n, client.ContainerUpdateOptions{RestartPolicy: &mobyc.RestartPolicy{Name: "always"}})
	return err
}}, struct {
	what string
	on   []string
	do   func(w *world, name string) error
}{"edit a file in it", nil, func(w *world, n string) error {
	x, err := w.api.ExecCreate(w.ctx, n, client.ExecCreateOptions{Cmd: []string{"sh", "-c", "echo hand >>/etc/hand; echo hand >>/conf/app.conf"}})
	if err == nil {
		_, err = w.api.ExecStart(w.ctx, x.ID, client.ExecStartOptions{Detach: true})
	}
	return err
}})

func randomHistory(t *rapid.T) []deed {
	whats := []string{"release", "release", "bad release", "engine restart", "engine restart", "engine kill", "agent restart", "disable", "enable", "away", "back",
		"container prune", "container prune", "image prune", "network prune", "hand", "hand", "hand", "hand", "hand"}
	out := []deed{{what: "release", bundle: randomBundle(t, false), check: true}}
	for range rapid.IntRange(4, 8).Draw(t, "deeds") {
		d := deed{what: rapid.SampledFrom(whats).Draw(t, "what"), check: rapid.IntRange(0, 2).Draw(t, "check") > 0}
		switch d.what {
		case "release", "bad release":
			d.bundle = randomBundle(t, d.what == "bad release")
		case "hand":
			d.hand = rapid.IntRange(0, len(handOn)-1).Draw(t, "by hand")
			d.on = rapid.SampledFrom(slices.Sorted(maps.Keys(catalogue))).Draw(t, "on")
		}
		out = append(out, d)
	}
	return out
}

// cycles is how many looks of the agent something may run after an event that is not to run, where no release is under
// way: one that stops it, which takes the grace that its file declares, and one for what came in between.
const cycles = 2

// history is a host and the model of what should run on it.
type history struct {
	*world
	log      string
	bundle   bundle // desired
	digest   digest.Digest
	runs     int // names of generations
	disabled bool
	calm     bool // no release is under way

	// Since the last check:
	desired map[string]bool // services with their version that were to run
	touched map[string]bool // services that somebody started, or had started
	torn    int             // events that may end a job in its middle
	seen    map[string]int  // starts by service and version
	done    map[string]bool // jobs that were done
}

func newHistory(t *testing.T) *history {
	w := worldOn(t, dockertest.Private(t))
	w.cfg.Bundles, w.cfg.Log = true, filepath.Join(w.cfg.Dir, "log")
	w.start()
	return &history{world: w, log: t.TempDir(), seen: map[string]int{}, done: map[string]bool{}, desired: map[string]bool{}, touched: map[string]bool{}}
}

// TestHistories plays random histories of a host: engines that start anew, prunes, edits by hand, slow starts, long
// stops, releases, removed services, a disabled host, no server, and bundles that fail and are left. At each check
// exactly that runs which is desired, as soon as the host says that it converged; what is not to run was not started
// by anybody but those who did so by hand, and does not run for longer than the bound; and a job that is done ran
// once. A failing history is named by its seed.
func TestHistories(t *testing.T) {
	for seed := range count(t, historiesEnv, 4) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			h := newHistory(t)
			for _, d := range rapid.Custom(randomHistory).Example(5000 + seed) {
				h.play(d)
				if d.check {
					h.check()
				}
			}
			h.play(deed{what: "enable"})
			h.play(deed{what: "back"})
			h.check()
			h.settled()
			h.check()
		})
	}
}

func (h *history) play(d deed) {
	h.t.Helper()
	h.t.Log(d.what, d.on, d.bundle)
	switch d.what {
	case "release":
		if h.disabled {
			return // it waits for the host to be enabled
		}
		h.release(d.bundle)
	case "bad release":
		if h.disabled || h.digest == "" {
			return
		}
		h.check()
		h.fail(d.bundle)
	case "engine restart":
		h.d.Restart()
		h.torn++
		h.reached()
	case "engine kill":
		h.d.Kill()
		h.d.Start()
		h.torn++
		h.reached()
	case "agent restart":
		away := h.a.away.Load()
		h.halt(h.a)
		h.start()
		h.a.away.Store(away)
		h.tune()
	case "disable", "enable":
		h.disabled = d.what == "disable"
		if h.disabled && !h.calm {
			h.converged()
		}
		h.tune()
		h.want(h.bundle)
	case "away", "back":
		h.a.away.Store(d.what == "away")
		if d.what == "back" {
			h.looked(engine.TriggerOperator)
		}
	case "hand":
		h.touched[d.on] = true
		h.torn++
		h.t.Log(handOn[d.hand].what, d.on, handOn[d.hand].do(h.world, h.owner.Title(d.on)))
	default:
		h.t.Log(sweeps[d.what](h.world))
	}
}

// reached waits until the agent reaches an engine that was started anew.
func (h *history) reached() {
	h.t.Helper()
	h.until("the agent does not reach the engine", func() (bool, string) {
		_, err := h.a.engine.ContainerList(h.ctx, false)
		return err == nil, fmt.Sprint(err)
	})
}

func (h *history) tune() {
	enabled := !h.disabled
	h.a.host.Tune(fleet.Settings{Enabled: &enabled})
}

// want notes what may run from now on.
func (h *history) want(b bundle) {
	for name, version := range b {
		if !h.disabled {
			h.desired[name+" "+version] = true
		}
	}
}

func (h *history) put(b bundle) digest.Digest {
	h.t.Helper()
	set := h.read(b.compose(h.log))
	set.Normalize()
	d, err := h.a.releases.put(&fleet.Bundle{Name: "shop", Containers: &set, Critical: []string{"containers"}})
	h.ok(err)
	return d
}

func (h *history) generation(g system.Generation) {
	h.t.Helper()
	h.runs++
	g.Run = fmt.Sprint("run ", h.runs)
	_, err := h.a.loop.Apply(h.ctx, engine.Upsert(system.Current, g), engine.Cause{Trigger: engine.TriggerOperator})
	h.ok(err)
	h.calm = false
}

func (h *history) release(b bundle) {
	h.t.Helper()
	from := h.digest
	h.bundle, h.digest = b, h.put(b)
	if h.digest == from {
		from = ""
	}
	h.want(b)
	h.anew(b)
	h.generation(system.Generation{Bundle: h.digest, Keep: from})
}

// anew forgets that jobs are done which are another one now, or none.
func (h *history) anew(b bundle) {
	maps.DeleteFunc(h.done, func(job string, _ bool) bool {
		name, version, _ := strings.Cut(job, " ")
		return b[name] != version
	})
}

// fail has a release fail on the host, which goes back.
func (h *history) fail(b bundle) {
	h.t.Helper()
	bad, from := h.put(b), h.digest
	h.want(b)
	h.anew(b)
	h.generation(system.Generation{Bundle: bad, Keep: from})
	h.until("the bad release does not fail", func() (bool, string) {
		row, err := h.a.rows.Get(h.ctx, system.Current)
		h.ok(err)
		last := h.a.loop.LastTurn(h.ctx, engine.Ref{Kind: spec.KindWorkspace, ID: "bad"})
		return row.Phase == engine.Failed, fmt.Sprintf("%s %s, its last turn %+v", row.Phase, row.Reason, last)
	})
	h.generation(system.Generation{Bundle: from, Revert: true, Leaving: bad, Keep: bad})
	h.want(h.bundle)
}

// check holds the host against the model.
func (h *history) check() {
	h.t.Helper()
	away := h.a.away.Load()
	if h.calm || away || h.disabled {
		for range cycles {
			h.looked(engine.TriggerOperator)
		}
		h.nothingElse("after so many cycles")
	}
	if !away && !h.disabled {
		h.converged()
		h.looked(engine.TriggerOperator)
		h.converged()
		h.calm = true
		h.nothingElse("converged")
		h.all()
	}
	h.starts(!away && !h.disabled)
	h.desired, h.touched, h.torn = map[string]bool{}, map[string]bool{}, 0
	h.want(h.bundle)
}

// up are the host's containers that run, as service and version.
func (h *history) up() map[string]int {
	h.t.Helper()
	out := map[string]int{}
	for _, c := range h.own("") {
		if c.State != mobyc.StateRunning && c.State != mobyc.StatePaused && c.State != mobyc.StateRestarting {
			continue
		}
		full, err := h.api.ContainerInspect(h.ctx, c.ID, client.ContainerInspectOptions{})
		h.ok(err)
		of := map[string]string{}
		for _, e := range full.Container.Config.Env {
			key, value, _ := strings.Cut(e, "=")
			of[key] = value
		}
		out[of["NAME"]+" "+of["V"]]++
	}
	return out
}

// nothingElse fails the test if something runs that is not to.
func (h *history) nothingElse(when string) {
	h.t.Helper()
	for key, n := range h.up() {
		name, version, _ := strings.Cut(key, " ")
		if h.disabled || h.bundle[name] != version || n > 1 || h.done[key] {
			h.t.Fatalf("%s: %d of %s run; desired are %v, disabled: %v\n%s\n%s", when, n, key, h.bundle, h.disabled, h.a.phases(h.ctx), h.listed())
		}
	}
}

// all fails the test unless all runs that is to.
func (h *history) all() {
	h.t.Helper()
	up := h.up()
	for name, version := range h.bundle {
		if name != "job" && up[name+" "+version] != 1 {
			h.t.Fatalf("converged, and %s %s does not run\n%s\n%s", name, version, h.a.phases(h.ctx), h.listed())
		}
		if name == "slow" {
			c, err := h.api.ContainerInspect(h.ctx, h.owner.Title("slow"), client.ContainerInspectOptions{})
			h.ok(err)
			if health := c.Container.State.Health; health == nil || health.Status != mobyc.Healthy {
				h.t.Fatalf("converged, and slow is %+v", health)
			}
		}
	}
}

// starts holds what was started since the last check against what was to run, and jobs against how often they may.
func (h *history) starts(rest bool) {
	h.t.Helper()
	raw, err := os.ReadFile(filepath.Join(h.log, "runs"))
	if err != nil && !os.IsNotExist(err) {
		h.t.Fatal(err)
	}
	now := map[string]int{}
	for line := range strings.Lines(string(raw)) {
		now[strings.TrimSpace(line)]++
	}
	for key, n := range now {
		name, _, _ := strings.Cut(key, " ")
		more := n - h.seen[key]
		switch {
		case more == 0 || h.touched[name]:
		case !h.desired[key]:
			h.t.Fatalf("%s was started %d times, and was not to run\n%s", key, more, h.a.phases(h.ctx))
		case name == "job" && h.done[key]:
			h.t.Fatalf("%s was done and ran %d times again", key, more)
		case name == "job" && more > 1+h.torn:
			h.t.Fatalf("%s ran %d times with %d events that may have ended it", key, more, h.torn)
		}
	}
	if job := h.bundle["job"]; job != "" && rest {
		if now["job "+job] == 0 {
			h.t.Fatalf("converged, and job %s never ran", job)
		}
		h.done["job "+job] = true
	}
	h.seen = now
}
