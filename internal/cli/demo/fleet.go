package demo

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// host is one host of the sample fleet; hosts are all, as they are shown.
type host struct{ name, tags string }

var hosts = []host{
	{"canary-1", "canary"},
	{"web-1", "web"},
	{"web-2", "web"},
	{"web-3", "web"},
	{"db-1", "db"},
	{"edge-1", "edge"},
}

func names() (out []string) {
	for _, h := range hosts {
		out = append(out, h.name)
	}
	return out
}

// fleetHead is given how long a probe may fail.
const fleetHead = `# The demonstration's fleet: six hosts, a canary wave, a budget, an ordering.
apiVersion: steady/v1
kind: Fleet
metadata: {name: demo}
channels:
  stable: {rolloutPolicy: careful, freshnessWindow: 24h, signingInterval: 1h, reconcileInterval: 1s}
rolloutPolicies:
  careful:
    waves:
      - {name: canary, selector: {tags: [canary]}, soak: 1s, minSoaked: 1}
      - {name: rest,   selector: {all: true},      soak: 1s}
    healthGate: {maxFailures: 0}
    onHealthFailure: rollback-and-halt
    sustainedFailure: %s
    activationDeadline: 2m
    confirmWindow: 2m
edges:
  - {gated: web-1, gates: db-1, reason: the schema comes first}
disruptionBudgets:
  - {selector: {tags: [web]}, maxInFlight: 1, maxInFlightPct: 34}
bundles: {app: {path: bundles/app}}
hosts:
`

// Every host answers on its own address here, so the probe is one per host.
const fleetHost = `  %s:
    channel: stable
    tags: [%s]
    bundle: app
    probes:
      answers:
        interval: 1s
        timeout: 1s
        http: {url: "http://%s/healthz", bodyContains: "status: ok"}
`

const bundle = `files:
  - {path: www/healthz, content: "release %[1]s\nstatus: %[2]s\n"}
  - {path: www/index.html, content: "<h1>This is release %[1]s</h1>\n"}
system:
  - driver: exec
    name: publish
    activate: [sh, -c, "mkdir -p run && cp www/index.html run/published.html"]
    revert: [rm, -f, run/published.html]
    timeout: 1m
probes:
  published:
    interval: 1s
    timeout: 1s
    exec: {command: [cmp, -s, www/index.html, run/published.html]}
`

type release struct {
	name, status string
	converges    bool
	about        string
}

var releases = []release{
	{"v1", "ok", true, "canary first, then the rest under a budget of one web host at a time"},
	{"v2", "broken", false, "a bad release: the canary's probe fails, it goes back by itself, nobody else gets it"},
	{"v3", "ok", true, "the fix: it converges everywhere"},
}

// healthz is what a host's service answers when it runs a release.
func healthz(name, status string) string {
	return fmt.Sprintf("release %s\nstatus: %s\n", name, status)
}

// writeFleet writes the fleet folder as it is for one release. addresses are
// those of the hosts' services.
func writeFleet(dir string, r release, addresses map[string]string) error {
	var b strings.Builder
	// Only the bad release has to fail soon; on a busy machine a good one's probe may, too.
	failing := "2m"
	if !r.converges {
		failing = "4s"
	}
	fmt.Fprintf(&b, fleetHead, failing)
	for _, h := range hosts {
		fmt.Fprintf(&b, fleetHost, h.name, h.tags, addresses[h.name])
	}
	app := filepath.Join(dir, "bundles", "app")
	if err := os.MkdirAll(app, 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "fleet.yaml"), []byte(b.String()), 0o644); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(app, "bundle.yaml"), []byte(fmt.Sprintf(bundle, r.name, r.status)), 0o644)
}

// service is what runs on a host: it answers from the files that the agent
// keeps there, as a web server would.
type service struct {
	addr   string
	server *http.Server
	done   chan error
}

// serve starts the service of the host whose files are below root.
func serve(root string) (*service, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		body, err := os.ReadFile(filepath.Join(root, "www", "healthz"))
		if err != nil {
			http.Error(w, "nothing is deployed", http.StatusServiceUnavailable)
			return
		}
		_, _ = w.Write(body) // the probe sees a short answer as a failure
	})
	s := &service{addr: l.Addr().String(), server: &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}, done: make(chan error, 1)}
	go func() { s.done <- s.server.Serve(l) }()
	return s, nil
}

func (s *service) stop() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	err := s.server.Shutdown(ctx)
	if err != nil {
		err = s.server.Close()
	}
	if e := <-s.done; !errors.Is(e, http.ErrServerClosed) {
		err = errors.Join(err, e)
	}
	return err
}
