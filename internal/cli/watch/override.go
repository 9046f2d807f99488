package watch

import (
	"fmt"

	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/fleet"
)

// overrideMessage words operators' signed words.
func overrideMessage(ev event.Event) (string, bool) {
	v, is := ev.(event.OverrideAccepted)
	if !is {
		return "", false
	}
	what := "channel " + v.Channel
	switch {
	case v.Bundle != "" && v.Host != "":
		what = fmt.Sprintf("bundle %s on host %s", v.Bundle.Short(), v.Host)
	case v.Bundle != "":
		what = fmt.Sprintf("bundle %s on channel %s", v.Bundle.Short(), v.Channel)
	case v.Manifest != "":
		what = orThe(v.Rollout, fleet.RolloutName(v.Channel, v.Manifest.Short()))
	}
	return fmt.Sprintf("SIGNED %s of %s, override %s sent by %s: %s", v.Action, what, v.ID, v.Actor, v.Reason), true
}
