package state

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/testkit"
	"github.com/steadyfleet/steady/internal/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(t testing.TB, dir string) *Store {
	t.Helper()
	s := testkit.Value(Open(t.Context(), dir, Options{}))(t)
	return s
}

func fill(t testing.TB, s *Store, n int, at clock.Instant, size int) {
	t.Helper()
	testkit.Must(t, s.Tx(t.Context(), func(tx *sql.Tx) error {
		for range n {
			e := event.ResourceReported{Resource: "file/a", Message: strings.Repeat("x", size)}
			if err := Append(t.Context(), tx, at, e); err != nil {
				return err
			}
		}
		return nil
	}))
}

func begin(t testing.TB, s *Store) {
	t.Helper()
	testkit.Must(t, s.Tx(t.Context(), func(tx *sql.Tx) error { return Begin(t.Context(), tx, Link{Hash: []byte("genesis")}) }))
}

func TestOutboxSurvivesAndIsBounded(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	begin(t, s)
	fill(t, s, wire.MaxEventBatch+10, 1, 10)
	testkit.Must(t, s.Close())
	s = open(t, dir)
	defer func() { testkit.Must(t, s.Close()) }()
	b := testkit.Value(s.Pending(t.Context()))(t)
	if len(b.Events) != wire.MaxEventBatch || b.Events[0].Seq != 1 || b.Head.Seq != wire.MaxEventBatch {
		t.Fatalf("%d events, head %d", len(b.Events), b.Head.Seq)
	}
	testkit.Must(t, s.Ack(t.Context(), b.Head.Seq))
	b = testkit.Value(s.Pending(t.Context()))(t)
	if len(b.Events) != 10 || b.Events[0].Seq != wire.MaxEventBatch+1 {
		t.Fatalf("%d events from %d", len(b.Events), b.Events[0].Seq)
	}
	testkit.Must(t, s.Ack(t.Context(), 5)) // the server lost some
	b = testkit.Value(s.Pending(t.Context()))(t)
	if b.Events[0].Seq != 6 {
		t.Fatalf("sent again from %d", b.Events[0].Seq)
	}
	// A batch of large events stays below the cap.
	fill(t, s, 100, 1, 30_000)
	testkit.Must(t, s.Ack(t.Context(), wire.MaxEventBatch+10))
	b = testkit.Value(s.Pending(t.Context()))(t)
	size := 0
	for _, e := range b.Events {
		size += len(e.Body)
	}
	if len(b.Events) < 10 || size > wire.MaxEventBody {
		t.Errorf("%d events of %d bytes", len(b.Events), size)
	}
}

func TestOutboxKeepsWhatMayBeAskedForAgain(t *testing.T) {
	s := open(t, t.TempDir())
	defer func() { testkit.Must(t, s.Close()) }()
	begin(t, s)
	now := clock.Instant(100 * clock.Day)
	fill(t, s, 10, now.Add(-31*clock.Day), 1)
	fill(t, s, 10, now.Add(-29*clock.Day), 1)
	testkit.Must(t, s.Ack(t.Context(), 8))
	testkit.Must(t, s.Prune(t.Context(), now))
	bounds, err := s.Bounds(t.Context())
	testkit.Must(t, err)
	if bounds.Oldest != 9 { // 9 and 10 are old, but the server does not hold them
		t.Errorf("kept from %d", bounds.Oldest)
	}
	testkit.Must(t, s.Ack(t.Context(), 20))
	testkit.Must(t, s.Prune(t.Context(), now))
	if bounds, err = s.Bounds(t.Context()); err != nil || bounds.Oldest != 11 {
		t.Errorf("kept from %d, %v", bounds.Oldest, err)
	}
}

// Events are many where a host is busy, so that their number says nothing of what they
// take: the bound is of bytes, and of what was acknowledged alone.
func TestOutboxIsBoundedByBytes(t *testing.T) {
	s := open(t, t.TempDir())
	defer func() { testkit.Must(t, s.Close()) }()
	begin(t, s)
	s.retain = 100_000
	oldest := func() uint64 {
		testkit.Must(t, s.Prune(t.Context(), 1))
		return testkit.Value(s.Bounds(t.Context()))(t).Oldest
	}
	fill(t, s, 12_000, 1, 1)
	fill(t, s, 8, 1, 20_000)
	if at := oldest(); at != 1 {
		t.Errorf("nothing was acknowledged, and they are kept from %d", at)
	}
	testkit.Must(t, s.Ack(t.Context(), 12_006))
	if at := oldest(); at != 12_005 { // four of them fill the bound
		t.Errorf("kept from %d", at)
	}
	s.retain = 10_000
	if at := oldest(); at != 12_007 {
		t.Errorf("of what is not acknowledged, kept from %d", at)
	}
}

func TestRolledBackAppendLeavesNoTrace(t *testing.T) {
	s := open(t, t.TempDir())
	defer func() { testkit.Must(t, s.Close()) }()
	begin(t, s)
	boom := errors.New("boom")
	err := s.Tx(t.Context(), func(tx *sql.Tx) error {
		if err := Append(t.Context(), tx, 1, event.ResourceReported{}); err != nil {
			return err
		}
		return boom
	})
	if !errors.Is(err, boom) {
		t.Fatal(err)
	}
	if last, _, err := s.Heads(t.Context()); err != nil || last != 0 {
		t.Errorf("last %d, %v", last, err)
	}
	fill(t, s, 1, 1, 1)
	if last, _, err := s.Heads(t.Context()); err != nil || last != 1 {
		t.Errorf("last %d, %v", last, err)
	}
}

func TestLock(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	if _, err := Open(context.Background(), dir, Options{}); !errors.Is(err, ErrLocked) {
		t.Errorf("a second one: %v", err)
	}
	testkit.Must(t, s.Close())
	testkit.Must(t, open(t, dir).Close())
}

func TestBlobs(t *testing.T) {
	s := open(t, t.TempDir())
	defer func() { testkit.Must(t, s.Close()) }()
	d := digest.Of([]byte("content"))
	text := func(b string) func(io.Writer) error {
		return func(w io.Writer) error { _, err := io.WriteString(w, b); return err }
	}
	if err := s.WriteBlob(d, 7, text("c0ntent")); !errors.Is(err, ErrOtherContent) {
		t.Errorf("other content: %v", err)
	}
	if err := s.WriteBlob(d, 8, text("content")); !errors.Is(err, ErrOtherContent) {
		t.Errorf("other size: %v", err)
	}
	if s.HasBlob(d, -1) {
		t.Error("refused content is there")
	}
	testkit.Must(t, s.WriteBlob(d, 7, text("content")))
	b, err := s.Blob(d, 100)
	if err != nil || string(b) != "content" || !s.HasBlob(d, 7) {
		t.Errorf("%q, %v", b, err)
	}
	testkit.Must(t, os.WriteFile(s.blobPath(d), []byte("damaged"), 0o600))
	if _, err := s.Blob(d, 100); !errors.Is(err, ErrNoBlob) {
		t.Errorf("damaged content: %v", err)
	}
	if s.HasBlob(d, -1) {
		t.Error("damaged content is still there")
	}
	testkit.Must(t, s.WriteBlob(d, 7, text("content")))
	e := digest.Of([]byte("other"))
	testkit.Must(t, s.WriteBlob(e, -1, text("other")))
	testkit.Must(t, s.Sweep(map[digest.Digest]bool{e: true}))
	if s.HasBlob(d, -1) || !s.HasBlob(e, -1) {
		t.Error("the sweep took the wrong one")
	}
	left, err := filepath.Glob(filepath.Join(s.Dir(), "blobs", ".new-*"))
	if err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	if err := s.Room(1 << 60); !errors.Is(err, ErrNoRoom) {
		t.Errorf("an exabyte: %v", err)
	}
	testkit.Must(t, s.Room(0))
}

func TestLedger(t *testing.T) {
	s := open(t, t.TempDir())
	defer func() { testkit.Must(t, s.Close()) }()
	ctx := t.Context()
	own := func(d digest.Digest, want bool) {
		t.Helper()
		if got, err := s.Wrote(ctx, "p", d); err != nil || got != want {
			t.Errorf("%s is the agent's: %v, %v", d, got, err)
		}
	}
	a, b, c := digest.Of([]byte("a")), digest.Of([]byte("b")), digest.Of([]byte("c"))
	own(a, false)
	testkit.Must(t, s.WillWrite(ctx, "p", a))
	own(a, true)
	testkit.Must(t, s.WillWrite(ctx, "p", b))
	own(a, true) // a crash may have come before the rename
	own(b, true)
	testkit.Must(t, s.WillWrite(ctx, "p", b)) // tried again
	own(a, true)
	testkit.Must(t, s.WillWrite(ctx, "p", c))
	own(a, false)
	testkit.Must(t, s.Forget(ctx, "p"))
	own(c, false)
	testkit.Must(t, s.SetStep(ctx, "s", "one", false))
	testkit.Must(t, s.SetStep(ctx, "s", "one", true))
	if run, done, err := s.Step(ctx, "s"); run != "one" || !done || err != nil {
		t.Errorf("step %s %v %v", run, done, err)
	}
}

// A full disk loses what was being written and nothing else, and goes by its
// name, so that the agent can go on once there is room.
func TestFullIsNotLost(t *testing.T) {
	s := open(t, t.TempDir())
	defer func() { testkit.Must(t, s.Close()) }()
	testkit.Must(t, s.Tx(t.Context(), func(tx *sql.Tx) error { return Put(t.Context(), tx, "a", "before") }))
	limit := func(pages int) {
		var got int
		testkit.Must(t, s.db.QueryRowContext(t.Context(), fmt.Sprintf("PRAGMA max_page_count = %d", pages)).Scan(&got))
	}
	limit(1) // SQLite keeps at least what there is
	err := s.Tx(t.Context(), func(tx *sql.Tx) error {
		if err := Put(t.Context(), tx, "a", "after"); err != nil {
			return err
		}
		return Put(t.Context(), tx, "b", strings.Repeat("x", 1<<20))
	})
	if !Full(err) {
		t.Fatalf("not full: %v", err)
	}
	var a string
	if _, err := s.Get(t.Context(), "a", &a); err != nil || a != "before" {
		t.Fatalf("a is %q, %v", a, err)
	}
	limit(1 << 20)
	testkit.Must(t, s.Tx(t.Context(), func(tx *sql.Tx) error { return Put(t.Context(), tx, "a", "after") }))
	if Full(errors.New("another")) || Full(nil) {
		t.Error("another error, or none, is taken for a full disk")
	}
}

// Copies of what others wrote stop before the disk is full, and leave nothing.
func TestKeepSparesTheDisk(t *testing.T) {
	s := open(t, t.TempDir())
	defer func() { testkit.Must(t, s.Close()) }()
	content := []byte("by hand")
	s.margin = 1 << 60
	if _, err := s.Keep(digest.Of(content), bytes.NewReader(content)); !errors.Is(err, ErrNoRoom) {
		t.Fatalf("kept: %v", err)
	}
	left, err := os.ReadDir(filepath.Join(s.Dir(), "kept"))
	if err != nil || len(left) != 0 {
		t.Fatalf("left behind: %v, %v", left, err)
	}
	s.margin = Margin
	path, err := s.Keep(digest.Of(content), bytes.NewReader(content))
	testkit.Must(t, err)
	if raw, err := os.ReadFile(path); err != nil || string(raw) != "by hand" {
		t.Fatalf("%q, %v", raw, err)
	}
}
