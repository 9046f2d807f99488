package nodetest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/steadyfleet/steady/nodesdk"
)

// otherValues is the code of an operation that the device accepted, and has something else.
const otherValues = "other-values"

// takenAway: an edit without a member that the object has removes it. A device may refuse that; one that
// accepts it and keeps the member merges where it should replace.
func takenAway(r *rig) {
	gone := 0
	for _, e := range r.h.Examples {
		for _, config := range []json.RawMessage{e.Config, e.Edited} {
			for _, name := range slices.Sorted(maps.Keys(membersOf(r, config))) {
				e.Config = config
				made := r.create(e)
				got := r.apply(r.operation(e.Kind, e.ID, without(r, config, name), made.ETag))
				if got.Code == otherValues {
					r.Fatalf("an edit of %s without %q is accepted, and the device has something else: Apply replaces the whole object and merges nothing (%s)", e.ID, name, got.Error)
				}
				if now := r.has(e.Kind, e.ID); now != nil && got.Outcome == nodesdk.OutcomeApplied {
					gone++
				}
				r.clear(e)
			}
		}
	}
	if gone == 0 {
		r.Fatal("no member of an example can be removed, so that nothing shows whether an edit replaces: give an example with a member that is not required")
	}
}

// clear deletes an example, so that the next one begins anew.
func (r *rig) clear(e Example) {
	r.Helper()
	if now := r.has(e.Kind, e.ID); now != nil {
		r.expect("a deletion", r.apply(r.operation(e.Kind, e.ID, nil, now.ETag)), nodesdk.OutcomeApplied)
	}
}

// unknownKept: Normalize keeps what it does not know, and tells values apart that differ. What it drops
// or takes for the same, nobody ever sees: neither that a push lost it, nor that a person changed it.
func unknownKept(r *rig) {
	for _, e := range r.h.Examples {
		form := func(value string) []byte {
			it := r.device.Driver.Normalize(nodesdk.Item{Kind: e.Kind, ID: e.ID, Config: withMember(r, e.Config, unknown, json.RawMessage(value))})
			return canonical(r, it.Config)
		}
		plain := canonical(r, r.device.Driver.Normalize(nodesdk.Item{Kind: e.Kind, ID: e.ID, Config: e.Config}).Config)
		for _, v := range []string{`"x"`, `5`, `true`, `["x"]`, `{"a":"x"}`} {
			if bytes.Equal(form(v), plain) {
				r.Errorf("Normalize drops a field that it does not know, with %s: a hand edit of it is invisible", v)
			}
		}
		for _, pair := range [][2]string{
			{`9007199254740993`, `9007199254740992`}, {`[2,1]`, `[1,2]`}, {`["a","a"]`, `["a"]`}, {`"A"`, `"a"`}, {`0.1`, `0.10000000000000002`},
		} {
			if bytes.Equal(form(pair[0]), form(pair[1])) {
				r.Errorf("Normalize takes %s and %s for the same in a field that it does not know: keep numbers as they are written (json.Decoder.UseNumber), and name sets in Collection.Sets", pair[0], pair[1])
			}
		}
	}
}

// valuesKept: what the device accepts it has. One that has not a kind of value refuses it, or its Normalize folds it.
func valuesKept(r *rig) {
	e := r.h.Examples[0]
	for _, v := range []string{`null`, `1.0`, `9007199254740993`, `-0.0`, `1e300`, `[2,1]`, `[1,null]`, `{}`, `[]`, `{"b":1,"a":{"c":null}}`, `""`, `"two\nlines é"`, `"yes"`, `"007"`} {
		got := r.apply(r.operation(e.Kind, e.ID, withMember(r, e.Config, unknown, json.RawMessage(v)), ""))
		if got.Code == otherValues {
			r.Errorf("an object with %s in a field is accepted, and the device has something else: refuse it in Apply, or fold it in Normalize where the device does not tell it apart (%s)", v, got.Error)
		}
		r.clear(e)
	}
}

// othersStay: an operation on one object changes no other one.
func othersStay(r *rig) {
	e, other := r.h.Examples[0], r.h.Examples[1]
	was := r.create(other)
	same := func(what string) {
		r.Helper()
		if now := r.has(other.Kind, other.ID); now == nil || now.ETag != was.ETag {
			r.Fatalf("%s of %s changes %s: it was %+v and is %+v", what, e.ID, other.ID, was, now)
		}
	}
	made := r.create(e)
	same("the creation")
	edited := r.expect("an edit", r.apply(r.operation(e.Kind, e.ID, e.Edited, made.ETag)), nodesdk.OutcomeApplied)
	same("an edit")
	r.expect("a deletion", r.apply(r.operation(e.Kind, e.ID, nil, edited.Object.ETag)), nodesdk.OutcomeApplied)
	same("the deletion")
	if n := len(r.whole()); n != 1 {
		r.Fatalf("after the deletion there are %d objects, not the other one alone", n)
	}
}

// somethingElse: the driver accepts each operation, and the device has something else after it. None is a success.
func somethingElse(r *rig) {
	e := r.h.Examples[0]
	// instead has the driver do another operation in the place of the one that is asked.
	instead := func(config json.RawMessage) {
		r.driver.disturb(func(ctx context.Context, op nodesdk.Op, _ func() error) error {
			op.Delete, op.Config = config == nil, config
			return r.device.Driver.Apply(ctx, op)
		}, nil)
	}
	try := func(what string, config, actual json.RawMessage, etag string) {
		r.Helper()
		instead(actual)
		got := r.apply(r.operation(e.Kind, e.ID, config, etag))
		r.driver.disturb(nil, nil)
		if got.Outcome == nodesdk.OutcomeApplied || got.Outcome == nodesdk.OutcomeAlready || got.Error == "" {
			r.Fatalf("%s after which the device has something else is %+v", what, got)
		}
		r.clear(e)
	}
	try("a creation", e.Config, e.Edited, "")
	try("an edit", e.Edited, nil, r.create(e).ETag)
	try("a deletion", nil, e.Edited, r.create(e).ETag)
}

// unanswered: a device that does not answer is no device without objects. The context that a call gets has ended.
func unanswered(r *rig) {
	e := r.h.Examples[0]
	made := r.create(e)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	s, err := r.read(ctx)
	there := slices.ContainsFunc(s.Items, func(it nodesdk.Item) bool { return it.Kind == e.Kind && it.ID == e.ID })
	if err == nil && s.Complete && !there {
		r.Fatalf("a reading that was cut short is a whole without %s: Snapshot returns what went wrong as its error", e.ID)
	}
	heeds := err != nil || !s.Complete
	if reader, is := r.device.Driver.(nodesdk.Reader); is {
		if _, there, err := reader.Read(ctx, e.Kind, e.ID); err == nil && !there {
			r.Fatalf("a reading of %s that was cut short says that it is not there: Read returns what went wrong as its error", e.ID)
		}
	}
	if !heeds && r.device.Break == nil {
		r.Fatal("nothing shows what the driver makes of a device that cannot be read: its Snapshot does not heed the context, and Device.Break is nil; give Break")
	}
	if now := r.has(e.Kind, e.ID); now == nil || now.ETag != made.ETag {
		r.Fatalf("then it is %+v, it was %+v", now, made)
	}
}

// readable: what Snapshot returns can be used: each object is of a collection, with a name, once, and is JSON.
func readable(r *rig) {
	for _, e := range r.h.Examples {
		r.create(e)
	}
	whole := r.whole()
	for _, e := range r.h.Examples {
		if _, there := whole[e.Kind+" "+e.ID]; !there {
			r.Fatalf("Snapshot lacks %s %s, which was created: it has %s", e.Kind, e.ID, strings.Join(slices.Sorted(maps.Keys(whole)), ", "))
		}
	}
	if len(whole) != len(r.h.Examples) {
		r.Fatalf("Snapshot has %s, and %d objects were created", strings.Join(slices.Sorted(maps.Keys(whole)), ", "), len(r.h.Examples))
	}
}

func membersOf(r *rig, config json.RawMessage) map[string]json.RawMessage {
	r.Helper()
	var out map[string]json.RawMessage
	if err := json.Unmarshal(config, &out); err != nil {
		r.Fatalf("the config of an example is no JSON object: %v", err)
	}
	return out
}

func without(r *rig, config json.RawMessage, name string) json.RawMessage {
	m := membersOf(r, config)
	delete(m, name)
	out, err := json.Marshal(m)
	if err != nil {
		r.Fatal(err)
	}
	return out
}

// canonical is JSON with its members sorted and its numbers as they are written.
func canonical(r *rig, config json.RawMessage) []byte {
	r.Helper()
	d := json.NewDecoder(bytes.NewReader(config))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		r.Fatalf("Normalize returns what is no JSON: %s", fmt.Sprintf("%.200q", config))
	}
	out, err := json.Marshal(v)
	if err != nil {
		r.Fatal(err)
	}
	return out
}
