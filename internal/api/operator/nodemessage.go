package operator

import (
	"fmt"
	"strings"

	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/prose"
)

// nodeMessages words what happens to nodes, and to the objects that they have.
var nodeMessages = []message{
	row(func(v event.NodeRegistered) string { return fmt.Sprintf("node %s registered with a token", v.Node) }),
	row(func(v event.NodeKeyOffered) string { return fmt.Sprintf("node %s announced its next key", v.Node) }),
	row(func(v event.NodeKeyChanged) string { return fmt.Sprintf("node %s uses its next key", v.Node) }),
	row(func(v event.NodeConnected) string {
		return prose.Format("node %s connected[: driver %s][, %s], session %d", v.Node, v.Driver, v.Version, v.Session)
	}),
	row(func(v event.NodeDisconnected) string {
		return prose.Format("node %s disconnected[: %s]", v.Node, v.Reason)
	}),
	row(func(v event.NodePaused) string {
		return prose.Format("node %s is PAUSED until an operator decides[: %s]", v.Node, v.Detail)
	}),
	row(func(v event.NodeResumed) string {
		how := "what differs is drift"
		if v.Push {
			how = "what it lost is pushed again"
		}
		return prose.Format("node %s goes on, %s[; by %s][: %s]", v.Node, how, v.Actor, v.Reason)
	}),
	row(func(v event.NodeRetired) string {
		return prose.Format("node %s retired[ by %s][: %s]", v.Node, v.Actor, v.Reason)
	}),
	row(func(v event.NodeRefused) string {
		return prose.Format("a connection in the name of node %s was refused[ (%s)][: %s]", v.Node, v.Code, v.Detail)
	}),
	row(func(v event.NodePlaced) string {
		if v.Machine == "" {
			return prose.Format("node %s is on no known machine[, by %s][: %s]", v.Node, v.Actor, v.Reason)
		}
		return prose.Format("node %s is on machine %s[, by %s][: %s]", v.Node, v.Machine, v.Actor, v.Reason)
	}),
	row(func(v event.NodeQueried) string {
		return prose.Format("the device of node %s was asked whether it would accept %s %s[, by %s]", v.Node, v.Kind, v.Name, v.Actor)
	}),
	row(func(v event.ConfigSet) string {
		return prose.Format("%s %s set to version %d[ (%s)][ by %s][: %s]", v.Kind, v.Name, v.Version, v.Origin, v.Actor, v.Reason)
	}),
	row(func(v event.ConfigRemoved) string {
		what, kept := "removed", ""
		if v.Keep {
			what, kept = "forgotten", "; its nodes keep what they have of it"
		}
		return prose.Format("%s %s %s[ by %s][: %s]%s", v.Kind, v.Name, what, v.Actor, v.Reason, kept)
	}),
	row(func(v event.ConfigRestored) string {
		return prose.Format("%s %s restored from the bin[ by %s][: %s]", v.Kind, v.Name, v.Actor, v.Reason)
	}),
	row(func(v event.ConfigPurged) string {
		return fmt.Sprintf("%s %s left the bin for good", v.Kind, v.Name)
	}),
	row(func(v event.PushStarted) string {
		return fmt.Sprintf("operation %d is sent: %s is to be %s", v.Op, objectOn(v.SyncOf), pushed(v.Delete, "deleted", fmt.Sprintf("as of version %d", v.Version)))
	}),
	row(func(v event.PushSucceeded) string {
		how := pushed(v.Delete, "was deleted", fmt.Sprintf("is as of version %d", v.Version))
		switch {
		case v.ReadBack:
			how += ", as its configuration shows; the acknowledgement was lost"
		case v.Already:
			how += ", as it was already"
		}
		if v.Respelt {
			how += ", with values that the node names as another spelling"
		}
		return objectOn(v.SyncOf) + " " + prose.Detailed(how, v.Effect)
	}),
	row(func(v event.PushFailed) string {
		words := prose.Format("%s could not be pushed[ (%s)][: %s]", objectOn(v.SyncOf), v.Code, v.Error)
		if v.RetryAt != 0 {
			words += fmt.Sprintf("; attempt %d, the next one at %s", v.Attempt, prose.Date(v.RetryAt))
		}
		return words
	}),
	row(func(v event.PushRequested) string {
		return prose.Format("%s is to be pushed now[; by %s][: %s]", objectOn(v.SyncOf), v.Actor, v.Reason)
	}),
	row(func(v event.EffectChanged) string {
		return objectOn(v.SyncOf) + " is " + prose.Detailed(v.Effect, v.Detail)
	}),
	row(func(v event.GhostCleanup) string {
		return prose.Format("%s was never accepted and is in the bin until %s[: %s]", objectOn(v.SyncOf), prose.Date(v.RestoreUntil), v.Error)
	}),
	row(func(v event.DriftExtraneous) string {
		return prose.Format("drift[ %s]: %s is not known to the server", v.Episode, objectOn(v.SyncOf))
	}),
	row(func(v event.DriftMissing) string {
		return prose.Format("drift[ %s]: %s is missing", v.Episode, objectOn(v.SyncOf))
	}),
	row(func(v event.DriftMismatched) string {
		return prose.Format("drift[ %s]: %s differs%s", v.Episode, objectOn(v.SyncOf), fieldsOf(v.Drifted))
	}),
	row(func(v event.DriftChanged) string {
		return prose.Format("drift[ %s]: %s is another one now%s", v.Episode, objectOn(v.SyncOf), fieldsOf(v.Drifted))
	}),
	row(func(v event.DriftClosed) string {
		return prose.Format("drift[ %s] of %s is over[: %s]", v.Episode, objectOn(v.SyncOf), v.Reason)
	}),
	row(func(v event.DriftResolved) string {
		return prose.Format("drift[ %s] of %s resolved[ with %s][ by %s][: %s]", v.Episode, objectOn(v.SyncOf), v.Action, v.Actor, v.Reason)
	}),
	row(func(v event.ResolutionUndone) string {
		return prose.Format("resolution %s of %s taken back[ by %s][: %s]", v.Resolution, objectOn(v.SyncOf), v.Actor, v.Reason)
	}),
	row(func(v event.AdoptionOpened) string {
		return fmt.Sprintf("node %s has %s of its own: an operator is asked what becomes of them", v.Node, prose.Count(len(v.Objects), "object"))
	}),
	row(func(v event.AdoptionClosed) string {
		return prose.Detailed(fmt.Sprintf("nobody is asked about the own objects of node %s any more", v.Node), v.Reason)
	}),
	row(func(v event.SyncRequested) string {
		return prose.Format("a comparison of node %s was asked for[ by %s]", v.Node, v.Actor)
	}),
	row(func(v event.SyncCompleted) string {
		return fmt.Sprintf("node %s was compared: %s, %s open", v.Node, prose.Count(v.Objects, "object"), prose.Count(v.Open, "episode"))
	}),
	row(func(v event.SnapshotRefused) string {
		return prose.Format("the configuration that node %s reports cannot be compared[ (%s)][: %s]", v.Node, v.Code, v.Detail)
	}),
	row(func(v event.DriftIgnored) string {
		what := "the whole object"
		if v.Field != "" {
			what = v.Field
		}
		of := strings.TrimSpace(v.Kind + " " + v.Name)
		if v.Node != "" {
			of = strings.TrimSpace(of + " on node " + v.Node)
		}
		if of == "" {
			of = "all objects"
		}
		end := ""
		if v.Until != 0 {
			end = " until " + prose.Date(v.Until)
		}
		return prose.Format("rule %s: %s of %s is no drift%s[; by %s][: %s]", v.Rule, what, of, end, v.Actor, v.Reason)
	}),
	row(func(v event.DriftUnignored) string {
		by := "its time has come"
		if v.Actor != "" {
			by = "by " + v.Actor
		}
		return prose.Format("rule %s ended[: %s]", v.Rule, by)
	}),
}

// objectOn names an object on a node.
func objectOn(s event.SyncOf) string {
	kind, name := s.Object()
	if s.Leg != "" {
		name += " (" + s.Leg + ")"
	}
	return fmt.Sprintf("%s %s on node %s", kind, name, s.Node)
}

func pushed(gone bool, yes, no string) string {
	if gone {
		return yes
	}
	return no
}

// maxFields is how many fields a message names.
const maxFields = 5

// fieldsOf names the fields that differ.
func fieldsOf(d event.Drifted) string {
	var names []string
	for i := range d.Differences[:min(len(d.Differences), maxFields)] {
		names = append(names, d.Differences[i].Field)
	}
	if len(names) == 0 {
		return ""
	}
	words := " in " + strings.Join(names, ", ")
	if more := len(d.Differences) + d.More - len(names); more > 0 {
		words += fmt.Sprintf(" and %d more", more)
	}
	if d.Conflict {
		words += ", and a change by an operator waits"
	}
	return words
}
