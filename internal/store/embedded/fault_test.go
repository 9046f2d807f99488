package embedded_test

import (
	"bytes"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/store"
	"github.com/steadyfleet/steady/internal/store/embedded"
	"github.com/steadyfleet/steady/internal/testkit"
)

func lead(t *testing.T, st store.Store) store.Head {
	t.Helper()
	h := testkit.Value(st.Acquire(t.Context(), "a test", 1))(t)
	return h
}

func replay(t *testing.T, st store.Store) ([]event.Record, error) {
	t.Helper()
	var out []event.Record
	_, err := store.Replay(t.Context(), st, store.Head{}, func(page []event.Record) error {
		out = append(out, page...)
		return nil
	})
	return out, err
}

// fill appends until the store is full. Then: nothing of the refused batch is
// there, reads go on, the chain verifies, the handle is not broken.
func fill(t *testing.T, st *embedded.Store) store.Head {
	t.Helper()
	head := lead(t, st)
	for range 100_000 {
		next, err := st.Append(t.Context(), head.Seq, head.Term, crashBatch(head))
		if err == nil {
			head = next
			continue
		}
		if !errors.Is(err, store.ErrFull) || errors.Is(err, store.ErrBroken) {
			t.Fatal(err)
		}
		got, err := st.Head(t.Context())
		if err != nil || got != head {
			t.Fatalf("head %+v, %v; want %+v", got, err, head)
		}
		records, err := replay(t, st)
		if err != nil || uint64(len(records)) != head.Seq {
			t.Fatalf("%d records, %v; want %d", len(records), err, head.Seq)
		}
		if head.Seq < 100 {
			t.Fatalf("full after only %d", head.Seq)
		}
		return head
	}
	t.Fatal("the store never was full")
	return head
}

// TestF8MaxBytes: the bound of the options, met again and again, and lifted by
// the next handle.
func TestF8MaxBytes(t *testing.T) {
	dir := t.TempDir()
	st := open(t, dir, embedded.Options{MaxBytes: 1 << 20})
	fill(t, st)
	fill(t, st)
	testkit.Must(t, st.Close())
	st = open(t, dir, embedded.Options{})
	defer st.Close()
	head := lead(t, st)
	testkit.Value(st.Append(t.Context(), head.Seq, head.Term, crashBatch(head)))(t)
}

// TestF8Disk: a real full disk, for log, blobs and snapshots; with room again
// the same handle goes on.
func TestF8Disk(t *testing.T) {
	testkit.Needs(t, testkit.Tmpfs)
	dir := t.TempDir()
	testkit.Must(t, unix.Mount("tmpfs", dir, "tmpfs", 0, "size=8m"))
	t.Cleanup(func() {
		if err := unix.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	st := open(t, filepath.Join(dir, "store"), embedded.Options{})
	defer st.Close()
	ballast := filepath.Join(dir, "ballast")
	testkit.Must(t, os.WriteFile(ballast, make([]byte, 3<<20), 0o600))
	head := fill(t, st)
	big := bytes.Repeat([]byte("b"), 6<<20)
	if _, err := st.PutBlob(t.Context(), big); !errors.Is(err, store.ErrFull) {
		t.Fatalf("put a blob: %v", err)
	}
	if err := st.SaveSnapshot(t.Context(), store.Snapshot{At: head, Format: "f", Body: big}); !errors.Is(err, store.ErrFull) {
		t.Fatalf("save a snapshot: %v", err)
	}
	if left, err := os.ReadDir(filepath.Join(dir, "store", "tmp")); err != nil || len(left) != 0 {
		t.Fatalf("left in tmp: %v, %v", left, err)
	}
	testkit.Must(t, os.Remove(ballast))
	for range 20 {
		next := testkit.Value(st.Append(t.Context(), head.Seq, head.Term, crashBatch(head)))(t)
		head = next
	}
	if records, err := replay(t, st); err != nil || uint64(len(records)) != head.Seq {
		t.Fatalf("%d records, %v; want %d", len(records), err, head.Seq)
	}
}

// TestF10TornWAL: whatever tail of the WAL is lost or garbled, the store opens
// with a prefix of the log, at the edge of a batch, says that it was set back, and goes on
// from there once that was ended.
func TestF10TornWAL(t *testing.T) {
	dir := t.TempDir()
	st := open(t, dir, embedded.Options{})
	defer st.Close()
	head := lead(t, st)
	heads := map[store.Head]bool{{}: true, head: true}
	for range 40 {
		var err error
		if head, err = st.Append(t.Context(), head.Seq, head.Term, crashBatch(head)); err != nil {
			t.Fatal(err)
		}
		heads[head] = true
	}
	db, err1 := os.ReadFile(filepath.Join(dir, "log.db"))
	wal, err2 := os.ReadFile(filepath.Join(dir, "log.db-wal"))
	anchor, err3 := os.ReadFile(filepath.Join(dir, "anchor"))
	testkit.Must(t, errors.Join(err1, err2, err3))
	lengths := map[uint64]bool{}
	for i := range 60 {
		cut := len(wal) * (60 - i) / 60
		torn := bytes.Clone(wal[:cut-min(cut, i*37)])
		if i%2 == 1 && len(torn) > 0 {
			torn = append(torn, bytes.Repeat([]byte{0xa5}, 5000)...)
		}
		copied := t.TempDir()
		testkit.Must(t, errors.Join(os.WriteFile(filepath.Join(copied, "log.db"), db, 0o600),
			os.WriteFile(filepath.Join(copied, "log.db-wal"), torn, 0o600),
			os.WriteFile(filepath.Join(copied, "anchor"), anchor, 0o600)))
		lengths[checkPrefix(t, copied, heads, head)] = true
	}
	if len(lengths) < 20 || !lengths[head.Seq] {
		t.Fatalf("the cuts gave only the lengths %v", lengths)
	}
}

// checkPrefix opens a torn copy and returns how long its log is.
func checkPrefix(t *testing.T, dir string, heads map[store.Head]bool, acknowledged store.Head) uint64 {
	t.Helper()
	st := open(t, dir, embedded.Options{})
	defer st.Close()
	head, err := st.Head(t.Context())
	if err != nil || !heads[head] {
		t.Fatalf("head %+v, %v, was never committed", head, err)
	}
	records, err := replay(t, st)
	if err != nil || uint64(len(records)) != head.Seq {
		t.Fatalf("%d records, %v; want %d", len(records), err, head.Seq)
	}
	again := lead(t, st)
	if again.Term <= acknowledged.Term {
		t.Fatalf("it leads under term %d, %d was acknowledged", again.Term, acknowledged.Term)
	}
	b := st.SetBack()
	if (b != nil) != (head.Seq < acknowledged.Seq) {
		t.Fatalf("it ends at %d of %d, and says %+v", head.Seq, acknowledged.Seq, b)
	}
	if b == nil {
		testkit.Value(st.Append(t.Context(), again.Seq, again.Term, crashBatch(again)))(t)
		return head.Seq
	}
	if b.Log != head || b.Acknowledged != acknowledged {
		t.Fatalf("it was set back from %+v to %+v, and says %+v", acknowledged, head, b)
	}
	if _, err := st.Append(t.Context(), again.Seq, again.Term, crashBatch(again)); !errors.Is(err, store.ErrSetBack) {
		t.Fatalf("appended: %v", err)
	}
	again = testkit.Value(st.EndSetBack(t.Context(), again.Seq, again.Term, crashBatch(again)))(t)
	testkit.Value(st.Append(t.Context(), again.Seq, again.Term, crashBatch(again)))(t)
	return head.Seq
}

// TestF10LostTail: a log that ends before its own snapshot was set back, with or without its anchor.
func TestF10LostTail(t *testing.T) {
	dir := t.TempDir()
	st := open(t, dir, embedded.Options{})
	head := lead(t, st)
	head = testkit.Value(st.Append(t.Context(), 0, head.Term, crashBatch(head)))(t)
	old := testkit.Value(os.ReadFile(filepath.Join(dir, "log.db")))(t)
	testkit.Must(t, st.SaveSnapshot(t.Context(), store.Snapshot{At: head, Format: "f", Body: []byte("b")}))
	testkit.Must(t, st.Close())
	testkit.Must(t, os.WriteFile(filepath.Join(dir, "log.db"), old, 0o600))
	for _, anchor := range []bool{true, false} {
		if !anchor {
			testkit.Must(t, os.Remove(filepath.Join(dir, "anchor")))
		}
		st = open(t, dir, embedded.Options{})
		if b := st.SetBack(); b == nil || anchor && b.Acknowledged.Seq != head.Seq {
			t.Errorf("anchor %v: it says %+v", anchor, b)
		}
		testkit.Must(t, st.Close())
	}
	st = open(t, dir, embedded.Options{})
	defer st.Close()
	again := lead(t, st)
	testkit.Value(st.EndSetBack(t.Context(), again.Seq, again.Term, crashBatch(again)))(t)
	if _, err := st.LatestSnapshot(t.Context()); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("a snapshot of what was lost: %v", err)
	}
}

// TestTampering: every column that the chain covers is covered, and a head that
// does not fit its log is refused at once.
func TestTampering(t *testing.T) {
	for _, c := range []struct {
		sql    string
		seq    uint64 // first bad record
		atOpen bool
	}{
		{`UPDATE events SET body = x'00' WHERE seq = 5`, 5, false},
		{`UPDATE events SET at = at + 1 WHERE seq = 6`, 6, false},
		{`UPDATE events SET type = 'other' WHERE seq = 7`, 7, false},
		{`UPDATE events SET subject_name = 'other' WHERE seq = 8`, 8, false},
		{`UPDATE events SET subject_kind = 'node' WHERE seq = 8`, 8, false},
		{`UPDATE events SET incarnation = 9 WHERE seq = 9`, 9, false},
		{`UPDATE events SET host_seq = 999 WHERE seq = 1`, 1, false},
		{`UPDATE events SET term = 0 WHERE seq = 2`, 2, false},
		{`UPDATE events SET hash = zeroblob(32) WHERE seq = 3`, 3, false},
		{`DELETE FROM events WHERE seq = 4`, 4, false},
		{`DELETE FROM events WHERE seq = 10`, 10, true},
		{`UPDATE head SET seq = 9`, 9, true},
		{`UPDATE head SET hash = zeroblob(32)`, 10, true},
		{`UPDATE head SET term = 0`, 10, true},
	} {
		t.Run(c.sql, func(t *testing.T) {
			dir := t.TempDir()
			st := open(t, dir, embedded.Options{})
			head := lead(t, st)
			batch := make([]event.Entry, 10)
			for i := range batch {
				batch[i] = event.Entry{Type: "t", Subject: event.HostSubject("h"), HostSeq: uint64(i + 1), Body: fmt.Append(nil, i)}
			}
			testkit.Value(st.Append(t.Context(), 0, head.Term, batch))(t)
			testkit.Must(t, st.Close())
			tamper(t, dir, c.sql)
			st, err := embedded.Open(t.Context(), dir, embedded.Options{})
			if (err != nil) != c.atOpen {
				t.Fatalf("open: %v", err)
			}
			if err == nil {
				defer st.Close()
				_, err = replay(t, st)
			}
			var bad *store.ChainError
			if !errors.As(err, &bad) || bad.Seq != c.seq || !errors.Is(err, store.ErrCorrupt) {
				t.Fatalf("%v; want sequence %d", err, c.seq)
			}
		})
	}
}

// TestReadsNoticeDamage: a store that serves notices what happened to its records at the
// first read of them, whichever it is, and is broken from then on.
func TestReadsNoticeDamage(t *testing.T) {
	subject := event.HostSubject("h")
	reads := map[string]func(st store.Store) ([]event.Record, error){
		"all": func(st store.Store) (out []event.Record, err error) {
			for page, after := []event.Record(nil), uint64(0); err == nil && (after == 0 || len(page) > 0); after = uint64(len(out)) {
				page, err = st.Read(t.Context(), after, 100)
				out = append(out, page...)
			}
			return out, err
		},
		"behind": func(st store.Store) ([]event.Record, error) { return st.Read(t.Context(), 4, 1) },
		"about":  func(st store.Store) ([]event.Record, error) { return st.ReadAbout(t.Context(), subject, 3, 100) },
		"last":   func(st store.Store) ([]event.Record, error) { return st.LastAbout(t.Context(), subject, 100) },
	}
	for _, query := range []string{`UPDATE events SET body = x'00' WHERE seq = 5`, `UPDATE events SET hash = zeroblob(32) WHERE seq = 5`, `DELETE FROM events WHERE seq = 5`} {
		for name, read := range reads {
			for _, end := range []uint64{5, 10} {
				t.Run(fmt.Sprintf("%s/%s/of %d", query, name, end), func(t *testing.T) {
					dir := t.TempDir()
					st := open(t, dir, embedded.Options{})
					defer st.Close()
					head := lead(t, st)
					for i := range end {
						head = testkit.Value(st.Append(t.Context(), i, head.Term, []event.Entry{{Type: "t", Subject: subject, HostSeq: i + 1, Body: fmt.Append(nil, i)}}))(t)
					}
					testkit.Value(read(st))(t)
					tamper(t, dir, query)
					records, err := read(st)
					bad, is := errors.AsType[*store.ChainError](err)
					named := is && (bad.Seq == 5 || bad.Seq == 6 && name == "last") // backwards, the next one is seen first
					if !named || !strings.Contains(err.Error(), filepath.Join(dir, "log.db")) || !strings.Contains(err.Error(), "restore the store from a backup") {
						t.Errorf("read %d records, %v", len(records), err)
					}
					if st.Err() == nil {
						t.Error("the store is not broken")
					}
				})
			}
		}
	}
}

func tamper(t *testing.T, dir, query string) {
	t.Helper()
	db := testkit.Value(sql.Open("sqlite", filepath.Join(dir, "log.db")))(t)
	defer db.Close()
	if res, err := db.Exec(query); err != nil {
		t.Fatal(err)
	} else if n, err := res.RowsAffected(); err != nil || n != 1 {
		t.Fatalf("%d rows, %v", n, err)
	}
}
