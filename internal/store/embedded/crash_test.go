package embedded_test

import (
	"bufio"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/store"
	"github.com/steadyfleet/steady/internal/store/embedded"
	"github.com/steadyfleet/steady/internal/testkit"
)

// crashDir makes the test binary a writer on the directory that it names, of so
// many appends as crashAppends says.
const (
	crashDir     = "STEADY_STORE_CRASH_DIR"
	crashAppends = "STEADY_STORE_CRASH_APPENDS"
)

// How a writer ends.
const (
	exitOpen   = 20 + iota // it could not open or acquire
	exitFull               // ErrFull, and again after a second try
	exitBroken             // ErrBroken, and refused every later call
	exitOther
	exitDone // nothing stopped it
)

// crashChild appends until it fails or is killed, and says on stdout what was
// acknowledged, only after it was.
func crashChild(dir string) {
	runtime.LockOSThread() // strace counts the calls of each thread
	ctx := context.Background()
	st, err := embedded.Open(ctx, dir, embedded.Options{FlushEvery: 300})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(exitOpen)
	}
	head, err := st.Acquire(ctx, fmt.Sprint("process ", os.Getpid()), 1)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(exitOpen)
	}
	appends, err := strconv.Atoi(os.Getenv(crashAppends))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(exitOther)
	}
	for i := range appends {
		next, err := st.Append(ctx, head.Seq, head.Term, crashBatch(head))
		if err != nil {
			os.Exit(crashExit(ctx, st, head, err))
		}
		head = next
		fmt.Printf("ack %d %x\n", head.Seq, head.Hash)
		if i%7 == 6 {
			if d, err := st.PutBlob(ctx, fmt.Appendf(nil, "blob %d", head.Seq)); err == nil {
				fmt.Printf("blob %s\n", d)
			}
		}
		if i%11 == 10 {
			if err := st.SaveSnapshot(ctx, store.Snapshot{At: head, Format: "f", Body: []byte(strings.Repeat("s", 9000))}); err == nil {
				fmt.Printf("snapshot %d\n", head.Seq)
			}
		}
	}
	os.Exit(exitDone)
}

// crashBatch depends on the head alone, in size and content.
func crashBatch(h store.Head) []event.Entry {
	n := 1 + int(h.Hash[0])%60
	out := make([]event.Entry, n)
	for i := range out {
		seq := h.Seq + uint64(i) + 1
		out[i] = event.Entry{
			Type: "crash", Subject: event.HostSubject(fmt.Sprint("h", seq%50)), Incarnation: 1, HostSeq: seq,
			Body: []byte(strings.Repeat("x", 50+int(seq%300))),
		}
	}
	return out
}

// crashExit says which error it was, once a second call agrees.
func crashExit(ctx context.Context, st store.Store, head store.Head, err error) int {
	fmt.Fprintln(os.Stderr, err)
	_, again := st.Append(ctx, head.Seq, head.Term, crashBatch(head))
	_, read := st.Read(ctx, 0, 1)
	told := false // whoever made none of these calls
	select {
	case <-st.Broken():
		told = true
	default:
	}
	if told != errors.Is(err, store.ErrBroken) || errors.Is(st.Err(), store.ErrBroken) != told {
		return exitOther
	}
	switch {
	case errors.Is(err, store.ErrBroken) && errors.Is(again, store.ErrBroken) && errors.Is(read, store.ErrBroken):
		return exitBroken
	case errors.Is(err, store.ErrFull) && errors.Is(again, store.ErrFull) && read == nil:
		return exitFull
	}
	return exitOther
}

// acks is what writers acknowledged, by the parent's own count.
type acks struct {
	hashes    map[uint64]string
	blobs     []digest.Digest
	snapshot  uint64
	last, all uint64
}

func (a *acks) line(t *testing.T, line string) {
	f := strings.Fields(line)
	var seq uint64
	switch {
	case len(f) == 3 && f[0] == "ack":
		fmt.Sscan(f[1], &seq)
		a.hashes[seq], a.last = f[2], max(a.last, seq)
		a.all++
	case len(f) == 2 && f[0] == "blob":
		a.blobs = append(a.blobs, digest.Digest(f[1]))
	case len(f) == 2 && f[0] == "snapshot":
		fmt.Sscan(f[1], &a.snapshot)
	default:
		t.Fatalf("the writer said %q", line)
	}
}

// check opens the store as the next process would: all that was acknowledged is
// there, the chain verifies, and hosts can be followed.
func (a *acks) check(t *testing.T, dir string) {
	t.Helper()
	st := open(t, dir, embedded.Options{})
	defer st.Close()
	byHost := map[string]uint64{}
	end, err := store.Replay(t.Context(), st, store.Head{}, func(page []event.Record) error {
		for _, r := range page {
			if want, ok := a.hashes[r.Seq]; ok && want != hex.EncodeToString(r.Hash[:]) {
				t.Errorf("S33: acknowledged record %d has another hash", r.Seq)
			}
			byHost[r.Host()]++
		}
		return nil
	})
	testkit.Must(t, err)
	if end.Seq < a.last {
		t.Fatalf("S33: the log ends at %d, %d was acknowledged", end.Seq, a.last)
	}
	for host, n := range byHost {
		got, err := st.LastAbout(t.Context(), event.HostSubject(host), store.MaxRead)
		if err != nil || uint64(len(got)) != min(n, store.MaxRead) {
			t.Fatalf("%s: %d records, %v; want %d", host, len(got), err, n)
		}
	}
	for _, d := range a.blobs {
		if _, err := st.Blob(t.Context(), d); err != nil {
			t.Error(err)
		}
	}
	if a.snapshot > 0 {
		if s, err := st.LatestSnapshot(t.Context()); err != nil || s.At.Seq < a.snapshot || s.Skipped != nil {
			t.Errorf("snapshot %d, skipped %v, %v; want %d", s.At.Seq, s.Skipped, err, a.snapshot)
		}
	}
}

func open(t *testing.T, dir string, o embedded.Options) *embedded.Store {
	t.Helper()
	st := testkit.Value(embedded.Open(t.Context(), dir, o))(t)
	return st
}

// writer starts this binary as a writer on dir of at most so many appends, behind
// the given command.
func writer(t *testing.T, dir string, appends int, before ...string) (*exec.Cmd, io.Reader) {
	t.Helper()
	args := append(before, os.Args[0])
	cmd := exec.CommandContext(t.Context(), args[0], args[1:]...)
	cmd.Env = append(os.Environ(), crashDir+"="+dir, fmt.Sprint(crashAppends, "=", appends))
	out := testkit.Value(cmd.StdoutPipe())(t)
	testkit.Must(t, cmd.Start())
	return cmd, out
}

// TestS33Kill: a writer killed at random loses nothing that it acknowledged
// (F1). Each next writer goes on with the same directory.
func TestS33Kill(t *testing.T) {
	rounds := 8
	if testkit.Nightly() {
		rounds = 40
	}
	if testing.Short() {
		rounds = 5
	}
	dir, a := t.TempDir(), &acks{hashes: map[uint64]string{}}
	for range rounds {
		cmd, out := writer(t, dir, 3000) // a kill comes much sooner
		sc := bufio.NewScanner(out)
		for n := rand.IntN(120); sc.Scan(); n-- {
			a.line(t, sc.Text())
			if n == 0 {
				testkit.Must(t, cmd.Process.Kill())
			}
		}
		if err := cmd.Wait(); cmd.ProcessState.ExitCode() != -1 {
			t.Fatalf("the writer ended by itself: %v", err)
		}
		a.check(t, dir)
	}
	t.Logf("%d appends acknowledged, %d events", a.all, a.last)
}

// strace runs a writer whose system calls fail as said, to its end.
func strace(t *testing.T, dir string, inject string) (int, *acks) {
	t.Helper()
	testkit.Needs(t, testkit.Strace)
	calls, _, _ := strings.Cut(inject, ":")
	cmd, out := writer(t, dir, 200, "strace", "-f", "--seccomp-bpf", "-qq", "-o", "/dev/null", "-e", "trace="+calls, "-e", "inject="+inject)
	a := &acks{hashes: map[uint64]string{}}
	sc := bufio.NewScanner(out)
	for sc.Scan() {
		a.line(t, sc.Text())
	}
	if err := cmd.Wait(); err == nil {
		t.Fatal("the writer ended without an error")
	}
	return cmd.ProcessState.ExitCode(), a
}

// TestF9Sync: the first failed sync, of whatever file, ends the handle, though
// the next would succeed; nothing acknowledged is lost. One that fails while
// the store opens fails the open, unless it is SQLite's own sync of the
// directory, which ours precedes.
func TestF9Sync(t *testing.T) {
	testkit.Needs(t, testkit.Strace)
	whens := []int{2, 9, 14, 23, 40, 61}
	if testing.Short() {
		whens = whens[2:4]
	}
	broken := 0
	for _, when := range whens {
		dir := t.TempDir()
		code, a := strace(t, dir, fmt.Sprintf("fsync,fdatasync:error=EIO:when=%d", when))
		opening := when < 20
		if code != exitBroken && !(opening && (code == exitOpen || code == exitDone)) {
			t.Errorf("when=%d: exit code %d", when, code)
		}
		if code == exitBroken {
			broken++
		}
		a.check(t, dir)
	}
	if broken == 0 {
		t.Error("no writer was broken by a failed sync")
	}
}

// TestF8Quota: an exhausted quota is a full store and not a broken one.
func TestF8Quota(t *testing.T) {
	testkit.Needs(t, testkit.Strace)
	dir := t.TempDir()
	code, a := strace(t, dir, "pwrite64:error=EDQUOT:when=400+")
	if code != exitFull {
		t.Errorf("exit code %d", code)
	}
	a.check(t, dir)
}
