package control

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/steadyfleet/steady/internal/control/documents"
	"github.com/steadyfleet/steady/internal/store"
	"github.com/steadyfleet/steady/internal/testkit"
)

// TestKeptStatesStayWithinTheirBounds: however long the log grows, there are at most so many states,
// spread over all of it, and another process finds them.
func TestKeptStatesStayWithinTheirBounds(t *testing.T) {
	dir := t.TempDir()
	k := newKeptStates(dir)
	const most, apart = 2*keptMost + 20, 1000
	for i := uint64(1); i <= most; i++ {
		testkit.Must(t, k.keep(documents.Checkpoint{Through: store.Head{Seq: i * apart, Term: 1, Hash: [32]byte{byte(i), byte(i >> 8)}}, State: []byte("{}")}))
	}
	files := testkit.Value(os.ReadDir(filepath.Join(dir, "past")))(t)
	if len(files) != keptMost {
		t.Fatalf("%d files", len(files))
	}
	again := newKeptStates(dir)
	if again.wants(most*apart, 1) || !again.wants(most*apart+5, 1) {
		t.Error("another process does not find the last one")
	}
	last := uint64(0)
	for _, f := range append(again.files, keptFile{head: store.Head{Seq: most * apart}}) {
		if gap := f.head.Seq - last; gap > 4*most*apart/keptMost {
			t.Errorf("nothing is kept between records %d and %d", last, f.head.Seq)
		}
		last = f.head.Seq
	}
	c := testkit.Value(again.load(documents.Checkpoint{Through: again.files[0].head}))(t)
	if string(c.State) != "{}" {
		t.Errorf("it is %q", c.State)
	}
	testkit.Must(t, again.drop(c.Through))
	if len(again.files) != keptMost-1 || !again.wants(c.Through.Seq, 1) {
		t.Error("a state that was dropped is there")
	}
}
