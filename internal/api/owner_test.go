package api_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/steadyfleet/steady/internal/api/operator"
	"github.com/steadyfleet/steady/internal/core/managed"
	"github.com/steadyfleet/steady/internal/core/spec"
	"github.com/steadyfleet/steady/internal/testkit"
)

// What a session set goes to its host and is listed as the session's; operators neither change,
// remove, plan nor ask anything of it, and what it takes away counts for nobody else.
func TestSessionsOwnWhatTheySet(t *testing.T) {
	w := newWorld(t)
	a := settled(w, plan{hosts: 1, content: "one", host: delegating + ", bounds: {owners: [session]}"})
	c, lab := w.server.Control(), spec.SessionOwner("lab")
	by := managed.Change{Owner: lab, Actor: "server", Reason: "it begins"}
	for _, name := range []string{"pod", "p1", "p2"} {
		testkit.Value(c.SetManaged(w.ctx(), "h-0000", managed.Input{Kind: "workspace", Name: name, Spec: json.RawMessage(`{"image":"app"}`)}, by))(t)
	}
	testkit.Value(w.op.SetResource(w.ctx(), "h-0000", "volume", "data", resource(`{}`)))(t)

	for what, err := range map[string]error{
		"set":     second(w.op.SetResource(w.ctx(), "h-0000", "workspace", "pod", resource(`{"image":"evil"}`))),
		"remove":  w.op.RemoveResource(w.ctx(), "h-0000", "workspace", "pod", "x", true),
		"restart": second(w.op.Request(w.ctx(), "h-0000", "workspace", "pod", "restart", "x")),
		"plan":    second(w.op.Plan(w.ctx(), "h-0000", operator.PlanRequest{Kind: "workspace", Name: "pod"})),
	} {
		if status(err) != 409 || !strings.Contains(err.Error(), "belongs to session lab, which alone changes or removes it; steady session show lab") {
			t.Errorf("%s by an operator: %v", what, err)
		}
	}
	if _, err := c.SetManaged(w.ctx(), "h-0000", managed.Input{Kind: "volume", Name: "data", Spec: json.RawMessage(`{}`)}, by); err == nil || !strings.Contains(err.Error(), "belongs to operators") {
		t.Errorf("an operator's, set by a session: %v", err)
	}

	owners := map[string]spec.Owner{}
	for _, r := range testkit.Value(w.op.Resources(w.ctx(), "h-0000"))(t).Resources {
		owners[r.Name] = r.Owner
	}
	page := testkit.Value(w.op.ResourcePage(w.ctx(), operator.ResourceQuery{Kind: "workspace", Limit: 10}))(t)
	shown := testkit.Value(w.op.ManagedResource(w.ctx(), "h-0000", "workspace", "pod"))(t)
	if owners["pod"] != lab || owners["data"] != spec.Operators || len(page.Items) != 3 || page.Items[0].Owner != lab || shown.Owner != lab {
		t.Errorf("listed %v, on a page %+v, shown %+v", owners, page.Items, shown)
	}
	for _, e := range a.layer().Entries {
		if (e.Kind == "workspace") != (e.Owner == lab) {
			t.Errorf("the host is told %+v", e)
		}
	}

	for _, name := range []string{"pod", "p1", "p2"} {
		testkit.Must(t, c.RemoveManaged(w.ctx(), "h-0000", "workspace", name, false, by))
	}
	testkit.Must(t, w.op.RemoveResource(w.ctx(), "h-0000", "volume", "data", "x", false))
	events := testkit.Value(w.op.Events(w.ctx(), operator.EventQuery{About: operator.AboutHost("h-0000"), Tail: true, Limit: 100}))(t)
	words := ""
	for _, e := range events.Events {
		words += operator.Message(e) + "\n"
	}
	if !strings.Contains(words, "workspace/pod set by server for session lab: it begins") || !strings.Contains(words, "volume/data set by ") {
		t.Errorf("the log says %s", words)
	}
}

func second[T any](_ T, err error) error { return err }
