package plan

import (
	"cmp"
	"slices"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/fleet"
)

// Overview is where every host stands, one letter each. It is derived of a state and kept
// beside it: Note marks what entries change, and Read brings that alone up to date. The zero
// Overview has everything to read.
type Overview struct {
	names  []string
	groups []Group
	index  map[string]int
	cells  []byte
	since  []clock.Instant
	whole  bool // all but what is noted is up to date
	noted  map[string]struct{}
}

// Group is a run of hosts of one channel and wave of its newest rollout. Both are empty for
// hosts in none.
type Group struct {
	Channel string `json:"channel"`
	Wave    string `json:"wave"`
	First   int    `json:"first"`
	Count   int    `json:"count"`
}

// Fleet is an Overview at an instant. Its hosts are ordered by channel, wave and name. Names
// and Groups are shared and must not be changed.
type Fleet struct {
	Names  []string
	Groups []Group
	Cells  []byte // the code of each host's state
	Since  []clock.Instant
}

// Note marks what committed entries may have changed: the host that each happened to, or the
// place of every host.
func (o *Overview) Note(entries []event.Entry) {
	for i := range entries {
		name := entries[i].Host()
		switch {
		case !o.whole:
			return
		case name == "":
			o.whole, o.noted = false, nil
		default:
			if o.noted == nil {
				o.noted = map[string]struct{}{}
			}
			o.noted[name] = struct{}{}
		}
	}
}

// Read returns the fleet as a state has it, of which all entries were noted. Roster are
// the hosts of the newest release.
func (o *Overview) Read(s *State, roster map[string]fleet.RosterHost) Fleet {
	for name := range o.noted { // order-free: each has its own cell
		i, known := o.index[name]
		if !known {
			o.whole = false
			break
		}
		o.set(s, i, roster)
	}
	o.noted = nil
	if !o.whole {
		o.arrange(s, roster)
	}
	return Fleet{Names: o.names, Groups: o.groups, Cells: slices.Clone(o.cells), Since: slices.Clone(o.since)}
}

// set brings a host up to date.
func (o *Overview) set(s *State, i int, roster map[string]fleet.RosterHost) {
	state, since := s.HostState(o.names[i], Declares(roster, o.names[i]))
	o.cells[i], o.since[i] = codes[state], since
}

// Declares reports whether a roster names a host. Before the first release nothing is declared,
// and no host counts as removed.
func Declares(roster map[string]fleet.RosterHost, name string) bool {
	_, declared := roster[name]
	return declared || len(roster) == 0
}

// arrange makes all of it anew.
func (o *Overview) arrange(s *State, roster map[string]fleet.RosterHost) {
	type place struct {
		name, channel, wave string
		order               int
	}
	places := make([]place, 0, max(len(roster), len(s.Hosts)))
	put := func(name string) {
		p := place{name: name, channel: roster[name].Channel}
		p.wave, p.order = s.wave(p.channel, name)
		places = append(places, p)
	}
	for _, name := range s.HostNames() {
		put(name)
	}
	for name := range roster { // order-free: they are sorted below
		if s.Hosts[name] == nil {
			put(name)
		}
	}
	slices.SortFunc(places, func(a, b place) int {
		return cmp.Or(cmp.Compare(a.channel, b.channel), a.order-b.order, cmp.Compare(a.name, b.name))
	})
	*o = Overview{whole: true, names: make([]string, len(places)), index: make(map[string]int, len(places)),
		cells: make([]byte, len(places)), since: make([]clock.Instant, len(places))}
	for i := range places {
		p := &places[i]
		o.names[i], o.index[p.name] = p.name, i
		o.set(s, i, roster)
		if g := len(o.groups) - 1; g < 0 || i > 0 && (p.channel != places[i-1].channel || p.order != places[i-1].order) {
			o.groups = append(o.groups, Group{Channel: p.channel, Wave: p.wave, First: i})
		}
		o.groups[len(o.groups)-1].Count++
	}
}

// wave is the wave of a host in the newest rollout of a channel, with its place among the
// waves; hosts in none come last.
func (s *State) wave(channel, name string) (string, int) {
	h, c := s.Hosts[name], s.Channels[channel]
	if h == nil || c == nil {
		return "", maxWaves
	}
	for _, at := range h.memberships {
		if at.r.Manifest == c.Latest {
			w := at.r.Plan.Leaves[at.i].Wave
			return at.r.Plan.Header.Waves[w].Name, w
		}
	}
	return "", maxWaves
}

// maxWaves is more than any plan has.
const maxWaves = 1 << 30
