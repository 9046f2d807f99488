package cli_test

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/steadyfleet/steady/internal/cli/command"
	"github.com/steadyfleet/steady/internal/docker/dockertest"
	"github.com/steadyfleet/steady/internal/testkit"
)

// TestDay is a day of an operator, with real processes and containers: what goes
// wrong in it is shown wherever somebody looks, has a way out, and leaves a log
// in which all invariants hold.
func TestDay(t *testing.T) {
	operate(t, "testdata/day", nil)
}

// TestUpkeep is the second half of that day: what an operator does to a fleet that
// works, the other version of the program among it.
func TestUpkeep(t *testing.T) {
	testkit.Only(t, testkit.Nightly(), "takes minutes and builds another version of the program: STEADY_NIGHTLY=1")
	testkit.Needs(t, testkit.History)
	operate(t, "testdata/upkeep", func(env *testscript.Env) {
		env.Setenv("OTHER", testkit.OtherVersion(t))
		env.Setenv("MOVED", testkit.FreeAddr(t))
	})
}

// operate runs the scripts of a folder beside an engine of their own.
func operate(t *testing.T, dir string, more func(*testscript.Env)) {
	testkit.Needs(t, dockertest.Here, testkit.Docker)
	t.Parallel()
	engine := dockertest.Private(t)
	examples := testkit.Value(filepath.Abs("../../examples"))(t)
	p := scripts(dir)
	p.Cmds["engine"] = restartEngine(engine)
	p.Cmds["metrics"], p.Cmds["needs"] = metrics, needs
	p.Setup = func(env *testscript.Env) error {
		env.Setenv("DOCKER_HOST", "unix://"+engine.Socket())
		env.Setenv("EXAMPLES", examples)
		for _, name := range []string{"SERVER", "WEB1", "WEB2"} {
			env.Setenv(name, testkit.FreeAddr(t))
		}
		if more != nil {
			more(env)
		}
		return nil
	}
	testscript.Run(t, p)
}

// restartEngine stops the container engine in good order and starts it again, as
// a reboot of the machine does: engine restart.
func restartEngine(d *dockertest.Daemon) func(*testscript.TestScript, bool, []string) {
	return func(ts *testscript.TestScript, neg bool, args []string) {
		if neg || len(args) != 1 || args[0] != "restart" {
			ts.Fatalf("usage: engine restart")
		}
		d.Restart()
	}
}

// metrics waits until a sample of the server's metrics matches: metrics PATTERN.
func metrics(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: metrics PATTERN")
	}
	pattern, err := regexp.Compile("(?m)" + args[0])
	ts.Check(err)
	scraped(ts, fmt.Sprintf("%q in the metrics", args[0]), pattern.Match)
}

// scraped waits until the server's metrics are as they should be.
func scraped(ts *testscript.TestScript, what string, right func(all []byte) bool) {
	var c command.Context
	ts.Check(json.Unmarshal([]byte(ts.ReadFile(ts.Getenv(command.EnvContext))), &c))
	authorities := x509.NewCertPool()
	if !authorities.AppendCertsFromPEM([]byte(c.CA)) {
		ts.Fatalf("%s holds no authority", ts.Getenv(command.EnvContext))
	}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: authorities}}}
	defer client.CloseIdleConnections()
	var last string
	eventually(ts, func() string { return fmt.Sprintf("%s, at last\n%s", what, last) }, func() bool {
		resp, err := client.Get(c.Server + "/metrics")
		if err != nil {
			last = err.Error()
			return false
		}
		defer resp.Body.Close()
		raw, err := io.ReadAll(resp.Body)
		last = fmt.Sprint(string(raw), err)
		return err == nil && right(raw)
	})
}
