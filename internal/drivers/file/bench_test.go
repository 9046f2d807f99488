package file

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/steadyfleet/steady/internal/testkit"
)

// large are documents of n objects, some with tables, dates and elements below.
var large = map[string]struct {
	object   string // its text, by number
	head     string
	between  string
	tail     string
	format   format
	identity identity
}{
	"TOML tables":   {object: "# about %d\n[o.t%[1]d]\nname = \"t%[1]d\"\nport = %[1]d\n\n[o.t%[1]d.sub]\nx = 1\n\n[[o.t%[1]d.list]]\ny = 2024-05-01\n", between: "\n", format: tomlFormat{}},
	"TOML elements": {object: "# about %d\n[[o]]\nname = \"t%[1]d\"\nport = %[1]d\n", between: "\n", format: tomlFormat{}, identity: "name"},
	"JSON members":  {object: "\"t%[1]d\": {\"name\": \"t%[1]d\", \"port\": %[1]d}", head: "{\"o\": {\n", between: ",\n", tail: "\n}}\n", format: jsonFormat{}},
	"JSON elements": {object: "{\"name\": \"t%[1]d\", \"port\": %[1]d}", head: "{\"o\": [\n", between: ",\n", tail: "\n]}\n", format: jsonFormat{}, identity: "name"},
	"YAML members":  {object: "  # about %d\n  t%[1]d:\n    name: t%[1]d\n    port: %[1]d\n", head: "o:\n", format: yamlFormat{}},
	"YAML elements": {object: "  # about %d\n  - name: t%[1]d\n    port: %[1]d\n", head: "o:\n", format: yamlFormat{}, identity: "name"},
}

// BenchmarkEdit reports how much longer an edit of a document takes that is twice as large: 2 where
// it is linear, 4 where it is quadratic.
func BenchmarkEdit(b *testing.B) {
	const n = 5000
	for name, d := range large {
		edit := func(n int) time.Duration {
			var all []string
			for i := range n {
				all = append(all, fmt.Sprintf(d.object, i))
			}
			raw := []byte(d.head + strings.Join(all, d.between) + d.tail)
			id := fmt.Sprintf("t%d", n/2)
			to := map[string]any{"name": id, "port": json.Number("1"), "new": "x"}
			best := time.Hour
			for range 3 {
				began := time.Now()
				out := testkit.Value(d.format.edit(raw, []string{"o"}, d.identity, id, to))(b)
				best = min(best, time.Since(began))
				_ = testkit.Value(d.format.parse(out))(b)
			}
			return best
		}
		b.Run(name, func(b *testing.B) {
			var small, twice time.Duration
			for b.Loop() {
				small, twice = edit(n), edit(2*n)
			}
			b.ReportMetric(float64(twice)/float64(small), "n-to-2n")
			b.ReportMetric(small.Seconds()*1e3, "ms/edit")
		})
	}
}
