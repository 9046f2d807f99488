package system

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"go.uber.org/goleak"

	"github.com/steadyfleet/steady/internal/testkit"
	"github.com/steadyfleet/steady/reconcile/engine"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestFile starts from what is at a path, settles a declaration there, and looks
// at what became of both.
func TestFile(t *testing.T) {
	write := func(p, content string, mode os.FileMode) func(*bench) {
		return func(b *bench) {
			testkit.Must(b.t, os.MkdirAll(filepath.Dir(b.path(p)), 0o755))
			testkit.Must(b.t, os.WriteFile(b.path(p), []byte(content), mode))
			testkit.Must(b.t, os.Chmod(b.path(p), mode))
		}
	}
	link := func(p, to string) func(*bench) {
		return func(b *bench) { testkit.Must(b.t, os.Symlink(to, b.path(p))) }
	}
	tests := []struct {
		name  string
		setup func(*bench)
		path  string
		mode  uint32
		codes []engine.Code
		kept  string
		fails string // part of the error
	}{
		{name: "nothing there", path: "a/b/c", mode: 0o640, codes: []engine.Code{CodeMissing}},
		{name: "as declared", setup: write("c", "new", 0o640), path: "c", mode: 0o640},
		{name: "other content", setup: write("c", "old", 0o640), path: "c", mode: 0o640, codes: []engine.Code{CodeContent}, kept: "old"},
		{name: "other size", setup: write("c", "longer", 0o640), path: "c", mode: 0o640, codes: []engine.Code{CodeContent}, kept: "longer"},
		{name: "other mode", setup: write("c", "new", 0o600), path: "c", mode: 0o640, codes: []engine.Code{CodeMode}},
		{name: "setuid", setup: write("c", "new", 0o640|os.ModeSetuid), path: "c", mode: 0o640, codes: []engine.Code{CodeMode}},
		{name: "unreadable", setup: write("c", "old", 0), path: "c", mode: 0o640, codes: []engine.Code{CodeContent}, kept: "old"},
		{name: "a symlink in the place", setup: link("c", "elsewhere"), path: "c", mode: 0o640, codes: []engine.Code{CodeNotRegular}, kept: "symlink to elsewhere\n"},
		{name: "an empty folder in the place", setup: func(b *bench) { testkit.Must(b.t, os.Mkdir(b.path("c"), 0o755)) }, path: "c", mode: 0o640, codes: []engine.Code{CodeNotRegular}},
		{name: "a full folder in the place", setup: write("c/x", "mine", 0o640), path: "c", mode: 0o640, codes: []engine.Code{CodeNotRegular}, fails: "not empty"},
		{name: "a pipe in the place", setup: func(b *bench) { testkit.Must(b.t, syscall.Mkfifo(b.path("c"), 0o600)) }, path: "c", mode: 0o640, codes: []engine.Code{CodeNotRegular}},
		{name: "a folder leads out", setup: link("out", "/tmp"), path: "out/steady-escape", mode: 0o640, fails: "root folder"},
		{name: "a folder leads out by dots", setup: link("out", "../.."), path: "out/steady-escape", mode: 0o640, fails: "root folder"},
		{name: "a folder is a link inside", setup: func(b *bench) {
			testkit.Must(b.t, os.Mkdir(b.path("real"), 0o755))
			link("alias", "real")(b)
		}, path: "alias/c", mode: 0o640, codes: []engine.Code{CodeMissing}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t)
			if tt.setup != nil {
				tt.setup(b)
			}
			codes, err := b.settle(b.declare(tt.path, "new", tt.mode))
			if !slices.Equal(codes, tt.codes) {
				t.Errorf("acted for %v, expected %v", codes, tt.codes)
			}
			if b.kept[tt.path] != tt.kept {
				t.Errorf("kept %q, expected %q", b.kept[tt.path], tt.kept)
			}
			if tt.fails != "" {
				if err == nil || !strings.Contains(err.Error(), tt.fails) {
					t.Fatalf("error %v, expected one with %q", err, tt.fails)
				}
				return
			}
			testkit.Must(t, err)
			info, err := os.Lstat(b.path(tt.path))
			testkit.Must(t, err)
			if b.read(tt.path) != "new" || modeBits(info) != tt.mode {
				t.Errorf("%q with mode %o", b.read(tt.path), modeBits(info))
			}
			entries, err := os.ReadDir(filepath.Dir(b.path(tt.path)))
			testkit.Must(t, err)
			for _, e := range entries {
				if strings.HasSuffix(e.Name(), ".tmp") {
					t.Errorf("%s was left behind", e.Name())
				}
			}
		})
	}
}

func TestFileOwner(t *testing.T) {
	testkit.Needs(t, testkit.Root)
	b := newBench(t)
	r := b.declare("c", "new", 0o644)
	r.Desired.File.Owner = "12:34"
	testkit.Value(b.settle(r))(t)
	owner := func() string {
		info := testkit.Value(os.Lstat(b.path("c")))(t)
		st := info.Sys().(*syscall.Stat_t)
		return fmt.Sprint(st.Uid, ":", st.Gid)
	}
	if owner() != "12:34" {
		t.Errorf("owner %s", owner())
	}
	testkit.Must(t, os.Lchown(b.path("c"), 0, 0))
	codes, err := b.settle(r)
	if err != nil || !slices.Equal(codes, []engine.Code{CodeOwner}) || owner() != "12:34" {
		t.Errorf("repaired for %v (%v), owner %s", codes, err, owner())
	}
	r.Desired.File.Owner = "no-such-user-here"
	if _, err := b.settle(r); err == nil || !strings.Contains(err.Error(), string(CodeUnknownOwner)) {
		t.Errorf("an unknown owner: %v", err)
	}
}

// TestP4WhatOthersWroteIsKept follows one path through edits by hand.
func TestP4WhatOthersWroteIsKept(t *testing.T) {
	b := newBench(t)
	settle := func(r engine.Resource[FileDesired]) {
		t.Helper()
		testkit.Value(b.settle(r))(t)
	}
	settle(b.declare("d/c", "one", 0o644))
	settle(b.declare("d/c", "two", 0o644))
	if len(b.kept) != 0 {
		t.Errorf("the agent's own content was kept: %v", b.kept)
	}
	testkit.Must(t, os.WriteFile(b.path("d/c"), []byte("by hand"), 0o644))
	settle(b.declare("d/c", "two", 0o644))
	if b.kept["d/c"] != "by hand" || b.read("d/c") != "two" {
		t.Errorf("kept %v, now %q", b.kept, b.read("d/c"))
	}
	testkit.Must(t, os.WriteFile(b.path("d/c"), []byte("again"), 0o644))
	r := b.declare("d/c", "two", 0o644)
	r.Delete = true
	settle(r)
	if b.kept["d/c"] != "again" {
		t.Errorf("kept %v", b.kept)
	}
	if _, err := os.Stat(b.path("d")); !os.IsNotExist(err) {
		t.Errorf("the folder made for the file is still there: %v", err)
	}
}

// TestRemoveLeavesWhatIsNotTheAgents takes files away from under others.
func TestRemoveLeavesWhatIsNotTheAgents(t *testing.T) {
	b := newBench(t)
	testkit.Must(t, os.Mkdir(b.path("theirs"), 0o755))
	for _, p := range []string{"theirs/c", "ours/deep/c", "ours/d"} {
		testkit.Value(b.settle(b.declare(p, "x", 0o644)))(t)
	}
	testkit.Must(t, os.WriteFile(b.path("ours/note"), []byte("mine"), 0o644))
	for _, p := range []string{"theirs/c", "ours/deep/c", "ours/d"} {
		r := b.declare(p, "x", 0o644)
		r.Delete = true
		testkit.Value(b.settle(r))(t)
	}
	for p, want := range map[string]bool{"theirs": true, "ours": true, "ours/note": true, "ours/deep": false, "ours/d": false} {
		if _, err := os.Stat(b.path(p)); (err == nil) != want {
			t.Errorf("%s: %v, expected there: %v", p, err, want)
		}
	}
}

// TestModifiedWhileRunning sees a change that keeps size and modification time.
func TestModifiedWhileRunning(t *testing.T) {
	b := newBench(t)
	r := b.declare("c", "aaaa", 0o644)
	testkit.Value(b.settle(r))(t)
	info := testkit.Value(os.Stat(b.path("c")))(t)
	testkit.Must(t, os.WriteFile(b.path("c"), []byte("bbbb"), 0o644))
	testkit.Must(t, os.Chtimes(b.path("c"), info.ModTime(), info.ModTime()))
	codes, err := b.settle(r)
	if err != nil || !slices.Equal(codes, []engine.Code{CodeContent}) || b.read("c") != "aaaa" {
		t.Errorf("acted for %v (%v), now %q", codes, err, b.read("c"))
	}
}

// TestDamagedContentIsNotWritten lets the cache give other bytes.
func TestDamagedContentIsNotWritten(t *testing.T) {
	b := newBench(t)
	r := b.declare("c", "good", 0o644)
	b.blobs[r.Desired.File.Blob] = []byte("evil")
	if _, err := b.settle(r); err == nil || !strings.Contains(err.Error(), "damaged") {
		t.Errorf("error %v", err)
	}
	if got := b.read("c"); got != "(no such file or directory)" {
		t.Errorf("%q was written", got)
	}
	if _, there := b.blobs[r.Desired.File.Blob]; there {
		t.Error("the damaged copy stays in the cache")
	}
}

// A pipe that takes the place of a file between two looks must not hold the
// agent up until somebody writes into it.
func TestPipeInPlaceOfAFile(t *testing.T) {
	b := newBench(t)
	testkit.Must(t, os.WriteFile(b.path("a"), []byte("by hand"), 0o644))
	info := testkit.Value(b.f.root.Lstat("a"))(t)
	testkit.Must(t, os.Remove(b.path("a")))
	testkit.Must(t, syscall.Mkfifo(b.path("a"), 0o644))
	if err := b.f.backup(t.Context(), "a", info, ""); err == nil {
		t.Error("a pipe was kept as a file")
	}
	if _, err := b.f.digestOf(t.Context(), "a", info.Sys().(*syscall.Stat_t)); err == nil {
		t.Error("a pipe has a digest")
	}
	r := b.declare("a", "mine", 0o644)
	if err := b.f.adjust(r.Desired); err == nil {
		t.Error("a pipe was adjusted as a file")
	}
	if _, err := b.settle(r); err != nil || b.read("a") != "mine" {
		t.Errorf("%s: %v", b.read("a"), err)
	}
}
