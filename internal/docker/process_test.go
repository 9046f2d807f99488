package docker_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/moby/moby/client"

	"github.com/steadyfleet/steady/internal/core/spec"
)

// process is an agent in a process of its own, to be killed.
type process struct {
	w     *world
	cmd   *exec.Cmd
	in    io.Writer
	told  int // layers to declare
	lines chan string
	gone  chan struct{} // closed when it has ended
	said  bytes.Buffer  // on stderr
	once  sync.Once
}

// spawn starts an agent process with a set declared.
func (w *world) spawn(cfg config, s spec.Set) *process {
	w.t.Helper()
	dir := w.t.TempDir()
	w.ok(writeJSON(filepath.Join(dir, childConf), cfg))
	p := &process{w: w, cmd: exec.Command("/proc/self/exe"), lines: make(chan string, 4096), gone: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), childEnv+"="+dir)
	p.cmd.Stderr = &p.said
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := p.cmd.StdoutPipe()
	w.ok(err)
	p.in, err = p.cmd.StdinPipe()
	w.ok(err)
	w.ok(p.cmd.Start())
	go func() {
		defer close(p.gone)
		for scan := bufio.NewScanner(out); scan.Scan(); {
			p.lines <- scan.Text()
		}
		_ = p.cmd.Wait() // killed, so it reports that
	}()
	w.t.Cleanup(p.kill)
	p.declare(s)
	return p
}

// declare has the agent declare a set.
func (p *process) declare(s spec.Set) {
	p.w.t.Helper()
	p.told++
	p.w.ok(json.NewEncoder(p.in).Encode(p.w.layer(s)))
}

// kill ends the process at once and waits until it is gone.
func (p *process) kill() {
	p.once.Do(func() { _ = p.cmd.Process.Signal(syscall.SIGKILL) }) // it may be gone
	<-p.gone
}

// await waits until the agent says that all is as declared last; false if it ended
// before that. Call it once for each set.
func (p *process) await() bool {
	p.w.t.Helper()
	deadline := time.After(patience)
	last := "nothing"
	for {
		select {
		case last = <-p.lines:
			if last == childDeclared {
				p.told--
			}
			if last == childConverged && p.told == 0 {
				return true
			}
		case <-p.gone:
			return false
		case <-deadline:
			p.w.t.Fatalf("the agent does not converge: %s\n%s", last, p.w.listed())
		}
	}
}

// foreign makes containers of others whose names and labels are close to those
// of this host, and gives a check that they are as they were, byte for byte.
func (w *world) foreign(workspace string, volatile ...string) (same func()) {
	w.t.Helper()
	title := w.owner.Title(workspace)
	other := w.owner.Labels(spec.KindWorkspace, workspace, title)
	other["io.steady.owner"] = "f/other"
	for name, labels := range map[string]map[string]string{
		title + ".backup": nil, title + ".1.older": {"a": "b"}, w.n.Name("stranger"): other,
	} {
		w.runForeign(name, labels)
	}
	before := w.strangers(volatile)
	return func() {
		w.t.Helper()
		after := w.strangers(volatile)
		if len(before) != len(after) {
			w.t.Errorf("S35: %d containers of others, there were %d", len(after), len(before))
		}
		for name, text := range before {
			if after[name] != text {
				w.t.Errorf("S35: container %s of somebody else is not as it was:\n%s", name, cmp.Diff(strings.Split(text, "\n"), strings.Split(after[name], "\n")))
			}
		}
	}
}

func (w *world) runForeign(name string, labels map[string]string) string {
	w.t.Helper()
	made, err := w.api.ContainerCreate(w.ctx, client.ContainerCreateOptions{Name: name, Config: configOf(w, labels)})
	w.ok(err)
	_, err = w.api.ContainerStart(w.ctx, made.ID, client.ContainerStartOptions{})
	w.ok(err)
	return made.ID
}

// strangers are the inspections of containers in the namespace that are not this
// host's, without the fields that an engine changes by itself.
func (w *world) strangers(volatile []string) map[string]string {
	w.t.Helper()
	list, err := w.api.ContainerList(w.ctx, client.ContainerListOptions{All: true})
	w.ok(err)
	out := map[string]string{}
	for _, c := range list.Items {
		if !strings.HasPrefix(c.Names[0], "/"+w.n.Prefix) || c.Labels["io.steady.owner"] == w.owner.ID() {
			continue
		}
		got, err := w.api.ContainerInspect(w.ctx, c.ID, client.ContainerInspectOptions{})
		w.ok(err)
		out[c.Names[0]] = without(w, got.Raw, volatile)
	}
	return out
}

// without is a JSON document with some fields, by path, taken out.
func without(w *world, raw []byte, paths []string) string {
	var doc map[string]any
	w.ok(json.Unmarshal(raw, &doc))
	for _, p := range paths {
		at := doc
		parts := strings.Split(p, ".")
		for _, k := range parts[:len(parts)-1] {
			next, ok := at[k].(map[string]any)
			if !ok {
				w.t.Fatalf("no field %s of a container", p)
			}
			at = next
		}
		delete(at, parts[len(parts)-1])
	}
	if mounts, ok := doc["Mounts"].([]any); ok { // engines give them in any order
		slices.SortFunc(mounts, func(a, b any) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
	}
	text, err := json.MarshalIndent(doc, "", " ")
	w.ok(err)
	return string(text)
}
