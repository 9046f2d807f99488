package operations

import (
	"bytes"
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/steadyfleet/steady/internal/api/operator"
	"github.com/steadyfleet/steady/internal/core/digest"
	corefleet "github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/plan"
	"github.com/steadyfleet/steady/internal/core/rollout"
	"github.com/steadyfleet/steady/internal/wire"
)

func (h *Handler) fleet(ctx context.Context, in *AtRecord) (operator.Fleet, error) {
	c, err := h.at(ctx, in)
	if err != nil {
		return operator.Fleet{}, err
	}
	f, err := c.Hosts(ctx)
	return fleetOf(f), err
}

func fleetOf(f plan.Fleet) operator.Fleet {
	out := operator.Fleet{Names: f.Names, Groups: f.Groups, Cells: string(f.Cells), Legend: []operator.StateCount{}}
	if out.Names == nil {
		out.Names, out.Groups = []string{}, []plan.Group{}
	}
	for _, row := range plan.HostStates {
		if n := bytes.Count(f.Cells, []byte{row.Code}); n > 0 {
			out.Legend = append(out.Legend, operator.StateCount{Code: string(row.Code), State: row.State, Count: n})
		}
	}
	return out
}

type hostListIn struct {
	AtRecord
	Search  string   `query:"search" maxLength:"63" doc:"A part of the name"`
	Channel string   `query:"channel" maxLength:"63"`
	Tags    []string `query:"tag,explode" maxItems:"16" doc:"Hosts with all of these tags"`
	States  []string `query:"state,explode" maxItems:"32" doc:"Hosts in any of these states"`
	Rollout string   `query:"rollout" maxLength:"200" doc:"Hosts that this rollout names"`
	Sort    string   `query:"sort" enum:"name,-name,state,-state,channel,-channel,since,-since" default:"name" doc:"state begins with the worst"`
	Cut
}

// Resolve reads lists as they were sent: huma passes over one whose first value is empty.
func (in *hostListIn) Resolve(ctx huma.Context) []error {
	u := ctx.URL()
	in.Tags, in.States = u.Query()["tag"], u.Query()["state"]
	return nil
}

var _ huma.Resolver = (*hostListIn)(nil)

func (h *Handler) hostList(ctx context.Context, in *hostListIn) (page operator.Page[operator.Host], err error) {
	for _, s := range in.States {
		if !slices.ContainsFunc(plan.HostStates, func(r plan.HostStateRow) bool { return string(r.State) == s }) {
			return page, wire.Refuse(wire.ErrInvalid, "%q is no state of a host", s)
		}
	}
	c, err := h.at(ctx, &in.AtRecord)
	if err != nil {
		return page, err
	}
	var of *rollout.Manifest
	if in.Rollout != "" {
		if of, err = h.manifestOf(ctx, c, in.Rollout); err != nil {
			return page, err
		}
	}
	f, err := c.Hosts(ctx)
	if err != nil {
		return page, err
	}
	roster := c.Roster()
	picked := in.pick(f, roster, of)
	in.order(f, picked)
	cut := pageOf(in.Cut, picked)
	page = operator.Page[operator.Host]{Total: cut.Total, Offset: cut.Offset}
	names := make([]string, 0, len(cut.Items))
	for _, i := range cut.Items {
		names = append(names, f.Names[i])
	}
	page.Items, err = h.hostRows(ctx, c, roster, func(*plan.State) []string { return names })
	return page, err
}

// manifestOf returns the manifest of a rollout, over ones and ones that wait included.
func (h *Handler) manifestOf(ctx context.Context, c source, id string) (*rollout.Manifest, error) {
	var d digest.Digest
	err := c.View(ctx, func(s *plan.State) {
		if r := s.Find(id); r != nil {
			d = r.Manifest
		} else if w, waits := c.Explain(s).FindQueued(id); waits {
			d = w.Manifest
		} else if row, pruned := s.FindPruned(id); pruned {
			d = row.Manifest
		}
	})
	if err == nil && d == "" {
		err = unknownRollout(id)
	}
	if err != nil {
		return nil, err
	}
	return h.c.Manifest(d)
}

// pick lists the hosts of a fleet that the filters leave.
func (in *hostListIn) pick(f plan.Fleet, roster map[string]corefleet.RosterHost, of *rollout.Manifest) []int {
	picked := make([]int, 0, len(f.Names))
	for _, g := range f.Groups {
		if in.Channel != "" && g.Channel != in.Channel {
			continue
		}
		for i := g.First; i < g.First+g.Count; i++ {
			if name := f.Names[i]; !strings.Contains(name, in.Search) || len(in.States) > 0 && !slices.Contains(in.States, string(plan.StateOf(f.Cells[i]).State)) {
				continue
			}
			tags := roster[f.Names[i]].Tags
			if slices.ContainsFunc(in.Tags, func(tag string) bool { return !slices.Contains(tags, tag) }) {
				continue
			}
			if of != nil {
				if _, named := of.Leaf(f.Names[i]); !named {
					continue
				}
			}
			picked = append(picked, i)
		}
	}
	return picked
}

// order sorts hosts of a fleet; those that are alike are by name.
func (in *hostListIn) order(f plan.Fleet, picked []int) {
	key, turned := strings.CutPrefix(in.Sort, "-")
	keys := make([]int64, len(f.Names))
	switch key {
	case "state":
		var rank [256]int64
		for i, row := range plan.HostStates {
			rank[row.Code] = int64(i)
		}
		for i, code := range f.Cells {
			keys[i] = rank[code]
		}
	case "channel": // groups are in that order
		for n, g := range f.Groups {
			if n > 0 && f.Groups[n-1].Channel == g.Channel {
				n = int(keys[g.First-1])
			}
			for i := range g.Count {
				keys[g.First+i] = int64(n)
			}
		}
	case "since":
		for i, at := range f.Since {
			keys[i] = int64(at)
		}
	}
	slices.SortFunc(picked, func(a, b int) int {
		by, name := cmp.Compare(keys[a], keys[b]), strings.Compare(f.Names[a], f.Names[b])
		switch {
		case turned && key == "name":
			return -name
		case turned:
			by = -by
		}
		return cmp.Or(by, name)
	})
}
