package watch

import (
	"fmt"
	"strings"

	"github.com/steadyfleet/steady/internal/core/event"
)

// managedMessage words what a host's declaration leaves to the server.
func managedMessage(ev event.Event) (string, bool) {
	switch v := ev.(type) {
	case event.ManagedSet:
		return fmt.Sprintf("%s/%s set by %s: %s", v.Kind, v.Name, v.Actor, v.Reason), true
	case event.ManagedRemoved:
		return fmt.Sprintf("%s/%s removed by %s: %s", v.Kind, v.Name, v.Actor, v.Reason), true
	case event.ManagedRequested:
		return fmt.Sprintf("%s of %s/%s asked for by %s: %s", v.Verb, v.Kind, v.Name, v.Actor, v.Reason), true
	case event.HostTuned:
		if v.Settings.Disabled() {
			return fmt.Sprintf("disabled by %s: %s", v.Actor, v.Reason), true
		}
		return fmt.Sprintf("tuned by %s: %s", v.Actor, v.Reason), true
	case event.HostDegraded:
		return "degraded: " + v.Summary(), true
	case event.HostRecovered:
		return "recovered: everything runs as it should", true
	case event.HostRetried:
		return fmt.Sprintf("retry of %s asked for by %s: %s", orThe(v.Resource, "everything that failed"), v.Actor, v.Reason), true
	case event.StreamOpened:
		return fmt.Sprintf("%s in %s opened by %s: %s", v.Kind, v.Resource, v.Actor, strings.Join(v.Argv, " ")), true
	case event.ResourceReported:
		return fmt.Sprintf("%s is %s", v.Resource, joined(v.State, v.Message)), true
	}
	return "", false
}
