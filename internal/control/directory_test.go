package control

import (
	"testing"

	"github.com/steadyfleet/steady/internal/core/server"
)

// A request that waits is woken by a view that changes its answer.
func TestPublishedViewWakes(t *testing.T) {
	var d directory
	if d.find("a") != nil {
		t.Fatal("a host that was never published was found")
	}
	h := d.get("a")
	for _, step := range []struct {
		view  server.View
		wakes bool
	}{{server.View{Serial: "1"}, true}, {server.View{Serial: "1", Seq: 5}, false}, {server.View{Serial: "2"}, true}} {
		changed := h.watch()
		h.publish(&published{View: &step.view})
		woken := false
		select {
		case <-changed:
			woken = true
		default:
		}
		if woken != step.wakes || d.get("a") != h || h.View().Serial != step.view.Serial {
			t.Errorf("%+v: woken is %t", step.view, woken)
		}
	}
}

func TestRequestsOfOneHostAreBounded(t *testing.T) {
	var d directory
	h := d.get("a")
	var ends []func()
	for len(ends) < 1000 {
		end, ok := (&Peer{host: h}).Begin()
		if !ok {
			break
		}
		ends = append(ends, end)
	}
	if len(ends) == 0 || len(ends) == 1000 {
		t.Fatalf("%d requests at once", len(ends))
	}
	ends[0]()
	if _, ok := (&Peer{host: h}).Begin(); !ok {
		t.Error("a request that ended still counts")
	}
}
