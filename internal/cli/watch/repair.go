package watch

import (
	"fmt"
	"strings"

	"github.com/steadyfleet/steady/internal/core/event"
)

func repairMessage(ev event.Event) (string, bool) {
	switch v := ev.(type) {
	case event.RepairNeeded:
		names := strings.Join(v.Resources, ", ")
		if v.More > 0 {
			names += fmt.Sprintf(" and %d more", v.More)
		}
		return fmt.Sprintf("waits for a grant to repair %s: %s", orThe(names, "what drifted"), v.Reason), true
	case event.RepairOver:
		how := "needs no repair any more"
		switch {
		case v.Grant != "" && v.OK:
			how = "repaired under " + v.Grant
		case v.Grant != "":
			how = "could not repair all under " + v.Grant
		}
		return joined(how, v.Detail), true
	}
	return "", false
}
