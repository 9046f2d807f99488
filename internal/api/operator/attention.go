package operator

import (
	"context"
	"strings"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/status"
)

// Inbox is what needs a person: the worst first, those that a person knows of last.
type Inbox struct {
	Items []status.InboxItem `json:"items"`
	// Needed counts the items that no person knows of.
	Needed int `json:"needed"`
}

// MaxInbox bounds the items of a status.
const MaxInbox = 200

// NewInbox is of a list of status.Inbox.
func NewInbox(list []status.InboxItem) Inbox {
	return Inbox{Items: list, Needed: len(status.Needed(list))}
}

// Acknowledge reports that a person knows of an item.
type Acknowledge struct {
	Kind  string        `json:"kind" minLength:"1" maxLength:"63"`
	Name  string        `json:"name" minLength:"1" maxLength:"255"`
	Until clock.Instant `json:"until,omitempty" doc:"Until when it counts; without it as long as the cause stays the same"`
	Note  string        `json:"note" minLength:"1" maxLength:"1000" doc:"What is done about it, for the log"`
}

// Attention is the inbox.
func (c *Client) Attention(ctx context.Context) (in Inbox, err error) {
	return in, c.get(ctx, "/attention", nil, &in)
}

// Acknowledge reports that the caller knows of an item of the inbox.
func (c *Client) Acknowledge(ctx context.Context, a Acknowledge) error {
	return c.post(ctx, "/attention/ack", a, nil)
}

// RemedyCommand spells a verb of status.Remedy: as a command line, where {0} and {1} stand for its
// arguments, and as an operation of this API; empty where none does it alone.
type RemedyCommand struct {
	Verb      status.Verb `json:"verb"`
	Command   string      `json:"command"`
	Operation string      `json:"operation,omitempty"`
}

// Remedies spells every verb.
var Remedies = []RemedyCommand{
	{status.HostWhy, "steady why {0}", "why-host"},
	{status.HostResources, "steady host resources {0}", ""},
	{status.HostRetry, "steady host retry {0}", "retry-host"},
	{status.HostEnrol, "steady token create {0}", ""},
	{status.HostUnfreeze, "steady host unfreeze {0}", "unfreeze-host"},
	{status.HostDecommission, "steady host decommission {0}", "decommission-host"},
	{status.HostStart, "steady host show {0}", "show-host"},
	{status.QuarantineClear, "steady quarantine clear {0} {1}", "clear-quarantine"},
	{status.RolloutShow, "steady rollout show {0}", "show-rollout"},
	{status.RolloutPromote, "steady rollout promote {0}", "promote-wave"},
	{status.RolloutResume, "steady rollout resume {0}", "operate-rollout"},
	{status.RolloutCancel, "steady rollout cancel {0}", "operate-rollout"},
	{status.RolloutRetry, "steady rollout retry {0}", "retry-rollout"},
	{status.RolloutRetrySign, "steady rollout retry {0} --sign keys", ""},
	{status.ReleasePublish, "steady release publish", ""},
	{status.ReleaseRefresh, "steady release refresh", ""},
	{status.SourceShow, "steady status", "list-sources"},
	{status.NodeShow, "steady node show {0}", "show-node"},
	{status.NodeResume, "steady node resume {0}", "resume-node"},
	{status.NodeAdopt, "steady node adopt {0}", "adopt-node"},
	{status.NodeToken, "steady node token {0}", ""},
	{status.NodeStart, "steady node show {0}", "show-node"},
	{status.ObjectShow, "steady {0} show {1}", "show-object"},
	{status.ObjectEdit, "steady {0} edit {1}", "set-object"},
	{status.ObjectPush, "steady {0} push {1}", "push-object"},
	{status.DriftShow, "steady drift show {0}", "show-drift"},
	{status.DriftResolve, "steady drift resolve {0}", "resolve-drift"},
	{status.SessionShow, "steady session show {0}", "show-session"},
	{status.SessionReconcile, "steady session reconcile {0}", "operate-session"},
	{status.SessionRetryPhase, "steady session retry-phase {0} {1}", "retry-phase"},
	{status.SafeModeShow, "steady safe-mode", "safe-mode"},
	{status.Doctor, "steady doctor --data DATA", ""},
	{status.Expiries, "steady status --ends", "status"},
}

// Command is the command line of a remedy.
func Command(r status.Remedy) string {
	for _, w := range Remedies {
		if w.Verb != r.Verb {
			continue
		}
		line := w.Command
		for i, arg := range r.Args {
			line = strings.ReplaceAll(line, "{"+string(rune('0'+i))+"}", arg)
		}
		return line
	}
	return ""
}
