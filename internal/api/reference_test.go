package api_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/steadyfleet/steady/internal/api"
	"github.com/steadyfleet/steady/internal/api/operations"
	"github.com/steadyfleet/steady/internal/api/operator"
	"github.com/steadyfleet/steady/internal/testkit"
)

var rewrite = flag.Bool("rewrite", false, "write again what is made from a running server")

// TestReferenceOfTheAPI holds the description in the tree equal to what a server serves, and to what
// steady schema api prints; and the table of routes to the handler's.
func TestReferenceOfTheAPI(t *testing.T) {
	w := newWorld(t)
	_, served := w.request("", "GET", operator.RouteOpenAPI, "")
	if printed := testkit.Value(operations.Description())(t); strings.TrimSpace(served) != string(printed) {
		t.Error("what a server serves is not what operations.Description says")
	}
	var doc bytes.Buffer
	testkit.Must(t, json.Indent(&doc, []byte(strings.TrimSpace(served)), "", "  "))
	written(t, "openapi.json", doc.String()+"\n")
	d := describedOf(t)
	may := map[string]string{}
	for _, r := range operations.New(w.server.Control(), nil, nil).Routes() {
		may[r.ID] = r.Permission.Who()
	}
	var b strings.Builder
	b.WriteString("# Routes of the operator API\n\nThis page is made from the code; a test holds it equal. [api.md](../api.md) says how to use them, and [openapi.json](openapi.json) has their messages.\n\n" +
		"| route | does | for |\n|---|---|---|\n")
	routes := d.routes()
	slices.SortFunc(routes, func(x, y describedRoute) int {
		return cmp.Or(strings.Compare(x.path, y.path), strings.Compare(x.method, y.method))
	})
	for _, r := range routes {
		fmt.Fprintf(&b, "| `%s %s` | %s | %s |\n", r.method, r.path, r.Summary, may[r.ID])
	}
	written(t, "api.md", b.String())
}

// written holds a file of the reference equal to a text.
func written(t *testing.T, name, text string) {
	t.Helper()
	path := "../../docs/reference/" + name
	if *rewrite {
		testkit.Must(t, os.WriteFile(path, []byte(text), 0o644))
	}
	if was, err := os.ReadFile(path); err != nil || string(was) != text {
		t.Errorf("%s is not what the code says (%v); run this test with -rewrite", path, err)
	}
}

// TestReferenceOfMetrics holds the page equal to what a running server serves.
func TestReferenceOfMetrics(t *testing.T) {
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
	written(t, "metrics.md", text)
}
