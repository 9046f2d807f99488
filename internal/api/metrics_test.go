package api_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/steadyfleet/steady/internal/api"
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
	"steady_audit_findings_total", "steady_node_episode_age_seconds", "steady_node_connections_refused_total"}

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

// TestAlerts: the rules are sixteen, are well formed, fire when they should and not
// else, and each has its section in the runbook.
func TestAlerts(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"check", "rules", "alerts.yaml"}, {"test", "rules", "alerts_test.yaml"}} {
		t.Run(args[0], func(t *testing.T) { promtool(t, "", args...) })
	}
	rules, tests, runbook := read(t, filepath.Join(monitoring, "alerts.yaml")), read(t, filepath.Join(monitoring, "alerts_test.yaml")), read(t, filepath.Join(monitoring, "runbook.md"))
	alerts := regexp.MustCompile(`alert: (\w+)`).FindAllStringSubmatch(rules, -1)
	if len(alerts) != 16 {
		t.Errorf("%d rules", len(alerts))
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
