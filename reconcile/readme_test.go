package reconcile_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
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

// TestReadmePromises: each row of what happens when names tests, and there are such tests.
func TestReadmePromises(t *testing.T) {
	page := string(testkit.Value(os.ReadFile("README.md"))(t))
	_, table, _ := strings.Cut(page, "## What happens when")
	table, _, _ = strings.Cut(table, "\n## ")
	have := map[string]bool{}
	for _, pattern := range []string{"*_test.go", "*/*_test.go"} {
		for _, name := range testkit.Value(filepath.Glob(pattern))(t) {
			for _, m := range regexp.MustCompile(`(?m)^func (Test\w+)\(t \*testing\.T\) \{$`).FindAllStringSubmatch(string(testkit.Value(os.ReadFile(name))(t)), -1) {
				have[m[1]] = true
			}
		}
	}
	rows := 0
	for line := range strings.SplitSeq(table, "\n") {
		if !strings.HasPrefix(line, "| ") {
			continue
		}
		rows++
		names := regexp.MustCompile("`(Test\\w+)`").FindAllStringSubmatch(line, -1)
		if len(names) == 0 {
			t.Errorf("no test is named for: %s", line)
		}
		for _, m := range names {
			if !have[m[1]] {
				t.Errorf("there is no %s: %s", m[1], line)
			}
		}
	}
	if rows < 10 {
		t.Errorf("the table has %d rows", rows)
	}
}

// TestReadmeCertificates: what the README shows of certificates is in the example that runs.
func TestReadmeCertificates(t *testing.T) {
	example := string(testkit.Value(os.ReadFile("example_certificates_test.go"))(t))
	if shown := blocks(t, "README.md", "go")[2]; !strings.Contains(example, shown) {
		t.Errorf("the example has not what the README shows:\n%s", shown)
	}
}

// TestWhatImportingCosts: a module that requires this one has as many modules in its list as the README says, and
// a program with the framework compiles none of them.
func TestWhatImportingCosts(t *testing.T) {
	dir := module(t, map[string]string{"main.go": `package main

import (
	"github.com/steadyfleet/steady/reconcile"
	"github.com/steadyfleet/steady/reconcile/memory"
)

func main() { _ = reconcile.New(memory.New()) }
`})
	mod := "module example.org/try\n\ngo 1.26.0\n\nrequire github.com/steadyfleet/steady v0.0.0\n\nreplace github.com/steadyfleet/steady => " + testkit.Value(filepath.Abs(".."))(t) + "\n"
	testkit.Must(t, os.WriteFile(filepath.Join(dir, "go.mod"), []byte(mod), 0o600))
	compiled := map[string]bool{}
	for _, m := range strings.Fields(golang(t, dir, "list", "-deps", "-f", "{{with .Module}}{{.Path}}{{end}}", ".")) {
		compiled[m] = true
	}
	if len(compiled) != 2 {
		t.Errorf("it compiles %v, want itself and this module", compiled)
	}
	listed := len(strings.Fields(golang(t, dir, "list", "-m", "-f", "{{.Path}}", "all"))) - 2
	page := string(testkit.Value(os.ReadFile("README.md"))(t))
	if want := fmt.Sprintf("| modules in the list of one that requires it | %d (", listed); !strings.Contains(page, want) {
		t.Errorf("the README has another number of modules than %d", listed)
	}
}

// TestProgramsOfOthers runs three programs of another module, which have no name but of packages reconcile and
// memory: certificates below a site, a webhook with deadlines, a cron job.
func TestProgramsOfOthers(t *testing.T) {
	testkit.Long(t, "builds a program")
	files := map[string]string{}
	for _, name := range testkit.Value(filepath.Glob("testdata/outside/*_test.go"))(t) {
		files[filepath.Base(name)] = string(testkit.Value(os.ReadFile(name))(t))
	}
	if len(files) != 3 {
		t.Fatalf("%d programs, want 3", len(files))
	}
	dir := module(t, files)
	golang(t, dir, "vet", ".")
	golang(t, dir, "test", ".")
}
