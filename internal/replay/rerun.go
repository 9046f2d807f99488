package replay

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"sort"
	"strings"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/plan"
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
	// Progress, if set, is called with how many inputs of the log are played.
	Progress func(done, of int)
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
	// Seq is the first event of the log that was decided there, or follows; 0 if none does.
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
	h, docs  *History // docs has the manifests as they are now
	w        *forecast.World
	units    []*unit
	next     int
	empty    bool // nothing is changed: the planner runs when it did
	refused  map[string][]digest.Digest
	skew     map[string]clock.Duration
	made     []event.Entry // what was committed in the unit that is played
	playing  bool
	progress func(done, of int)
	out      *Outcome
}

// Rerun runs the planner over a history as the change has it. A *ChangeError says
// that the change does not fit the history.
func Rerun(h *History, c *Change, o Options) (*Outcome, error) {
	model, recorded, err := survey(h, c.Drop)
	if err != nil {
		return nil, err
	}
	if o.Assumed.Activation == (forecast.Range{}) {
		d := clock.Minute
		if slices.Sort(model.times); len(model.times) > 0 {
			d = model.times[len(model.times)/2]
		}
		o.Assumed.Activation = forecast.Range{Min: d, Max: d}
	}
	model.rest = &forecast.Drawn{Assumptions: o.Assumed, Seed: o.Seed}
	docs, err := c.edit(h)
	if err != nil {
		return nil, err
	}
	was := split(h.Records)
	units, start, err := c.arrange(was)
	if err != nil {
		return nil, err
	}
	if len(c.Edits) > 0 || c.Empty() {
		start = min(start, sort.Search(len(was), func(i int) bool { return was[i].last > c.From }))
	}
	x := &rerun{h: h, docs: docs, units: units, next: start, empty: c.Empty(), refused: map[string][]digest.Digest{},
		skew: Skew(h), progress: o.Progress, out: &Outcome{Modelled: []Departure{}, Recorded: recorded}}
	if err := x.begin(was[:start], model); err != nil {
		return nil, err
	}
	end := x.w.Now
	for _, u := range units {
		end = max(end, u.at)
	}
	x.schedule()
	if x.out.Rest, err = x.w.Run(end.Add(o.Beyond)); err != nil {
		return nil, err
	}
	x.out.RecordedAt, x.out.EndedAt, x.out.End = end, max(x.out.EndedAt, end), x.w.State
	x.out.Followed = len(x.w.State.Hosts) - len(x.out.Modelled)
	return x.out, nil
}

// begin folds what is taken as it was.
func (x *rerun) begin(units []*unit, model forecast.Model) error {
	last := &unit{last: x.h.Base()}
	if len(x.units) > 0 && last.last > 0 {
		last.at, last.term = x.units[0].at, x.units[0].term
	}
	for _, last = range units {
		x.note(last)
	}
	x.out.From = last.last
	s, err := Fold(x.h, x.h, last.last)
	if err == nil && x.docs != x.h {
		s, err = plan.Clone(s, x.docs)
	}
	if err != nil {
		return err
	}
	x.w = forecast.NewWorld(s, x.docs, last.at, model)
	x.w.When, x.w.Nonces = x.when, nonces(x.h)
	x.w.Lead(last.term)
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

// nonces are what the grants of each term carry, and what it learned of a restore.
func nonces(h *History) map[uint64]string {
	out := map[uint64]string{}
	for i := range h.Records {
		r := &h.Records[i]
		switch r.Type {
		case event.Granted{}.EventType():
			var ev event.Granted
			_ = json.Unmarshal(r.Body, &ev) // the fold refuses what is none
			if _, nonce, ok := strings.Cut(plan.RunOf(ev.Grant), "."); ok {
				out[r.Term] = nonce
			}
		case event.LogRestored{}.EventType():
			var ev event.LogRestored
			_ = json.Unmarshal(r.Body, &ev)
			if ev.Process != "" {
				out[r.Term] = ev.Process
			}
		}
	}
	return out
}

// schedule has the next unit of the log happen when it did.
func (x *rerun) schedule() {
	if x.progress != nil {
		x.progress(x.next, len(x.units))
	}
	if x.next >= len(x.units) {
		x.w.Refreshed = true // the log no longer tells
		return
	}
	u := x.units[x.next]
	x.w.At(u.at, func() {
		x.next++
		if u.term != x.w.Term { // another server, whose clock may be behind
			x.w.Restart(u.term)
		}
		now := x.w.Now
		if u.said != 0 && x.out.Divergence == nil && len(x.out.Modelled) == 0 { // a clock that was set back decided then, too
			x.w.Now = u.said
		}
		x.play(u)
		x.w.Now = now
		x.schedule()
	})
}

// when is when the planner runs that is due since an instant: not while the server was away
// until the next thing that it logged, nor while all is as recorded and it is about to
// log what it decided.
func (x *rerun) when(since clock.Instant) clock.Instant {
	same := x.out.Divergence == nil
	if x.empty && same {
		return 0
	}
	if x.next < len(x.units) {
		if u := x.units[x.next]; u.term != x.w.Term || u.kind == decided && same {
			return 0
		}
	}
	return since.Add(lag)
}

// play has one unit of the log happen in this course of events.
func (x *rerun) play(u *unit) {
	x.made, x.playing = nil, true
	switch {
	case !u.fromHost():
		x.decide(u)
	case x.w.Drives(u.host): // it does what the model says
	case u.kind == reported:
		x.report(u)
	default:
		if refused := x.w.Step(server.Claim{Host: u.host, Grant: u.grant}); refused != nil {
			x.depart(u.host, "its claim is refused here: "+refused.Error())
		}
	}
	x.playing = false
	x.note(u)
	if u.late && x.out.Divergence != nil {
		x.depart(u.host, "what it reported late has arrived")
	}
}

// note keeps what a host refuses; a new life of it refuses nothing.
func (x *rerun) note(u *unit) {
	for i := range u.records {
		switch r := &u.records[i]; r.Type {
		case event.HostEnrolled{}.EventType():
			delete(x.refused, u.host)
			if x.w != nil {
				x.replan(u.host)
			}
		case event.BundleQuarantined{}.EventType():
			if ev, err := event.Decode(r.Entry); err == nil { // the fold refuses what is none
				x.refused[u.host] = append(x.refused[u.host], ev.(event.BundleQuarantined).Digest)
			}
		}
	}
}

// decide has the server decide as much as it did at an instant: what came from outside, and
// then what the planner finds.
func (x *rerun) decide(u *unit) {
	for n := 0; n < len(u.records); n = len(x.made) {
		r := &u.records[n]
		if decides(r) {
			x.w.Tick()
		} else if err := x.w.Decide(func(s *plan.State, now clock.Instant) ([]event.Entry, error) { return again(s, r, now) }); err != nil {
			x.unfit(r.Seq, "%s does not apply: %v", r.Type, err)
			return
		}
		if len(x.made) == n {
			break
		}
	}
	if u.kind != noted {
		x.compare(u.records, x.made)
	}
}

// unfit notes what no longer applies.
func (x *rerun) unfit(seq uint64, format string, a ...any) {
	if x.out.Unfit++; x.out.Unfit == 1 {
		x.out.UnfitExample = fmt.Sprintf("event %d: %s", seq, fmt.Sprintf(format, a...))
	}
}

// report has a host that follows its record report what it did.
func (x *rerun) report(u *unit) {
	h := x.w.State.Hosts[u.host]
	switch {
	case h == nil:
	case h.Incarnation != u.records[0].Incarnation:
		x.unfit(u.first, "it is of another life of host %s", u.host)
	case u.cut:
		x.depart(u.host, "an event of it is left out")
	default:
		in := server.Batch{Host: u.host, View: x.w.View(u.host), Head: u.head}
		for i := range u.records {
			in.Entries = append(in.Entries, u.records[i].Entry)
			in.Head.Incarnation, in.Head.Seq = u.records[i].Incarnation, u.records[i].HostSeq
		}
		x.w.Fail(x.w.Step(in))
	}
}

// replan has a host whose own machine goes by what is changed follow the model.
func (x *rerun) replan(name string) {
	for d, m := range x.h.Manifests { // order-free: any one will do
		was, is := m.HostPlan(name), x.docs.Manifests[d].HostPlan(name)
		if was == nil || x.docs == x.h {
			continue
		}
		is.Policy.MaxFailures = was.Policy.MaxFailures // the server goes by that
		if !reflect.DeepEqual(was, is) {
			x.depart(name, "its own machine goes by what is changed")
			return
		}
	}
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
	for _, u := range x.units[x.next:] {
		late[u.host] = late[u.host] || u.late
	}
	for _, name := range x.w.State.HostNames() {
		if !late[name] {
			x.depart(name, "the server decides otherwise from here on")
		}
	}
}

// same compares a recorded decision and one of this version apart from numbers of grants, how full budgets were
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
	for _, key := range []string{"skippedHosts", "waits"} { // a server of 0.1.0 named nobody
		if _, told := x[key]; !told {
			delete(y, key)
		}
	}
	return reflect.DeepEqual(x, y)
}
