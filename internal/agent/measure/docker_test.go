package measure_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"github.com/steadyfleet/steady/internal/agent/measure"
	"github.com/steadyfleet/steady/internal/docker/dockertest"
	"github.com/steadyfleet/steady/internal/testkit"
)

func TestMain(m *testing.M) {
	if slices.ContainsFunc(os.Args, func(a string) bool { return strings.HasPrefix(a, "-test.fuzz") }) {
		os.Exit(m.Run()) // fuzzing starts processes of its own
	}
	dockertest.Main(m)
}

// A container of the real engine, in the layout that this machine has, and one
// on the host's network, which has no counters of its own.
func TestContainerOfTheEngine(t *testing.T) {
	d := dockertest.Engine(t)
	n := d.Namespace(t)
	run := func(name string, host container.HostConfig) measure.Target {
		t.Helper()
		host.Resources = container.Resources{Memory: 32 << 20}
		made, err := d.Client().ContainerCreate(t.Context(), client.ContainerCreateOptions{Name: n.Name(name), HostConfig: &host,
			Config: &container.Config{Image: d.Busybox(t), Cmd: []string{"sh", "-c", "sleep 1000 & exec sleep 1000"}, StopSignal: "KILL"}})
		testkit.Must(t, err)
		testkit.Value(d.Client().ContainerStart(t.Context(), made.ID, client.ContainerStartOptions{}))(t)
		info, err := d.Client().ContainerInspect(t.Context(), made.ID, client.ContainerInspectOptions{})
		testkit.Must(t, err)
		return measure.Target{Name: name, PID: info.Container.State.Pid, ContainerID: made.ID}
	}
	own, shared := run("own", container.HostConfig{}), run("shared", container.HostConfig{NetworkMode: "host"})
	other := measure.Target{Name: "other", PID: own.PID, ContainerID: shared.ContainerID}

	c := measure.New(measure.Options{Settings: measure.Settings{Workspaces: true}})
	t.Cleanup(c.Close)
	s := c.Collect(t.Context(), 1000, measure.Input{Targets: []measure.Target{own, shared, other}})
	if len(s.Workspaces) != 2 || len(s.Problems) != 0 {
		t.Fatalf("got %+v", s)
	}
	w := s.Workspaces[0]
	if w.CPUMicros == nil || *w.CPUMicros == 0 || *w.MemLimitBytes != 32<<20 || w.MemBytes == nil || *w.Pids < 1 || w.NetRxBytes == nil {
		t.Errorf("got %+v", w)
	}
	if w := s.Workspaces[1]; w.NetRxBytes != nil || w.MemBytes == nil {
		t.Errorf("on the host's network: %+v", w)
	}
	testkit.Value(d.Client().ContainerKill(t.Context(), own.ContainerID, client.ContainerKillOptions{Signal: "KILL"}))(t)
	waited := d.Client().ContainerWait(t.Context(), own.ContainerID, client.ContainerWaitOptions{Condition: container.WaitConditionNotRunning})
	select {
	case <-waited.Result:
	case err := <-waited.Error:
		t.Fatal(err)
	}
	if s = c.Collect(t.Context(), 2000, measure.Input{Targets: []measure.Target{own, shared}}); len(s.Workspaces) != 1 || s.Workspaces[0].CPUPermille == nil || len(s.Problems) != 0 {
		t.Errorf("after one was killed: %+v", s)
	}
}
