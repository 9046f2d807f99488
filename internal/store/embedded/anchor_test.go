package embedded_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/steadyfleet/steady/internal/store"
	"github.com/steadyfleet/steady/internal/store/embedded"
	"github.com/steadyfleet/steady/internal/testkit"
)

// files reads a folder: names, bytes and times.
func files(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	testkit.Must(t, filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		raw, at := []byte(nil), info.ModTime().String()
		if !d.IsDir() {
			raw, err = os.ReadFile(path)
		}
		out[strings.TrimPrefix(path, dir)] = at + string(raw)
		return err
	}))
	return out
}

// stopped makes a store with some batches, each in the WAL alone, as after a kill, and
// returns its folder and heads.
func stopped(t *testing.T, batches int) (dir string, heads []store.Head) {
	t.Helper()
	live := t.TempDir()
	st := open(t, live, embedded.Options{})
	defer st.Close()
	testkit.Value(st.PutBlob(t.Context(), []byte("a document")))(t)
	head := lead(t, st)
	heads = append(heads, head)
	for range batches {
		head = testkit.Value(st.Append(t.Context(), head.Seq, head.Term, crashBatch(head)))(t)
		heads = append(heads, head)
	}
	dir = filepath.Join(t.TempDir(), "store")
	testkit.Must(t, os.CopyFS(dir, os.DirFS(live)))
	return dir, heads
}

// TestS33SetBack: what became of a store's folder, and what is said of it as it is opened.
func TestS33SetBack(t *testing.T) {
	anchor := func(dir string) string { return filepath.Join(dir, "anchor") }
	turn := func(t *testing.T, path string, at int64) {
		raw := testkit.Value(os.ReadFile(path))(t)
		raw[at] ^= 4
		testkit.Must(t, os.WriteFile(path, raw, 0o600))
	}
	for name, c := range map[string]struct {
		harm func(t *testing.T, dir string)
		want string // part of the reason; empty where nothing was lost
	}{
		"nothing":                    {func(*testing.T, string) {}, ""},
		"the WAL is gone":            {func(t *testing.T, dir string) { testkit.Must(t, os.Remove(filepath.Join(dir, "log.db-wal"))) }, "the log ends at record 0, but record"},
		"the WAL is cut":             {func(t *testing.T, dir string) { testkit.Must(t, os.Truncate(filepath.Join(dir, "log.db-wal"), 9_000)) }, "was acknowledged"},
		"the anchor is gone":         {func(t *testing.T, dir string) { testkit.Must(t, os.Remove(anchor(dir))) }, "is gone"},
		"the anchor is empty":        {func(t *testing.T, dir string) { testkit.Must(t, os.Truncate(anchor(dir), 0)) }, "is damaged"},
		"one half is damaged":        {func(t *testing.T, dir string) { turn(t, anchor(dir), 40) }, "one more was acknowledged"},
		"the other half is damaged":  {func(t *testing.T, dir string) { turn(t, anchor(dir), 4096+40) }, ""},
		"log.db and WAL are gone":    {func(t *testing.T, dir string) { removeLog(t, dir) }, "the log ends at record 0, but record"},
		"all but the blobs is gone":  {func(t *testing.T, dir string) { removeLog(t, dir); testkit.Must(t, os.Remove(anchor(dir))) }, "the log is empty"},
		"another log of this length": {otherLog, "it is another log"},
	} {
		t.Run(name, func(t *testing.T) {
			dir, heads := stopped(t, 4)
			c.harm(t, dir)
			before := files(t, dir)
			read := testkit.Value(embedded.OpenCopy(t.Context(), dir, embedded.Options{}))(t)
			said := read.SetBack()
			testkit.Must(t, read.Close())
			if after := files(t, dir); !equal(before, after) {
				t.Error("reading it changed the folder")
			}
			st := open(t, dir, embedded.Options{})
			defer st.Close()
			b := st.SetBack()
			if (b == nil) != (said == nil) || b != nil && *b != *said {
				t.Errorf("it says %+v, and of a copy %+v", b, said)
			}
			if b == nil {
				if c.want != "" {
					t.Fatalf("nothing is said; want %q", c.want)
				}
				if head := testkit.Value(st.Head(t.Context()))(t); head != heads[len(heads)-1] {
					t.Errorf("it ends at %+v of %+v", head, heads)
				}
				return
			}
			if c.want == "" || !strings.Contains(b.Reason, c.want) {
				t.Errorf("%q; want %q", b.Reason, c.want)
			}
			again := lead(t, st)
			if _, err := st.Append(t.Context(), again.Seq, again.Term, crashBatch(again)); !errors.Is(err, store.ErrSetBack) {
				t.Fatalf("appended: %v", err)
			}
			testkit.Must(t, st.Close())
			st = open(t, dir, embedded.Options{})
			defer st.Close()
			if st.SetBack() == nil {
				t.Fatal("nothing is said after another start")
			}
			again = lead(t, st)
			again = testkit.Value(st.EndSetBack(t.Context(), again.Seq, again.Term, crashBatch(again)))(t)
			testkit.Must(t, st.Close())
			st = open(t, dir, embedded.Options{})
			defer st.Close()
			if head := testkit.Value(st.Head(t.Context()))(t); st.SetBack() != nil || head != again {
				t.Errorf("after it was ended: %+v at %+v, want %+v", st.SetBack(), head, again)
			}
		})
	}
}

func equal(a, b map[string]string) bool {
	for name := range a { // order-free: all are compared
		if a[name] != b[name] {
			return false
		}
	}
	return len(a) == len(b)
}

func removeLog(t *testing.T, dir string) {
	for _, name := range []string{"log.db", "log.db-wal", "log.db-shm"} {
		testkit.Must(t, os.Remove(filepath.Join(dir, name)))
	}
}

func otherLog(t *testing.T, dir string) {
	other, _ := stopped(t, 0)
	st := open(t, other, embedded.Options{})
	head := lead(t, st)
	for range 4 {
		batch := crashBatch(head)
		batch[0].Body = []byte("another")
		head = testkit.Value(st.Append(t.Context(), head.Seq, head.Term, batch))(t)
	}
	testkit.Must(t, st.Close())
	removeLog(t, dir)
	raw := testkit.Value(os.ReadFile(filepath.Join(other, "log.db")))(t)
	testkit.Must(t, os.WriteFile(filepath.Join(dir, "log.db"), raw, 0o600))
}

// TestS33LogOf010 is taken as it is, once: it has no anchor, and its database knows of none.
func TestS33LogOf010(t *testing.T) {
	dir, heads := stopped(t, 3)
	testkit.Must(t, os.Remove(filepath.Join(dir, "anchor")))
	tamper(t, dir, `DELETE FROM anchored`)
	for _, left := range []bool{true, false} {
		st := open(t, dir, embedded.Options{})
		if b := st.SetBack(); (b != nil) == left {
			t.Fatalf("it says %+v", b)
		}
		if left {
			if head := lead(t, st); head.Seq != heads[3].Seq {
				t.Fatalf("it ends at %+v", head)
			}
		}
		testkit.Must(t, st.Close())
		if left {
			testkit.Must(t, os.Remove(filepath.Join(dir, "anchor")))
		}
	}
}

// TestS33LogIsMovedAtRest: a log that nothing is appended to leaves its WAL, in which one
// damaged bit loses all behind it.
func TestS33LogIsMovedAtRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		st := open(t, dir, embedded.Options{})
		defer st.Close()
		head := lead(t, st)
		testkit.Value(st.Append(t.Context(), head.Seq, head.Term, crashBatch(head)))(t)
		wal := filepath.Join(dir, "log.db-wal")
		if raw := testkit.Value(os.ReadFile(wal))(t); len(raw) == 0 {
			t.Fatal("nothing is in the WAL")
		}
		time.Sleep(time.Minute) // of the bubble
		synctest.Wait()
		if raw := testkit.Value(os.ReadFile(wal))(t); !bytes.Equal(raw, nil) {
			t.Errorf("%d bytes are in the WAL", len(raw))
		}
	})
}
