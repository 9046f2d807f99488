package operations

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/steadyfleet/steady/internal/core/clock"
	corefleet "github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/plan"
	"github.com/steadyfleet/steady/internal/core/rollout"
)

// drawFleet is a fleet of a few channels and waves with its roster.
func drawFleet(t *rapid.T) (f plan.Fleet, roster map[string]corefleet.RosterHost) {
	roster = map[string]corefleet.RosterHost{}
	for _, channel := range []string{"", "a", "b"} {
		for _, wave := range []string{"x", "y"} {
			names := rapid.SliceOfNDistinct(rapid.IntRange(0, 40), 0, 6, rapid.ID[int]).Draw(t, "hosts")
			slices.Sort(names)
			if len(names) > 0 {
				f.Groups = append(f.Groups, plan.Group{Channel: channel, Wave: wave, First: len(f.Names), Count: len(names)})
			}
			for _, n := range names {
				name := channel + wave + strconv.Itoa(n)
				roster[name] = corefleet.RosterHost{Channel: channel, Tags: rapid.SliceOf(rapid.SampledFrom([]string{"p", "q"})).Draw(t, "tags")}
				f.Names = append(f.Names, name)
				f.Cells = append(f.Cells, plan.HostStates[rapid.IntRange(0, 3).Draw(t, "state")].Code)
				f.Since = append(f.Since, clock.Instant(rapid.IntRange(0, 3).Draw(t, "since")))
			}
		}
	}
	return f, roster
}

// TestHostsOfAPageAreThoseThatTheFiltersLeave compares picking and sorting with one host after the other.
func TestHostsOfAPageAreThoseThatTheFiltersLeave(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f, roster := drawFleet(t)
		in := hostListIn{Search: rapid.SampledFrom([]string{"", "", "x", "1"}).Draw(t, "search"), Channel: rapid.SampledFrom([]string{"", "", "a"}).Draw(t, "channel"),
			Tags: rapid.SampledFrom([][]string{nil, nil, {"p"}, {"p", "q"}}).Draw(t, "tags"),
			Sort: rapid.SampledFrom([]string{"", "-"}).Draw(t, "turned") + rapid.SampledFrom([]string{"name", "state", "channel", "since"}).Draw(t, "sort")}
		for _, row := range plan.HostStates[:rapid.IntRange(0, 2).Draw(t, "states")] {
			in.States = append(in.States, string(row.State))
		}
		var of *rollout.Manifest
		if rapid.Bool().Draw(t, "of a rollout") && len(f.Names) > 0 {
			of = &rollout.Manifest{Leaves: []corefleet.Leaf{{Host: rapid.SampledFrom(f.Names).Draw(t, "member")}}}
		}
		got := in.pick(f, roster, of)
		in.order(f, got)
		key, turned := strings.CutPrefix(in.Sort, "-")
		rank := func(i int) int {
			return slices.IndexFunc(plan.HostStates, func(r plan.HostStateRow) bool { return r.Code == f.Cells[i] })
		}
		var want []int
		for i, name := range f.Names {
			has := func(tag string) bool { return slices.Contains(roster[name].Tags, tag) }
			if strings.Contains(name, in.Search) && (in.Channel == "" || roster[name].Channel == in.Channel) && !slices.ContainsFunc(in.Tags, func(tag string) bool { return !has(tag) }) &&
				(in.States == nil || slices.Contains(in.States, string(plan.HostStates[rank(i)].State))) && (of == nil || of.Leaves[0].Host == name) {
				want = append(want, i)
			}
		}
		if !slices.Equal(slices.Sorted(slices.Values(got)), want) {
			t.Fatalf("%+v picks %v, want %v", in, got, want)
		}
		for k := 1; k < len(got); k++ {
			a, b := got[k-1], got[k]
			by := map[string]int{"name": 0, "state": cmp.Compare(rank(a), rank(b)), "channel": strings.Compare(roster[f.Names[a]].Channel, roster[f.Names[b]].Channel), "since": cmp.Compare(f.Since[a], f.Since[b])}[key]
			name := strings.Compare(f.Names[a], f.Names[b])
			if turned && key == "name" {
				name = -name
			} else if turned {
				by = -by
			}
			if by > 0 || by == 0 && name >= 0 {
				t.Fatalf("sorted by %s, %s comes before %s", in.Sort, f.Names[a], f.Names[b])
			}
		}
	})
}

// TestFleetCountsItsLegend: as many hosts as there are cells, the worst state first.
func TestFleetCountsItsLegend(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f, _ := drawFleet(t)
		out, n, last := fleetOf(f), 0, -1
		for _, row := range out.Legend {
			rank := slices.IndexFunc(plan.HostStates, func(r plan.HostStateRow) bool { return r.State == row.State })
			if rank <= last || row.Count != strings.Count(out.Cells, row.Code) || row.Count == 0 || plan.StateOf(row.Code[0]).State != row.State {
				t.Fatalf("legend %+v of %q", out.Legend, out.Cells)
			}
			n, last = n+row.Count, rank
		}
		if n != len(out.Cells) || len(out.Names) != n || out.Names == nil || out.Groups == nil {
			t.Fatalf("%d hosts are counted of %q", n, out.Cells)
		}
	})
}
