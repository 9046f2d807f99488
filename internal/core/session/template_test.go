package session

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/place"
	"github.com/steadyfleet/steady/internal/testkit"
	"github.com/steadyfleet/steady/reconcile/engine"
)

func number(n float64) *float64 { return &n }

// TestValues: a value has the type of its parameter and is within its bounds, or is refused by its path.
func TestValues(t *testing.T) {
	ps := []Parameter{
		{Name: "seats", Type: Integer, Min: number(1), Max: number(40), Default: 3.0},
		{Name: "image", Type: String, Choices: []any{"a", "b"}},
		{Name: "name", Type: String, Pattern: "[a-z]+", Default: "lab"},
		{Name: "share", Type: Number, Default: 0.5},
		{Name: "fast", Type: Boolean, Default: false},
		{Name: "wait", Type: Span, Default: "5m"},
	}
	if found := CheckParameters(ps); len(found) > 0 {
		t.Fatal(found)
	}
	for _, c := range []struct {
		given map[string]any
		want  string
	}{
		{map[string]any{"image": "a"}, "map[fast:false image:a name:lab seats:3 share:0.5 wait:5m]"},
		{map[string]any{"image": "b", "seats": int64(40), "name": "x", "share": int64(2), "fast": true, "wait": "1h"}, "map[fast:true image:b name:x seats:40 share:2 wait:1h]"},
		{nil, "parameters: parameter image is not given: expected one of a, b"},
		{map[string]any{"image": "c"}, "parameters.image: c is none of its choices: expected one of a, b"},
		{map[string]any{"image": "a", "seats": 2.5}, `parameters.seats: "2.5" is of no use here: parameter seats is of type integer`},
		{map[string]any{"image": "a", "seats": "2"}, `parameters.seats: "2" is of no use here`},
		{map[string]any{"image": "a", "seats": 0.0}, "parameters.seats: 0 is too little: parameter seats is at least 1"},
		{map[string]any{"image": "a", "seats": 41.0}, "parameters.seats: 41 is too much: parameter seats is at most 40"},
		{map[string]any{"image": "a", "name": "Lab"}, `parameters.name: "Lab" does not match [a-z]+`},
		{map[string]any{"image": "a", "name": "lab\n"}, `does not match [a-z]+`},
		{map[string]any{"image": "a", "fast": "yes"}, `parameters.fast: "yes" is of no use here`},
		{map[string]any{"image": "a", "wait": "soon"}, `parameters.wait: "soon" is no span of time`},
		{map[string]any{"image": "a", "seat": 1.0}, "parameters.seat: the template has no parameter seat: expected seats, image"},
	} {
		values, found := Values(ps, c.given)
		got := fmt.Sprint(values)
		if len(found) > 0 {
			got = found.Error()
		}
		if !strings.Contains(got, c.want) {
			t.Errorf("%v: %s, want %s", c.given, got, c.want)
		}
	}
}

func TestCheckParameters(t *testing.T) {
	for _, c := range []struct {
		p    Parameter
		want string
	}{
		{Parameter{Name: "A b", Type: String}, "parameters[0].name: "},
		{Parameter{Name: "a", Type: String, Min: number(1)}, "only an integer and a number have min and max"},
		{Parameter{Name: "a", Type: Integer, Min: number(2), Max: number(1)}, "parameters[0].min: it is more than max"},
		{Parameter{Name: "a", Type: Integer, Pattern: "x"}, "parameters[0].pattern: only a string has a pattern"},
		{Parameter{Name: "a", Type: String, Pattern: "("}, "parameters[0].pattern: error parsing regexp"},
		{Parameter{Name: "a", Type: Integer, Choices: []any{"x"}}, "parameters[0].choices[0]: "},
		{Parameter{Name: "a", Type: Integer, Choices: []any{1.0}, Default: 2.0}, "parameters[0].default: 2 is none of its choices"},
	} {
		if got := CheckParameters([]Parameter{c.p}).Error(); !strings.Contains(got, c.want) {
			t.Errorf("%+v: %s, want %s", c.p, got, c.want)
		}
	}
}

// TestQuota: sessions of one owner whose timeslots overlap count together, others do not.
func TestQuota(t *testing.T) {
	table := engine.NewTable()
	set := func(in engine.Intent) {
		t.Helper()
		w, _, err := table.Apply(in, now, engine.Cause{})
		testkit.Must(t, err)
		testkit.Must(t, table.Fold(w))
	}
	ask := func(owner string, after time.Duration) *Spec {
		s := sound()
		s.Owner = owner
		s.Parts[0].Pods[0].Resources, s.Parts[0].Pods[0].GPU = place.Resources{MilliCPU: 1000, Memory: 1 << 30}, place.GPURequest{Count: 1}
		s.Timeslot = Timeslot{now.Add(after), now.Add(after), now.Add(after + time.Hour), now.Add(after + 2*time.Hour)}
		return s
	}
	set(Intent("one", ask("ann (0)", 0))) // with an earlier token
	set(Intent("two", ask("bob (2)", 0)))
	for _, c := range []struct {
		quota Quota
		ask   *Spec
		want  string
	}{
		{Quota{Sessions: 2, Pods: 4, MilliCPU: 2000, Memory: 2 << 30, GPUs: 2, Length: clock.FromStd(time.Hour), Calls: []string{"x.example"}}, ask("ann (1)", 0), ""},
		{Quota{Sessions: 1}, ask("ann (1)", 0), "timeslot: ann would have 2 sessions with those that overlap; the quota of WHOM allows 1"},
		{Quota{Sessions: 1}, ask("ann (1)", 2*time.Hour), ""},
		{Quota{Sessions: 1}, ask("eve (3)", 0), ""},
		{Quota{Pods: 3}, ask("ann (1)", 0), "parts: ann would have 4 pods"},
		{Quota{MilliCPU: 1999}, ask("ann (1)", 0), "parts: ann would have 2000 thousandths of a CPU"},
		{Quota{Memory: 1 << 30}, ask("ann (1)", 0), "bytes of memory"},
		{Quota{GPUs: 1}, ask("ann (1)", 0), "parts: ann would have 2 GPUs"},
		{Quota{Length: clock.FromStd(time.Minute)}, ask("ann (1)", 0), "timeslot.end: the session would last 1h0m0s; the quota of WHOM allows 1m"},
		{Quota{Calls: []string{}}, ask("ann (1)", 0), "parts[0].phases[0].call.url: host x.example may not be called: expected one of calls, [] by the quota of WHOM"},
	} {
		for _, of := range []string{"ann", Everybody} {
			set(engine.Upsert(QuotaRef(of), c.quota))
			got := ""
			if err := QuotaOf(table, c.ask.Owner).Exceeded(table.List(engine.Filter{Kind: KindSession}), "new", c.ask); err != nil {
				got = err.Error()
			}
			if want := strings.Replace(c.want, "WHOM", of, 1); want == "" && got != "" || !strings.Contains(got, want) {
				t.Errorf("%+v of %s: %q, want %q", c.quota, of, got, c.want)
			}
			set(engine.Delete(QuotaRef(of)))
		}
		set(engine.Upsert(QuotaRef("ann"), Quota{Sessions: 100}))
		set(engine.Upsert(QuotaRef(Everybody), Quota{Length: 1}))
		if err := QuotaOf(table, c.ask.Owner).Exceeded(table.List(engine.Filter{Kind: KindSession}), "one", c.ask); err != nil && strings.HasPrefix(c.ask.Owner, "ann") {
			t.Errorf("the quota of somebody is not before that of everybody: %v", err)
		}
		set(engine.Delete(QuotaRef("ann")))
		set(engine.Delete(QuotaRef(Everybody)))
	}
}
