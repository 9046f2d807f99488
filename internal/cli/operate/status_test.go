package operate

import (
	"testing"

	"github.com/steadyfleet/steady/internal/api/operator"
	"github.com/steadyfleet/steady/internal/core/health"
	"github.com/steadyfleet/steady/internal/core/warning"
)

// TestIsWell: exactly what needs a person is not well.
func TestIsWell(t *testing.T) {
	for name, c := range map[string]struct {
		s    operator.Status
		well bool
	}{
		"nothing":  {operator.Status{}, true},
		"offline":  {operator.Status{Hosts: operator.HostCounts{Total: 2, Enrolled: 2}}, true},
		"warning":  {operator.Status{Expiries: []warning.Item{{Level: warning.Warning}}}, true},
		"past":     {operator.Status{Expiries: []warning.Item{{Level: warning.Critical}}}, false},
		"safe":     {operator.Status{SafeMode: "a host knows more than the log"}, false},
		"failed":   {operator.Status{Hosts: operator.HostCounts{Failed: 1}}, false},
		"forked":   {operator.Status{Hosts: operator.HostCounts{ToEnrol: 1}}, false},
		"degraded": {operator.Status{Health: operator.FleetHealth{Totals: health.Totals{Hosts: map[health.Status]int{health.Degraded: 1}}}}, false},
		"reverted": {operator.Status{Channels: []operator.ChannelState{{Status: "reverted"}}}, false},
	} {
		if isWell(c.s) != c.well {
			t.Errorf("%s: well is %t", name, !c.well)
		}
	}
}
