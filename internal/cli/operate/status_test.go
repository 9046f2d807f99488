package operate

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/steadyfleet/steady/internal/api/operator"
	"github.com/steadyfleet/steady/internal/cli/command"
	"github.com/steadyfleet/steady/internal/core/status"
)

// TestNothingNeedsYouOnlyWhenNothingDoes: a status begins with what needs a person; only an inbox
// without an item that nobody knows of is called empty, and hosts with one word are told together.
func TestNothingNeedsYouOnlyWhenNothingDoes(t *testing.T) {
	item := func(kind, name, word string, level status.Level, ack *status.Ack) status.InboxItem {
		return status.InboxItem{Item: status.Item{Kind: kind, Name: name, Summary: status.Summary{Word: word, Level: level, Reason: "reason of " + name, Next: []status.Remedy{status.Do(status.HostWhy, name)}}}, Ack: ack}
	}
	for name, c := range map[string]struct {
		items     []status.InboxItem
		want, not string
	}{
		"none":  {nil, "nothing needs you", "need"},
		"one":   {[]status.InboxItem{item("host", "a", "degraded", status.Critical, nil)}, "1 item needs you\n  degraded host a: reason of a\n    Next: steady why a", "nothing"},
		"known": {[]status.InboxItem{item("host", "a", "degraded", status.Critical, &status.Ack{By: "ann", Note: "n"})}, "nothing needs you (1 acknowledged)", "degraded"},
	} {
		var out bytes.Buffer
		a := verbs{command.New(command.Streams{Out: &out, Getenv: func(string) string { return "" }})}
		a.showNeeds(operator.Status{Fleet: "f", Inbox: operator.NewInbox(c.items)})
		if got := out.String(); !strings.Contains(got, c.want) || c.not == "nothing" && strings.Contains(got, "nothing needs") {
			t.Errorf("%s:\n%s", name, got)
		}
	}
	var many []status.InboxItem
	for i := range 7 {
		many = append(many, item("host", fmt.Sprint("h", i), "offline", status.Away, nil))
	}
	if g := grouped(many); len(g) != 1 || len(g[0]) != 7 {
		t.Errorf("7 hosts with one word are told in %d groups", len(g))
	}
	if g := grouped(append(many[:3:3], item("host", "x", "failed", status.Critical, nil))); len(g) != 4 {
		t.Errorf("4 hosts are told in %d groups", len(g))
	}
}

// TestEveryRemedyIsSpelled: each verb that the core names has a command line.
func TestEveryRemedyIsSpelled(t *testing.T) {
	seen := map[status.Verb]bool{}
	for _, w := range operator.Remedies {
		if seen[w.Verb] || !strings.HasPrefix(w.Command, "steady ") {
			t.Errorf("%+v is spelled twice, or no command", w)
		}
		seen[w.Verb] = true
	}
	if got := Steps([]status.Remedy{status.Do(status.QuarantineClear, "stable", "abc"), status.Do(status.HostWhy, "h")}); got != "steady quarantine clear stable abc; or steady why h" {
		t.Error(got)
	}
}
