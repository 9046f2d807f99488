package docker_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/moby/moby/client"

	"github.com/steadyfleet/steady/internal/core/container"
	"github.com/steadyfleet/steady/internal/docker/dockertest"
	"github.com/steadyfleet/steady/reconcile/engine"
)

// TestSnapshottingIsShown: a workspace is Snapshotting while a snapshot is taken of it,
// and Running before and after; that the engine pauses it meanwhile is undone by nobody.
func TestSnapshottingIsShown(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.d.Proxy()
	w.cfg.Socket = p.Socket()
	w.start()
	set := container.Set{Images: []container.Image{plain("base")},
		Workspaces: []container.Workspace{{Name: "web", Image: "base", Command: sleeper("here"), Update: container.Update{Monitor: 50}}}}
	w.declare(set)
	w.converged()
	n := w.a.count()
	commit := make(chan struct{})
	p.Before(func(r dockertest.Request) dockertest.Fate {
		if r.Path == "/commit" {
			<-commit
		}
		return dockertest.Pass
	})
	set.Snapshots = []container.Snapshot{{Name: "copy", Workspace: "web", Take: 1}}
	w.declare(set)
	state := func() container.State {
		r := w.row(container.KindWorkspace, "web")
		return container.StateOf(container.Stage{Kind: container.KindWorkspace, Phase: r.Phase, Code: r.Reason.Code})
	}
	w.until("it is not Snapshotting", func() (bool, string) { return state() == container.Snapshotting, string(state()) })
	// As engines do for the time of a commit.
	id := w.one("web", true).ID
	_, err := w.api.ContainerPause(w.ctx, id, client.ContainerPauseOptions{})
	w.ok(err)
	ref, since := engine.Ref{Kind: container.KindWorkspace, ID: "web"}, clockNow()
	w.until("no look at it", func() (bool, string) {
		w.a.loop.Kick(ref, engine.Cause{Trigger: engine.TriggerOperator, ID: "look"})
		x, err := w.a.loop.Explain(w.ctx, ref)
		w.ok(err)
		return x.SeenAt > since && !x.Acting, x.Decision
	})
	if x := w.inspect(id); !x.State.Paused {
		t.Error("the agent ended the engine's pause")
	}
	_, err = w.api.ContainerUnpause(w.ctx, id, client.ContainerUnpauseOptions{})
	w.ok(err)
	close(commit)
	w.converged()
	w.until("it is not Running again", func() (bool, string) { return state() == container.RunningState, string(state()) })
	var states []container.State
	for _, x := range w.a.transitions(n) {
		if x.Ref == ref {
			states = append(states, container.StateOf(container.Stage{Kind: x.Ref.Kind, Phase: x.To, Code: x.Reason.Code, Action: x.Action}))
		}
	}
	if i := slices.Index(states, container.Snapshotting); i < 0 || !slices.Equal(states[i:], []container.State{container.Snapshotting, container.RunningState}) {
		t.Errorf("states %s", fmt.Sprint(states))
	}
}
