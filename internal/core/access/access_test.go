package access

import (
	"errors"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/event"
)

// Whatever operators ask for in whatever order: as long as nobody forces it, a fleet
// that had an admin has one until time ends the token.
func TestLastAdminStaysUnlessForced(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ts, now := Tokens{}, clock.Instant(1000)
		add := func(id, role string) {
			ev, err := ts.Add(event.OperatorTokenAdded{ID: id, Name: id, Role: role}, rapid.SampledFrom([]clock.Duration{MinLife, clock.Hour, MaxLife}).Draw(t, "life"), now)
			if err == nil {
				ts.Fold(now, ev)
			}
		}
		add("a", Admin)
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			id := rapid.SampledFrom([]string{"a", "b", "c", "d"}).Draw(t, "id")
			had := hasAdmin(ts, now)
			switch rapid.SampledFrom([]string{"add", "revoke", "force", "wait"}).Draw(t, "what") {
			case "add":
				add(id, rapid.SampledFrom([]string{Admin, "viewer", "releaser"}).Draw(t, "role"))
			case "wait":
				now = now.Add(clock.Duration(rapid.Int64Range(1, int64(clock.Hour)).Draw(t, "wait")))
				continue
			case "revoke", "force":
				force := rapid.Bool().Draw(t, "force")
				ev, err := ts.Revoke(id, force, "x", now)
				if err != nil {
					continue
				}
				ts.Fold(now, ev)
				if had && !hasAdmin(ts, now) && (!force || !ev.Forced) {
					t.Fatalf("the last admin went without force, or the event does not say so: %+v", ev)
				}
				continue
			}
			if had && !hasAdmin(ts, now) {
				t.Fatal("an admin went by an addition")
			}
		}
	})
}

func TestRevoke(t *testing.T) {
	now := clock.Instant(10_000)
	ts := Tokens{"a": {Name: "ann", Role: Admin}, "v": {Name: "vic", Role: "viewer"}, "old": {Name: "old", Role: Admin, Expires: 9_000}}
	for _, x := range []struct {
		name, id        string
		force           bool
		refused, forced bool
	}{
		{"a viewer", "v", false, false, false},
		{"an admin that has ended", "old", false, false, false},
		{"the last admin that is good", "a", false, true, false},
		{"the last admin by force", "a", true, false, true},
		{"a viewer by force says nothing of force", "v", true, false, false},
		{"nobody", "x", true, true, false},
	} {
		ev, err := ts.Revoke(x.id, x.force, "ann", now)
		if (err != nil) != x.refused || ev.Forced != x.forced {
			t.Errorf("%s: %+v, %v", x.name, ev, err)
		}
		var refused *Error
		if x.id == "x" && (!errors.As(err, &refused) || !refused.Unknown) {
			t.Errorf("an id that nobody has: %v", err)
		}
	}
}

// Lists show names beside IDs: who gives a name is told the IDs of all that have it.
func TestRevokeByNameIsToldTheIDs(t *testing.T) {
	ts := Tokens{"b2": {Name: "bob"}, "a1": {Name: "bob"}, "c3": {Name: "ann"}}
	_, err := ts.Revoke("bob", true, "ann", 1)
	var refused *Error
	if !errors.As(err, &refused) || !refused.Unknown || !strings.HasSuffix(refused.Reason, ": a1, b2") {
		t.Errorf("revoked by name: %v", err)
	}
}

func TestLifeIsBounded(t *testing.T) {
	for life, ok := range map[clock.Duration]bool{0: false, MinLife - 1: false, MinLife: true, DefaultLife: true, MaxLife: true, MaxLife + 1: false} {
		ev, err := Tokens{}.Add(event.OperatorTokenAdded{ID: "a"}, life, 5)
		if (err == nil) != ok || ok && (ev.Expires != clock.Instant(5).Add(life) || (Token{Expires: ev.Expires}).Expired(ev.Expires-1) || !(Token{Expires: ev.Expires}).Expired(ev.Expires)) {
			t.Errorf("life %s: %+v, %v", life, ev, err)
		}
	}
}

// A token that is used all the time costs a record an interval.
func TestUseIsRecordedOnceAnInterval(t *testing.T) {
	ts, records := Tokens{"a": {Role: Admin}}, 0
	for now := clock.Instant(1); now < clock.Instant(1).Add(10*UseInterval); now = now.Add(clock.Minute) {
		if ev, news := ts.Used("a", now); news {
			ts.Fold(now, ev)
			records++
		}
	}
	if _, news := ts.Used("nobody", 1); records != 10 || news {
		t.Errorf("%d records in ten intervals; of nobody: %t", records, news)
	}
}

// hasAdmin reports whether some admin's token is good.
func hasAdmin(ts Tokens, now clock.Instant) bool {
	for _, t := range ts {
		if t.Role == Admin && !t.Expired(now) {
			return true
		}
	}
	return false
}
