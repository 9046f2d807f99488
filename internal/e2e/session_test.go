package e2e

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/moby/moby/client"

	"github.com/steadyfleet/steady/internal/core/clock"
	placement "github.com/steadyfleet/steady/internal/core/place"
	"github.com/steadyfleet/steady/internal/core/session"
	"github.com/steadyfleet/steady/internal/testkit"
	"github.com/steadyfleet/steady/reconcile/engine"
)

var sessionFleet = strings.Replace(browserFleet, "bounds: {images", "bounds: {owners: [session], images", 1)

// TestSessionOnARealEngine: a session comes up part by part in real containers on a host that measured itself, a
// phase is over when its event came, one part ends alone, and nothing is left once it is stopped, and the agent
// was away in between.
func TestSessionOnARealEngine(t *testing.T) {
	t.Parallel()
	l := newLease(t, sessionFleet)
	s := l.server.Control().Sessions()
	now := time.Now().UTC()
	spec := session.Spec{
		Timeslot: session.Timeslot{ProvisionAt: now, Start: now, End: now.Add(time.Hour), CleanupDeadline: now.Add(2 * time.Hour)},
		Parts: []session.Part{
			{Name: "db", Pods: []session.Pod{boxPod("db")}},
			{Name: "web", After: []session.Gate{{Part: "db"}}, Pods: []session.Pod{boxPod("web")}, Phases: []session.Phase{{Name: "exam", Await: "student.submitted", Timeout: clock.FromStd(time.Hour)}}},
		},
	}
	testkit.Must(t, s.Create(t.Context(), "lab", spec, nil, "ann"))
	status := func() session.Status { return testkit.Value(s.Show(t.Context(), "lab"))(t) }
	testkit.Eventually(t, "both parts run and the phase waits for its event", func() bool {
		st := status()
		return st.Parts[1].Pods[0].Phase == string(engine.Converged) && st.Parts[1].Phases[0].State == session.PhaseRunning
	})
	if got := l.containers(t); len(got) != 2 {
		t.Fatalf("%v run", got)
	}
	l.host.stop()
	submitted := engine.Event{Source: "lms", ID: "1", Type: "student.submitted", Data: json.RawMessage(`{"answer":42}`)}
	testkit.Must(t, s.Receive(t.Context(), "lab", "web/exam", submitted))
	testkit.Must(t, s.Receive(t.Context(), "lab", "web/exam", submitted))
	testkit.Eventually(t, "the session runs", func() bool {
		st := status()
		return st.State == session.Running && string(st.Parts[1].Phases[0].Result) == `{"answer":42}`
	})
	l.host.start()
	testkit.Must(t, s.SetPart(t.Context(), "lab", "db", true, "ann"))
	testkit.Eventually(t, "one part alone is gone", func() bool {
		got := l.containers(t)
		return len(got) == 1 && strings.Contains(got[0], "web")
	})
	testkit.Must(t, s.Stop(t.Context(), "lab", "ann"))
	testkit.Eventually(t, "nothing is left", func() bool { return status().State == session.Retired && len(l.containers(t)) == 0 })
}

// boxPod is a pod with an image that the engine has, and one container of it.
func boxPod(name string) session.Pod {
	return session.Pod{Name: name, Resources: placement.Resources{MilliCPU: 100, Memory: 16 << 20}, Workloads: []session.Workload{
		{Kind: "image", Name: "lab-" + name, Spec: json.RawMessage(`{"ref":"steady.test/busybox:1","pull":{"policy":"never"}}`)},
		{Kind: "workspace", Name: "lab-" + name, Spec: json.RawMessage(`{"image":"lab-` + name + `","command":["sleep","100000"],"stopSignal":"SIGKILL","limits":{"nanoCPUs":100000000,"memory":16777216}}`)},
	}}
}

// containers are the names of those that run on the host, in order.
func (l *lease) containers(t *testing.T) (names []string) {
	t.Helper()
	all := testkit.Value(l.engine.Client().ContainerList(t.Context(), client.ContainerListOptions{}))(t)
	for _, c := range all.Items {
		if name := strings.TrimPrefix(c.Names[0], "/"); strings.HasPrefix(name, l.prefix) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}
