package sim

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/place"
	coreserver "github.com/steadyfleet/steady/internal/core/server"
	"github.com/steadyfleet/steady/internal/core/session"
	"github.com/steadyfleet/steady/reconcile/engine"
)

// What has to hold of sessions, in the judge's own words.

// checkBooked is S56: no GPU of a host is booked twice at a time, and of nothing more than there is.
// Nowhere is more booked than where some booking begins.
func (w *World) checkBooked(s *server) {
	byHost := map[string][]session.PodReport{}
	for _, b := range s.core.Booked.All() { // order-free: sums
		byHost[b.Host] = append(byHost[b.Host], b)
	}
	for name, all := range byHost { // order-free: what is found is found for all
		for i := range all {
			var sum place.Resources
			gpus, at := map[int]bool{}, all[i].Slot.From
			for k := range all {
				if all[k].Slot.From > at || all[k].Slot.To <= at {
					continue
				}
				sum = sum.Add(all[k].Resources)
				for _, g := range all[k].GPUs {
					if gpus[g] || g >= len(labHost.GPUs) {
						w.violate("S56", "GPU %d of %s is booked twice at %s: %+v", g, name, at, all)
					}
					gpus[g] = true
				}
			}
			if sum.MilliCPU > int64(labHost.CPUs)*1000 || sum.Memory > labHost.Memory {
				w.violate("S56", "%+v of %s are booked at %s: %+v", sum, name, at, all)
			}
		}
	}
}

// Times of the judge of sessions.
const (
	labsLook  = clock.Minute     // or a part of a long schedule
	labsGrace = 3 * clock.Minute // from an end, or from when a server began or its clock was set, until all is as it has to be
)

// labsJudge is what is known of sessions beside the log.
type labsJudge struct {
	looked  clock.Instant                // by the world's clock
	loose   map[labEntryOn]clock.Instant // what hosts run that is booked nowhere, since when
	doubted bool                         // a log was put back, or a server replaced: hosts may have heard others
	phases  map[string]int               // what came of rows, by kind and phase
	unquiet clock.Instant                // when a server was not there last, or its clock was set
}

// checkLate is S57: at the end of a timeslot a session is taken down, at its cleanup deadline nothing
// of it is left but an orphan that somebody is told of; and what hosts have of it ends there by itself.
func (w *World) checkLate(s *server) {
	j := &w.checks.labs
	if s != w.server || w.now.Sub(j.looked) < max(labsLook, w.cfg.Faulty/2000) {
		return
	}
	j.looked = w.now
	rows := s.core.Rows.List(engine.Filter{})
	slots := map[string]session.Timeslot{}
	for i := range rows {
		if row := &rows[i]; row.Ref.Kind == session.KindSession {
			var spec session.Spec
			if err := json.Unmarshal(row.Desired, &spec); err != nil {
				w.violate("core", "%v", err)
			}
			slots[row.Ref.ID] = spec.Timeslot
		}
	}
	w.checkEntries(s, slots)
	w.checkLoose(s)
	if w.now.Sub(j.unquiet) < labsGrace {
		return
	}
	over := func(at clock.Instant) bool { return at.Add(labsGrace).Reached(s.now()) }
	for i := range rows {
		row := &rows[i]
		slot := slots[session.Of(row.Ref)]
		end, deadline := clock.FromTime(slot.End), clock.FromTime(slot.CleanupDeadline)
		switch {
		case row.Phase == engine.Orphaned && !row.Alerts():
			w.violate("S57", "%s is an orphan and nobody knows", row.Ref)
		case row.Phase.Terminal():
		case over(deadline):
			w.violate("S57", "%s is %s (%s) past its cleanup deadline %s", row.Ref, row.Phase, row.Reason.Text(), deadline)
		case over(end) && !row.Delete && row.Parent.IsZero(): // what is below it ends in order
			w.violate("S57", "%s is %s past its end %s and goes on", row.Ref, row.Phase, end)
		}
	}
}

// checkEntries is S57 of managed layers: what a session set ends by itself at its cleanup deadline, and of
// what runs all is set.
func (w *World) checkEntries(s *server, slots map[string]session.Timeslot) {
	for name, h := range s.core.Managed.Hosts { // order-free: what is found is found for all
		for id, e := range h.Entries { // order-free: the same
			slot, known := slots[e.Owner.Session()]
			switch deadline := clock.FromTime(slot.CleanupDeadline); {
			case !known:
				w.violate("S57", "%s on %s is of %s, which is no session", id, name, e.Owner)
			case e.NotAfter == 0 || e.NotAfter > deadline:
				w.violate("S57", "%s on %s ends at %s, and its session is to be gone by %s", id, name, e.NotAfter, deadline)
			}
		}
	}
	for ref, b := range s.core.Booked.All() { // order-free: the same
		row, err := s.core.Rows.Get(ref)
		if err != nil || row.Phase == engine.Deleted {
			w.violate("S56", "%s has booked %s and is gone", ref, b.Host)
			continue
		}
		var pod session.PodSpec
		if err := json.Unmarshal(row.Desired, &pod); err != nil {
			w.violate("core", "%v", err)
		}
		if b.Resources != pod.Pod.Resources || len(b.GPUs) != pod.Pod.GPU.Count {
			w.violate("S56", "%s has booked %+v and GPUs %v of %s, and asked for %+v and %d", ref, b.Resources, b.GPUs, b.Host, pod.Pod.Resources, pod.Pod.GPU.Count)
		}
		if row.Phase != engine.Converged || row.ConvergedGen != row.Generation || row.Delete {
			continue
		}
		deadline := clock.FromTime(pod.Timeslot.CleanupDeadline)
		if b.Slot.To != deadline {
			w.violate("S56", "%s has booked %s until %s, and may run there until %s", ref, b.Host, b.Slot.To, deadline)
		}
	}
}

// labEntryOn is an entry on a host.
type labEntryOn struct{ host, id string }

// checkLoose is S56 of hosts: what a host is set to run, or runs while it is there, is booked.
func (w *World) checkLoose(s *server) {
	j := &w.checks.labs
	booked := map[labEntryOn]bool{}
	for ref, b := range s.core.Booked.All() { // order-free: it fills a set
		row, err := s.core.Rows.Get(ref)
		var pod session.PodSpec
		if err == nil && json.Unmarshal(row.Desired, &pod) == nil {
			for i := range pod.Pod.Workloads {
				booked[labEntryOn{b.Host, pod.Pod.Workloads[i].ID()}] = true
			}
		}
	}
	for name, h := range s.core.Managed.Hosts { // order-free: what is found is found for all
		for id, e := range h.Entries { // order-free: the same
			if e.Owner.Session() != "" && !booked[labEntryOn{name, id}] && !e.NotAfter.Reached(s.now()) {
				w.violate("S56", "%s is set on %s until %s and has booked nothing there", id, name, e.NotAfter)
			}
		}
	}
	for _, a := range w.agents {
		for id, e := range a.lodging.running { // order-free: the same
			at := labEntryOn{a.name, id}
			if j.doubted || s.wall != 0 || a.wall != 0 || a.cut() || booked[at] || e.NotAfter.Reached(s.now()) {
				delete(j.loose, at)
				continue
			}
			if since, known := j.loose[at]; !known {
				j.loose[at] = w.now
			} else if w.now.Sub(since) > labsGrace {
				w.violate("S56", "%s runs on %s for %s and has booked nothing there", id, a.name, w.now.Sub(since))
			}
		}
	}
}

// labsSettled reports whether every session is over, and gone from hosts that are there.
func (w *World) labsSettled() bool {
	if !w.labs() {
		return true
	}
	s := w.server
	if s.away() || s.labs == nil {
		return false
	}
	for _, row := range s.core.Rows.List(engine.Filter{}) {
		if !row.Phase.Terminal() {
			return false
		}
	}
	for _, a := range w.agents {
		if w.lodges(a) && len(a.lodging.running)+len(a.lodging.told) > 0 {
			return false
		}
	}
	return true
}

// lodges reports whether a host is there and does what its layer says.
func (w *World) lodges(a *agent) bool {
	return a.up && !a.cut() && !a.out && !a.left && a.core.Parked == nil && (!w.ending || !w.absent(a))
}

// unsettledLabs says what has not come to rest of sessions.
func (w *World) unsettledLabs() (parts []string) {
	if !w.labs() || w.server.core == nil {
		return nil
	}
	for _, row := range w.server.core.Rows.List(engine.Filter{}) {
		if !row.Phase.Terminal() {
			parts = append(parts, row.Ref.String()+" "+string(row.Phase)+" ("+row.Reason.Text()+")")
		}
	}
	for _, a := range w.agents {
		if w.lodges(a) && len(a.lodging.running)+len(a.lodging.told) > 0 {
			parts = append(parts, a.name+" runs "+strings.Join(slices.Sorted(maps.Keys(a.lodging.running)), " "))
		}
	}
	return parts
}

// checkLabs judges sessions once all is over: S57, S58 that a failure was told once to whoever
// decides about it, and S25.
func (w *World) checkLabs(s *server) {
	if !w.labs() || s.away() {
		return
	}
	for name, h := range s.core.Managed.Hosts { // order-free: what is found is found for all
		for id, e := range h.Entries { // order-free: the same
			if e.Owner.Session() != "" {
				w.violate("S57", "%s of %s is on %s when all is over", id, e.Owner, name)
			}
		}
	}
	for _, row := range s.core.Rows.List(engine.Filter{}) {
		if row.Phase == engine.Orphaned && !row.Alerts() {
			w.violate("S57", "%s is an orphan and nobody knows", row.Ref)
		}
		if b, there := s.core.Booked.Of(row.Ref); there && row.Phase == engine.Deleted {
			w.violate("S56", "%s has booked %s and is gone", row.Ref, b.Host)
		}
		escalated := map[int64]int{}
		for _, x := range s.core.Rows.History(row.Ref, 0, 0) {
			w.checks.labs.phases[row.Ref.Kind+" "+string(x.To)]++
			if x.Reason.Code == engine.CodeRetryRequested {
				clear(escalated)
			}
			if x.Escalated {
				escalated[x.Generation]++
			}
			if escalated[x.Generation] > 1 {
				w.violate("S58", "%s reports the failure of generation %d twice", row.Ref, x.Generation)
			}
		}
	}
	if w.cfg.Seed%4 == 0 {
		w.refoldLabs(s)
	}
}

// refoldLabs is S25: rows, layers and reports are what the log folds to.
func (w *World) refoldLabs(s *server) {
	again, err := coreserver.NewStateWith(s.state, w.docs, nil, w.log.entries, w.log.events)
	if err != nil {
		w.violate("S25", "%v", err)
		return
	}
	for what, pair := range map[string][2]any{ // order-free: what is found is found for all
		"what rows are": {s.core.Rows.Snapshot(), again.Rows.Snapshot()}, "what is booked": {labelled(s.core.Booked), labelled(again.Booked)},
		"what hosts have": {s.core.Managed, again.Managed}} {
		a, errA := json.Marshal(pair[0])
		b, errB := json.Marshal(pair[1])
		if errA != nil || errB != nil || !bytes.Equal(a, b) {
			w.violate("S25", "%s is not what the log folds to", what)
		}
	}
}

func labelled(all *session.Bookings) map[string]session.PodReport {
	out := map[string]session.PodReport{}
	for ref, b := range all.All() { // order-free: it fills a map
		out[ref.String()] = b
	}
	return out
}
