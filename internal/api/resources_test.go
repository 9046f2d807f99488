package api_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/steadyfleet/steady/internal/api/operator"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/spec"
	"github.com/steadyfleet/steady/internal/testkit"
	"github.com/steadyfleet/steady/reconcile/engine"
)

// The list of all hosts' resources has the rows of each host's own list, without their verbs, cut and sorted.
func TestResourceList(t *testing.T) {
	w := newWorld(t)
	w.release("r1", plan{hosts: 3, content: "one", host: delegating})
	agents := w.agents(3)
	stop := runAgents(t, agents...)
	w.until("r1 to converge", func() bool { return w.standing("stable@r1") == "done" })
	stop()
	for host, names := range map[string][]string{"h-0000": {"web", "db"}, "h-0001": {"web"}, "h-0002": {"late"}} {
		for _, name := range names {
			testkit.Value(w.op.SetResource(w.ctx(), host, "workspace", name, resource(`{"image":"app"}`)))(t)
		}
	}
	testkit.Value(w.op.SetResource(w.ctx(), "h-0000", "volume", "data", resource(`{}`)))(t)
	agents[0].append(event.ResourceReported{Resource: "workspace/web", Phase: engine.Failed, State: "Error", Message: "it ended", Layer: event.LayerManaged})
	agents[0].append(event.ResourceReported{Resource: "workspace/db", Phase: engine.Converged, State: "Running", Layer: event.LayerManaged})
	testkit.Must(t, agents[0].send())

	var all []operator.HostResource
	for _, host := range []string{"h-0000", "h-0001", "h-0002"} {
		for _, r := range testkit.Value(w.op.Resources(w.ctx(), host))(t).Resources {
			r.Verbs = nil // of one host's list alone
			all = append(all, operator.HostResource{Host: host, Resource: r})
		}
	}
	list := func(q operator.ResourceQuery) (names []string) {
		t.Helper()
		for _, r := range testkit.Value(w.op.ResourcePage(w.ctx(), q))(t).Items {
			names = append(names, fmt.Sprintf("%s/%s", r.Host, r.Name))
		}
		return names
	}
	got := testkit.Value(w.op.ResourcePage(w.ctx(), operator.ResourceQuery{Limit: operator.MaxPage}))(t)
	if d := gocmp.Diff(all, got.Items); d != "" || got.Total != len(all) {
		t.Errorf("the list of %d differs from those of the hosts:\n%s", got.Total, d)
	}
	for name, c := range map[string]struct {
		q    operator.ResourceQuery
		want string
	}{
		"a kind":      {operator.ResourceQuery{Kind: "workspace"}, "h-0000/db h-0000/web h-0001/web h-0002/late"},
		"a host":      {operator.ResourceQuery{Kind: "workspace", Hosts: []string{"h-0001"}}, "h-0001/web"},
		"hosts":       {operator.ResourceQuery{Kind: "workspace", Hosts: []string{"h-0001", "h-0002"}}, "h-0001/web h-0002/late"},
		"a search":    {operator.ResourceQuery{Kind: "workspace", Search: "0/w"}, "h-0000/web"},
		"a state":     {operator.ResourceQuery{Kind: "workspace", States: []string{"Running"}}, "h-0000/db"},
		"not at all":  {operator.ResourceQuery{Kind: "workspace", States: []string{""}}, "h-0001/web h-0002/late"},
		"by name":     {operator.ResourceQuery{Kind: "workspace", Sort: "-name"}, "h-0000/web h-0001/web h-0002/late h-0000/db"},
		"worst first": {operator.ResourceQuery{Kind: "workspace", Sort: "state"}, "h-0000/web h-0001/web h-0002/late h-0000/db"},
		"a page":      {operator.ResourceQuery{Kind: "workspace", Offset: 1, Limit: 2}, "h-0000/web h-0001/web"},
		"beyond":      {operator.ResourceQuery{Kind: "workspace", Offset: 9}, ""},
		"no kind":     {operator.ResourceQuery{Kind: "spaceship"}, ""},
	} {
		if got := strings.Join(list(c.q), " "); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
	if _, err := w.op.ResourcePage(w.ctx(), operator.ResourceQuery{Hosts: []string{"nobody"}}); status(err) != http.StatusNotFound {
		t.Errorf("an unknown host: %v", err)
	}
}

// Every kind has a schema, of all the fields that the kind reads, and its enumerations are
// what the checks of the kind let pass.
func TestSchemaIsWhatIsRead(t *testing.T) {
	w := newWorld(t)
	for _, kind := range spec.Known.Names() {
		var s operator.Schema
		testkit.Must(t, json.Unmarshal(testkit.Value(w.op.Schema(w.ctx(), kind))(t), &s))
		if !slices.Equal(s.Verbs, spec.Known.Kind(kind).VerbNames()) || len(s.Properties) == 0 || len(s.Order) != len(s.Properties) {
			t.Errorf("%s: %+v", kind, s)
		}
		reads(t, kind, &s, func(v any) any { return v })
	}
	if _, err := w.op.Schema(w.ctx(), "spaceship"); status(err) != http.StatusNotFound {
		t.Errorf("an unknown kind: %v", err)
	}
}

// reads has the kind read a document for each property of a schema and each of its values.
func reads(t *testing.T, kind string, s *operator.Schema, around func(any) any) {
	t.Helper()
	for name, p := range s.Properties {
		within := func(v any) any { return around(map[string]any{name: v}) }
		for _, value := range append(slices.Clone(p.Enum), "no-such-value") {
			if len(p.Enum) == 0 {
				break
			}
			words := refusal(t, kind, within(value))
			if refused := strings.Contains(words, fmt.Sprintf("%q", value)) || kind == spec.KindWorkspace && strings.Contains(words, "expected ports"); refused != (value == "no-such-value") {
				t.Errorf("%s: %s of %s: %s", kind, name, value, cmp.Or(words, "not refused"))
			}
		}
		sample := map[string]any{"string": "x", "integer": 1, "boolean": true, "array": []any{}, "object": map[string]any{}}[p.Type]
		if words := refusal(t, kind, within(sample)); strings.Contains(words, "unknown field") || strings.Contains(words, "cannot unmarshal") {
			t.Errorf("%s: %s: %s", kind, name, words)
		}
		for _, example := range p.Examples {
			if words := refusal(t, kind, within(example)); strings.Contains(words, name+": ") || strings.Contains(words, "cannot unmarshal") {
				t.Errorf("%s: the example of %s: %s", kind, name, words)
			}
		}
		if slices.Contains(s.Required, name) && !strings.Contains(refusal(t, kind, around(map[string]any{})), name+": ") {
			t.Errorf("%s: %s is required, and is not missed", kind, name)
		}
		switch {
		case p.Type == "object":
			reads(t, kind, &p, within)
		case p.Items != nil:
			reads(t, kind, p.Items, func(v any) any { return within([]any{v}) })
		}
	}
}

// refusal is why a document is no resource of a kind; a port to a workspace takes a number as well.
func refusal(t *testing.T, kind string, document any) string {
	t.Helper()
	raw := strings.ReplaceAll(string(testkit.Value(json.Marshal(document))(t)), `{"protocol":`, `{"port":1,"protocol":`)
	if _, _, err := spec.Known.Read(kind, "x", []byte(raw)); err != nil {
		return err.Error()
	}
	return ""
}
