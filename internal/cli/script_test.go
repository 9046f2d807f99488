package cli_test

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/steadyfleet/steady/internal/cli"
	"github.com/steadyfleet/steady/internal/cli/command"
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/nodeconfig"
	"github.com/steadyfleet/steady/internal/docker/dockertest"
	"github.com/steadyfleet/steady/internal/store/embedded"
	"github.com/steadyfleet/steady/internal/testkit"
)

// tree is the root of the sources: tests begin in the folder of their package, scripts do not.
var tree, _ = filepath.Abs("../..")

func TestMain(m *testing.M) {
	// They wait for processes and for time to pass; -parallel on the command line counts.
	if err := flag.Set("test.parallel", "4"); err != nil {
		panic(err)
	}
	testscript.Main(secluded{m}, map[string]func(){"steady": steady})
}

// secluded runs the tests where no engine of the machine is, and where they can
// have one of their own.
type secluded struct{ m *testing.M }

func (s secluded) Run() int { return dockertest.Run(s.m) }

// steady makes the test binary act as the command.
func steady() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := cli.Run(ctx, os.Args[1:], command.Process())
	stop()
	os.Exit(code)
}

var update = flag.Bool("update", false, "write what the scripts' cmp commands found into the scripts")

func scripts(dir string) testscript.Params {
	return testscript.Params{
		Dir:                 dir,
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		UpdateScripts:       *update,
		Setup:               func(env *testscript.Env) error { env.Setenv("TREE", tree); return nil },
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"flip":     flip,
			"exit":     exit,
			"await":    await,
			"until":    until,
			"typed":    typed,
			"seal":     seal,
			"put":      put,
			"examples": examples,
			"believe":  believe,
		},
	}
}

func TestScripts(t *testing.T) { t.Parallel(); testscript.Run(t, scripts("testdata")) }

// TestCurlScripts: what pages show with curl runs against a real server.
func TestCurlScripts(t *testing.T) {
	t.Parallel()
	testkit.Needs(t, testkit.Curl, testkit.Jq)
	testscript.Run(t, scripts("testdata/curl"))
}

// TestContainerScripts runs the scripts that need a container engine.
func TestContainerScripts(t *testing.T) {
	testkit.Needs(t, dockertest.Here, testkit.Docker)
	t.Parallel()
	engine := dockertest.Engine(t)
	examples := testkit.Value(filepath.Abs("../../examples"))(t)
	p := scripts("testdata/containers")
	p.Setup = func(env *testscript.Env) error {
		env.Setenv("DOCKER_HOST", "unix://"+engine.Socket())
		env.Setenv("EXAMPLES", examples)
		env.Setenv("BUSYBOX", engine.Busybox(t))
		for _, name := range []string{"WEB1", "WEB2"} {
			env.Setenv(name, testkit.FreeAddr(t))
		}
		return nil
	}
	testscript.Run(t, p)
}

// TestTPMScripts runs the scripts that need a TPM.
func TestTPMScripts(t *testing.T) {
	t.Parallel()
	one, _, _ := testkit.TPM(t)
	other, _, _ := testkit.TPM(t)
	p := scripts("testdata/tpm")
	p.Setup = func(env *testscript.Env) error {
		env.Setenv("TPM", one)
		env.Setenv("OTHER", other)
		return nil
	}
	testscript.Run(t, p)
}

// believe has the log of a server that is stopped end as an older server left it, which believed what a node claimed: its newest
// operation. believe DATA NODE SESSION OP.
func believe(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 4 {
		ts.Fatalf("usage: believe DATA NODE SESSION OP")
	}
	session, err := strconv.ParseUint(args[2], 10, 64)
	ts.Check(err)
	op, err := strconv.ParseUint(args[3], 10, 64)
	ts.Check(err)
	ctx := context.Background()
	dir, err := command.StoreFolder(ts.MkAbs(args[0]))
	ts.Check(err)
	s, err := embedded.Open(ctx, dir, embedded.Options{})
	ts.Check(err)
	head, err := s.Acquire(ctx, "an older server", clock.FromTime(time.Now()))
	ts.Check(err)
	ev := event.NodeConnected{OnNode: event.OnNode{Node: args[1]}, Session: session, Driver: "d", Version: "v", Op: op, Collections: []event.NodeCollection{{Kind: nodeconfig.Flow}}}
	entry, err := event.NewEntry(clock.FromTime(time.Now()), ev.On(), ev)
	ts.Check(err)
	_, err = s.Append(ctx, head.Seq, head.Term, []event.Entry{entry})
	ts.Check(errors.Join(err, s.Close()))
}

// exit runs a command that must end with a code: exit CODE COMMAND [ARG...].
func exit(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exit CODE COMMAND [ARG...]")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	err = ts.Exec(args[1], args[2:]...)
	got := 0
	if err != nil {
		ended, ok := errors.AsType[*exec.ExitError](err)
		if !ok {
			ts.Fatalf("%v", err)
		}
		got = ended.ExitCode()
	}
	if got != want {
		ts.Fatalf("%v ended with code %d, expected %d", args[1:], got, want)
	}
}

// examples runs what a page of the tree shows as shell, in one shell: examples PAGE. Each command
// must end well.
func examples(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: examples PAGE")
	}
	raw, err := os.ReadFile(filepath.Join(tree, args[0]))
	ts.Check(err)
	script := "set -eu\n"
	for _, m := range regexp.MustCompile("(?s)\n```sh\n(.*?)\n```\n").FindAllStringSubmatch(string(raw), -1) {
		script += m[1] + "\n"
	}
	ts.Check(ts.Exec("sh", "-c", script))
}

// flip changes one bit in the middle of a file.
func flip(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: flip FILE")
	}
	path := ts.MkAbs(args[0])
	raw, err := os.ReadFile(path)
	ts.Check(err)
	if len(raw) == 0 {
		ts.Fatalf("%s is empty", args[0])
	}
	raw[len(raw)/2] ^= 1
	ts.Check(os.WriteFile(path, raw, 0o644))
	fmt.Fprintf(ts.Stdout(), "flipped a bit of %s\n", args[0])
}

// eventually asks again and again until done, for a bounded time; what says at its
// end what did not happen.
func eventually(ts *testscript.TestScript, what func() string, done func() bool) {
	if !testkit.InTime(done) {
		ts.Fatalf("%s did not happen within %s", what(), testkit.Patience)
	}
}

// await waits until a file exists.
func await(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: await FILE")
	}
	eventually(ts, func() string { return args[0] }, func() bool {
		_, err := os.Stat(ts.MkAbs(args[0]))
		return err == nil
	})
}

// until runs a command until what it prints matches: until PATTERN COMMAND...
// A steady command runs in this process, without the script's folder: a new one for
// every question would take the processor from those that are asked about.
func until(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: until PATTERN COMMAND [ARG...]")
	}
	pattern, err := regexp.Compile("(?m)" + args[0])
	ts.Check(err)
	ask := func() (said string, err error) {
		err = ts.Exec(args[1], args[2:]...)
		return ts.ReadFile("stdout"), err
	}
	var out, errs bytes.Buffer
	if args[1] == "steady" {
		defer func() { fmt.Fprint(ts.Stdout(), out.String()) }()
		ask = func() (said string, err error) {
			out.Reset()
			errs.Reset()
			if code := cli.Run(context.Background(), args[2:], command.Streams{In: strings.NewReader(""), Out: &out, Err: &errs, Getenv: ts.Getenv}); code != 0 {
				err = fmt.Errorf("code %d: %s", code, &errs)
			}
			return out.String(), err
		}
	}
	var last string
	eventually(ts, func() string { return fmt.Sprintf("%q in what %v says, at last %q,", args[0], args[1:], last) }, func() bool {
		said, err := ask()
		last = fmt.Sprint(said, err)
		return err == nil && pattern.MatchString(said)
	})
}
