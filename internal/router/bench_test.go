package router_test

import (
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/steadyfleet/steady/internal/router"
)

// BenchmarkProxied reports how often a request through the router fits into
// direct ones on the same machine: x-direct is its time over theirs.
func BenchmarkProxied(b *testing.B) {
	f := start(b, router.Config{}, router.Options{}, web())
	s := workspace(b, says("hello"))
	f.ready("web", s)
	get := func(url string) {
		res, err := f.client.Get(url)
		if err != nil {
			b.Error(err)
			return
		}
		if _, err := io.Copy(io.Discard, res.Body); err != nil || res.StatusCode != http.StatusOK {
			b.Errorf("%d %v", res.StatusCode, err)
		}
		res.Body.Close()
	}
	run := func(url string) time.Duration {
		begin := time.Now()
		b.RunParallel(func(p *testing.PB) {
			for p.Next() {
				get(url)
			}
		})
		return time.Since(begin)
	}
	b.ReportAllocs()
	b.ResetTimer()
	proxied := run("http://" + f.addr + "/")
	b.StopTimer()
	direct := run(s.URL)
	b.ReportMetric(float64(proxied)/float64(direct), "x-direct")
}
