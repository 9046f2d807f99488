package reconcile_test

import (
	"bufio"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/steadyfleet/steady/internal/testkit"
	"github.com/steadyfleet/steady/reconcile"
	"github.com/steadyfleet/steady/reconcile/memory"
)

// blocks are the fenced blocks of a page in that language, in order.
func blocks(t *testing.T, page, language string) (out []string) {
	t.Helper()
	src := string(testkit.Value(os.ReadFile(page))(t))
	for _, m := range regexp.MustCompile("(?ms)^```"+language+"\n(.*?)^```$").FindAllStringSubmatch(src, -1) {
		out = append(out, m[1])
	}
	return out
}

// module makes a module that requires this one, as it stands here, and nothing that it does
// not require too.
func module(t *testing.T, files map[string]string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	mod := string(testkit.Value(os.ReadFile("../go.mod"))(t))
	mod = strings.Replace(mod, "module github.com/steadyfleet/steady\n", "module example.org/try\n", 1)
	mod += "\nrequire github.com/steadyfleet/steady v0.0.0\n\nreplace github.com/steadyfleet/steady => " + testkit.Value(filepath.Abs(".."))(t) + "\n"
	for name, text := range map[string]string{"go.mod": mod, "go.sum": string(testkit.Value(os.ReadFile("../go.sum"))(t))} { // order-free
		files[name] = text
	}
	for name, text := range files { // order-free
		testkit.Must(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	return dir
}

// golang runs the go command in dir, without a network.
func golang(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOPROXY=off", "GOWORK=off", "GOFLAGS="+os.Getenv("GOFLAGS")+" -mod=mod")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// TestReadmeProgram builds the program and the test of the README in a module of their own. The
// program repairs what is changed by hand, and so does the next one after it was killed.
func TestReadmeProgram(t *testing.T) {
	testkit.Long(t, "builds a program")
	code, texts := blocks(t, "README.md", "go"), blocks(t, "README.md", "text")
	dir := module(t, map[string]string{"main.go": code[0], "main_test.go": code[1]})
	golang(t, dir, "vet", ".")
	golang(t, dir, "test", ".")
	golang(t, dir, "build", "-o", "program", ".")
	motd := filepath.Join(dir, "motd")
	for range 2 {
		cmd := exec.Command("./program")
		cmd.Dir, cmd.Stderr = dir, os.Stderr
		out := testkit.Value(cmd.StdoutPipe())(t)
		testkit.Must(t, cmd.Start())
		t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
		lines := bufio.NewReader(out)
		if line := testkit.Value(lines.ReadString('\n'))(t); line != texts[0] {
			t.Fatalf("it printed %q, the page says %q", line, texts[0])
		}
		testkit.Must(t, os.WriteFile(motd, []byte("by hand"), 0o600))
		contains(t, motd, "hello\n")
		testkit.Must(t, cmd.Process.Kill())
		_ = cmd.Wait() // it was killed
		testkit.Must(t, os.Remove(motd))
	}
}

// contains waits until a file has that content.
func contains(t *testing.T, file, want string) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	end := time.After(20 * time.Second)
	for {
		if text, err := os.ReadFile(file); err == nil && string(text) == want {
			return
		}
		select {
		case <-tick.C:
		case <-end:
			t.Fatalf("%s was not made to contain %q", file, want)
		}
	}
}

// TestTutorial joins the steps of the tutorial, and runs them.
func TestTutorial(t *testing.T) {
	testkit.Long(t, "builds a program")
	const page = "../docs/reconcile-tutorial.md"
	steps := blocks(t, page, "go")
	kind := strings.Join(steps[:3], "")
	if _, body, _ := strings.Cut(kind, ")\n"); len(steps) != 4 || strings.Count(body, "\n") >= 60 {
		t.Errorf("%d steps, and %d lines of a reconciler: want 4, and less than 60", len(steps), strings.Count(body, "\n"))
	}
	dir := module(t, map[string]string{"main.go": strings.Join(steps, "\n")})
	golang(t, dir, "vet", ".")
	golang(t, dir, "build", "-o", "program", ".")
	out := testkit.Value(exec.Command(filepath.Join(dir, "program")).Output())(t)
	if d := cmp.Diff(blocks(t, page, "text")[0], string(out)); d != "" {
		t.Errorf("the page and the program (-page +program)\n%s", d)
	}
}

// readOnly is a kind of files that cannot be written.
type readOnly struct{}

func (readOnly) Observe(context.Context, reconcile.Resource[map[string]string]) (string, error) {
	return "", nil
}

func (readOnly) Decide(reconcile.View[map[string]string, string]) reconcile.Decision {
	return reconcile.Do(put{}, reconcile.Because("differs", "the file has other content"))
}

func (readOnly) Act(context.Context, reconcile.Resource[map[string]string], reconcile.Action) error {
	return errors.New("open /etc/motd: read-only file system")
}

type put struct{}

func (put) ActionName() string { return "write" }

// TestReadmeExplains compares the explanation in the README with one that is made.
func TestReadmeExplains(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		c := reconcile.New(memory.New())
		testkit.Must(t, reconcile.Register(c, "file", readOnly{}, reconcile.Policy{}))
		motd := reconcile.Ref{Kind: "file", ID: "/etc/motd"}
		testkit.Value(c.Apply(ctx, reconcile.Upsert(motd, map[string]string{"Content": "hello\n"}), reconcile.By("me")))(t)
		go func() { _ = c.Run(ctx) }()
		time.Sleep(3 * time.Second)
		e := testkit.Value(c.Explain(ctx, motd))(t)
		if d := cmp.Diff(blocks(t, "README.md", "text")[1], e.String()); d != "" {
			t.Errorf("the page and the explanation (-page +explanation)\n%s\n%s", d, e)
		}
	})
}
