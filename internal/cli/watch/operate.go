package watch

import (
	"fmt"
	"strings"

	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/prose"
)

func operatorMessage(ev event.Event) (string, bool) {
	switch v := ev.(type) {
	case event.WaveForced:
		return fmt.Sprintf("%s: wave %s was promoted by %s, %s, although it was blocked: %s", v.Rollout, waveOf(v.WaveName, v.Wave), v.Actor, v.Reason, strings.Join(v.Blocks, "; ")), true
	case event.BreakGlassUsed:
		return fmt.Sprintf("BREAK-GLASS: every wave of %s was opened by %s: %s", v.Rollout, v.Actor, v.Reason), true
	case event.HostFrozen:
		return fmt.Sprintf("frozen by %s until %s: %s", v.Actor, prose.Date(v.Until), v.Reason), true
	case event.HostUnfrozen:
		return joined("unfrozen by "+orThe(v.Actor, "time"), v.Reason), true
	case event.RolloutPruned:
		return fmt.Sprintf("%s was pruned to its row in the list: %s", v.Rollout, v.Reason), true
	}
	return "", false
}
