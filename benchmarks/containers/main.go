// Command containers measures how fast a host's containers are brought up, looked
// at, changed and replaced, beside Docker Compose on the same engine in the same
// run, and what the agent's process costs at rest. From the root of the project:
//
//	go run -C benchmarks ./containers
//
// It starts an engine of its own in namespaces of its own, which takes root and
// Debian's docker.io and busybox-static. Rounds of all programs alternate, so
// that what else the machine does meets all of them alike; the figures are
// medians, and ratios say more than seconds.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/steadyfleet/steady/internal/docker/dockertest"
)

// options are the command line.
type options struct {
	Services int   `json:"services"`
	Rounds   int   `json:"rounds"`
	Cycles   int   `json:"cycles"` // per size
	Sizes    []int `json:"sizes"`
	Idle     int   `json:"idleSeconds"`
	Short    bool  `json:"short"`
	within   time.Duration
	only     string // steps, with commas between
	out      string
	profile  string
	programs string // that go through the rounds; empty: all
	starts   int
	cold     bool
	bin      string // built programs, from the first stage
	v2, v1   string // the peers; empty: not there
	missing  []string
}

// Environment by which the first stage hands on what it built.
const (
	envBin     = "STEADY_BENCH_BIN"
	envMissing = "STEADY_BENCH_MISSING"
)

// mostRunning is how many workspaces of a cycle run; more are created only.
const mostRunning = 100

func main() {
	o := options{Services: 50, Rounds: 3, Cycles: 12, Sizes: []int{10, 100, 500}, Idle: 60}
	f := flag.NewFlagSet("containers", flag.ExitOnError)
	f.BoolVar(&o.Short, "short", false, "five services, one round, no peer that has to be built: for a look whether it works")
	f.IntVar(&o.Rounds, "rounds", o.Rounds, "rounds of every program")
	f.DurationVar(&o.within, "within", 12*time.Minute, "leave out further rounds if they would make it take longer, without what is built first")
	f.IntVar(&o.Services, "services", o.Services, "services of the project")
	f.IntVar(&o.Idle, "idle", o.Idle, "seconds that the agent at rest is measured for")
	f.StringVar(&o.only, "only", "up,cycle,idle", "what to measure")
	f.StringVar(&o.out, "json", "", "write the figures as JSON to this file")
	f.StringVar(&o.programs, "programs", "", "of steady, compose v2 and compose 1.29, those to run, with commas between (default: all there are)")
	f.BoolVar(&o.cold, "cold", false, "of each round only the first step, for work on it")
	f.IntVar(&o.starts, "starts", 0, "how many containers ours starts at once (default: its own)")
	f.StringVar(&o.profile, "cpuprofile", "", "write a CPU profile of ours in cold ups, or in cycles, to this file")
	f.Func("sizes", "how many workspaces cycles look at (default 10,100,500)", func(list string) error {
		o.Sizes = nil
		for word := range strings.SplitSeq(list, ",") {
			n, err := strconv.Atoi(word)
			if err != nil {
				return err
			}
			o.Sizes = append(o.Sizes, n)
		}
		return nil
	})
	v2 := f.String("compose", "", "a docker compose v2 binary (default: build the pinned one, which takes minutes the first time)")
	_ = f.Parse(os.Args[1:]) // it exits
	testing.Init()           // dockertest asks how tests were called
	_ = flag.CommandLine.Parse(nil)
	if o.Short {
		o.Services, o.Rounds, o.Cycles, o.Sizes, o.Idle = 5, 1, 3, []int{5}, 5
	}
	if o.bin = os.Getenv(envBin); o.bin == "" {
		if err := prepare(&o, *v2); err != nil {
			fmt.Fprintln(os.Stderr, "containers:", err)
			os.Exit(1)
		}
	} else {
		o.missing = strings.FieldsFunc(os.Getenv(envMissing), func(r rune) bool { return r == '\n' })
	}
	o.v2 = there(filepath.Join(o.bin, "compose-v2"))
	if p, err := exec.LookPath("docker-compose"); err == nil {
		o.v1 = p
	}
	os.Exit(dockertest.Run(stage(func() int { return inside(o) })))
}

type stage func() int

// Run implements what dockertest runs in its namespaces.
func (s stage) Run() int { return s() }

// inside measures, once there is an engine.
func inside(o options) (code int) {
	t := &host{}
	defer t.end()
	defer func() {
		switch f := recover().(type) {
		case nil:
		case failure:
			fmt.Fprintln(os.Stderr, "containers:", string(f))
			code = 1
		default:
			panic(f)
		}
	}()
	dir, err := os.MkdirTemp("", "steady-bench-")
	t.ok(err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) }) // temporary
	b := &bench{o: o, host: t, ctx: context.Background(), dir: dir, d: dockertest.Engine(t)}
	b.report.begin(o)
	b.began = time.Now()
	b.t0()
	steps := strings.Split(o.only, ",")
	for _, s := range []struct {
		name string
		run  func()
	}{{"up", b.ups}, {"cycle", b.cycles}, {"idle", b.idle}} {
		if slices.Contains(steps, s.name) {
			s.run()
		}
	}
	b.report.Seconds = time.Since(b.began).Seconds()
	fmt.Print(b.report.text())
	if o.out != "" {
		raw, err := json.MarshalIndent(&b.report, "", "  ")
		t.ok(err)
		t.ok(os.WriteFile(o.out, append(raw, '\n'), 0o644))
	}
	return 0
}

// prepare builds what is measured, outside, where there is a network.
func prepare(o *options, v2 string) error {
	cache, err := os.UserCacheDir()
	if err != nil {
		return err
	}
	o.bin = filepath.Join(cache, "steady-benchmarks")
	if err := os.MkdirAll(o.bin, 0o755); err != nil {
		return err
	}
	here, err := output("go", "list", "-m", "-f", "{{.Dir}}")
	if err != nil {
		return err
	}
	var builds [][]string
	if strings.Contains(o.only, "idle") {
		builds = append(builds, []string{"-C", filepath.Dir(here), "-trimpath", "-ldflags=-s -w", "-o", o.bin, "./cmd/steady", "./cmd/steady-agent"})
	}
	peer := filepath.Join(o.bin, "compose-v2")
	switch {
	case v2 != "":
		raw, err := os.ReadFile(v2)
		if err != nil {
			return err
		}
		if err := os.WriteFile(peer, raw, 0o755); err != nil {
			return err
		}
	case !o.Short:
		builds = append(builds, []string{"-C", filepath.Join(here, "compose"), "-o", peer, "github.com/docker/compose/v2/cmd"})
	}
	for _, args := range builds {
		fmt.Fprintln(os.Stderr, "go build", strings.Join(args, " "))
		if _, err := output("go", append([]string{"build"}, args...)...); err != nil {
			return err
		}
	}
	var missing []string
	if there(peer) == "" {
		missing = append(missing, "docker compose v2 was left out: run without -short once, or give -compose FILE")
	}
	if _, err := exec.LookPath("docker-compose"); err != nil {
		missing = append(missing, "docker-compose 1.29 was left out: apt-get install --no-install-recommends docker-compose")
	}
	if err := os.Setenv(envBin, o.bin); err != nil {
		return err
	}
	return os.Setenv(envMissing, strings.Join(missing, "\n"))
}

func there(path string) string {
	if _, err := os.Stat(path); err != nil {
		return ""
	}
	return path
}

func output(name string, args ...string) (string, error) {
	cmd := exec.Command(name, args...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0") // as releases are built
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, tail(stderr.String()))
	}
	return strings.TrimSpace(string(out)), nil
}

func tail(s string) string {
	s = strings.TrimSpace(s)
	return s[max(0, len(s)-2000):]
}

// host stands where dockertest expects a test: it ends the measurement at the
// first failure.
type host struct {
	testing.TB
	after []func()
}

type failure string

func (h *host) Helper()                   {}
func (h *host) Name() string              { return "benchmark" }
func (h *host) Fatal(args ...any)         { panic(failure(strings.TrimSpace(fmt.Sprintln(args...)))) }
func (h *host) Fatalf(f string, a ...any) { panic(failure(fmt.Sprintf(f, a...))) }
func (h *host) Skip(args ...any)          { h.Fatal(args...) }
func (h *host) Errorf(f string, a ...any) { fmt.Fprintf(os.Stderr, "containers: "+f+"\n", a...) }
func (h *host) Logf(f string, a ...any)   { fmt.Fprintf(os.Stderr, f+"\n", a...) }
func (h *host) Failed() bool              { return false }
func (h *host) Cleanup(f func())          { h.after = append(h.after, f) }

func (h *host) ok(err error) {
	if err != nil {
		h.Fatal(err)
	}
}

func (h *host) end() {
	for len(h.after) > 0 {
		f := h.after[len(h.after)-1]
		h.after = h.after[:len(h.after)-1]
		f()
	}
}
