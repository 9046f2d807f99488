package release

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/steadyfleet/steady/internal/release/fleetdir"
	"github.com/steadyfleet/steady/internal/testkit"
	"github.com/steadyfleet/steady/internal/trust"
)

// bigFleet declares n hosts in one channel with two waves, two budgets and a
// probe per tag.
func bigFleet(n int) map[string]string {
	var b strings.Builder
	b.WriteString("apiVersion: steady/v1\nkind: Fleet\nmetadata: {name: big}\nhosts:\n")
	for i := range n {
		tag := "rest"
		if i%100 == 0 {
			tag = "canary"
		}
		fmt.Fprintf(&b, "  h-%06d: {channel: stable, tags: [%s], bundle: web}\n", i, tag)
	}
	b.WriteString(`channels: {stable: {rolloutPolicy: careful, freshnessWindow: 24h}}
rolloutPolicies:
  careful:
    waves: [{name: canary, selector: {tags: [canary]}}, {name: rest, selector: {all: true}}]
disruptionBudgets:
  - {selector: {tags: [rest]}, maxInFlightPct: 10}
  - {selector: {all: true}, maxInFlightPct: 20}
tagProbes: {rest: {up: {tcp: {address: "127.0.0.1:80"}}}}
bundles: {web: {path: web}}
`)
	return map[string]string{fleetdir.FleetFile: b.String(), "web/bundle.yaml": "files: [{path: a, content: x}]\n"}
}

func BenchmarkRelease(b *testing.B) {
	for _, n := range []int{1_000, 10_000, 100_000} {
		b.Run(fmt.Sprintf("hosts=%d", n), func(b *testing.B) {
			dir := b.TempDir()
			for name, content := range bigFleet(n) {
				at := filepath.Join(dir, name)
				testkit.Must(b, os.MkdirAll(filepath.Dir(at), 0o755))
				testkit.Must(b, os.WriteFile(at, []byte(content), 0o644))
			}
			k := newKeys(b, "big")
			for b.Loop() {
				src, ps := fleetdir.Load(dir)
				if Fatal(ps) {
					b.Fatal(lines(ps))
				}
				rel, ps := Build(src, BuildOptions{Ref: "r1", Now: t0})
				if Fatal(ps) {
					b.Fatal(lines(ps))
				}
				out := filepath.Join(dir, "release")
				testkit.Must(b, Write(out, rel.Files))
				o := SignOptions{Release: []trust.Signer{k.release}, Timestamp: []trust.Signer{k.timestamp}, Roots: k.roots, Now: t0}
				testkit.Value(Sign(out, o))(b)
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/float64(n), "µs/host")
		})
	}
}
