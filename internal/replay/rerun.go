package replay

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/plan"
	"github.com/steadyfleet/steady/internal/core/rollout"
	"github.com/steadyfleet/steady/internal/core/server"
	"github.com/steadyfleet/steady/internal/forecast"
)

// lag is how long after an input the planner has planned at the latest.
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
	// left it: at the first other decision at the latest.
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
}

// rerun runs the planner over a history with something changed.
type rerun struct {
	h       *History
	docs    plan.Documents
	w       *forecast.World
	v       *survey
	units   []*unit
	next    int
	empty   bool // nothing is changed: the planner runs when it did
	term    uint64
	refused map[string][]digest.Digest
	skew    map[string]clock.Duration
	made    []event.Entry // what was committed in the unit that is played
	playing bool
	out     *Outcome
}

// Rerun runs the planner over a history as the change has it. A *ChangeError says
// that the change does not fit the history.
func Rerun(h *History, c *Change, o Options) (*Outcome, error) {
	units := split(h.Records)
	v, err := look(h, h.Records, units, c.Drop)
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
	x := &rerun{empty: c.Empty(), h: h, docs: docs, v: v, units: moved, next: start, refused: map[string][]digest.Digest{},
		skew: Skew(h), out: &Outcome{Modelled: []Departure{}, Recorded: v.state}}
	if err := x.begin(units[:start], o); err != nil {
		return nil, err
	}
	return x.run(o)
}

// begin folds what is taken as it was.
func (x *rerun) begin(units []*unit, o Options) error {
	now := clock.Instant(0)
	for _, u := range units {
		x.out.From, x.term, now = u.last, u.term, u.at
		x.note(u)
	}
	s, err := Fold(x.h, x.h, x.out.From)
	if err == nil && x.docs != plan.Documents(x.h) {
		s, err = plan.Clone(s, x.docs)
	}
	if err != nil {
		return err
	}
	if o.Assumed.Activation == (forecast.Range{}) {
		d := x.v.median(clock.Minute)
		o.Assumed.Activation = forecast.Range{Min: d, Max: d}
	}
	model := &scripted{scripts: x.v.scripts, rest: &forecast.Drawn{Assumptions: o.Assumed, Seed: o.Seed}}
	x.w = forecast.NewWorld(s, x.docs, now, model)
	x.w.When = x.when
	x.w.Planned = func(entries []event.Entry) {
		if !x.playing {
			x.compare(nil, entries)
		}
	}
	x.w.Committed = func(entries []event.Entry) {
		x.made = append(x.made, entries...)
		x.out.Entries = append(x.out.Entries, entries...)
		x.out.EndedAt = x.w.Now
	}
	for _, name := range s.HostNames() {
		x.replan(name)
	}
	return nil
}

// note keeps what a host refuses.
func (x *rerun) note(u *unit) {
	for i := range u.records {
		r := &u.records[i]
		if ev, err := event.Decode(r.Entry); u.kind == reported && err == nil {
			if q, ok := ev.(event.BundleQuarantined); ok {
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
	if err != nil {
		return nil, err
	}
	x.out.Rest, x.out.EndedAt, x.out.End = rest, max(x.out.EndedAt, end), x.w.State
	x.out.Followed = len(x.w.State.Hosts) - len(x.out.Modelled)
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
			s, err := plan.Clone(x.w.State, x.docs) // another server, whose clock may be behind
			if err != nil {
				x.w.Fail(err)
				return
			}
			x.w.Restart(s)
		}
		x.term, x.w.Term = u.term, u.term
		now := x.w.Now
		if x.exact() && u.said != 0 { // a clock that was set back decided then, too
			x.w.Now = u.said
		}
		x.play(u)
		x.w.Now = now
		x.note(u)
		x.schedule()
	})
}

// when is when the planner runs that is due since an instant: not while the server was away
// until the next thing that it logged, nor while all is as recorded and it is about to
// log what it decided.
func (x *rerun) when(since clock.Instant) clock.Instant {
	as := x.out.Divergence == nil
	if x.empty && as {
		return 0
	}
	if x.next < len(x.units) {
		if u := x.units[x.next]; u.term != x.term || u.kind == decided && as {
			return 0
		}
	}
	return since.Add(lag)
}

// exact reports whether all is as recorded so far.
func (x *rerun) exact() bool { return x.out.Divergence == nil && len(x.out.Modelled) == 0 }

// play has one unit of the log happen in this course of events.
func (x *rerun) play(u *unit) {
	x.made, x.playing = nil, true
	switch u.kind {
	case decided, asked:
		x.decide(u)
	case reported:
		x.report(u)
	case claimed:
		x.claim(u)
	case present:
		x.presence(u)
	case other:
		x.record(u)
	}
	x.playing = false
	if u.late && x.out.Divergence != nil {
		x.depart(u.host, "what it reported late has arrived")
	}
}

// decide has the server decide as much as it did at an instant: what an operator asked for, and
// then what the planner finds.
func (x *rerun) decide(u *unit) {
	for n := 0; n < len(u.records); n = len(x.made) {
		r := &u.records[n]
		if op := operation(r); op == nil || decides(r) {
			x.w.Tick()
		} else if err := x.w.Decide(op); err != nil {
			x.unfit(r.Seq, "%s does not apply: %v", r.Type, err)
			return
		}
		if len(x.made) == n {
			break
		}
	}
	x.compare(u.records, x.made)
}

// unfit notes what no longer applies.
func (x *rerun) unfit(seq uint64, format string, a ...any) {
	if x.out.Unfit++; x.out.Unfit == 1 {
		x.out.UnfitExample = fmt.Sprintf("event %d: %s", seq, fmt.Sprintf(format, a...))
	}
}

func (x *rerun) presence(u *unit) {
	ev, err := event.Decode(u.records[0].Entry)
	silent, away := ev.(event.HostSilent)
	x.w.Fail(err)
	x.w.Fail(x.w.Decide(func(s *plan.State, now clock.Instant) ([]event.Entry, error) {
		return plan.Presence(s, u.host, !away, silent.LastSeen, now)
	}))
}

// record takes an event from outside as it was.
func (x *rerun) record(u *unit) {
	r := &u.records[0]
	ev, err := event.Decode(r.Entry)
	if err != nil {
		x.w.Fail(err)
		return
	}
	x.w.Fail(x.w.Decide(func(s *plan.State, now clock.Instant) ([]event.Entry, error) {
		entries, err := plan.Record(s, r.Host(), now, ev)
		if err != nil {
			x.unfit(r.Seq, "%v", err)
		}
		return entries, nil
	}))
	if _, again := ev.(event.HostEnrolled); again { // a new life refuses nothing
		delete(x.refused, u.host)
		if x.w.Drives(u.host) {
			x.w.Drive(u.host, x.skew[u.host])
		}
		x.replan(u.host)
	}
}

// claim has a host that follows its record claim what it claimed.
func (x *rerun) claim(u *unit) {
	ev, err := event.Decode(u.records[0].Entry)
	if said, ok := ev.(event.GrantClaimed); !x.w.Drives(u.host) && ok {
		if refused := x.w.Step(server.Claim{Host: u.host, Grant: said.Grant}); refused != nil {
			x.depart(u.host, "its claim is refused here: "+refused.Error())
		}
	}
	x.w.Fail(err)
}

// report has a host that follows its record report what it did.
func (x *rerun) report(u *unit) {
	h := x.w.State.Hosts[u.host]
	if x.w.Drives(u.host) || h == nil {
		return
	}
	if h.Incarnation != u.records[0].Incarnation {
		x.unfit(u.first, "it is of another life of host %s", u.host)
		return
	}
	if u.cut {
		x.depart(u.host, "an event of it is left out")
		return
	}
	in := server.Batch{Host: u.host, View: x.w.View(u.host), Head: u.head}
	for i := range u.records {
		e := u.records[i].Entry
		e.HostSeq = h.Seq + uint64(i) + 1
		in.Entries = append(in.Entries, e)
	}
	in.Head.Incarnation, in.Head.Seq = h.Incarnation, h.Seq+uint64(len(in.Entries))
	x.w.Fail(x.w.Step(in))
}

// replan has a host that goes by another plan follow the model.
func (x *rerun) replan(name string) {
	if x.replanned(name) {
		x.depart(name, "its own machine goes by what is changed")
	}
}

// replanned reports whether the change has the host's own machine go by another plan.
func (x *rerun) replanned(name string) bool {
	if x.docs == plan.Documents(x.h) {
		return false
	}
	for d := range x.h.Manifests { // order-free: any one will do
		was, is := planOf(x.h, d, name), planOf(x.docs, d, name)
		if was != nil && is != nil {
			is.Policy.MaxFailures = was.Policy.MaxFailures // the server goes by that
			if !reflect.DeepEqual(was, is) {
				return true
			}
		}
	}
	return false
}

func planOf(docs plan.Documents, d digest.Digest, name string) *fleet.HostPlan {
	m, err := docs.Manifest(d)
	if err != nil {
		return nil
	}
	return m.HostPlan(name)
}

// depart has a host follow the model from now on.
func (x *rerun) depart(name, why string) {
	if x.w.Drives(name) {
		return
	}
	x.out.Modelled = append(x.out.Modelled, Departure{Host: name, At: x.w.Now, Why: why})
	x.w.Drive(name, x.skew[name], x.refused[name]...)
}

// compare keeps the first decisions that are other ones. From there on every host
// follows the model, but those of which something comes later than it did.
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
	late := map[string]bool{}
	for _, u := range x.units[min(x.next, len(x.units)):] {
		late[u.host] = late[u.host] || u.late
	}
	for _, name := range x.w.State.HostNames() {
		if !late[name] {
			x.depart(name, "the server decides otherwise from here on")
		}
	}
}

// same compares two decisions apart from numbers of grants, how full budgets were
// and when a grant ends by itself.
func same(a, b *event.Entry) bool {
	if a.Type != b.Type || a.Host() != b.Host() {
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
