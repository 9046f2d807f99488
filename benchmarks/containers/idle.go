package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/moby/moby/client"
)

// idle is the agent's own process at rest, with the server that it was enrolled
// at. Memory is in bytes and is read at the end, CPU in percent of one core.
type idle struct {
	Workspaces int     `json:"workspaces"`
	Interval   string  `json:"interval"`
	Seconds    float64 `json:"seconds"`
	RSS        int64   `json:"rss"`
	Anon       int64   `json:"rssAnon"` // what is not a page of the program's file
	PSS        int64   `json:"pss"`
	Peak       int64   `json:"peakRss"` // since it started, with the deployment
	Agent      float64 `json:"agentCpuPercent"`
	Engine     float64 `json:"engineCpuPercent"`
}

func (i *idle) text() string {
	return fmt.Sprintf("\nsteady-agent at rest over %.0f s, %d workspaces checked every %s: RSS %.1f MB (anonymous %.1f MB, PSS %.1f MB, peak %.1f MB), %.2f %% of a core, dockerd %.2f %%\n",
		i.Seconds, i.Workspaces, i.Interval, mb(i.RSS), mb(i.Anon), mb(i.PSS), mb(i.Peak), i.Agent, i.Engine)
}

func mb(n int64) float64 { return float64(n) / 1e6 }

// interval is how often the agent looks.
const interval = "5s"

const idleFleet = `apiVersion: steady/v1
kind: Fleet
metadata: {name: bench}
hosts:
  host-1: {channel: stable, bundle: bench}
channels:
  stable: {rolloutPolicy: all, freshnessWindow: 24h, signingInterval: 1h}
rolloutPolicies:
  all:
    waves: [{name: all, selector: {all: true}, soak: 1s}]
    activationDeadline: 10m
allowMovingTags: true # the image is imported on the engine, so no registry gave it a digest
bundles: {bench: {path: bundles/bench}}
`

// idle rolls out a release to one agent, in processes of their own, and looks at
// the agent once it is done.
func (b *bench) idle() {
	n := 100
	if b.o.Short {
		n = b.o.Services
	}
	dir, err := os.MkdirTemp(b.dir, "idle-")
	b.ok(err)
	bundle := filepath.Join(dir, "fleet", "bundles", "bench")
	b.ok(os.MkdirAll(bundle, 0o755))
	for name, text := range map[string]string{
		filepath.Join(dir, "fleet", "fleet.yaml"): idleFleet,
		filepath.Join(bundle, "bundle.yaml"):      "compose: compose.yaml\n",
		filepath.Join(bundle, "compose.yaml"):     project(n, "1", "a", true),
	} {
		b.ok(os.WriteFile(name, []byte(text), 0o644))
	}
	s := &site{bench: b, dir: dir}
	s.steady("keys", "init", "--dir", "keys", "--fleet", "bench")
	s.daemon(filepath.Join(b.o.bin, "steady"), "server", "--data", "data", "--root", "keys/1.root.json", "--listen", "127.0.0.1:0", "-o", "json")
	b.ok(os.WriteFile(filepath.Join(dir, "token"), []byte(s.steady("token", "create", "host-1")), 0o600))
	agent := s.daemon(filepath.Join(b.o.bin, "steady-agent"), "--state", "state", "--root", "root", "--token", "token", "--engine", b.d.Socket(), "--resync", interval)
	s.until("the agent is online", func() bool { return strings.Contains(spaceless(s.steady("status", "-o", "json")), `"online":1`) })
	s.steady("release", "build", "fleet", "--ref", "v1")
	s.steady("release", "sign")
	s.steady("release", "push")
	s.until("the rollout is terminal", func() bool {
		out, err := s.try("rollout", "show", "stable@v1", "-o", "json")
		return err == nil && strings.Contains(out, `"terminal"`)
	})
	list, err := b.api.ContainerList(b.ctx, client.ContainerListOptions{})
	b.ok(err)
	if len(list.Items) != n {
		b.Fatalf("%d containers run; %d were to", len(list.Items), n)
	}
	b.atRest(agent, n)
	s.end()
	b.wipe()
}

// atRest measures a process that has nothing to do.
func (b *bench) atRest(pid, n int) {
	span := time.Duration(b.o.Idle) * time.Second
	time.Sleep(min(span, 30*time.Second)) // what came of the deployment is over
	cpu, engine, began := b.cpuOf(pid), b.cpuOf(b.d.PID()), time.Now()
	time.Sleep(span)
	took := time.Since(began)
	b.report.Idle = &idle{
		Workspaces: n, Interval: interval, Seconds: took.Seconds(),
		Agent:  100 * (b.cpuOf(pid) - cpu).Seconds() / took.Seconds(),
		Engine: 100 * (b.cpuOf(b.d.PID()) - engine).Seconds() / took.Seconds(),
		RSS:    b.kilobytes(pid, "status", "VmRSS:"), Anon: b.kilobytes(pid, "status", "RssAnon:"),
		Peak: b.kilobytes(pid, "status", "VmHWM:"), PSS: b.kilobytes(pid, "smaps_rollup", "Pss:"),
	}
}

// kilobytes reads a field of a file of /proc, in bytes.
func (b *bench) kilobytes(pid int, file, field string) int64 {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, file))
	b.ok(err)
	for line := range strings.Lines(string(raw)) {
		if rest, ok := strings.CutPrefix(line, field); ok {
			v, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")), 10, 64)
			b.ok(err)
			return v << 10
		}
	}
	b.Fatalf("/proc/%d/%s has no %s", pid, file, field)
	return 0
}

// site is a server and an agent below a folder.
type site struct {
	*bench
	dir string
	ran []*exec.Cmd
}

func (s *site) command(program string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(s.ctx, program, args...)
	cmd.Dir = s.dir
	cmd.Env = append(os.Environ(), "STEADY_CONTEXT="+filepath.Join(s.dir, "data", "operator.json"))
	return cmd
}

func (s *site) try(args ...string) (string, error) {
	cmd := s.command(filepath.Join(s.o.bin, "steady"), args...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("steady %s: %w: %s", strings.Join(args, " "), err, tail(stderr.String()))
	}
	return strings.TrimSpace(string(out)), err
}

func (s *site) steady(args ...string) string {
	out, err := s.try(args...)
	s.ok(err)
	return out
}

// daemon starts a process and waits for its first line on stdout, which is JSON.
func (s *site) daemon(program string, args ...string) (pid int) {
	cmd := s.command(program, args...)
	name := filepath.Join(s.dir, filepath.Base(program)+".log")
	log, err := os.Create(name)
	s.ok(err)
	defer log.Close()
	cmd.Stderr = log
	out, err := cmd.StdoutPipe()
	s.ok(err)
	s.ok(cmd.Start())
	s.ran = append(s.ran, cmd)
	s.Cleanup(func() { _ = cmd.Process.Kill() }) // it may have ended
	r := bufio.NewReader(out)
	line, err := r.ReadBytes('\n')
	if err != nil || !json.Valid(line) {
		said, _ := os.ReadFile(name)
		s.Fatalf("%s %s did not start: %s", program, strings.Join(args, " "), tail(string(said)))
	}
	go func() { _, _ = io.Copy(io.Discard, r) }() // until it ends
	return cmd.Process.Pid
}

// end ends the processes, the last one first.
func (s *site) end() {
	for i := len(s.ran) - 1; i >= 0; i-- {
		_ = s.ran[i].Process.Signal(syscall.SIGTERM)
		_ = s.ran[i].Wait() // how it ended is of no interest
	}
}

// spaceless is JSON without the spaces between words; none of ours has any within.
func spaceless(text string) string { return strings.Join(strings.Fields(text), "") }

func (s *site) until(what string, f func() bool) {
	for limit := time.Now().Add(patience); !f(); time.Sleep(200 * time.Millisecond) {
		if time.Now().After(limit) {
			s.Fatalf("not within %s: %s", patience, what)
		}
	}
}
