package router_test

import (
	"fmt"
	"testing"

	"github.com/steadyfleet/steady/internal/router"
	"github.com/steadyfleet/steady/internal/testkit"
)

func BenchmarkMatch(b *testing.B) {
	var routes []router.Route
	for i := range 1000 {
		routes = append(routes, route(fmt.Sprintf("r%d", i), fmt.Sprintf("h%d.example", i%100), fmt.Sprintf("/app/%d", i)))
	}
	t := build(b, routes...)
	b.ReportAllocs()
	for b.Loop() {
		host := testkit.Value(router.RequestHost("h7.example:443"))(b)
		path, err := router.CleanPath("/app/7/some/deeper/path")
		if err != nil || t.Match(host, path) < 0 {
			b.Fatal("no route", err)
		}
	}
}
