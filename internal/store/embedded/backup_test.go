package embedded_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/store"
	"github.com/steadyfleet/steady/internal/store/embedded"
	"github.com/steadyfleet/steady/internal/testkit"
)

// TestS33BackupBesideAWriter: a copy that was made while another handle appends has all that was acknowledged before it
// began, with its blobs and a snapshot that fits, and nothing that a store would call set back; it goes on.
func TestS33BackupBesideAWriter(t *testing.T) {
	live := t.TempDir()
	st := open(t, live, embedded.Options{})
	head := lead(t, st)
	var put []digest.Digest
	grow := func() {
		put = append(put, testkit.Value(st.PutBlob(t.Context(), fmt.Append(nil, "document ", head.Seq)))(t))
		head = testkit.Value(st.Append(t.Context(), head.Seq, head.Term, crashBatch(head)))(t)
	}
	for range 20 {
		grow()
	}
	testkit.Must(t, st.SaveSnapshot(t.Context(), store.Snapshot{At: head, Format: "f", Body: []byte("body")}))
	for round := range 4 {
		before, blobs := head, len(put)
		beside := open(t, live, embedded.Options{})
		for range 3 { // after the anchor was read
			grow()
		}
		writing, stop := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(writing)
			for {
				select {
				case <-stop:
					return
				default:
					grow()
				}
			}
		}()
		dir := filepath.Join(t.TempDir(), "copy")
		made, err := beside.Backup(t.Context(), dir)
		close(stop)
		<-writing
		testkit.Must(t, err)
		testkit.Must(t, beside.Close())
		if made.Seq < before.Seq || made.Seq > head.Seq || made.Term != head.Term {
			t.Fatalf("round %d: the copy ends at %+v; it was begun at %d and ended at %d", round, made, before.Seq, head.Seq)
		}
		again := open(t, dir, embedded.Options{})
		if b := again.SetBack(); b != nil {
			t.Fatalf("the copy counts as set back: %s", b.Reason)
		}
		end := testkit.Value(store.Replay(t.Context(), again, store.Head{}, func([]event.Record) error { return nil }))(t)
		if end != made {
			t.Fatalf("the chain ends at %+v, not %+v", end, made)
		}
		for _, d := range put[:blobs] {
			testkit.Value(again.Blob(t.Context(), d))(t)
		}
		if s, err := again.LatestSnapshot(t.Context()); err != nil || s.At.Seq > made.Seq {
			t.Fatalf("the snapshot: %+v, %v", s.At, err)
		}
		next := lead(t, again)
		testkit.Value(again.Append(t.Context(), next.Seq, next.Term, crashBatch(next)))(t)
		testkit.Must(t, again.Close())
		if _, err := st.Backup(t.Context(), dir); err == nil {
			t.Fatal("a folder that is there was written into")
		}
	}
	testkit.Must(t, st.Close())

	// What lost its newest part is no backup of anything.
	testkit.Must(t, os.Remove(filepath.Join(live, "anchor")))
	cut := open(t, live, embedded.Options{})
	if _, err := cut.Backup(t.Context(), filepath.Join(t.TempDir(), "copy")); err == nil || !strings.Contains(err.Error(), "lacks what was acknowledged") {
		t.Fatalf("a log that was set back: %v", err)
	}
	testkit.Must(t, cut.Close())
}
