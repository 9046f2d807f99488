package operator

import (
	"encoding/json"
	"strings"

	"github.com/steadyfleet/steady/reconcile/engine"
)

// rowsMessage says what moved among the rows of a session, and what it received.
func rowsMessage(raw json.RawMessage) string {
	var w engine.Write
	if err := json.Unmarshal(raw, &w); err != nil {
		return "something changed"
	}
	var parts []string
	for _, t := range w.Transitions {
		parts = append(parts, t.Ref.String()+" is "+string(t.To)+": "+t.Reason.Text())
	}
	for _, e := range w.Events {
		parts = append(parts, e.Ref.String()+" received event "+e.Type+" "+e.ID)
	}
	if len(parts) == 0 {
		return "its records were updated"
	}
	return strings.Join(parts, "; ")
}
