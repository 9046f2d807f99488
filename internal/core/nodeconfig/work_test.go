package nodeconfig_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/steadyfleet/steady/internal/core/nodeconfig"
	"github.com/steadyfleet/steady/internal/testkit"
)

// TestWorkGrowsWithSize: what a node can send or name as a rule is read in a time that grows with its size, not with its square.
func TestWorkGrowsWithSize(t *testing.T) {
	list := func(n int, element string) json.RawMessage {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, ","+element, i)
		}
		return json.RawMessage(`{"l":[` + b.String()[1:] + "]}")
	}
	plain, named := &nodeconfig.Rules{Sets: map[string]string{"l": ""}}, &nodeconfig.Rules{Sets: map[string]string{"l": "id"}, Ignored: []string{"l/*/x"}}
	for what, do := range map[string]func(n int){
		"a set of values":                  func(n int) { plain.Form(list(n, "%d")) },
		"a set of values that is replaced": func(n int) { plain.Redacted(list(n, "%d")) },
		"a set of objects":                 func(n int) { named.Form(list(n, `{"id":%d,"x":1}`)) },
		"ignored fields of a set":          func(n int) { named.Pushed(list(n, `{"id":%d,"x":1}`), list(n, `{"id":%d,"x":2}`)) },
		"ignored fields that are gone":     func(n int) { named.Pushed(list(n, `{"id":%d,"x":1}`), list(n, `{"id":%d}`)) },
	} {
		took := func(n int) time.Duration {
			best := time.Hour
			for range 5 {
				best = min(best, testkit.ThreadTime(t, func() { do(n) }))
			}
			return best
		}
		const n, times = 500, 16
		if small, large := took(n), took(n*times); large > 5*times*small {
			t.Errorf("%s: %d times as much takes %s instead of %s", what, times, large, small)
		}
	}
}
