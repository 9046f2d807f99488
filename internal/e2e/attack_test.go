package e2e

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/json"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/steadyfleet/steady/internal/api/operator"
	"github.com/steadyfleet/steady/internal/cli"
	"github.com/steadyfleet/steady/internal/cli/command"
	"github.com/steadyfleet/steady/internal/cli/exit"
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/prose"
	"github.com/steadyfleet/steady/internal/core/rollout"
	"github.com/steadyfleet/steady/internal/testkit"
	"github.com/steadyfleet/steady/internal/testkit/testfleet"
	"github.com/steadyfleet/steady/internal/wire"
)

const attackFleet = `apiVersion: steady/v1
kind: Fleet
metadata: {name: acme}
hosts:
  web-1: {channel: stable, bundle: web}
  evil:  {channel: other, bundle: web}
channels:
  stable: {rolloutPolicy: quick, freshnessWindow: 24h}
  other:  {rolloutPolicy: quick, freshnessWindow: 24h}
rolloutPolicies:
  quick: {waves: [{name: all, selector: {all: true}}]}
bundles: {web: {path: bundles/web}}
`

// hostile is text that drives a terminal, and forges a line of the server's.
const hostile = "x\x1b[2J\x1b]0;t\a\r\u009b31m\u202e\u200b\n  9999  00:00:00.000  server        release FORGED accepted\n"

// siege is a server process with one honest host, an agent process, and one that a
// thief holds.
type siege struct {
	t       *testing.T
	estate  *estate
	dir     string
	where   serverReady
	server  *process
	listen  string
	client  *operator.Client
	evil    *caller
	version int
}

func newSiege(t *testing.T) *siege {
	s := &siege{t: t, estate: newEstate(t), dir: t.TempDir(), listen: testkit.FreeAddr(t)}
	s.start()
	conn := readContext(t, s.where.Context)
	s.client = testkit.Value(operator.NewClient(operator.Options{URL: s.where.Operator, Token: conn.Token, ServerCA: []byte(conn.CA)}))(t)
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM([]byte(conn.CA))
	s.push()
	agent := launch(t, s.dir, "web-1", "agent", "--state", filepath.Join(s.dir, "state"), "--root", t.TempDir(), "--engine", "none",
		"--token", s.estate.token("web-1", s.where.Server, []byte(conn.CA)))
	s.evil = &caller{t: t, name: "evil", url: s.where.Server, pool: pool}
	s.evil.enrol(s.estate.token("evil", s.where.Server, []byte(conn.CA)))
	t.Cleanup(func() {
		s.client.Close()
		agent.kill()
		s.server.kill()
	})
	s.terminal()
	return s
}

func (s *siege) start() {
	s.server = launch(s.t, s.dir, "server", "server", "--data", filepath.Join(s.dir, "server"), "--root", s.estate.rootFile(),
		"--listen", s.listen, "--heartbeat", "5s", "-o", "json")
	s.server.until(&s.where)
}

// push releases another version of what hosts run.
func (s *siege) push() {
	s.t.Helper()
	s.version++
	m := s.estate.release("v"+strconv.Itoa(s.version), declare{"fleet.yaml": attackFleet,
		"bundles/web/bundle.yaml": "files:\n  - {path: etc/motd, content: \"" + strconv.Itoa(s.version) + "\\n\"}\n"})
	packed := m.packed()
	defer packed.Close()
	testkit.Value(s.client.Push(context.Background(), packed))(s.t)
}

// terminal waits until the honest host has the newest version.
func (s *siege) terminal() {
	s.t.Helper()
	testkit.Eventually(s.t, "rollout of the honest host", func() bool {
		r, err := s.client.Rollout(context.Background(), "stable@v"+strconv.Itoa(s.version))
		return err == nil && r.Phase == string(rollout.Terminal)
	})
}

// rolls says how long one more version takes to the honest host.
func (s *siege) rolls() time.Duration {
	began := time.Now()
	s.push()
	s.terminal()
	return time.Since(began)
}

// meanwhile does something again and again, from another goroutine, until end.
func meanwhile(do func()) (end func()) {
	stop := make(chan struct{})
	var running sync.WaitGroup
	running.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				do()
			}
		}
	})
	return func() { close(stop); running.Wait() }
}

// TestOneHostAgainstAll has one enrolled host do what it can to all others: claim a
// history, flood the log, tell what cannot be, and lie about itself. The honest host is
// served meanwhile, an operator's tools stay usable, and the audit names the liar.
func TestOneHostAgainstAll(t *testing.T) {
	s := newSiege(t)
	quiet := s.rolls()

	seq := s.evil.chain.Seq
	end := meanwhile(func() {
		seq++
		s.evil.post(wire.RouteHeartbeat, wire.Heartbeat{Incarnation: 1, LastSeq: seq})
	})
	boasting := s.rolls()
	end()
	if st := testkit.Value(s.client.Status(context.Background()))(t); st.SafeMode != "" {
		t.Errorf("the server is in safe mode: %s", st.SafeMode)
	}

	for name, c := range map[string]struct {
		at   clock.Instant
		kind string
		body string
	}{
		"a phase that does not exist": {testfleet.Now(), "host.stepped", `{"rollout":"","manifest":"","input":"booted","data":{"bootId":"b","current":""},"from":"","to":"nonsense"}`},
		"a repair of nothing":         {testfleet.Now(), "host.repair_needed", `{"manifest":"","bundle":"","resources":[]}`},
		"an instant before all":       {-1 << 62, "host.trust_refused", `{"check":"Stale","detail":"d","rollout":""}`},
		"the last instant of all":     {1<<63 - 1, "host.trust_refused", `{"check":"Stale","detail":"d","rollout":""}`},
	} {
		if status, _ := s.evil.tellAt(c.at, c.kind, []byte(c.body)); status != http.StatusBadRequest {
			t.Errorf("%s: %d, expected 400", name, status)
		}
	}

	// A step that its machine could not take from where it stands.
	status, _ := s.evil.tell("host.stepped", []byte(`{"rollout":"","manifest":"","input":"booted","data":{"bootId":"b","current":""},"from":"","to":""}`))
	again, _ := s.evil.tell("host.stepped", []byte(`{"rollout":"","manifest":"","input":"elapsed","data":{},"from":"soaking","to":"converged"}`))
	if status != http.StatusOK || again != http.StatusOK {
		t.Fatalf("reports are answered %d and %d", status, again)
	}

	s.speak()
	s.look()

	var taken, limited int
	end = meanwhile(func() {
		if status, _ := s.evil.report(30 << 10); status == http.StatusOK {
			taken++
		} else if status == http.StatusTooManyRequests {
			limited++
		}
	})
	flooding := s.rolls()
	testkit.Eventually(t, "the share of the log used up", func() bool { return limitedEvents(s) > 0 })
	end()
	if limited == 0 || taken*(30<<10) > 20<<20 {
		t.Errorf("%d events of 30 KiB were taken, %d put off", taken, limited)
	}
	t.Logf("a release reached the honest host in %s; in %s while another claimed a history, in %s while it flooded the log, which took %d MiB of it",
		quiet.Round(time.Millisecond), boasting.Round(time.Millisecond), flooding.Round(time.Millisecond), taken*30/1024)
}

func limitedEvents(s *siege) (n int) {
	resp := testkit.Value(s.evil.http.Get(s.where.Operator + "/metrics"))(s.t)
	defer resp.Body.Close()
	var b bytes.Buffer
	testkit.Value(b.ReadFrom(resp.Body))(s.t)
	for line := range strings.Lines(b.String()) {
		if v, ok := strings.CutPrefix(line, "steady_host_events_limited_total "); ok {
			n, _ = strconv.Atoi(strings.TrimSpace(v))
		}
	}
	return n
}

// speak has the hostile host put its text wherever a host can.
func (s *siege) speak() {
	s.t.Helper()
	_, raw, _ := s.evil.call(http.MethodGet, wire.RouteDispatch+"?wait=5", nil)
	var d wire.Dispatch
	testkit.Must(s.t, json.Unmarshal(raw, &d))
	for _, ev := range []event.Event{
		event.GrantDeclined{Grant: d.Grant, Code: "prepare-failed", Detail: hostile},
		event.TrustRefused{Check: hostile, Detail: hostile, Rollout: hostile},
		event.BundleQuarantined{Rollout: hostile, Digest: d.Manifest, Reason: hostile},
		event.FileKept{Path: hostile, Digest: d.Manifest, KeptAs: hostile},
		event.ResourceReported{Resource: "workspace/" + hostile, State: "Error", Message: hostile, Layer: event.LayerBundle},
		event.HostFacts{CPUs: 1, OS: hostile[:16], GPUs: []event.GPU{{Vendor: "\x1b[2J", Model: "\n  9999  00:00:00.000  server FORGED"}}},
	} {
		body := testkit.Value(json.Marshal(ev))(s.t) // not as an agent would write it
		if status, _ := s.evil.tell(ev.EventType(), body); status != http.StatusOK && (ev.EventType() == "host.grant_declined" || ev.EventType() == "host.facts") {
			s.t.Fatalf("%s is answered %d", ev.EventType(), status)
		}
	}
	sample := testkit.Value(json.Marshal(map[string]any{"version": 1, "host": map[string]any{"kernel": hostile, "notRead": []string{hostile}}}))(s.t)
	s.evil.post(wire.RouteHeartbeat, wire.Heartbeat{Incarnation: 1, AgentVersion: hostile, BootID: hostile, Runtimes: []string{hostile},
		Engine: &wire.Engine{Name: hostile, Version: hostile, Kernel: hostile, Problem: hostile}, Capabilities: []string{hostile}, Metrics: sample})
}

// look runs every command that prints what hosts say, and finds nothing in its output
// that drives a terminal, and no line that is not the command's own.
func (s *siege) look() {
	s.t.Helper()
	data := filepath.Join(s.dir, "server")
	said := 0
	for _, line := range []string{
		"events", "events --json", "events --host evil", "events --host evil -o json", "status", "status -o json", "status -o yaml",
		"host list", "host list -o json", "host show evil", "host show evil -o json", "host show evil -o yaml", "host resources evil", "host resources evil -o json",
		"host metrics evil", "host metrics evil -o json", "why evil", "why evil -o json", "why evil -o yaml", "why web-1",
		"rollout list", "rollout list -o json", "rollout show other@v2", "rollout show other@v2 -o json", "rollout show stable@v2", "quarantine list", "quarantine list -o json",
		"workspace list", "workspace list -o json", "image list", "override list", "operator list",
		"replay --data " + data, "replay --why evil", "replay --why evil -o json", "replay --data " + data + " --why evil",
		"doctor --data " + data, "doctor --data " + data + " -o json", "audit verify", "audit verify --data " + data + " -o json",
		"logs evil/x", "release status",
	} {
		var out, errs bytes.Buffer
		code := cli.Run(context.Background(), strings.Fields(line), command.Streams{In: strings.NewReader(""), Out: &out, Err: &errs, Getenv: func(k string) string {
			if k == "STEADY_CONTEXT" {
				return s.where.Context
			}
			return ""
		}})
		shown := out.String() + errs.String()
		if strings.Contains(shown, "FORGED") {
			said++
		}
		for l := range strings.Lines(shown) {
			l = strings.TrimSuffix(l, "\n")
			if strings.ContainsFunc(strings.ReplaceAll(l, "\t", ""), prose.Unsafe) {
				s.t.Errorf("steady %s prints %q", line, l)
			}
			if strings.HasPrefix(strings.TrimSpace(l), "9999") {
				s.t.Errorf("steady %s prints a forged line: %s", line, l)
			}
		}
		if strings.HasPrefix(line, "doctor") || strings.HasPrefix(line, "audit") {
			if code != exit.Contradicted || !strings.Contains(shown, "evil") {
				s.t.Errorf("steady %s ends with %d, expected %d and the host's name:\n%s", line, code, exit.Contradicted, shown)
			}
		}
	}
	if said < 8 {
		s.t.Errorf("%d commands print what the host says: the test does not reach them", said)
	}
}
