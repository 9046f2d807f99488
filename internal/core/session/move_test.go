package session

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/place"
	"github.com/steadyfleet/steady/reconcile/engine"
)

// TestPodMoves: a pod that moves leaves a host only once nothing of it can run there, and keeps what it was.
func TestPodMoves(t *testing.T) {
	slot := Timeslot{now.Add(-time.Hour), now.Add(-time.Hour), now.Add(3 * time.Hour), now.Add(4 * time.Hour)}
	lease := clock.FromTime(now.Add(8 * time.Minute))
	booking := func(change func(*PodReport)) *PodReport {
		b := PodReport{Reservation: place.Reservation{Host: "a", Slot: place.Slot{From: clock.FromTime(slot.ProvisionAt), To: clock.FromTime(slot.CleanupDeadline)}}, State: StateRunning, Ran: true, Lease: lease}
		if change != nil {
			change(&b)
		}
		return &b
	}
	leaving := func(b *PodReport) { b.State = StateLeaving }
	chosen := place.Decision{Host: "b", Slot: booking(nil).Slot}
	gone := now.Add(-5 * time.Minute)
	for _, c := range []struct {
		name  string
		spec  PodSpec
		seen  PodSeen
		at    time.Duration
		want  string
		until time.Duration // of now; 0: none
		check func(r PodReport) bool
	}{
		{name: "runs", spec: PodSpec{Moves: true}, seen: PodSeen{Booking: booking(nil), Set: []string{"w"}}, want: "converged", until: 3 * time.Minute},
		{name: "renews half way", spec: PodSpec{Moves: true}, at: 3 * time.Minute, seen: PodSeen{Booking: booking(nil), Set: []string{"w"}}, want: "set-workloads",
			check: func(r PodReport) bool {
				return r.Lease == clock.FromTime(now.Add(3*time.Minute+Lease)) && r.Host == "a"
			}},
		{name: "renews no lease of a host that is offline", spec: PodSpec{Moves: true}, at: 3 * time.Minute, seen: PodSeen{Booking: booking(nil), Set: []string{"w"}, Offline: true, Since: gone}, want: "converged", until: 10 * time.Minute,
			check: func(r PodReport) bool { return r.Lease == lease }},
		{name: "waits for the margin", spec: PodSpec{Moves: true}, at: 10*time.Minute - 1, seen: PodSeen{Booking: booking(nil), Differ: []string{"w"}, Offline: true, Since: gone}, want: "wait", until: 10 * time.Minute},
		{name: "leaves once the lease is over", spec: PodSpec{Moves: true}, at: 10 * time.Minute, seen: PodSeen{Booking: booking(nil), Set: []string{"w"}, Offline: true, Since: gone}, want: "wait", until: 10 * time.Minute,
			check: func(r PodReport) bool { return r.State == StateLeaving && r.Host == "a" }},
		{name: "leaves at once with duplicates", spec: PodSpec{Moves: true, Duplicates: true}, seen: PodSeen{Booking: booking(nil), Set: []string{"w"}, Offline: true, Since: gone}, want: "wait", until: 1,
			check: func(r PodReport) bool { return r.State == StateLeaving }},
		{name: "takes it from the layer first", spec: PodSpec{Moves: true}, seen: PodSeen{Booking: booking(leaving), Set: []string{"w"}, Choice: chosen}, want: "remove-workloads"},
		{name: "waits for a host that is there", spec: PodSpec{Moves: true}, seen: PodSeen{Booking: booking(leaving), Left: []string{"w"}, Choice: chosen}, want: "wait",
			check: func(r PodReport) bool { return r.Host == "a" }},
		{name: "waits for no host that is offline", spec: PodSpec{Moves: true}, seen: PodSeen{Booking: booking(leaving), Left: []string{"w"}, Offline: true, Choice: chosen}, want: "wait", until: 1,
			check: func(r PodReport) bool { return r.Host == "b" && r.Ran && r.Lease == 0 && r.Moves == 1 && r.State == "" }},
		{name: "keeps what it has while there is no room", spec: PodSpec{Moves: true}, seen: PodSeen{Booking: booking(leaving)}, want: "wait", until: lookForRoom,
			check: func(r PodReport) bool { return r.Host == "a" && r.State == StateLeaving }},
		{name: "is drained", spec: PodSpec{Moves: true}, seen: PodSeen{Booking: booking(nil), Set: []string{"w"}, Lost: "host a is disabled"}, want: "wait", until: 1,
			check: func(r PodReport) bool { return r.State == StateLeaving }},
		{name: "is drained from a frozen host", spec: PodSpec{Moves: true}, seen: PodSeen{Booking: booking(nil), Set: []string{"w"}, Frozen: true}, want: "wait", until: 1},
		{name: "stays on a frozen host", seen: PodSeen{Booking: booking(func(b *PodReport) { b.Lease = clock.FromTime(slot.CleanupDeadline) }), Set: []string{"w"}, Frozen: true}, want: "converged"},
		{name: "fails with its host", seen: PodSeen{Booking: booking(func(b *PodReport) { b.Lease = clock.FromTime(slot.CleanupDeadline) }), Set: []string{"w"}, Offline: true, Since: now.Add(-HostGrace)}, want: "fail"},
		{name: "waits for its host", seen: PodSeen{Booking: booking(func(b *PodReport) { b.Lease = clock.FromTime(slot.CleanupDeadline) }), Set: []string{"w"}, Offline: true, Since: gone}, want: "converged", until: 5 * time.Minute},
		{name: "fails on a host that is disabled", seen: PodSeen{Booking: booking(nil), Set: []string{"w"}, Lost: "host a is disabled"}, want: "fail"},
		{name: "is placed anew if nothing of it was there", seen: PodSeen{Booking: booking(func(b *PodReport) { b.Lease, b.State = 0, "" }), Differ: []string{"w"}, Offline: true}, want: "wait", until: 1,
			check: func(r PodReport) bool { return r.State == StateLeaving }},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.spec.Timeslot = slot
			at := now.Add(c.at)
			d := DecidePod(engine.View[PodSpec, PodSeen]{Resource: engine.Resource[PodSpec]{Ref: engine.Ref{Kind: KindPod, ID: "lab/p/w"}, Desired: c.spec}, Observed: c.seen, Now: at})
			name := d.Name()
			if a := d.Action(); a != nil {
				name = a.ActionName()
			}
			if name != c.want {
				t.Fatalf("%s (%s), want %s", name, d.Reason().Text(), c.want)
			}
			want := time.Time{}
			switch {
			case c.until == 1:
				want = at
			case c.until != 0:
				want = now.Add(c.until)
			}
			if !d.Until().Equal(want) {
				t.Errorf("next at %s, want %s", d.Until(), want)
			}
			var r PodReport
			if err := json.Unmarshal(d.Report(), &r); err != nil || c.check != nil && !c.check(r) {
				t.Errorf("%+v, %v", r, err)
			}
		})
	}
}
