package e2e

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/steadyfleet/steady/internal/api/operator"
	"github.com/steadyfleet/steady/internal/testkit"
)

const diskFleet = `apiVersion: steady/v1
kind: Fleet
metadata: {name: acme}
hosts:
  web-1: {channel: stable, tags: [web], bundle: web}
channels:
  stable: {rolloutPolicy: all, freshnessWindow: 24h, signingInterval: 1h}
rolloutPolicies:
  all: {waves: [{name: all, selector: {all: true}}]}
allowMassChange: true
bundles: {web: {path: bundles/web}}
`

// failSyncs has every sync below a path fail with EIO, in a process that runs.
func failSyncs(t *testing.T, p *process, path string) { injectSyncs(t, p, path, "error=EIO") }

// killAtSync has a process that runs be killed when it begins to sync a file below a path.
func killAtSync(t *testing.T, p *process, path string) {
	p.mayEnd()
	injectSyncs(t, p, path, "signal=SIGKILL")
}

// injectSyncs has something happen with every sync below a path, in a process that runs.
func injectSyncs(t *testing.T, p *process, path, what string) {
	t.Helper()
	testkit.Needs(t, testkit.Strace)
	cmd := exec.Command("strace", "-f", "-o", "/dev/null", "-P", path, "-e", "inject=fsync,fdatasync:"+what, "-p", fmt.Sprint(p.cmd.Process.Pid))
	stderr := testkit.Value(cmd.StderrPipe())(t)
	testkit.Must(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGINT) // it may have ended with the process
		_ = cmd.Wait()
	})
	attached := make(chan struct{})
	go func() {
		lines := bufio.NewScanner(stderr)
		for first := true; lines.Scan(); {
			if first && strings.Contains(lines.Text(), "attached") {
				first = false
				close(attached)
			}
		}
	}()
	select {
	case <-attached:
	case <-p.exited:
		t.Fatal("the process ended before it was traced")
	}
}

// ends waits until a process has ended by itself, in words and with code 1.
func (p *process) ends(words ...string) {
	p.t.Helper()
	<-p.exited
	if code := p.cmd.ProcessState.ExitCode(); code != 1 {
		p.t.Errorf("%s ended with code %d, not 1", p.name, code)
	}
	for _, w := range words {
		if !strings.Contains(p.Tail(), w) {
			p.t.Errorf("%s does not say %q\n%s", p.name, w, p.Tail())
		}
	}
}

// mayEnd says that the process is meant to end by itself.
func (p *process) mayEnd() {
	p.asked.Store(true)
}

// TestF9FailedDiskEndsTheProcess: the first failed sync of any store of the server or
// of an agent ends the process in words with code 1, whoever asked for it; the next
// one goes on where it was.
func TestF9FailedDiskEndsTheProcess(t *testing.T) {
	t.Parallel()
	testkit.Needs(t, testkit.Strace)
	this := testkit.Value(os.Executable())(t)
	y := &yard{t: t, estate: newEstate(t), dir: t.TempDir(), listen: testkit.FreeAddr(t), serverOf: this, agentOf: this, agents: map[string]*process{}}
	y.startServer()
	t.Cleanup(func() { y.server.kill() })
	conn := readContext(t, y.where.Context)
	y.client = testkit.Value(operator.NewClient(operator.Options{URL: y.where.Operator, Token: conn.Token, ServerCA: []byte(conn.CA)}))(t)
	t.Cleanup(y.client.Close)
	y.startAgent("web-1", "--token", y.estate.token("web-1", y.where.Server, []byte(conn.CA)))
	t.Cleanup(func() { y.agents["web-1"].kill() })

	version := 0
	release := func() made {
		version++
		ref := fmt.Sprintf("v%d", version)
		return y.estate.release(ref, declare{"fleet.yaml": diskFleet, "bundles/web/bundle.yaml": killBundle(ref)})
	}
	runs := func(m made) {
		t.Helper()
		testkit.Eventually(t, "web-1 runs "+m.ref, func() bool {
			h, err := y.client.Host(t.Context(), "web-1")
			return err == nil && h.Phase == "converged" && h.Current == m.leaf(t, "stable", "web-1").Target
		})
	}
	first := release()
	y.push(first)
	runs(first)

	words := []string{"the server must stop", "input/output error", "check the disk of " + filepath.Join(y.dir, "server"), "start the server again"}
	for _, c := range []struct {
		store, path string
		act         func()
	}{
		{"blobs", filepath.Join(y.log(), "blobs"), func() {
			packed := release().packed()
			defer packed.Close()
			y.estate.latest = first.verified // the next one is built on what the server has
			if _, err := y.client.Push(t.Context(), packed); err == nil {
				t.Error("a release was accepted whose content could not be kept")
			}
		}},
		{"log", filepath.Join(y.log(), "log.db-wal"), func() {
			if _, err := y.client.CreateToken(t.Context(), operator.NewToken{Name: "lost", Role: operator.Viewer}); err == nil {
				t.Error("a token was made that the log does not have")
			}
		}},
		{"snapshots", filepath.Join(y.log(), "snapshots"), func() { testkit.Must(t, y.server.cmd.Process.Signal(syscall.SIGTERM)) }},
	} {
		t.Log(c.store)
		y.server.mayEnd()
		failSyncs(t, y.server, c.path)
		c.act()
		y.server.ends(words...)
		y.startServer()
		runs(first)
	}

	agent := []string{"the disk of the state folder failed", "check the disk of " + y.state("web-1"), "start the agent again"}
	for _, path := range []string{"agent.db-wal", "blobs"} {
		t.Log(path)
		p := y.agents["web-1"]
		p.mayEnd()
		failSyncs(t, p, filepath.Join(y.state("web-1"), path))
		m := release()
		y.push(m)
		p.ends(agent...)
		y.startAgent("web-1")
		runs(m)
	}
}
