package docker_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/steadyfleet/steady/internal/core/spec"
)

// TestPruneRemovesOrphansAlone: an agent that lost its state finds what nobody
// declares any more. It goes when it is asked for; what is declared, what is
// somebody else's, and data stay.
func TestPruneRemovesOrphansAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	set := spec.Set{
		Networks: []spec.Network{{Name: "net"}, {Name: "old-net"}},
		Volumes:  []spec.Volume{{Name: "lost-data"}},
		Images:   []spec.Image{plain("base")},
		Workspaces: []spec.Workspace{
			{Name: "kept", Image: "base", Command: sleeper("here"), Update: spec.Update{Monitor: 50}, Networks: []spec.Attachment{{Network: "net"}}},
			{Name: "lost", Image: "base", Command: sleeper("here"), Update: spec.Update{Monitor: 50}, Networks: []spec.Attachment{{Network: "old-net"}},
				Mounts: []spec.Mount{{Type: spec.MountVolume, Source: "lost-data", Target: "/data"}}},
		},
	}
	w.declare(set)
	w.settled()
	same := w.foreign("kept")
	kept := w.one("kept", true).ID
	w.halt(w.a)

	w.cfg.Dir = t.TempDir()
	w.start()
	set.Networks, set.Volumes, set.Workspaces = set.Networks[:1], nil, set.Workspaces[:1]
	w.declare(set)
	w.settled()
	if len(w.own("lost")) != 1 {
		t.Fatal("an orphan went without being asked for")
	}
	for _, dry := range []bool{true, false, false} {
		var out bytes.Buffer
		w.ok(w.a.host.Prune(w.ctx, dry, &out))
		t.Logf("dry %v:\n%s", dry, out.String())
		switch there := len(w.own("lost")); {
		case dry && (there != 1 || !strings.Contains(out.String(), "would remove workspace/lost\n") || !strings.Contains(out.String(), "would remove network/old-net\n")):
			t.Fatalf("%d left", there)
		case !dry && there != 0:
			t.Fatalf("%d left", there)
		case !strings.Contains(out.String(), "kept volume/lost-data"):
			t.Fatal("the volume is not told of")
		}
	}
	same()
	if w.one("kept", true).ID != kept {
		t.Fatal("what is declared was replaced")
	}
}
