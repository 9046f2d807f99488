package api_test

import (
	"bytes"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/steadyfleet/steady/internal/api"
	"github.com/steadyfleet/steady/internal/core/session"
	"github.com/steadyfleet/steady/internal/testkit"
)

const monitoring = "../../docs/monitoring"

// metricName finds the metrics that a text names.
var metricName = regexp.MustCompile(`\bsteady_[a-z_]+[a-z]\b`)

func read(t *testing.T, path string) string {
	t.Helper()
	raw := testkit.Value(os.ReadFile(path))(t)
	return string(raw)
}

// TestMetricsThatAreNamedExist: every metric that an alert, its test or a page for
// operators names is one of a running server, and no host has a series of its own.
func TestMetricsThatAreNamedExist(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(o *api.Options) { o.MaxLogBytes = 64 << 20 })
	a := enrolled(w, hostName(0))
	w.release("r1", plan{hosts: 2, content: "one"})
	a.offered()
	stale := w.build("r2", plan{hosts: 2, content: "two"})
	testkit.Must(t, os.WriteFile(filepath.Join(stale, "timestamp.json"), []byte("{}"), 0o644))
	if _, err := w.push(stale); err == nil {
		t.Fatal("a broken release was accepted")
	}
	scraped := ""
	w.until("the last refusal and all hosts are counted", func() bool {
		scraped = w.scrape()
		return strings.Contains(scraped, "\nsteady_releases_refused_total 1\n") && strings.Contains(scraped, "steady_rollout_status{") && strings.Contains(scraped, `presence="online"} 1`)
	})
	for _, want := range []string{
		`steady_hosts{presence="online"} 1`, `steady_hosts{presence="never-enrolled"} 1`,
		`steady_releases_refused_total 1`, `steady_requests_refused_total{api="operator",code="422"} 1`, `steady_ready 1`, `steady_safe_mode 0`,
		`steady_store_state{state="ok"} 1`, `steady_timestamp_max_age_seconds{channel="stable"} 86400`, `steady_log_max_bytes 6.7108864e+07`,
	} {
		if !strings.Contains(scraped, "\n"+want+"\n") {
			t.Errorf("a scrape has no line %s", want)
		}
	}
	if !strings.Contains(scraped, "\nsteady_rollout_status{channel=\"stable\",status=\"") {
		t.Error("a scrape has no status of the channel's rollout")
	}
	if strings.Contains(scraped, hostName(0)) {
		t.Error("a host has a series of its own")
	}
	pages := testkit.Value(filepath.Glob("../../docs/*.md"))(t)
	for _, page := range append(pages, filepath.Join(monitoring, "alerts.yaml"), filepath.Join(monitoring, "alerts_test.yaml"), filepath.Join(monitoring, "runbook.md")) {
		for _, name := range metricName.FindAllString(read(t, page), -1) {
			base := strings.TrimSuffix(strings.TrimSuffix(strings.TrimSuffix(name, "_bucket"), "_sum"), "_count")
			if !strings.Contains(scraped, "# TYPE "+base+" ") && !slices.Contains(onDemand, name) {
				t.Errorf("%s names %s, which a server does not have", page, name)
			}
		}
	}
	t.Run("promtool", func(t *testing.T) { promtool(t, scraped, "check", "metrics") })
}

// onDemand are metrics that a server has only where something is configured, or once
// something was found.
var onDemand = []string{"steady_release_source_healthy", "steady_release_source_success_timestamp_seconds", "steady_release_source_looks_total", "steady_resources_failed", "steady_agents",
	"steady_audit_findings_total", "steady_node_episode_age_seconds", "steady_node_connections_refused_total",
	"steady_node_push_age_seconds", "steady_session_late_seconds"}

// scrape reads a server's metrics.
func (w *world) scrape() string {
	w.t.Helper()
	var out bytes.Buffer
	if status := w.get(w.server, "/metrics", &out); status != 200 {
		w.t.Fatalf("%d %s", status, out.String())
	}
	return out.String()
}

// promtool checks what it reads, or the files that it names.
func promtool(t *testing.T, reads string, args ...string) {
	t.Helper()
	testkit.Needs(t, testkit.Promtool)
	cmd := exec.Command("promtool", args...)
	cmd.Dir, cmd.Stdin = monitoring, strings.NewReader(reads)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// TestAlerts: the rules are well formed, fire when they should and not else, and each has its
// section in the runbook.
func TestAlerts(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"check", "rules", "alerts.yaml"}, {"test", "rules", "alerts_test.yaml"}} {
		t.Run(args[0], func(t *testing.T) { promtool(t, "", args...) })
	}
	rules, tests, runbook := read(t, filepath.Join(monitoring, "alerts.yaml")), read(t, filepath.Join(monitoring, "alerts_test.yaml")), read(t, filepath.Join(monitoring, "runbook.md"))
	alerts := regexp.MustCompile(`alert: (\w+)`).FindAllStringSubmatch(rules, -1)
	if len(alerts) < 16 {
		t.Errorf("only %d rules", len(alerts))
	}
	for _, a := range alerts {
		name := a[1]
		if !strings.Contains(runbook, "\n## "+name+"\n") || !strings.Contains(rules, "runbook: docs/monitoring/runbook.md#"+strings.ToLower(name)+"\n") {
			t.Errorf("%s has no section in the runbook, or does not name it", name)
		}
		fires := regexp.MustCompile(`alertname: ` + name + `\n +exp_alerts:\n`).MatchString(tests)
		quiet := strings.Contains(tests, "alertname: "+name+"\n        exp_alerts: []")
		if !fires || !quiet {
			t.Errorf("%s: a test that it fires %v, one that it does not %v", name, fires, quiet)
		}
	}
}

// sessionsByState is what a scrape counts.
func (w *world) sessionsByState() map[string]string {
	out := map[string]string{}
	for _, m := range regexp.MustCompile(`(?m)^steady_sessions\{state="(\w+)"\} (\d+)$`).FindAllStringSubmatch(w.scrape(), -1) {
		if m[2] != "0" {
			out[m[1]] = m[2]
		}
	}
	return out
}

// TestSessionsAreCounted: the counts of sessions are those of the list at every stage, also where time alone
// moves one; and the loop that brings them about is counted.
func TestSessionsAreCounted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	listed := func() map[string]string {
		n := map[string]int{}
		for _, s := range testkit.Value(w.op.Sessions(w.ctx()))(t) {
			n[string(s.State)]++
		}
		out := map[string]string{}
		for state, count := range n {
			out[state] = strconv.Itoa(count)
		}
		return out
	}
	agree := func(what string, has ...string) {
		t.Helper()
		w.until(what, func() bool {
			want := listed()
			for _, state := range has {
				if want[state] == "" {
					return false
				}
			}
			return maps.Equal(w.sessionsByState(), want)
		})
	}
	agree("nothing is counted")
	hostless := awaiting()
	hostless.Parts[0].Pods = []session.Pod{{Name: "web", Workloads: []session.Workload{{Kind: "network", Name: "web", Spec: []byte("{}")}}}}
	testkit.Value(w.op.CreateSession(w.ctx(), "hostless", hostless))(t)
	agree("one is pending", string(session.Pending))
	w.until("since when it waits is counted", func() bool { return strings.Contains(w.scrape(), "\nsteady_session_late_seconds{state=\"Pending\"} ") })
	testkit.Value(w.op.CreateSession(w.ctx(), "now", awaiting()))(t)
	soon := awaiting()
	soon.Timeslot.ProvisionAt = soon.Timeslot.ProvisionAt.Add(3 * time.Second)
	soon.Timeslot.Start = soon.Timeslot.ProvisionAt.Add(time.Second)
	soon.Timeslot.End, soon.Timeslot.CleanupDeadline = soon.Timeslot.Start.Add(time.Hour), soon.Timeslot.Start.Add(2*time.Hour)
	testkit.Value(w.op.CreateSession(w.ctx(), "soon", soon))(t)
	later := awaiting()
	later.Timeslot = session.Timeslot{ProvisionAt: soon.Timeslot.End, Start: soon.Timeslot.End, End: soon.Timeslot.End.Add(time.Hour), CleanupDeadline: soon.Timeslot.End.Add(2 * time.Hour)}
	testkit.Value(w.op.CreateSession(w.ctx(), "later", later))(t)
	agree("one is scheduled", string(session.Scheduled))
	agree("two have begun", string(session.Scheduled), string(session.Provisioning))
	testkit.Must(t, w.op.StopSession(w.ctx(), "now"))
	agree("one is retired", string(session.Retired), string(session.Scheduled))
	scraped := w.scrape()
	for _, name := range []string{`steady_session_turn_seconds_count{kind="phase"}`, `steady_session_moves_total{kind="phase",to="retrying"} 0`, `steady_session_turns_total{decision="`, `steady_session_moves_total{kind="session",to="`, "steady_session_store_failures_total 0"} {
		if !strings.Contains(scraped, "\n"+name) {
			t.Errorf("a scrape has no %s", name)
		}
	}
}
