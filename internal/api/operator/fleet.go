package operator

import (
	"context"
	"net/url"

	"github.com/steadyfleet/steady/internal/core/plan"
)

// Fleet is where every host stands. Hosts are ordered by channel, wave of the newest rollout and
// name; Cells has one letter for each, which Legend explains, the worst first.
type Fleet struct {
	Names  []string     `json:"names"`
	Groups []plan.Group `json:"groups"`
	Cells  string       `json:"cells"`
	Legend []StateCount `json:"legend"`
}

// StateCount counts the hosts of a state.
type StateCount struct {
	Code  string         `json:"code"`
	State plan.HostState `json:"state"`
	Count int            `json:"count"`
}

// HostQuery picks hosts. What is empty leaves none out.
type HostQuery struct {
	Search  string // is a part of the name
	Channel string
	Tags    []string         // all of them
	States  []plan.HostState // any of them
	Rollout string           // names the host; a name or a manifest's digest
	// Sort is name, state, channel or since, with a minus before it to turn it round.
	Sort   string
	Offset int
	Limit  int // 1 to MaxPage, 50 by default
}

// Fleet says where every host stands.
func (c *Client) Fleet(ctx context.Context) (f Fleet, err error) {
	return f, c.get(ctx, "/fleet", nil, &f)
}

// HostPage returns a page of the hosts that a query picks.
func (c *Client) HostPage(ctx context.Context, q HostQuery) (p Page[Host], err error) {
	return p, c.get(ctx, "/host-list", q.values(), &p)
}

func (q HostQuery) values() url.Values {
	v := page(map[string]string{"search": q.Search, "channel": q.Channel, "rollout": q.Rollout, "sort": q.Sort}, q.Offset, q.Limit)
	v["tag"] = q.Tags
	for _, s := range q.States {
		v.Add("state", string(s))
	}
	return v
}
