package watch

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/steadyfleet/steady/internal/api/operator"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/spec"
)

// server says what a host reports, in order.
type server struct {
	known   []operator.Resource
	reports []event.ResourceReported
}

func (s *server) Resources(context.Context, string) (operator.HostResources, error) {
	return operator.HostResources{Resources: s.known}, nil
}

func (s *server) Follow(ctx context.Context, q operator.EventQuery, each func(operator.Event) error) error {
	for i, r := range s.reports {
		body, err := json.Marshal(r)
		if err != nil {
			return err
		}
		if err := each(operator.Event{Seq: q.After + uint64(i) + 1, Type: r.EventType(), Subject: q.About[0], Body: body}); err != nil {
			return err
		}
	}
	<-ctx.Done()
	return ctx.Err()
}

func target(kind, name string, isNew bool, needs ...spec.ID) Target {
	return Target{Host: "lab", ID: spec.ID{Kind: kind, Name: name}, New: isNew, Needs: needs}
}

func waited(t *testing.T, s *server, targets ...Target) (shown string, took time.Duration, err error) {
	t.Helper()
	var out strings.Builder
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		f := WaitFlags{Timeout: time.Hour}
		_, err = f.For(t.Context(), s, 1, targets, plainOutcomes(&out))
		took = time.Since(began)
	})
	return out.String(), took, err
}

// TestWaitEndsWithWhatIsNeeded waits for a workspace whose image cannot be had: the
// host says nothing of the workspace, and the wait ends with the image.
func TestWaitEndsWithWhatIsNeeded(t *testing.T) {
	img, net := spec.ID{Kind: "image", Name: "box"}, spec.ID{Kind: "network", Name: "back"}
	s := &server{reports: []event.ResourceReported{{Resource: "network/back", State: "Ready"}, {Resource: "image/box", State: "Failed", Message: "no such image"}}}
	shown, took, err := waited(t, s, target("network", "back", true), target("image", "box", true),
		target("workspace", "web", true, net, img), target("route", "web", true, spec.ID{Kind: "workspace", Name: "web"}))
	if err == nil || took > time.Minute {
		t.Errorf("ended with %v after %s", err, took)
	}
	for _, want := range []string{"image/box on lab: Failed: no such image", "workspace/web on lab: waits for the host: image/box is Failed", "route/web on lab: waits for the host: image/box is Failed"} {
		if !strings.Contains(shown, want) {
			t.Errorf("%q is not in:\n%s", want, shown)
		}
	}
}

// TestWaitSaysWhyItFailed waits for what is as it was and was an error before.
func TestWaitSaysWhyItFailed(t *testing.T) {
	s := &server{known: []operator.Resource{{Kind: "workspace", Name: "web", State: "Error", Message: "no shell"}}}
	if shown, _, err := waited(t, s, target("workspace", "web", false)); err == nil || shown != "  workspace/web on lab: Error: no shell\n" {
		t.Errorf("ended with %v, shown %q", err, shown)
	}
}

// TestWaitHearsOfItsOwnVersion: a late report of what was declared before neither
// ends a wait well nor badly, and a removal ends only the wait for one.
func TestWaitHearsOfItsOwnVersion(t *testing.T) {
	of := func(state string, version uint64) event.ResourceReported {
		return event.ResourceReported{Resource: "workspace/web", State: state, Version: version, Layer: event.LayerManaged}
	}
	now := target("workspace", "web", true)
	now.Version = 5
	same := now
	same.New = false
	known := func(version uint64) []operator.Resource {
		return []operator.Resource{{Kind: "workspace", Name: "web", State: "Running", Version: version, Layer: event.LayerManaged}}
	}
	for name, c := range map[string]struct {
		s      server
		target Target
		ok     bool
	}{
		"late good news":             {server{reports: []event.ResourceReported{of("Running", 4), of("Error", 5)}}, now, false},
		"late bad news":              {server{reports: []event.ResourceReported{of("Error", 4), of("Running", 5)}}, now, true},
		"late bad news afterwards":   {server{reports: []event.ResourceReported{of("Running", 5), of("Error", 4)}}, now, true},
		"the removal of the old one": {server{reports: []event.ResourceReported{of("Removed", 4), of("Error", 6)}}, now, false},
		"its own end":                {server{reports: []event.ResourceReported{of("Removed", 5), of("Error", 6)}}, now, false},
		"known already":              {server{known: known(5)}, now, true},
		"known of the one before":    {server{known: known(4), reports: []event.ResourceReported{of("Error", 5)}}, now, false},
		"set as it is":               {server{known: known(4), reports: []event.ResourceReported{of("Error", 5)}}, same, false},
		"set as it is, and is":       {server{known: known(5)}, same, true},
		"an agent without versions":  {server{known: known(0), reports: []event.ResourceReported{of("Error", 0)}}, now, false},
		"such a one, set as it is":   {server{known: known(0)}, same, true},
	} {
		if _, _, err := waited(t, &c.s, c.target); (err == nil) != c.ok {
			t.Errorf("%s: ended with %v", name, err)
		}
	}
}

// TestWaitInACircle ends at its limit.
func TestWaitInACircle(t *testing.T) {
	a, b := spec.ID{Kind: "workspace", Name: "a"}, spec.ID{Kind: "workspace", Name: "b"}
	if _, took, err := waited(t, &server{}, target("workspace", "a", true, b), target("workspace", "b", true, a)); err == nil || took != time.Hour {
		t.Errorf("ended with %v after %s", err, took)
	}
}
