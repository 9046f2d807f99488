package sessions

import (
	"encoding/json"
	"sync"
	"time"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/place"
	"github.com/steadyfleet/steady/internal/core/session"
	"github.com/steadyfleet/steady/reconcile/engine"
)

// Bounds of the search for pods that no host has room for now: when one has room and what would make it sooner is
// found so often a period for different pods, and holds for those alike as long as nothing changes.
const (
	maxExplained  = 16
	explainPeriod = 30 * time.Second
	explainedFor  = 5 * time.Minute
)

// refusal is why no host takes pods of one shape, and what would change that.
type refusal struct {
	leftOut   []place.Reason
	from      clock.Instant // of slots that start from then until before until, the reasons are the same
	until     clock.Instant
	explained time.Time // zero: not yet
	next      time.Time
	freed     *place.Freed
}

// searches finds hosts for pods, one pod at a time, and remembers what it found for pods of the same shape.
type searches struct {
	mu      sync.Mutex
	of      *scene
	refused map[string]*refusal // by shape, in that scene
	waiting map[engine.Ref]bool // pods without room
	period  time.Time           // when the present one began
	spent   int                 // in it
}

// choose observes which host a pod would get in a scene, or why none.
func (s *searches) choose(in *scene, own bool, ref engine.Ref, request place.Request, now time.Time, o *session.PodSeen) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.of != in {
		s.of, s.refused = in, map[string]*refusal{}
	}
	calendar, shape := in.ready(), ""
	if own {
		calendar = calendar.Without(request.Owner)
	} else {
		shape = in.shapeOf(request, clock.FromTime(now))
	}
	request.Slot.From = max(request.Slot.From, clock.FromTime(now)) // what is over is in nobody's way
	why := s.refused[shape]
	if why == nil || request.Slot.From < why.from || request.Slot.From >= why.until || request.Validate() != nil {
		if o.Choice = calendar.Choose(request); o.Choice.Placed() {
			delete(s.waiting, ref)
			return
		}
		why = &refusal{leftOut: o.Choice.LeftOut, from: request.Slot.From, until: calendar.Unchanged(request.Slot)}
		if shape != "" {
			s.refused[shape] = why
		}
	} else {
		o.Choice = request.Refused(why.leftOut)
	}
	if s.waiting == nil {
		s.waiting = map[engine.Ref]bool{}
	}
	if s.waiting[ref] = true; request.Validate() != nil {
		return
	}
	s.explain(calendar, request, now, why)
	o.Next, o.Freed, o.Unsearched, o.Waiting = why.next, why.freed, why.explained.IsZero(), len(s.waiting)
}

// explain finds when there is room, and what would make it sooner, where that is not known and may be searched.
func (s *searches) explain(calendar *place.Calendar, request place.Request, now time.Time, why *refusal) {
	if now.Sub(why.explained) < explainedFor {
		return
	}
	if s.period.Add(explainPeriod).Before(now) || now.Before(s.period) {
		s.period, s.spent = now, 0
	}
	if s.spent++; s.spent > maxExplained {
		return
	}
	why.explained, why.next = now, time.Time{}
	why.freed = calendar.FreedBy(request)
	if at, found := calendar.Earliest(request, request.Slot.From.Add(clock.FromStd(session.MaxLength))); found {
		why.next = at.Time()
	}
}

// gone forgets a pod that waits no longer.
func (s *searches) gone(ref engine.Ref) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.waiting, ref)
}

// shapeOf is the same for requests that every host answers alike: all of it but the names of the pod and of its
// session, as far as neither is named by others.
func (s *scene) shapeOf(r place.Request, now clock.Instant) string {
	var named []string
	for _, name := range s.avoided {
		if by := (place.Pod{AntiAffinity: []string{name}}); by.Apart(&place.Pod{Owner: r.Owner, Group: r.Group}) {
			named = append(named, name)
		}
	}
	r.Owner = ""
	if r.Spread == nil {
		r.Group = ""
	}
	if r.Slot.From <= now {
		r.Slot.From = 0
	}
	raw, err := json.Marshal(struct {
		place.Request
		Named []string
	}{r, named})
	if err != nil {
		return "" // and so like no other
	}
	return string(raw)
}
