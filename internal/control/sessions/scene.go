package sessions

import (
	"context"
	"maps"
	"reflect"
	"slices"
	"sync"

	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/place"
	"github.com/steadyfleet/steady/internal/core/server"
)

// scene is what placement reads, as it was at one instant. It does not change any more, so that hosts are searched
// outside of the reducer; what comes of it is checked again where it is committed.
type scene struct {
	hosts  []*place.Host                  // by name; nil: none of that name enrolled
	booked map[string][]place.Reservation // by host, then owner

	made     sync.Once
	calendar *place.Calendar
	avoided  []string // whom reservations name in their anti-affinity
}

// ready is the scene as a calendar, which is made once.
func (s *scene) ready() *place.Calendar {
	s.made.Do(func() {
		hosts := make([]place.Host, 0, len(s.hosts))
		for _, h := range s.hosts {
			if h != nil {
				hosts = append(hosts, *h)
			}
		}
		var res []place.Reservation
		for _, name := range slices.Sorted(maps.Keys(s.booked)) {
			res = append(res, s.booked[name]...)
		}
		for i := range res {
			s.avoided = append(s.avoided, res[i].AntiAffinity...)
		}
		slices.Sort(s.avoided)
		s.avoided = slices.Compact(s.avoided)
		s.calendar = place.NewCalendar(hosts, res)
	})
	return s.calendar
}

// scenes makes one scene for all that search it, and another when something that it has in it changed. Of hosts it
// keeps what was read of each, and reads again those of which an event is committed.
type scenes struct {
	mu     sync.Mutex
	state  *server.State
	roster map[string]fleet.RosterHost
	index  map[string]int // of the hosts of the roster, in hosts
	hosts  []*place.Host  // by name; nil: none of that name enrolled. No host is changed, another one takes its place
	unread bool           // all of them
	booked uint64         // version
	last   *scene         // nil: something changed
}

// scene is the present one. In the reducer it takes one step for each host, and only after a change.
func (r *Runner) scene(ctx context.Context) (out *scene, err error) {
	err = r.srv.ViewState(ctx, func(s *server.State) { out = r.scenes.of(r, s) })
	return out, err
}

func (c *scenes) of(r *Runner, s *server.State) *scene {
	c.mu.Lock()
	defer c.mu.Unlock()
	if roster := r.srv.Roster(); c.unread || s != c.state || c.index == nil || !sameMap(roster, c.roster) {
		names := slices.Sorted(maps.Keys(roster))
		c.state, c.roster, c.unread, c.last = s, roster, false, nil
		c.index, c.hosts = make(map[string]int, len(names)), make([]*place.Host, len(names))
		for i, name := range names {
			c.index[name], c.hosts[i] = i, r.host(s, name)
		}
	}
	if version := s.Booked.Version(); c.last == nil || c.booked != version {
		c.booked, c.last = version, &scene{hosts: slices.Clone(c.hosts), booked: s.Booked.On()}
	}
	return c.last
}

// note reads again what committed events may have changed. It is called in the reducer.
func (c *scenes) note(r *Runner, s *server.State, entries []event.Entry) {
	c.mu.Lock()
	defer c.mu.Unlock()
	before := ""
	for i := range entries {
		host := entries[i].Host()
		switch at, known := c.index[host]; {
		case c.unread || c.state != s || entries[i].Type == (event.ResourceRecorded{}).EventType(): // bookings have a version
		case host == "":
			c.unread = c.index != nil
		case host == before || !known:
		default:
			if h := r.host(s, host); !reflect.DeepEqual(h, c.hosts[at]) {
				c.hosts[at], c.last = h, nil
			}
		}
		before = host
	}
}

// forget has all hosts read again: what their bundles use was learned.
func (c *scenes) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.unread = true
}

// sameMap reports whether two are one map, which is not changed any more once it is published.
func sameMap(a, b map[string]fleet.RosterHost) bool {
	return reflect.ValueOf(a).Pointer() == reflect.ValueOf(b).Pointer()
}
