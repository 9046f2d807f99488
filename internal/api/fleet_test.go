package api_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/steadyfleet/steady/internal/api/operator"
	coreplan "github.com/steadyfleet/steady/internal/core/plan"
	"github.com/steadyfleet/steady/internal/testkit"
)

// TestFleetAndHostPages: a fleet at a glance and its hosts in pages say what the list of all hosts
// says, before the first release, while nobody enrolled, and after some converged.
func TestFleetAndHostPages(t *testing.T) {
	w := newWorld(t)
	if f := testkit.Value(w.op.Fleet(w.ctx()))(t); len(f.Names)+len(f.Groups)+len(f.Cells)+len(f.Legend) != 0 || f.Names == nil || f.Legend == nil {
		t.Errorf("before the first release the fleet is %+v", f)
	}
	w.release("r1", plan{hosts: 4, content: "one", late: true})
	a := enrolled(w, hostName(0))
	stop := runAgents(t, a)
	w.until("the first host to converge", func() bool {
		h, err := w.op.Host(w.ctx(), hostName(0))
		return err == nil && h.State == coreplan.StateConverged
	})
	stop()
	all := testkit.Value(w.op.Hosts(w.ctx()))(t)
	f := testkit.Value(w.op.Fleet(w.ctx()))(t)
	if len(f.Names) != len(all) || len(all) != 4 || len(f.Groups) != 2 || f.Groups[0].Channel != "late" || f.Groups[1].Wave != "all" || len(f.Legend) != 2 {
		t.Fatalf("the fleet is %+v", f)
	}
	for i, name := range f.Names {
		if k := slices.IndexFunc(all, func(h operator.Host) bool { return h.Name == name }); all[k].State != coreplan.StateOf(f.Cells[i]).State {
			t.Errorf("%s is %c, and listed as %s", name, f.Cells[i], all[k].State)
		}
	}
	for _, c := range []struct {
		q     operator.HostQuery
		total int
		names string
	}{
		{operator.HostQuery{}, 4, "h-0000 h-0001 h-0002 h-0003"},
		{operator.HostQuery{Sort: "-name", Offset: 1, Limit: 2}, 4, "h-0002 h-0001"},
		{operator.HostQuery{Offset: 9}, 4, ""},
		{operator.HostQuery{Search: "0003"}, 1, "h-0003"},
		{operator.HostQuery{Channel: "late", Sort: "channel"}, 2, "h-0002 h-0003"},
		{operator.HostQuery{Tags: []string{"canary"}}, 2, "h-0000 h-0002"},
		{operator.HostQuery{States: []coreplan.HostState{"converged", "failed"}}, 1, "h-0000"},
		{operator.HostQuery{Rollout: "stable@r1", Sort: "state"}, 2, "h-0001 h-0000"},
	} {
		p := testkit.Value(w.op.HostPage(w.ctx(), c.q))(t)
		var names []string
		for _, h := range p.Items {
			names = append(names, h.Name)
			if k := slices.IndexFunc(all, func(x operator.Host) bool { return x.Name == h.Name }); h.State != all[k].State || h.Since != all[k].Since || h.Channel != all[k].Channel || h.Current != all[k].Current {
				t.Errorf("%+v on a page, %+v in the list", h, all[k])
			}
		}
		if got := strings.Join(names, " "); p.Total != c.total || got != c.names || p.Offset != c.q.Offset {
			t.Errorf("%+v: %d hosts, %q, want %d, %q", c.q, p.Total, got, c.total, c.names)
		}
	}
	for status, q := range map[int]operator.HostQuery{422: {States: []coreplan.HostState{"well"}}, 404: {Rollout: "stable@r9"}} {
		var refused *operator.Error
		if _, err := w.op.HostPage(w.ctx(), q); !errors.As(err, &refused) || refused.Status != status {
			t.Errorf("%+v: %v, want %d", q, err, status)
		}
	}
}

// BenchmarkFleet asks a server of 10,000 hosts over the network for the fleet and for a page of each
// filter and order.
func BenchmarkFleet(b *testing.B) {
	w := newWorld(b)
	w.release("r1", plan{hosts: 10_000, content: "one", waves: "    waves: [{name: canary, selector: {tags: [canary]}}, {name: rest, selector: {all: true}}]\n"})
	b.Run("fleet", func(b *testing.B) {
		for b.Loop() {
			if f := testkit.Value(w.op.Fleet(w.ctx()))(b); len(f.Cells) != 10_000 {
				b.Fatal(len(f.Cells))
			}
		}
	})
	b.Run("state", func(b *testing.B) {
		for b.Loop() {
			testkit.Value(w.server.Control().Hosts(b.Context()))(b)
		}
	})
	for _, q := range []operator.HostQuery{{}, {Sort: "state"}, {Sort: "-since", Limit: 200}, {Sort: "-channel"}, {Search: "99", Sort: "-name"}, {Channel: "stable"},
		{Tags: []string{"rest"}}, {States: []coreplan.HostState{"never-enrolled"}, Sort: "state"}, {Rollout: "stable@r1", Offset: 5000}} {
		b.Run(strings.NewReplacer("&", " ", "=", ":").Replace("list "+queryOf(q)), func(b *testing.B) {
			for b.Loop() {
				if p := testkit.Value(w.op.HostPage(w.ctx(), q))(b); p.Total == 0 {
					b.Fatal("nothing is picked")
				}
			}
		})
	}
}

func queryOf(q operator.HostQuery) string {
	return strings.Join([]string{q.Search, q.Channel, strings.Join(q.Tags, ","), q.Rollout, q.Sort}, "/")
}
