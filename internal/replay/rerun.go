package replay

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/plan"
	"github.com/steadyfleet/steady/internal/core/rollout"
	"github.com/steadyfleet/steady/internal/forecast"
	"github.com/steadyfleet/steady/internal/replay/history"
)

// lag is how long after an input the planner has planned at the latest, and how
// far apart two grants may be that count as the same.
const lag = clock.Second

// Options of a rerun.
type Options struct {
	// Assumed is how hosts behave where the log does not tell; a zero Activation
	// takes the median of those that it has.
	Assumed forecast.Assumptions
	Seed    uint64
	// Beyond is how long after the end of the log the run may go on.
	Beyond clock.Duration
}

// Outcome is what came of a rerun.
type Outcome struct {
	// From is the last event that was taken as it was.
	From uint64 `json:"from"`
	// Divergence is the first decision that is another one; nil when none is.
	Divergence *Divergence `json:"divergence,omitempty"`
	// Modelled are the hosts that do not follow the log to its end, by when they
	// left it.
	Modelled []Departure `json:"modelled"`
	Followed int         `json:"followed"` // hosts that do
	// Unfit counts recorded events that did not apply any more, with an example.
	Unfit        int    `json:"unfit"`
	UnfitExample string `json:"unfitExample,omitempty"`
	// Recorded is the state at the end of the log, End that of the rerun when it
	// came to rest or time was over; EndedAt is when it last logged something.
	RecordedAt clock.Instant `json:"recordedAt"`
	EndedAt    clock.Instant `json:"endedAt"`
	Rest       bool          `json:"rest"`
	Recorded   *plan.State   `json:"-"`
	End        *plan.State   `json:"-"`
	// Entries is all that the rerun committed from From on.
	Entries []event.Entry `json:"-"`
}

// Divergence is where the rerun first decides something else.
type Divergence struct {
	At clock.Instant `json:"at"`
	// Seq is the first event of the log that was decided there, or follows.
	Seq      uint64        `json:"seq"`
	Recorded []event.Entry `json:"recorded"` // decided then and not now
	New      []event.Entry `json:"new"`      // decided now and not then
}

// Departure says when and why a host no longer follows what was recorded of it.
type Departure struct {
	Host string        `json:"host"`
	At   clock.Instant `json:"at"`
	Why  string        `json:"why"`
	Back bool          `json:"back"` // it follows the log again later
}

// rerun runs the planner over a history with something changed.
type rerun struct {
	h       *history.History
	docs    plan.Documents
	w       *forecast.World
	v       *survey
	units   []*unit
	next    int
	empty   bool // nothing is changed: the planner runs when it did
	term    uint64
	grants  map[string]string // recorded id -> ours
	refused map[string][]digest.Digest
	skew    map[string]clock.Duration
	away    map[string]int // index into out.Modelled
	planned []event.Entry
	ticking bool // at a place of the record
	out     *Outcome
	err     error
}

// Rerun runs the planner over a history as the change has it. A *ChangeError says
// that the change does not fit the history.
func Rerun(h *history.History, c *Change, o Options) (*Outcome, error) {
	units := split(h.Records)
	dropped := map[uint64]bool{}
	for _, seq := range c.Drop {
		dropped[seq] = true
	}
	v, units, err := look(h, h.Records, units, dropped)
	if err != nil {
		return nil, err
	}
	if err := c.check(h); err != nil {
		return nil, err
	}
	start := slices.IndexFunc(units, func(u *unit) bool { return u.last > c.From })
	if start < 0 {
		start = len(units)
	}
	moved, first, err := c.arrange(units)
	if err != nil {
		return nil, err
	}
	docs := plan.Documents(h)
	if len(c.Policy)+len(c.Budgets) > 0 {
		docs = &changed{docs: h, change: c, made: map[digest.Digest]*rollout.Manifest{}}
	} else if !c.Empty() {
		start = max(start, first)
	}
	x := &rerun{empty: c.Empty(), h: h, docs: docs, v: v, units: moved, next: start, grants: map[string]string{}, refused: map[string][]digest.Digest{},
		skew: Skew(h), away: map[string]int{}, out: &Outcome{Modelled: []Departure{}, Recorded: v.state}}
	if err := x.begin(units, start, o); err != nil {
		return nil, err
	}
	return x.run(o)
}

// begin folds what is taken as it was.
func (x *rerun) begin(units []*unit, start int, o Options) error {
	upTo, now := uint64(0), clock.Instant(0)
	if start > 0 {
		upTo, now = units[start-1].last, units[start-1].at
		x.term = units[start-1].term
	}
	s, err := Fold(x.h, x.h, upTo)
	if err != nil {
		return err
	}
	if _, other := x.docs.(*changed); other {
		if s, err = refold(s, x.docs); err != nil {
			return err
		}
	}
	for _, u := range units[:start] {
		x.note(u)
	}
	for _, list := range x.v.given { // order-free: each grant is looked at by itself
		for _, g := range list {
			g.used = g.seq <= upTo
		}
	}
	if o.Assumed.Activation == (forecast.Range{}) {
		d := x.v.median(clock.Minute)
		o.Assumed.Activation = forecast.Range{Min: d, Max: d}
	}
	x.out.From = upTo
	model := &scripted{scripts: x.v.scripts, rest: &forecast.Drawn{Assumptions: o.Assumed, Seed: o.Seed}}
	x.w = forecast.NewWorld(s, x.docs, now, model)
	x.w.Lag, x.w.Quiet = lag, x.quiet
	x.w.Planned = x.decided
	x.w.Committed = func(entries []event.Entry) {
		x.out.Entries = append(x.out.Entries, entries...)
		x.out.EndedAt = x.w.Now
	}
	return nil
}

// refold is a state as another server has it: all that it derives is derived anew.
func refold(s *plan.State, docs plan.Documents) (*plan.State, error) {
	raw, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	fresh := plan.New(docs)
	if err := json.Unmarshal(raw, fresh); err != nil {
		return nil, err
	}
	return fresh, plan.Restore(fresh, docs)
}

// note keeps what a host refuses and how its clock goes.
func (x *rerun) note(u *unit) {
	if u.kind != reported {
		return
	}
	for i := range u.records {
		r := &u.records[i]
		x.skew[u.host] = r.At.Sub(u.at)
		if r.Type == (event.BundleQuarantined{}).EventType() {
			if ev, err := event.Decode(r.Entry); err == nil {
				q, _ := ev.(event.BundleQuarantined)
				x.refused[u.host] = append(x.refused[u.host], q.Digest)
			}
		}
	}
}

func (x *rerun) run(o Options) (*Outcome, error) {
	end := x.w.Now
	for _, u := range x.units {
		end = max(end, u.at)
	}
	x.out.RecordedAt = end
	x.schedule()
	rest, err := x.w.Run(end.Add(o.Beyond))
	if err = errors.Join(err, x.err); err != nil {
		return nil, err
	}
	x.out.Rest, x.out.EndedAt, x.out.End = rest, max(x.out.EndedAt, end), x.w.State
	for name := range x.w.State.Hosts { // order-free: it only counts
		if !x.w.Takes(name) {
			x.out.Followed++
		}
	}
	return x.out, nil
}

// schedule has the next unit of the log happen when it did.
func (x *rerun) schedule() {
	if x.next >= len(x.units) {
		x.w.Refreshed = true // the log no longer tells
		return
	}
	u := x.units[x.next]
	x.w.At(u.at, func() {
		x.next++
		if u.term != x.term {
			s, err := refold(x.w.State, x.docs) // another server, whose clock may be behind
			if err != nil {
				x.fail(err)
				return
			}
			x.w.State = s
		}
		x.term, x.w.Term = u.term, u.term
		if now := x.w.Now; x.exact() && u.said != 0 { // a clock that was set back decided then, too
			x.w.Now = u.said
			x.feed(u)
			x.w.Now = now
		} else {
			x.feed(u)
		}
		x.note(u)
		x.schedule()
	})
}

// quiet reports whether the planner did not run at an instant: the server was
// away until the next thing that it logged, or, as long as all is as recorded, it
// is about to log what it decided.
func (x *rerun) quiet(clock.Instant) bool {
	if x.empty || x.next >= len(x.units) {
		return x.empty
	}
	u := x.units[x.next]
	return u.term != x.term || u.kind == decided && x.out.Divergence == nil
}

// exact reports whether all is as recorded so far.
func (x *rerun) exact() bool { return x.out.Divergence == nil && len(x.out.Modelled) == 0 }

// decided takes what the planner decided: a grant that was given at about that
// time in the record is that one, and any other leaves the record.
func (x *rerun) decided(entries []event.Entry) {
	x.planned = entries
	if !x.ticking {
		x.compare(nil, entries)
	}
	for i := range entries {
		e := &entries[i]
		if e.Type != (event.Granted{}).EventType() {
			continue
		}
		ev, err := event.Decode(*e)
		if err != nil {
			x.fail(err)
			return
		}
		x.granted(e.Host, ev.(event.Granted))
	}
}

func (x *rerun) fail(err error) {
	if x.err == nil {
		x.err = err
	}
	x.w.Fail(err)
}

// granted matches a grant with the recorded one, if there is one.
func (x *rerun) granted(name string, g event.Granted) {
	for _, r := range x.v.given[name] {
		at := r.at
		if x.ticking && x.exact() {
			at = r.said
		}
		if d := at.Sub(x.w.Now); r.used || d > 2*lag || d < -2*lag || r.grant.Manifest != g.Manifest || r.grant.Purpose != g.Purpose || r.grant.Target != g.Target {
			continue
		}
		m := &x.w.State.Hosts[name].Machine
		if x.w.Takes(name) && !(r.free && !m.InFlight() && r.current == m.Current) {
			continue
		}
		r.used = true
		x.grants[r.grant.Grant] = g.Grant
		x.rejoin(name)
		return
	}
	x.depart(name, fmt.Sprintf("it was granted %s of %s here and not in the record", g.Target.Short(), g.Rollout))
}

// depart has a host follow the model from now on.
func (x *rerun) depart(name, why string) {
	if x.w.Takes(name) {
		return
	}
	x.away[name] = len(x.out.Modelled)
	x.out.Modelled = append(x.out.Modelled, Departure{Host: name, At: x.w.Now, Why: why})
	x.w.Take(name, x.skew[name], x.refused[name]...)
}

// rejoin has a host follow the record again.
func (x *rerun) rejoin(name string) {
	if x.w.Takes(name) {
		x.out.Modelled[x.away[name]].Back = true
		x.w.Release(name)
	}
}

// compare keeps the first tick that decided something else.
func (x *rerun) compare(recorded []event.Record, decided []event.Entry) {
	if x.out.Divergence != nil {
		return
	}
	d := Divergence{At: x.w.Now}
	left := slices.Clone(decided)
	for i := range recorded {
		k := slices.IndexFunc(left, func(e event.Entry) bool { return same(&recorded[i].Entry, &e) })
		if k < 0 {
			d.Recorded = append(d.Recorded, recorded[i].Entry)
			continue
		}
		left = slices.Delete(left, k, k+1)
	}
	d.New = left
	if len(d.Recorded)+len(d.New) == 0 {
		return
	}
	if len(recorded) > 0 {
		d.Seq = recorded[0].Seq
	} else if x.next < len(x.units) {
		d.Seq = x.units[x.next].first
	}
	x.out.Divergence = &d
}

// same compares two decisions apart from numbers of grants, how full budgets were
// and when a grant ends by itself.
func same(a, b *event.Entry) bool {
	if a.Type != b.Type || a.Host != b.Host {
		return false
	}
	if bytes.Equal(a.Body, b.Body) {
		return true
	}
	var x, y map[string]any
	if json.Unmarshal(a.Body, &x) != nil || json.Unmarshal(b.Body, &y) != nil {
		return false
	}
	for _, key := range []string{"grant", "budgets", "expires"} {
		delete(x, key)
		delete(y, key)
	}
	return reflect.DeepEqual(x, y)
}
