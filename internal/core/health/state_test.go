package health_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/diff"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/health"
	"github.com/steadyfleet/steady/internal/core/spec"
	"github.com/steadyfleet/steady/internal/testkit"
	"github.com/steadyfleet/steady/reconcile/engine"
)

// reports folds what hosts report, one batch for each call.
type reports struct {
	t   testkit.T
	s   *health.State
	now clock.Instant
	log []event.Entry
}

func newReports(t testkit.T) *reports {
	return &reports{t: t, s: health.New(), now: 1_000_000}
}

func (r *reports) fold(host string, events ...event.Event) {
	for _, ev := range events {
		e, err := event.NewEntry(r.now, event.HostSubject(host), ev)
		if err == nil {
			err = r.s.Apply(e)
		}
		testkit.Must(r.t, err)
		r.log = append(r.log, e)
	}
}

// batch folds what a host reports at once, and its head.
func (r *reports) batch(host string, events ...event.Event) {
	r.fold(host, append(events, event.HostHead{})...)
}

func status(resource string, phase engine.Phase, state spec.State) event.ResourceReported {
	return event.ResourceReported{Resource: resource, Phase: phase, State: string(state), Layer: event.LayerBundle}
}

func TestStatusIsTheLastReported(t *testing.T) {
	r := newReports(t)
	r.fold("h", status("workspace/web", engine.Acting, spec.Deploying))
	r.now++
	r.fold("h", status("workspace/web", engine.Converged, spec.RunningState))
	since := r.now
	r.now++
	drifted := status("workspace/web", engine.Drifted, spec.RunningState)
	drifted.Differences = []diff.Difference{{Field: "image", Desired: strings.Repeat("ü", 1000)}}
	r.fold("h", drifted)
	got := r.s.Hosts["h"].Resources["workspace/web"]
	if got.State != "Running" || got.Phase != engine.Drifted || got.Since != since || len(got.Differences) != 1 ||
		len(got.Differences[0].Desired) > 512 || !strings.HasPrefix(got.Differences[0].Desired, "üü") {
		t.Errorf("status is %+v", got)
	}
	r.fold("h", event.ResourceReported{Resource: "workspace/web", State: string(spec.Removed)})
	if h := r.s.Hosts["h"]; len(h.Resources) != 0 || h.Size != 0 {
		t.Errorf("a removed resource stays: %+v", h)
	}
	r.fold("h", drifted, event.HostEnrolled{Incarnation: 2})
	if r.s.Hosts["h"] != nil {
		t.Error("a new incarnation reports everything once more")
	}
}

func TestOneHostsReportsAreBounded(t *testing.T) {
	r := newReports(t)
	for i := range health.MaxResources + 5 {
		ev := status(fmt.Sprint("volume/", i), engine.Failed, spec.ErrorState)
		ev.Message = strings.Repeat("x", 5000)
		r.fold("h", ev)
	}
	h := r.s.Hosts["h"]
	if len(h.Resources) != health.MaxResources || h.Dropped == 0 || h.Size > health.MaxSize+64*health.MaxResources {
		t.Errorf("%d kept of %d bytes, %d dropped", len(h.Resources), h.Size, h.Dropped)
	}
	last := h.Resources[fmt.Sprint("volume/", health.MaxResources-1)]
	if last.State != "Error" || last.Message != "" {
		t.Errorf("without room for a message the status is %q %q", last.State, last.Message)
	}
}

// TestFoldIsTheSameFromASnapshot cuts a log anywhere.
func TestFoldIsTheSameFromASnapshot(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := newReports(t)
		draw(t, r)
		cut := rapid.IntRange(0, len(r.log)).Draw(t, "cut")
		part := health.New()
		for _, e := range r.log[:cut] {
			testkit.Must(t, part.Apply(e))
		}
		raw := testkit.Value(json.Marshal(part))(t)
		back := new(health.State)
		testkit.Must(t, json.Unmarshal(raw, back))
		back = health.Restore(back)
		for _, e := range r.log[cut:] {
			testkit.Must(t, back.Apply(e))
		}
		if d := cmp.Diff(r.s.Hosts, back.Hosts); d != "" {
			t.Fatal(d)
		}
	})
}

// draw folds what two hosts report of a few resources.
func draw(t *rapid.T, r *reports) {
	for range rapid.IntRange(0, 30).Draw(t, "steps") {
		r.now = r.now.Add(clock.Duration(rapid.IntRange(0, 600_000).Draw(t, "pause")))
		host := rapid.SampledFrom([]string{"a", "b"}).Draw(t, "host")
		id := rapid.SampledFrom([]spec.ID{{Kind: "workspace", Name: "web"}, {Kind: "file", Name: "etc/a"}, {Kind: "image", Name: "app"}}).Draw(t, "resource")
		phase := rapid.SampledFrom([]engine.Phase{engine.Pending, engine.Acting, engine.Retrying, engine.Waiting, engine.Converged,
			engine.Degraded, engine.Drifted, engine.Failed, engine.Deleted, engine.Orphaned}).Draw(t, "phase")
		ev := status(id.String(), phase, spec.Known.StateOf(spec.Stage{Kind: id.Kind, Phase: phase}))
		ev.Message = rapid.SampledFrom([]string{"", "no such image"}).Draw(t, "message")
		r.batch(host, ev)
	}
}
