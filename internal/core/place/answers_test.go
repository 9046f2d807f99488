package place_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/steadyfleet/steady/internal/core/place"
	"github.com/steadyfleet/steady/internal/testkit"
)

// TestInputOrderChangesNothing checks that hosts and reservations may come in any order.
func TestInputOrderChangesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t, false)
		reqs := []place.Request{drawRequest(t), drawRequest(t), drawRequest(t)}
		hosts, res := rapid.Permutation(w.hosts).Draw(t, "hosts"), rapid.Permutation(w.res).Draw(t, "reservations")
		same := func(a, b any) {
			t.Helper()
			if !reflect.DeepEqual(a, b) {
				t.Fatalf("in another order\n%+v\nbecomes\n%+v", a, b)
			}
		}
		same(place.Place(reqs[0], w.hosts, w.res), place.Place(reqs[0], hosts, res))
		same(place.PlaceAll(reqs, w.hosts, w.res), place.PlaceAll(reqs, hosts, res))
		same(place.NextSlot(reqs[0], w.hosts, w.res, lastInstant), place.NextSlot(reqs[0], hosts, res, lastInstant))
	})
}

func TestInvalidRequestsAreRefused(t *testing.T) {
	for words, change := range map[string]func(*place.Request){
		"expected an end after its start": func(r *place.Request) { r.Slot.To = r.Slot.From },
		"from never to":                   func(r *place.Request) { r.Slot.From = 0 },
		"a negative amount":               func(r *place.Request) { r.GPU.Count = -1 },
		"which no host has":               func(r *place.Request) { r.Resources.Memory = 1 << 62 },
		"has no group":                    func(r *place.Request) { r.Spread = &place.Spread{} },
	} {
		req := want("p", place.Slot{From: 1, To: 2}, 0)
		change(&req)
		d := place.Place(req, []place.Host{lab("h", 0)}, nil)
		if next := place.NextSlot(req, []place.Host{lab("h", 0)}, nil, 9); d.Placed() || !strings.Contains(d.Message, words) || !reflect.DeepEqual(next.Decision, d) {
			t.Errorf("%+v is not refused as %q", d, words)
		}
		if all := place.PlaceAll([]place.Request{want("q", place.Slot{From: 1, To: 2}, 0), req}, []place.Host{lab("h", 0)}, nil); all.Decisions != nil || all.Refused.Message != d.Message {
			t.Errorf("%+v", all)
		}
	}
}

func TestNamesOnTheWire(t *testing.T) {
	h, slot := lab("h", 1), place.Slot{From: 1, To: 2}
	req := want("s/p/1", slot, 1)
	req.Group, req.Spread = "g", &place.Spread{Tags: []string{"r"}}
	d := place.Place(req, []place.Host{h, {Name: "i"}}, nil)
	full := place.NextSlot(want("q", slot, 1), []place.Host{h}, []place.Reservation{req.Reserve(d)}, 1)
	for want, v := range map[string]any{
		`{"name":"h","facts":{"cpus":4,"memory":8589934592,"gpus":[{"vendor":"nvidia","model":"l4","memory":25769803776}],"arch":"amd64","engine":"docker 28"},"used":{},"present":true,"allowsSessions":true}`: h,
		`{"owner":"s/p/1","group":"g","selector":{"all":true},"resources":{"milliCPU":1000,"memory":1073741824},"gpu":{"count":1},"slot":{"from":1,"to":2},"spread":{"tags":["r"]}}`:                            req,
		`{"owner":"s/p/1","slot":{"from":1,"to":2},"host":"h","gpus":[0],"message":"host h is the only one with room","feasible":1,"leftOut":[{"host":"i","code":"sessions-not-allowed",` +
			`"message":"the host's signed declaration does not allow sessions"}]}`: d,
		`{"owner":"s/p/1","group":"g","host":"h","slot":{"from":1,"to":2},"resources":{"milliCPU":1000,"memory":1073741824},"gpus":[0]}`: req.Reserve(d),
		`{"host":"h","owners":["s/p/1"],"until":2}`: full.FreedBy,
	} {
		if got := string(testkit.Value(json.Marshal(v))(t)); got != want {
			t.Errorf("%s\nwant %s", got, want)
		}
	}
	for _, v := range []any{&d, &full, &place.Placement{Decisions: []place.Decision{d}}, &place.Placement{Refused: &full.Decision}} {
		back := reflect.New(reflect.TypeOf(v).Elem()).Interface()
		testkit.Must(t, json.Unmarshal(testkit.Value(json.Marshal(v))(t), back))
		if !reflect.DeepEqual(v, back) {
			t.Errorf("%+v is read back as %+v", v, back)
		}
	}
}
