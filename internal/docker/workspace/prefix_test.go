package workspace_test

import (
	"testing"
)

// TestPrefixChanges: what the ledger knows is this host's under another prefix too,
// and is renamed; what it does not know may be another agent's, and is left alone.
func TestPrefixChanges(t *testing.T) {
	w := newWorld(t)
	w.converge()
	was := w.box("web")
	w.o.Owner.Prefix = w.n.Name("new-")
	w.anew()
	w.converge("rename")
	w.quiet()
	now := w.box("new-web")
	if now.ID != was.ID || now.State.StartedAt != was.State.StartedAt {
		t.Fatalf("container %s became %s", was.ID, now.ID)
	}
	w.o.Owner.Prefix, w.o.Ledger = w.n.Name("next-"), &book{m: map[string][]byte{}}
	w.anew()
	if o := w.observe(); len(o.Seen.Containers) > 0 {
		t.Errorf("took containers of an agent unknown: %+v", o.Seen.Containers)
	}
	w.r.Delete = true
	w.converge()
	if !w.box("new-web").State.Running {
		t.Error("what an agent unknown made was stopped")
	}
}
