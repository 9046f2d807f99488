package nodesdk

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"
)

// odd is a device in memory of which a test says what it makes of a change, and a driver of which
// it says how it spells.
type odd struct {
	counting
	after func(items map[string]json.RawMessage, op Op) // the change, and whoever is faster than the read
	spell func(Item) Item
}

func (o *odd) Apply(_ context.Context, op Op) error {
	o.applied[op.Number]++
	o.after(o.items, op)
	return nil
}

func (o *odd) Normalize(it Item) Item {
	if o.spell != nil {
		return o.spell(it)
	}
	return it
}

func newOdd(after func(items map[string]json.RawMessage, op Op)) *odd {
	return &odd{counting: counting{items: map[string]json.RawMessage{}, applied: map[uint64]int{}}, after: after}
}

// sets makes what a device has of any change one config.
func sets(config string) func(map[string]json.RawMessage, Op) {
	return func(items map[string]json.RawMessage, op Op) { items[op.ID] = json.RawMessage(config) }
}

// TestAppliedIsWhatWasAsked: an operation was applied if the device has just what was asked, by
// its rules and its spelling; all else failed, with both values and no secret.
func TestAppliedIsWhatWasAsked(t *testing.T) {
	folds := func(it Item) Item { return Fold{Nulls: true, Numbers: true}.Item(it) }
	for name, c := range map[string]struct {
		was, asked string // none is a deletion
		after      func(map[string]json.RawMessage, Op)
		spell      func(Item) Item
		want       Outcome
		says       string // in the error
		word       string // how the node spells what was asked
	}{
		"it is so":                          {`{"v":1}`, `{"v":2}`, sets(`{"v":2}`), nil, OutcomeApplied, "", ""},
		"forgotten":                         {`{"v":1,"w":0}`, `{"v":2,"w":0}`, func(map[string]json.RawMessage, Op) {}, nil, OutcomeFailed, "has what it had before: v is 1 instead of 2", ""},
		"a creation is forgotten":           {"", `{"v":2}`, func(map[string]json.RawMessage, Op) {}, nil, OutcomeFailed, "does not have the object", ""},
		"a deletion is forgotten":           {`{"v":1}`, "", func(map[string]json.RawMessage, Op) {}, nil, OutcomeFailed, "has what it had before", ""},
		"another is there after a deletion": {`{"v":1}`, "", sets(`{"v":9}`), nil, OutcomeFailed, "has something else", ""},
		"it is gone":                        {`{"v":1}`, `{"v":2}`, func(items map[string]json.RawMessage, op Op) { delete(items, op.ID) }, nil, OutcomeFailed, "does not have the object", ""},
		"a third party's value":             {`{"v":1}`, `{"v":2}`, sets(`{"v":3}`), nil, OutcomeFailed, "has something else: v is 3 instead of 2", ""},
		"a field more":                      {`{"v":1}`, `{"v":2}`, sets(`{"v":2,"more":[]}`), nil, OutcomeFailed, "more is [] instead of not set", ""},
		"a field less":                      {`{"v":1}`, `{"v":2,"more":null}`, sets(`{"v":2}`), nil, OutcomeFailed, "more is not set instead of null", ""},
		"another kind":                      {`{"v":1}`, `{"v":2}`, sets(`{"v":"2"}`), nil, OutcomeFailed, `v is "2" instead of 2`, ""},
		"a float for an integer":            {`{"v":1}`, `{"v":2}`, sets(`{"v":2.0}`), nil, OutcomeFailed, "v is 2.0 instead of 2", ""},
		"a digit more":                      {`{"v":1}`, `{"v":9007199254740993}`, sets(`{"v":9007199254740992}`), nil, OutcomeFailed, "9007199254740992 instead of 9007199254740993", ""},
		"another secret":                    {`{"key":"first"}`, `{"key":"second"}`, sets(`{"key":"third"}`), nil, OutcomeFailed, "key is secret ", ""},
		"what it folds":                     {`{"v":1}`, `{"v":2.0,"more":null}`, sets(`{"v":2}`), folds, OutcomeApplied, "", `{"v":2}`},
		"what it does not fold":             {`{"v":1}`, `{"v":2.5,"more":null}`, sets(`{"v":2}`), folds, OutcomeFailed, "v is 2 instead of 2.5", ""},
		"what it ignores":                   {`{"v":1,"seen":1}`, `{"v":2}`, sets(`{"v":2,"seen":7}`), nil, OutcomeApplied, "", `{"seen":1,"v":2}`},
		"a set in another order":            {`{"hosts":["a"]}`, `{"hosts":["a","b"]}`, sets(`{"hosts":["b","a"]}`), nil, OutcomeApplied, "", ""},
		"a secret":                          {`{"key":"first"}`, `{"key":"second"}`, sets(`{"key":"second"}`), nil, OutcomeApplied, "", "hmac:"},
	} {
		drv := newOdd(c.after)
		drv.spell = c.spell
		if c.was != "" {
			drv.items["a"] = json.RawMessage(c.was)
		}
		d := open(t, t.TempDir(), drv, writeFile)
		have, err := d.read(t.Context(), "flow", "a")
		if err != nil {
			t.Fatal(err)
		}
		a := &Apply{Op: 1, Term: 1, Kind: "flow", ID: "a", Delete: c.asked == "", Config: json.RawMessage(c.asked), IfMatch: have.etagOf()}
		got := d.apply(t.Context(), a)
		if got.Outcome != c.want || !strings.Contains(got.Error, c.says) || (got.Error == "") != (c.says == "") {
			t.Errorf("%s: it is %+v", name, got)
		}
		if word := string(got.Want); word != c.word && !(c.word == "hmac:" && strings.HasPrefix(word, `{"key":"hmac:`)) {
			t.Errorf("%s: the node's word is %q, want %q", name, word, c.word)
		}
		if text := got.Error + string(got.Want); strings.Contains(text, "second") || strings.Contains(text, "third") {
			t.Errorf("%s: the answer has a secret: %s", name, text)
		}
		if applied := c.want == OutcomeApplied; (d.st.ops.Op == 1) != applied || d.st.ops.Records[keyOf("flow", "a")].Begun != nil {
			t.Errorf("%s: the node remembers %+v", name, d.st.ops.Records[keyOf("flow", "a")])
		}
	}
}

// TestDoneBefore: an operation that is requested again was applied before only if that is there
// still.
func TestDoneBefore(t *testing.T) {
	drv := newOdd(func(items map[string]json.RawMessage, op Op) { items[op.ID] = op.Config })
	d := open(t, t.TempDir(), drv, writeFile)
	a := &Apply{Op: 1, Term: 1, Kind: "flow", ID: "a", Config: json.RawMessage(`{"v":1}`)}
	if got := d.apply(t.Context(), a); got.Outcome != OutcomeApplied {
		t.Fatalf("it is %+v", got)
	}
	if got := d.apply(t.Context(), a); got.Outcome != OutcomeAlready || drv.applied[1] != 1 {
		t.Errorf("again it is %+v", got)
	}
	for _, now := range []string{`{"v":5}`, ""} {
		if delete(drv.items, "a"); now != "" {
			drv.items["a"] = json.RawMessage(now)
		}
		if got := d.apply(t.Context(), a); got.Outcome != OutcomeConflict || drv.applied[1] != 1 || (got.Object == nil) != (now == "") {
			t.Errorf("with %q on the device it is %+v", now, got)
		}
	}
}

// TestOnlyWhatWasAskedIsConfirmed: a device that takes back what is not confirmed does so with
// other values than were asked.
func TestOnlyWhatWasAskedIsConfirmed(t *testing.T) {
	drv := &confirming{counting: counting{items: map[string]json.RawMessage{}, applied: map[uint64]int{}}}
	d := open(t, t.TempDir(), &otherwise{drv}, writeFile)
	got := d.apply(t.Context(), &Apply{Op: 1, Term: 1, Kind: "flow", ID: "a", Config: json.RawMessage(`{"v":1}`)})
	if got.Outcome != OutcomeUnknown || !strings.Contains(got.Error, "not confirmed") || !strings.Contains(got.Error, "v is 2 instead of 1") || drv.before == nil {
		t.Errorf("it is %+v, and confirmed: %v", got, drv.before == nil)
	}
	drv.items = drv.before
	if s := d.snapshot(t.Context()); s.Op != 0 || len(s.Objects) != 0 {
		t.Errorf("then it is %+v", s)
	}
}

// otherwise makes another value of each change.
type otherwise struct{ *confirming }

func (o *otherwise) ApplyUnconfirmed(ctx context.Context, op Op, within time.Duration) error {
	op.Config = json.RawMessage(`{"v":2}`)
	return o.confirming.ApplyUnconfirmed(ctx, op, within)
}
