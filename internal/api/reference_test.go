package api_test

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/steadyfleet/steady/internal/api"
	"github.com/steadyfleet/steady/internal/testkit"
)

var rewrite = flag.Bool("rewrite", false, "write again what is made from a running server")

// TestReferenceOfMetrics holds the page equal to what a running server serves.
func TestReferenceOfMetrics(t *testing.T) {
	const path = "../../docs/reference/metrics.md"
	w := newWorld(t, func(o *api.Options) { o.MaxLogBytes = 64 << 20 })
	a := enrolled(w, hostName(0))
	w.release("r1", plan{hosts: 2, content: "one"})
	a.offered()
	scraped := ""
	w.until("the counts of the fleet are published", func() bool {
		scraped = w.scrape()
		return strings.Contains(scraped, "\nsteady_rollout_held_seconds{") && strings.Contains(scraped, "\nsteady_timestamp_age_seconds{")
	})
	label := regexp.MustCompile(`([a-z]+)="`)
	var rows []string
	for _, m := range regexp.MustCompile(`(?m)^# HELP (steady_\w+) (.*)$`).FindAllStringSubmatch(scraped, -1) {
		kind := regexp.MustCompile(`(?m)^# TYPE ` + m[1] + ` (\w+)$`).FindStringSubmatch(scraped)
		var labels []string
		for _, line := range regexp.MustCompile(`(?m)^`+m[1]+`(?:_bucket|_sum|_count)?\{(.*)\} `).FindAllStringSubmatch(scraped, -1) {
			for _, l := range label.FindAllStringSubmatch(line[1], -1) {
				if name := "`" + l[1] + "`"; l[1] != "le" && !slices.Contains(labels, name) {
					labels = append(labels, name)
				}
			}
		}
		rows = append(rows, fmt.Sprintf("| `%s` | %s | %s | %s |\n", m[1], kind[1], strings.Join(labels, ", "), m[2]))
	}
	if len(rows) < 20 {
		t.Fatalf("only %d metrics were found", len(rows))
	}
	slices.Sort(rows)
	text := "# Metrics\n\nThis page is made from what a running server serves; a test holds it equal. `GET /metrics` at the operators' address, with an operator's token " +
		"([operating.md](../operating.md)); no host has a series of its own. Metrics that count what has not happened yet appear with the first time: " +
		"releases and requests that were refused, release sources that are configured, resources that failed.\n\n| metric | type | labels | |\n|---|---|---|---|\n" + strings.Join(rows, "")
	if *rewrite {
		testkit.Must(t, os.WriteFile(path, []byte(text), 0o644))
	}
	if was, err := os.ReadFile(path); err != nil || string(was) != text {
		t.Errorf("%s is not what a server serves (%v); run this test with -rewrite", path, err)
	}
}
