package health_test

import (
	"fmt"
	"testing"

	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/health"
)

// TestUnfinishedIsBounded: what does not run is named in order, the rest counted.
func TestUnfinishedIsBounded(t *testing.T) {
	var none *health.Host
	if list, more := none.Unfinished(); len(list) != 0 || more != 0 {
		t.Errorf("a host that reported nothing: %v and %d more", list, more)
	}
	h := &health.Host{Resources: map[string]health.Resource{}, Unready: map[string]health.Unready{}}
	for i := range event.MaxDegraded + 3 {
		name := fmt.Sprintf("workspace/w%02d", i)
		h.Resources[name], h.Unready[name] = health.Resource{State: "Starting"}, health.Unready{}
	}
	h.Resources["workspace/a"] = health.Resource{State: "Running"}
	list, more := h.Unfinished()
	if len(list) != event.MaxDegraded || more != 3 || list[0].Resource != "workspace/w00" || list[0].State != "Starting" {
		t.Errorf("%v and %d more", list, more)
	}
}
