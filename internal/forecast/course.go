package forecast

import (
	"fmt"
	"slices"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/gate"
	"github.com/steadyfleet/steady/internal/core/host"
	"github.com/steadyfleet/steady/internal/core/plan"
	"github.com/steadyfleet/steady/internal/core/rollout"
	"github.com/steadyfleet/steady/internal/core/server"
)

// Fleet is what a forecast begins with.
type Fleet struct {
	Docs plan.Documents
	// Release is accepted at the start; without a version it is none.
	Release event.ReleaseAccepted
	// Only is the rollout that counts; empty are all.
	Only  string
	Hosts []string            // that are declared, sorted
	Tags  map[string][]string // by host
	// Snapshot is the state of a server as JSON; nil begins with a fleet of which
	// every host is enrolled, online and runs nothing yet.
	Snapshot []byte
	// Skew is how far the clocks of hosts are ahead of the server's.
	Skew  map[string]clock.Duration
	Start clock.Instant
	// Horizon is how far the forecast looks.
	Horizon clock.Duration
}

// never is an instant of a course that did not come.
const never clock.Duration = -1

// course is what came of one run.
type course struct {
	rollouts map[digest.Digest]*passage
	order    []digest.Digest
	rest     bool
	end      clock.Duration // of the last thing that happened to a rollout
	usage    map[budgetKey]*Series
	flight   Series
}

// passage is one rollout of a course.
type passage struct {
	name, channel string
	manifest      digest.Digest
	phase         string
	waves         []stage
	hosts         int
	opened, ended clock.Duration
	stopped       int // the wave in which the failure policy fired, or -1
	reason        string
	claimed       int
	failed        int
	hold          *Obstacle
}

type stage struct {
	name             string
	hosts            int
	opened, promoted clock.Duration
}

// budgetKey tells budgets apart.
type budgetKey struct {
	selector string
	max      int
}

// Obstacle is what keeps a rollout that did not end.
type Obstacle struct {
	gate.Block
	// Host is the first that waits, and HostBlock what holds it.
	Host      string      `json:"host,omitempty"`
	HostBlock *gate.Block `json:"hostBlock,omitempty"`
}

// witness watches a world and keeps its course.
type witness struct {
	w       *World
	start   clock.Instant
	only    string
	c       *course
	flying  map[string]bool
	n       int
	budgets []plan.Budget
	folded  []event.Event // since the last commit: entries have no bodies here
}

// play runs one course.
func play(f *Fleet, m *Drawn) (*course, error) {
	s := plan.New(f.Docs)
	if f.Snapshot != nil {
		var err error
		if s, err = plan.Restore(f.Snapshot, f.Docs); err != nil {
			return nil, fmt.Errorf("the state to begin with: %w", err)
		}
	}
	w := NewWorld(s, f.Docs, f.Start, m)
	w.Refreshed = true
	t := &witness{w: w, start: f.Start, only: f.Only, flying: map[string]bool{}, c: &course{rollouts: map[digest.Digest]*passage{}, usage: map[budgetKey]*Series{}}}
	if err := populate(w, f, m); err != nil {
		return nil, err
	}
	for _, name := range s.HostNames() {
		t.fly(name)
	}
	t.sample()
	w.Bare()
	s.Watch(func(_ event.Entry, ev event.Event) { t.folded = append(t.folded, ev) })
	w.Committed = t.committed
	for _, name := range s.HostNames() {
		w.Drive(name, f.Skew[name])
	}
	if f.Release.Version > 0 {
		w.Fail(w.Step(server.Release{Events: []event.Event{f.Release,
			event.TimestampAccepted{Version: s.Timestamp.Version + 1, IssuedAt: f.Start, Resolved: f.Release.Resolved}}}))
	}
	for _, d := range s.Order { // those that were open before
		if r := s.Rollouts[d]; r != nil && !r.Phase.Ended() {
			t.follow(r, 0)
		}
	}
	var err error
	t.c.rest, err = w.Run(f.Start.Add(f.Horizon))
	if err != nil {
		return nil, err
	}
	t.close()
	return t.c, nil
}

// populate has hosts be where they are when the forecast begins.
func populate(w *World, f *Fleet, m *Drawn) error {
	s := w.State
	for _, name := range f.Hosts {
		if f.Snapshot == nil {
			if _, err := plan.Record(s, name, f.Start, event.HostEnrolled{Incarnation: 1, Token: name}); err != nil {
				return err
			}
		}
		away := m.Away(name)
		if h := s.Hosts[name]; h == nil || f.Snapshot != nil && h.Online != away {
			continue
		}
		if _, err := plan.Presence(s, name, !away, f.Start, f.Start); err != nil {
			return err
		}
	}
	return nil
}

func (t *witness) at() clock.Duration { return t.w.Now.Sub(t.start) }

// fly counts a host that is in flight, or is no longer.
func (t *witness) fly(name string) bool {
	h := t.w.State.Hosts[name]
	if h == nil || h.InFlight() == t.flying[name] {
		return false
	}
	t.flying[name] = !t.flying[name]
	if t.flying[name] {
		t.n++
	} else {
		t.n--
	}
	return true
}

// sample notes how many hosts are in flight.
func (t *witness) sample() {
	t.c.flight.set(t.at(), t.n)
	t.budgets = t.w.State.Budgets()
	for i := range t.budgets {
		b := &t.budgets[i]
		k := budgetKey{b.Selector, b.Max}
		s := t.c.usage[k]
		if s == nil {
			s = &Series{}
			t.c.usage[k] = s
		}
		s.set(t.at(), b.InFlight)
	}
}

// follow begins to watch a rollout that counts.
func (t *witness) follow(r *rollout.Rollout, opened clock.Duration) {
	if t.only != "" && t.only != r.Name {
		return
	}
	p := &passage{name: r.Name, channel: r.Channel, manifest: r.Manifest, opened: opened, ended: never, stopped: -1}
	if r.Plan != nil {
		p.hosts = len(r.Plan.Leaves)
		for i := range r.Plan.Header.Waves {
			st := stage{name: r.Plan.Header.Waves[i].Name, hosts: r.Waves[i].Members(), opened: never, promoted: never}
			if i <= r.Cursor {
				st.opened = opened
			}
			if i < r.Cursor {
				st.promoted = opened
			}
			p.waves = append(p.waves, st)
		}
	}
	t.c.rollouts[r.Manifest] = p
	t.c.order = append(t.c.order, r.Manifest)
}

// committed takes what entered the log.
func (t *witness) committed(entries []event.Entry) {
	changed := false
	for i := range entries {
		e := &entries[i]
		if e.Host() != "" && t.fly(e.Host()) {
			changed = true
		}
		t.take(e, t.folded[i])
	}
	t.folded = t.folded[:0]
	if changed {
		t.sample()
	}
}

func (t *witness) take(e *event.Entry, ev event.Event) {
	switch ev := ev.(type) {
	case event.GrantClaimed:
		g := t.w.State.Hosts[e.Host()].Grant
		if g != nil && g.Purpose == host.Update && t.c.rollouts[g.Manifest] != nil {
			t.c.rollouts[g.Manifest].claimed++
		}
	case event.RolloutOpened:
		if r := t.w.State.Rollouts[ev.Manifest]; r != nil && t.c.rollouts[ev.Manifest] == nil {
			t.follow(r, t.at())
		}
	case event.WavePromoted:
		if p := t.c.rollouts[ev.Manifest]; p != nil {
			p.waves[ev.Wave].promoted = t.at()
			if ev.Wave+1 < len(p.waves) {
				p.waves[ev.Wave+1].opened = t.at()
			}
			t.c.end = t.at()
		}
	case event.RolloutReverting:
		if p := t.c.rollouts[ev.Manifest]; p != nil {
			p.stopped, p.reason = ev.Wave, ev.Reason
			t.c.end = t.at()
		}
	case event.RolloutMoved:
		t.moved(ev)
	}
}

func (t *witness) moved(ev event.RolloutMoved) {
	p := t.c.rollouts[ev.Manifest]
	if p == nil {
		return
	}
	t.c.end = t.at()
	switch to := rollout.Phase(ev.To); to {
	case rollout.Terminal:
		p.ended = t.at()
		p.waves[len(p.waves)-1].promoted = t.at()
	case rollout.Failed:
		r := t.w.State.Rollouts[ev.Manifest]
		p.stopped, p.reason, p.ended = max(r.Excess(), 0), ev.Reason, t.at()
	case rollout.Reverted, rollout.Superseded:
		p.ended = t.at()
	}
}

// close looks at where everything ended.
func (t *witness) close() {
	s := t.w.State
	for _, d := range t.c.order {
		p, r := t.c.rollouts[d], s.Rollouts[d]
		p.phase = plan.Status(r)
		if r.Plan != nil {
			p.failed = r.Total().Failures
		}
		if !r.Phase.Ended() {
			p.hold = t.holds(r)
		}
	}
	for _, name := range s.ChannelNames() {
		t.pending(s.Channels[name])
	}
	t.c.flight.reach(t.c.end)
}

// holds asks what keeps a rollout, and the first host of it that waits.
func (t *witness) holds(r *rollout.Rollout) *Obstacle {
	h := &Obstacle{}
	if b := plan.FirstBlock(t.w.State, r, t.w.Now); b != nil {
		h.Block = *b
	} else if !t.c.rest {
		h.Block = *gate.BeyondForecast()
	}
	if r.Plan == nil {
		return h
	}
	for i := range r.Members {
		status, leaf := r.Members[i].Status, &r.Plan.Leaves[i]
		if leaf.Wave > r.Cursor || status != rollout.Waiting && status != rollout.Refused {
			continue // Why looks at every member: it is asked about few
		}
		if a, err := plan.Why(t.w.State, leaf.Host, t.w.Now); err == nil && a.Block != nil {
			h.Host, h.HostBlock = a.Host, a.Block
			return h
		}
	}
	return h
}

// pending notes a rollout that a channel did not even open.
func (t *witness) pending(c *plan.Channel) {
	if len(c.Manifests) == 0 || t.c.rollouts[c.Manifests[0].Digest] != nil || c.Latest == c.Manifests[0].Digest {
		return
	}
	ref := c.Manifests[0]
	if t.only != "" && t.only != ref.Rollout {
		return
	}
	m, err := t.w.Docs.Manifest(ref.Digest)
	if err != nil || len(m.Leaves) == 0 {
		return
	}
	p := &passage{name: ref.Rollout, channel: c.Name, manifest: ref.Digest, phase: "not opened", hosts: len(m.Leaves), opened: never, ended: never, stopped: -1}
	counts := make([]int, len(m.Header.Waves))
	for i := range m.Leaves {
		counts[m.Leaves[i].Wave]++
	}
	for i, w := range m.Header.Waves {
		p.waves = append(p.waves, stage{name: w.Name, hosts: counts[i], opened: never, promoted: never})
	}
	if a, err := plan.Why(t.w.State, m.Leaves[0].Host, t.w.Now); err == nil && a.PendingBlock != nil {
		p.hold = &Obstacle{Block: *a.PendingBlock}
	}
	t.c.rollouts[ref.Digest] = p
	t.c.order = append(t.c.order, ref.Digest)
}

// NameError names what the fleet does not have.
type NameError struct{ Reason string }

func (e *NameError) Error() string { return e.Reason }

// Knows refuses assumptions about names that nothing in the fleet has, with a *NameError.
func (f *Fleet) Knows(a *Assumptions) error {
	tags := map[string]bool{"": true}
	for _, list := range f.Tags { // order-free: a set is made of them
		for _, tag := range list {
			tags[tag] = true
		}
	}
	names := slices.Clone(a.Fail)
	for _, r := range slices.Concat(a.Failure, a.Offline) {
		if names = append(names, r.Host); !tags[r.Tag] {
			return &NameError{fmt.Sprintf("no host of the release has the tag %q", r.Tag)}
		}
	}
	for _, name := range names {
		if _, known := f.Tags[name]; !known && name != "" {
			return &NameError{fmt.Sprintf("the release declares no host %q", name)}
		}
	}
	return nil
}
