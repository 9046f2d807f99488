package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/steadyfleet/steady/internal/api/operator"
	"github.com/steadyfleet/steady/internal/cli/command"
	"github.com/steadyfleet/steady/internal/cli/term"
	"github.com/steadyfleet/steady/internal/cli/watch"
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/gate"
	"github.com/steadyfleet/steady/internal/core/health"
	"github.com/steadyfleet/steady/internal/core/host"
	"github.com/steadyfleet/steady/internal/core/plan"
	"github.com/steadyfleet/steady/internal/core/status"
	"github.com/steadyfleet/steady/internal/core/warning"
	"github.com/steadyfleet/steady/internal/testkit"
)

// The fleet of the pages in docs/screens has some of every trouble: canary-1 fails a
// probe while it soaks, db-1 is degraded, web-2 is offline, edge-1 never enrolled, a
// newer release is queued, and a timestamp ends soon.
var (
	screenNow = clock.FromTime(time.Date(2027, 3, 9, 14, 30, 0, 0, time.UTC))
	oldBundle = digest.Of([]byte("shop v1"))
	newBundle = digest.Of([]byte("shop v2"))
)

func before(d clock.Duration) clock.Instant { return screenNow.Add(-d) }

func screenDegraded() *plan.Degradation {
	return &plan.Degradation{Since: before(12 * clock.Minute), HostDegraded: event.HostDegraded{Bundle: true, Resources: []event.DegradedResource{
		{Resource: "workspace/api", State: "Error", Message: "3 attempts; last: exited with code 1"}}}}
}

func screenHosts() []operator.Host {
	row := func(name string, p gate.HostPresence, phase, rollout string, runs digest.Digest, h health.Status) operator.Host {
		state := plan.HostState(phase)
		switch {
		case p != gate.Online:
			state = plan.HostState(p)
		case h == health.Degraded:
			state = plan.StateDegraded
		}
		return operator.Host{Name: name, Channel: "stable", Online: p == gate.Online, Presence: p, State: state, Summary: status.Summary{Word: string(state)}, Incarnation: 1, Phase: phase, Rollout: rollout, Current: runs, Target: runs,
			Runs: map[digest.Digest]string{oldBundle: "v1", newBundle: "v2"}[runs], Health: h}
	}
	canary := row("canary-1", gate.Online, "soaking", "stable@v2", newBundle, health.Progressing)
	canary.Grant = "stable@v2/canary-1/1"
	db := row("db-1", gate.Online, "converged", "stable@v1", oldBundle, health.Degraded)
	db.Degraded = screenDegraded()
	db.Summary.Reason = db.Degraded.Summary()
	edge := row("edge-1", gate.NeverEnrolled, "pending", "", "", health.Unknown)
	edge.Incarnation, edge.Target = 0, newBundle
	return []operator.Host{canary, db, edge,
		row("web-1", gate.Online, "converged", "stable@v1", oldBundle, health.Healthy),
		row("web-2", gate.Offline, "converged", "stable@v1", oldBundle, health.Unknown)}
}

func screenStatus() operator.Status {
	s := operator.Status{Fleet: "shop", Seq: 214, Term: 1, Now: screenNow,
		Release: operator.ReleaseInfo{Version: 3, Ref: "v3", AcceptedAt: before(2 * clock.Minute), TimestampAt: before(20 * clock.Hour), RootVersion: 1},
		Root:    operator.RootInfo{Version: 1, Epoch: 1, Expires: screenNow.Add(300 * clock.Day)},
		Hosts:   operator.HostCounts{InFlight: 1, Presence: map[gate.HostPresence]int{}},
		Health:  operator.FleetHealth{Totals: health.Totals{Hosts: map[health.Status]int{}, Errors: map[string]int{"workspace": 1}}},
		Expiries: warning.Items([]warning.Fact{
			{Kind: warning.Timestamp, Name: "stable", Since: before(20 * clock.Hour), Ends: screenNow.Add(4 * clock.Hour)},
			{Kind: warning.Root, Since: before(65 * clock.Day), Ends: screenNow.Add(300 * clock.Day)},
		}, screenNow),
		Channels: []operator.ChannelState{{Name: "stable", Rollout: "stable@v2", Status: "active", Queued: "stable@v3"}}}
	db := screenDegraded()
	s.Inbox = operator.NewInbox([]status.InboxItem{
		{Item: status.Item{Kind: "host", Name: "db-1", Summary: status.Summary{Word: "degraded", Level: status.Critical, Reason: db.Summary(), Since: db.Since,
			Next: []status.Remedy{status.Do(status.HostResources, "db-1"), status.Do(status.HostRetry, "db-1")}}}},
		{Item: status.Item{Kind: warning.KindExpiry, Name: "timestamp/stable", Summary: s.Expiries[0].Summary(before(clock.Hour))}}})
	for _, h := range screenHosts() {
		s.Hosts.Total++
		s.Hosts.Presence[h.Presence]++
		s.Health.Hosts[h.Health]++
		if h.Incarnation > 0 {
			s.Hosts.Enrolled++
		} else {
			s.Hosts.NeverEnrolled = append(s.Hosts.NeverEnrolled, h.Name)
		}
		if h.Online {
			s.Hosts.Online++
		}
		if h.Degraded != nil {
			s.Health.Degraded = append(s.Health.Degraded, operator.DegradedHost{Host: h.Name, Degradation: *h.Degraded})
		}
	}
	return s
}

// screenHolds keep the open wave.
func screenHolds() []*gate.Block {
	e := gate.Evidence{Rollout: "stable@v2", Wave: "canary", Hosts: 1, InFlight: 1, MinSoaked: 1}
	return []*gate.Block{gate.CheckInFlight(e), gate.CheckProof(e)}
}

// laterWave is of a host that waits for its wave.
type laterWave struct{ gate.Facts }

func (laterWave) Wave() (string, int, string, int, string, clock.Instant) {
	return "stable@v2", 1, "rest", 0, "canary", 0
}

// screenWhy says why a host waits, with the words of the gates.
func screenWhy(name string) plan.Answer {
	a := plan.Answer{Host: name, Channel: "stable", Rollout: "stable@v2", Wave: "rest", Status: "waiting", Current: string(oldBundle), Target: string(newBundle), WaveBlocks: screenHolds(), Pending: "stable@v3"}
	a.Gates = []plan.Gate{{Gate: gate.Freshness}, {Gate: gate.Overlay}, {Gate: gate.Wave, Block: gate.CheckWave(laterWave{}, true)}}
	absence := gate.Absence{}
	switch name {
	case "web-2":
		absence = gate.Absence{Presence: gate.Offline, LastSeen: before(3 * clock.Hour)}
	case "edge-1":
		absence, a.Current = gate.Absence{Presence: gate.NeverEnrolled}, ""
	}
	a.Gates = append(a.Gates, plan.Gate{Gate: gate.Presence, Block: gate.CheckPresence(name, absence, screenNow)}, plan.Gate{Gate: gate.Budget})
	a.Block = a.Gates[2].Block
	a.Message = a.Block.Message
	a.PendingBlock = gate.CheckQueue("stable@v3", "stable@v2", "active", 0)
	a.PendingGates = []plan.Gate{{Gate: gate.Queue, Block: a.PendingBlock}}
	return a
}

func screenHost(name string) operator.HostDetail {
	d := operator.HostDetail{LastSeen: before(4 * clock.Second), Seq: 61, CertSerial: "4b1d90c2", CertExpires: screenNow.Add(26 * clock.Day), Why: screenWhy(name)}
	for _, h := range screenHosts() {
		if h.Name == name {
			d.Host = h
		}
	}
	if name == "db-1" {
		d.Facts = &event.HostFacts{CPUs: 16, Memory: 64 << 30, Arch: "amd64", OS: "Debian GNU/Linux 12 (bookworm)", Kernel: "6.1.0-18-amd64", Engine: "docker", EngineAPI: "1.43",
			Disk: 500 << 30, GPUs: []event.GPU{{Vendor: "nvidia", Model: "Tesla T4"}}}
		d.Probes = []host.ProbeState{
			{Name: "baseline", Mode: fleet.Enforce, Seen: true, FailingSince: before(12 * clock.Minute), Reason: "1 of 14 controls fails", Evidence: true, Failing: []string{"CIS-5.2.8"}},
			{Name: "sql", Mode: fleet.Enforce, Seen: true, Passing: true}}
	}
	if g := d.Degraded; g != nil {
		d.Why.Degraded, d.Why.Message = g, "is degraded for 12m: "+g.Summary()+"; "+d.Why.Message
	}
	return d
}

func screenRollout() operator.RolloutDetail {
	d := operator.RolloutDetail{Now: screenNow, Rollout: operator.Rollout{Name: "stable@v2", Channel: "stable", Ref: "v2", Phase: "active", Status: "active", OpenedAt: before(5 * clock.Minute)},
		WaveBlocks: screenHolds(), Waves: []operator.Wave{{Name: "canary", Soak: 2 * clock.Minute, Open: true, Hosts: 1}, {Name: "rest", Soak: 2 * clock.Minute, Hosts: 4}}}
	d.Blocked = d.WaveBlocks[0].Message
	for _, h := range screenHosts() {
		m := operator.Member{Host: h.Name, Wave: 1, Status: "waiting", Online: h.Online, Health: h.Health}
		if h.Name == "canary-1" {
			m.Wave, m.Status = 0, "claimed"
			m.Progress = &plan.Progress{Phase: host.Soaking, SoakFrom: before(41 * clock.Second), Soak: 2 * clock.Minute, SustainedFailure: clock.Minute, Probes: []host.ProbeState{
				{Name: "disk", Mode: fleet.Observe, Seen: true, FailingSince: before(3 * clock.Minute), Reason: "92 % full"},
				{Name: "http", Mode: fleet.Enforce, Seen: true, FailingSince: before(41 * clock.Second), Reason: "expected HTTP 200, got 503"},
				{Name: "resources", Mode: fleet.Enforce, Seen: true, Passing: true}}}
			m.Unready = []event.DegradedResource{{Resource: "workspace/api", State: "Starting", Message: "health check has not passed yet"}}
		}
		d.Members = append(d.Members, m)
	}
	return d
}

// screenServer answers as the server of that fleet does, over TLS.
func screenServer(t *testing.T) (env map[string]string, c *operator.Client) {
	t.Helper()
	mux := http.NewServeMux()
	get := func(path string, answer func(*http.Request) any) {
		mux.HandleFunc("GET "+operator.Prefix+path, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			if err := json.NewEncoder(w).Encode(answer(r)); err != nil {
				t.Error(err)
			}
		})
	}
	get("/status", func(*http.Request) any { return screenStatus() })
	get("/hosts", func(*http.Request) any { return screenHosts() })
	get("/hosts/{host}", func(r *http.Request) any { return screenHost(r.PathValue("host")) })
	get("/hosts/{host}/why", func(r *http.Request) any { return screenHost(r.PathValue("host")).Why })
	get("/rollouts/{rollout}", func(*http.Request) any { return screenRollout() })
	get("/tokens", func(*http.Request) any {
		return []operator.Token{{ID: "a1", Name: "ann", Role: operator.Admin, CreatedAt: before(clock.Day), Expires: screenNow.Add(clock.Day)},
			{ID: "b2", Name: "ann", Role: operator.Admin, CreatedAt: before(clock.Hour), Expires: screenNow.Add(clock.Hour), Parent: "a1"}}
	})
	mux.HandleFunc("GET "+operator.RouteStream, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	})
	s := httptest.NewTLSServer(mux)
	t.Cleanup(s.Close)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	file := filepath.Join(t.TempDir(), "ca.pem")
	testkit.Must(t, os.WriteFile(file, ca, 0o600))
	c = testkit.Value(operator.NewClient(operator.Options{URL: s.URL, Token: "none", ServerCA: ca}))(t)
	t.Cleanup(c.Close)
	return map[string]string{command.EnvServer: s.URL, command.EnvToken: "none", command.EnvCA: file, "COLUMNS": "80"}, c
}

var inPlace = regexp.MustCompile(`\x1b\[[0-9]*[AKJ]`)

// firstFrame ends watching after the first frame of a terminal.
type firstFrame struct {
	text bytes.Buffer
	stop context.CancelFunc
}

func (f *firstFrame) Write(b []byte) (int, error) {
	defer f.stop()
	return f.text.Write(b)
}

// watchScreen is what rollout watch draws on a terminal of 80 columns.
func watchScreen(t *testing.T, c *operator.Client) string {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	out := &firstFrame{stop: stop}
	if _, err := watch.Watch(ctx, c, "stable@v2", watch.InPlace(out, term.Screen{TTY: true, Width: 80})); ctx.Err() == nil {
		t.Fatal(err)
	}
	return inPlace.ReplaceAllString(out.text.String(), "")
}

// TestScreens writes what the main commands show of one fleet, in 80 columns.
func TestScreens(t *testing.T) {
	env, client := screenServer(t)
	for _, p := range []struct{ page, args, about string }{
		{"status", "status", "The whole fleet: what ends soon, hosts that are not there or do not run what they should, and where each channel is."},
		{"why", "why web-1", "Why one host has not moved yet: the gate that holds it, who can clear that, and what comes next."},
		{"rollout-watch", "rollout watch stable@v2", "A rollout while it moves, on a terminal; it is redrawn in place."},
		{"host-list", "host list", "Every host with what it runs, and under a host what is wrong with it."},
		{"host-show", "host show db-1", "One host alone, and why it stands where it does."},
		{"operator-list", "operator list", "Who may speak to the server: the tokens, and below them who is logged in with a browser, by which token."},
	} {
		var out, errs bytes.Buffer
		if p.page == "rollout-watch" {
			out.WriteString(watchScreen(t, client))
		} else if code := Run(t.Context(), strings.Fields(p.args), command.Streams{In: strings.NewReader(""), Out: &out, Err: &errs,
			Getenv: func(name string) string { return env[name] }, Now: func() time.Time { return time.UnixMilli(int64(screenNow)) }}); code != 0 {
			t.Errorf("steady %s ended with %d: %s", p.args, code, errs.String())
		}
		page(t, "screens/"+p.page+".md", fmt.Sprintf("# steady %s\n%s\n%s\n\n```\n$ steady %s\n%s```\n", p.args, made, p.about, p.args, out.String()))
	}
}
