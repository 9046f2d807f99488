package access

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/event"
)

// Whatever comes and goes in whatever order: a login has a token, its role and name, does not
// outlast it, and of one token there are never more than the bound.
func TestLoginsEndWithTheirToken(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ts, now, n := Tokens{}, clock.Instant(1000), 0
		ids := func() []string {
			var ids []string
			for id := range ts {
				ids = append(ids, id)
			}
			slices.Sort(ids)
			return append(ids, "nobody")
		}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			n++
			id := rapid.SampledFrom(ids()).Draw(t, "id")
			switch rapid.SampledFrom([]string{"add", "open", "open", "open", "open", "revoke", "wait"}).Draw(t, "what") {
			case "add":
				life := rapid.SampledFrom([]clock.Duration{MinLife, clock.Hour, MaxLife}).Draw(t, "life")
				if ev, err := ts.Add(event.OperatorTokenAdded{ID: fmt.Sprint(n), Name: fmt.Sprint("t", n), Role: rapid.SampledFrom([]string{Admin, "viewer"}).Draw(t, "role")}, life, now); err == nil {
					ts.Fold(now, ev)
				}
			case "open":
				was, known := ts[id]
				events, err := ts.Open(event.OperatorTokenAdded{ID: fmt.Sprint(n), Role: Admin, Parent: id}, now)
				if may := known && was.Parent == "" && !was.Expired(now); may != (err == nil) {
					t.Fatalf("a login of %+v: %v", was, err)
				}
				for _, ev := range events {
					ts.Fold(now, ev)
				}
				if _, there := ts[fmt.Sprint(n)]; there != (err == nil) {
					t.Fatalf("there is a login: %t, %v", there, err)
				}
			case "revoke":
				if ev, err := ts.Revoke(id, true, "x", now); err == nil {
					ts.Fold(now, ev)
				}
			case "wait":
				now = now.Add(clock.Duration(rapid.Int64Range(1, int64(LoginLife)).Draw(t, "wait")))
			}
			checkLogins(t, ts, now)
		}
	})
}

func checkLogins(t *rapid.T, ts Tokens, now clock.Instant) {
	of := map[string]int{}
	for id, s := range ts {
		if s.Parent == "" {
			continue
		}
		of[s.Parent]++
		p, ok := ts[s.Parent]
		if !ok || p.Parent != "" || s.Role != p.Role || s.Name != p.Name || s.Expires > p.Expires || s.Expires.Sub(s.CreatedAt) > LoginLife || p.Expired(now) && !s.Expired(now) {
			t.Fatalf("login %s %+v of %+v (there: %t)", id, s, p, ok)
		}
		if of[s.Parent] > MaxLogins {
			t.Fatalf("%d logins of %s", of[s.Parent], s.Parent)
		}
	}
}

// The login too many ends the one that began first, in the log.
func TestTheOldestLoginEnds(t *testing.T) {
	ts := Tokens{"a": {Name: "ann", Role: "viewer"}}
	for i := range MaxLogins + 1 {
		now := clock.Instant(1000 + i)
		events, err := ts.Open(event.OperatorTokenAdded{ID: fmt.Sprint("s", i), Parent: "a"}, now)
		if err != nil {
			t.Fatal(err)
		}
		for _, ev := range events {
			ts.Fold(now, ev)
		}
		if i < MaxLogins && len(events) != 1 {
			t.Fatalf("login %d: %+v", i, events)
		}
		if i == MaxLogins && (len(events) != 2 || events[0] != event.Event(event.OperatorTokenRevoked{ID: "s0", Actor: "ann (a)"})) {
			t.Fatalf("the login too many: %+v", events)
		}
	}
}

// A login of an admin is no admin that stays.
func TestLoginsDoNotCountAsAdmins(t *testing.T) {
	ts := Tokens{"a": {Name: "ann", Role: Admin}, "s": {Name: "ann", Role: Admin, Parent: "a"}}
	if _, err := ts.Revoke("a", false, "x", 1); err == nil {
		t.Error("the last admin's token went since it has a login")
	}
	if ev, err := ts.Revoke("s", false, "x", 1); err != nil || ev.Forced {
		t.Errorf("logging out: %+v, %v", ev, err)
	}
	ev, err := ts.Revoke("a", true, "x", 1)
	if err != nil || !ev.Forced {
		t.Errorf("by force: %+v, %v", ev, err)
	}
	if ts.Fold(1, ev); len(ts) != 0 {
		t.Errorf("a login outlives its token: %+v", ts)
	}
}

func TestCodesAreGoodOnceAndForAMoment(t *testing.T) {
	hash := func(i int) [sha256.Size]byte { return sha256.Sum256([]byte{byte(i)}) }
	now, cs := clock.Instant(1000), Codes{}
	if end := cs.Add(hash(0), "a", now); end != now.Add(CodeLife) {
		t.Errorf("good until %d", end)
	}
	cs.Add(hash(1), "b", now)
	if id, err := cs.Redeem(hash(0), now.Add(CodeLife-1)); id != "a" || err != nil {
		t.Errorf("redeemed: %q, %v", id, err)
	}
	if _, err := cs.Redeem(hash(0), now); !errors.Is(err, ErrCode) {
		t.Errorf("redeemed again: %v", err)
	}
	if _, err := cs.Redeem(hash(1), now.Add(CodeLife)); !errors.Is(err, ErrCode) || len(cs) != 0 {
		t.Errorf("redeemed late: %v, %d left", err, len(cs))
	}
	if _, err := cs.Redeem(hash(9), now); !errors.Is(err, ErrCode) {
		t.Errorf("a guess: %v", err)
	}
	for i := range 3 * MaxLogins {
		cs.Add(hash(i), "a", now.Add(clock.Duration(i)))
		cs.Add(hash(100+i), "b", now.Add(clock.Duration(i)))
	}
	if len(cs) != 2*MaxLogins {
		t.Errorf("%d codes of two tokens", len(cs))
	}
	if id, err := cs.Redeem(hash(3*MaxLogins-1), now.Add(clock.Second)); id != "a" || err != nil {
		t.Errorf("the newest of many: %q, %v", id, err)
	}
	if _, err := cs.Redeem(hash(0), now.Add(clock.Second)); err == nil {
		t.Error("the oldest of many is good")
	}
	if cs.Add(hash(200), "c", now.Add(2*CodeLife)); len(cs) != 1 {
		t.Errorf("%d codes when all others had ended", len(cs))
	}
}
