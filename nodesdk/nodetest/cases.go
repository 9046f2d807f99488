package nodetest

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/steadyfleet/steady/nodesdk"
)

func lifecycle(r *rig) {
	for _, e := range r.h.Examples {
		made := r.create(e)
		if o := r.has(e.Kind, e.ID); o == nil || !reflect.DeepEqual(*o, *made) {
			r.Fatalf("%s was created as %+v and is read as %+v", e.ID, made, o)
		}
		edited := r.expect("an edit", r.apply(r.operation(e.Kind, e.ID, e.Edited, made.ETag)), nodesdk.OutcomeApplied)
		if edited.Object == nil || edited.Object.ETag == made.ETag {
			r.Fatalf("the edit of %s left %+v", e.ID, edited.Object)
		}
		if o := r.has(e.Kind, e.ID); o == nil || !reflect.DeepEqual(*o, *edited.Object) {
			r.Fatalf("%s was edited to %+v and is read as %+v", e.ID, edited.Object, o)
		}
		// What was reported is what may be sent: it is no change.
		r.expect("what the device reported", r.apply(r.operation(e.Kind, e.ID, edited.Object.Config, edited.Object.ETag)), nodesdk.OutcomeAlready)
	}
	for _, e := range r.h.Examples {
		gone := r.expect("a deletion", r.apply(r.operation(e.Kind, e.ID, nil, r.has(e.Kind, e.ID).ETag)), nodesdk.OutcomeApplied)
		if gone.Object != nil || r.has(e.Kind, e.ID) != nil {
			r.Fatalf("%s is there after its deletion", e.ID)
		}
	}
}

func idempotent(r *rig) {
	e := r.h.Examples[0]
	r.expect("deleting what is not there", r.apply(r.operation(e.Kind, e.ID, nil, "")), nodesdk.OutcomeAlready)
	made := r.create(e)
	again := r.expect("creating the same again", r.apply(r.operation(e.Kind, e.ID, e.Config, "")), nodesdk.OutcomeAlready)
	if again.Object == nil || again.Object.ETag != made.ETag {
		r.Fatalf("created again it is %+v", again.Object)
	}
	// The driver by itself, as the client calls it after it lost track.
	ctx, cancel := r.ctx()
	defer cancel()
	if err := r.device.Driver.Apply(ctx, nodesdk.Op{Number: 1, Kind: e.Kind, ID: "steady-not-there", Delete: true}); err != nil {
		r.Errorf("the driver deletes what is not there with %v", err)
	}
}

func duplicate(r *rig) {
	e := r.h.Examples[0]
	made := r.create(e)
	got := r.expect("creating another one of the same name", r.apply(r.operation(e.Kind, e.ID, e.Edited, "")), nodesdk.OutcomeConflict)
	if got.Object == nil || got.Object.ETag != made.ETag || r.has(e.Kind, e.ID).ETag != made.ETag {
		r.Fatalf("the object was %+v and is %+v", made, got.Object)
	}
}

func lostAcknowledgement(r *rig) {
	e := r.h.Examples[0]
	op := r.operation(e.Kind, e.ID, e.Config, "")
	calls, s := 0, r.s
	r.driver.disturb(func(_ context.Context, _ nodesdk.Op, apply func() error) error {
		calls++
		err := apply()
		s.Cut() // after the change, and before its answer
		<-s.Ended()
		return err
	}, nil)
	ctx, cancel := r.ctx()
	defer cancel()
	if _, err := s.Request(ctx, nodesdk.Request{Apply: &op}); !errors.Is(err, errEnded) {
		r.Fatalf("the connection was not cut: %v", err)
	}
	r.connected()
	if r.s.Hello.Op != op.Op {
		r.Errorf("the node says that operation %d is its newest, not %d", r.s.Hello.Op, op.Op)
	}
	again := r.expect("the operation requested again", r.apply(op), nodesdk.OutcomeAlready)
	if calls != 1 || again.Object == nil || again.Object.Op != op.Op || again.Object.OpETag != again.Object.ETag {
		r.Errorf("it reached the device %d times, and is %+v", calls, again.Object)
	}
}

func editByFile(r *rig) { handEdit(r, r.device.EditByFile) }
func editByAPI(r *rig)  { handEdit(r, r.device.EditByAPI) }

func (d *Device) edit() func(kind, id string, config json.RawMessage) error {
	if d.EditByAPI != nil {
		return d.EditByAPI
	}
	return d.EditByFile
}

// handEdit: what a person changed is reported, and neither overwritten nor deleted.
func handEdit(r *rig, edit func(kind, id string, config json.RawMessage) error) {
	e := r.h.Examples[0]
	made := r.create(e)
	if err := edit(e.Kind, e.ID, e.Edited); err != nil {
		r.Fatal(err)
	}
	r.changed()
	edited := r.has(e.Kind, e.ID)
	if edited == nil || edited.ETag == made.ETag || edited.OpETag != made.ETag {
		r.Fatalf("after an edit by hand it is %+v, before %+v", edited, made)
	}
	for what, config := range map[string]json.RawMessage{"a deletion": nil, "a replacement": withMember(r, e.Config, unknown, "x")} {
		got := r.expect(what+" of what was edited", r.apply(r.operation(e.Kind, e.ID, config, made.ETag)), nodesdk.OutcomeConflict)
		if got.Object == nil || got.Object.ETag != edited.ETag {
			r.Fatalf("the conflict shows %+v", got.Object)
		}
	}
	if now := r.has(e.Kind, e.ID); now == nil || now.ETag != edited.ETag {
		r.Fatalf("the edit by hand was overwritten: %+v", now)
	}
	if !r.h.Single {
		other := r.h.Examples[1]
		if err := edit(other.Kind, other.ID, other.Config); err != nil {
			r.Fatal(err)
		}
		r.changed()
		r.expect("creating what somebody made meanwhile", r.apply(r.operation(other.Kind, other.ID, other.Edited, "")), nodesdk.OutcomeConflict)
	}
	if err := edit(e.Kind, e.ID, nil); err != nil {
		r.Fatal(err)
	}
	r.changed()
	r.expect("replacing what somebody deleted", r.apply(r.operation(e.Kind, e.ID, e.Config, edited.ETag)), nodesdk.OutcomeConflict)
	if r.has(e.Kind, e.ID) != nil {
		r.Fatal("what somebody deleted is there again")
	}
	r.expect("creating it anew", r.apply(r.operation(e.Kind, e.ID, e.Config, "")), nodesdk.OutcomeApplied)
}

// editInBetween: a person edits after the client compared, and before the driver applies.
// A device with revisions of its own finds that; one without reports the outcome by what is
// there, so that nothing is overwritten unseen.
func editInBetween(r *rig) {
	e := r.h.Examples[0]
	made := r.create(e)
	var editErr error
	r.driver.disturb(func(_ context.Context, _ nodesdk.Op, apply func() error) error {
		editErr = r.device.edit()(e.Kind, e.ID, e.Edited)
		return apply()
	}, nil)
	got := r.apply(r.operation(e.Kind, e.ID, nil, made.ETag))
	r.driver.disturb(nil, nil)
	if editErr != nil {
		r.Fatal(editErr)
	}
	r.expect("deleting what is edited at that instant", got, nodesdk.OutcomeConflict)
	if r.has(e.Kind, e.ID) == nil {
		r.Fatal("the edit by hand was deleted")
	}
}

// forgotten: the driver accepts a change and the device has what it had before. That is no
// success.
func forgotten(r *rig) {
	e := r.h.Examples[0]
	nothing := func(context.Context, nodesdk.Op, func() error) error { return nil }
	try := func(what string, config json.RawMessage, was *nodesdk.Object) {
		r.Helper()
		etag := ""
		if was != nil {
			etag = was.ETag
		}
		r.driver.disturb(nothing, nil)
		got := r.apply(r.operation(e.Kind, e.ID, config, etag))
		r.driver.disturb(nil, nil)
		if got.Outcome == nodesdk.OutcomeApplied || got.Outcome == nodesdk.OutcomeAlready || got.Error == "" || !reflect.DeepEqual(r.has(e.Kind, e.ID), was) {
			r.Fatalf("%s that the device forgets is %+v", what, got)
		}
	}
	try("a creation", e.Config, nil)
	made := r.create(e)
	try("an edit", e.Edited, made)
	try("a deletion", nil, made)
}

// editAfter: a person edits after the driver applied, and before the client read what is there.
func editAfter(r *rig) {
	e := r.h.Examples[0]
	made := r.create(e)
	var editErr error
	r.driver.disturb(func(_ context.Context, _ nodesdk.Op, apply func() error) error {
		err := apply()
		editErr = r.device.edit()(e.Kind, e.ID, e.Config)
		return err
	}, nil)
	got := r.apply(r.operation(e.Kind, e.ID, e.Edited, made.ETag))
	r.driver.disturb(nil, nil)
	if _, confirms := r.device.Driver.(nodesdk.Confirmer); confirms && editErr != nil {
		return // the device lets nobody edit until the change is confirmed
	}
	if editErr != nil {
		r.Fatal(editErr)
	}
	if got.Outcome == nodesdk.OutcomeApplied || got.Outcome == nodesdk.OutcomeAlready || got.Error == "" {
		r.Fatalf("what somebody undid at once is %+v", got)
	}
}

func restart(r *rig) {
	before := map[string]nodesdk.Object{}
	for _, e := range r.h.Examples {
		before[e.Kind+" "+e.ID] = *r.create(e)
	}
	if err := r.device.Restart(); err != nil {
		r.Fatal(err)
	}
	r.until("the device is back", func() bool { return r.snapshot().Complete })
	if now := r.whole(); !reflect.DeepEqual(now, before) {
		r.Fatalf("before the restart it had %+v, and then %+v", before, now)
	}
}

func restartEmpty(r *rig) {
	e := r.h.Examples[0]
	r.create(e)
	if err := r.device.RestartEmpty(); err != nil {
		r.Fatal(err)
	}
	r.until("the device is back", func() bool { return r.snapshot().Complete })
	if r.has(e.Kind, e.ID) != nil {
		r.Fatal("what was lost is there")
	}
	r.expect("creating it again", r.apply(r.operation(e.Kind, e.ID, e.Config, "")), nodesdk.OutcomeApplied)
}

// until asks again, each time with a round trip to the device.
func (r *rig) until(what string, is func() bool) {
	r.Helper()
	ctx, cancel := r.ctx()
	defer cancel()
	for !is() {
		if ctx.Err() != nil {
			r.Fatalf("not reached: %s", what)
		}
	}
}

func restartNode(r *rig) {
	e := r.h.Examples[0]
	made := r.create(e)
	first := r.s.Hello
	r.stop()
	r.run()
	if h := r.s.Hello; h.Op != r.op || h.Instance != first.Instance || !bytes.Equal(h.Key, first.Key) {
		r.Errorf("after a restart of the node it is %+v, before %+v", h, first)
	}
	if o := r.has(e.Kind, e.ID); o == nil || !reflect.DeepEqual(*o, *made) {
		r.Errorf("it had %+v, and after a restart of the node %+v", made, o)
	}
}

func busyPort(r *rig) {
	e := r.device.BusyPort(r.T)
	got := r.apply(r.operation(e.Kind, e.ID, e.Config, ""))
	r.expect("an object whose port is busy", got, nodesdk.OutcomeInvalid, nodesdk.OutcomeFailed, nodesdk.OutcomeApplied)
	there := r.has(e.Kind, e.ID)
	if (there != nil) != (got.Outcome == nodesdk.OutcomeApplied) {
		r.Fatalf("it ended as %s, and the device has %+v", got.Outcome, there)
	}
	if there != nil && got.Effect == nodesdk.InEffect {
		r.Fatal("an object whose port is busy is in effect")
	}
	if there == nil && got.Error == "" {
		r.Fatal("the refusal gives no reason")
	}
}

// errorAfter: the change is done, and its answer is an error.
func errorAfter(r *rig) {
	e := r.h.Examples[0]
	r.driver.disturb(func(_ context.Context, _ nodesdk.Op, apply func() error) error {
		return errors.Join(apply(), errors.New("the answer was lost"))
	}, nil)
	want := nodesdk.OutcomeApplied
	if _, confirms := r.device.Driver.(nodesdk.Confirmer); confirms {
		want = nodesdk.OutcomeUnknown // the device may take it back yet
	}
	r.expect("a change that was done with an error", r.apply(r.operation(e.Kind, e.ID, e.Config, "")), want)
	r.driver.disturb(func(context.Context, nodesdk.Op, func() error) error { return errors.New("out of order") }, nil)
	now := r.has(e.Kind, e.ID)
	etag := ""
	if now != nil {
		etag = now.ETag
	}
	got := r.expect("a change that was not done", r.apply(r.operation(e.Kind, e.ID, e.Edited, etag)), nodesdk.OutcomeFailed)
	if got.Object != nil && got.Object.ETag != etag || got.Error == "" {
		r.Errorf("it is %+v", got)
	}
}

func partial(r *rig) {
	e := r.h.Examples[0]
	made := r.create(e)
	if err := r.device.Partial(); err != nil {
		r.Fatal(err)
	}
	got := r.apply(r.operation(e.Kind, e.ID, e.Edited, made.ETag))
	now := r.has(e.Kind, e.ID)
	switch {
	case now == nil || got.Object == nil || now.ETag != got.Object.ETag:
		r.Fatalf("the answer shows %+v, the device has %+v", got.Object, now)
	case got.Outcome == nodesdk.OutcomeFailed && now.ETag == made.ETag, got.Outcome == nodesdk.OutcomeApplied && now.ETag != made.ETag:
	case got.Outcome != nodesdk.OutcomeUnknown:
		r.Fatalf("it ended as %+v, before it was %+v", got, made)
	}
}

// manyAtOnce: requests that do not wait for each other are done in order, and none is lost.
func manyAtOnce(r *rig) {
	edits := cmp.Or(r.h.Edits, 200)
	e := r.h.Examples[0]
	many := r.h.Many
	if many == nil {
		many = func(int) json.RawMessage { return e.Config }
	}
	ctx, cancel := r.ctx()
	defer cancel()
	var answers []<-chan nodesdk.Answer
	first := r.op + 1
	for n := range edits {
		a := r.operation(e.Kind, fmt.Sprintf("many%d", n), many(n), "")
		to, err := r.s.Send(ctx, nodesdk.Request{Apply: &a})
		if err != nil {
			r.Fatal(err)
		}
		answers = append(answers, to)
	}
	generation := uint64(0)
	for n, to := range answers {
		select {
		case a := <-to:
			if a.Applied == nil || a.Applied.Outcome != nodesdk.OutcomeApplied || a.Applied.Op != first+uint64(n) {
				r.Fatalf("edit %d is answered with %+v", n, a.Applied)
			}
			if a.Applied.Generation <= generation {
				r.Fatalf("edit %d is of generation %d, the one before of %d", n, a.Applied.Generation, generation)
			}
			generation = a.Applied.Generation
		case <-r.s.Ended():
			r.Fatalf("the connection ended before edit %d was answered", n)
		case <-ctx.Done():
			r.Fatalf("edit %d is not answered", n)
		}
	}
	if n := len(r.whole()); n != edits {
		r.Fatalf("%d of %d objects are there", n, edits)
	}
	for len(r.s.Events) > 0 {
		if m := <-r.s.Events; m.Type == nodesdk.TypeChanged {
			r.Fatal("the node reports its own changes as somebody else's")
		}
	}
}

// unknownField: a field that the device does not know is refused, or kept, or dropped, and
// the answer shows which.
func unknownField(r *rig) {
	e := r.h.Examples[0]
	got := r.expect("an unknown field", r.apply(r.operation(e.Kind, e.ID, withMember(r, e.Config, unknown, "x"), "")),
		nodesdk.OutcomeApplied, nodesdk.OutcomeInvalid, nodesdk.OutcomeFailed)
	now := r.has(e.Kind, e.ID)
	if (now != nil) != (got.Outcome == nodesdk.OutcomeApplied) {
		r.Fatalf("it ended as %s, and the device has %+v", got.Outcome, now)
	}
	if now != nil && (got.Object == nil || !bytes.Equal(now.Config, got.Object.Config)) {
		r.Fatalf("the answer shows %+v, the device has %+v", got.Object, now)
	}
}

// undo: what was deleted is created again from what was reported, with its secrets.
func undo(r *rig) {
	for _, e := range r.h.Examples {
		made := r.create(e)
		r.expect("a deletion", r.apply(r.operation(e.Kind, e.ID, nil, made.ETag)), nodesdk.OutcomeApplied)
		r.stop() // what undoes it need not be the same process
		r.run()
		back := r.expect("the undo", r.apply(r.operation(e.Kind, e.ID, made.Config, "")), nodesdk.OutcomeApplied)
		if back.Object == nil || back.Object.ETag != made.ETag {
			r.Fatalf("%s was %+v and came back as %+v", e.ID, made, back.Object)
		}
	}
}

func normalize(r *rig) {
	for _, e := range r.h.Examples {
		r.create(e)
	}
	ctx, cancel := r.ctx()
	defer cancel()
	s, err := r.device.Driver.Snapshot(ctx)
	if err != nil {
		r.Fatal(err)
	}
	items := s.Items
	for _, e := range r.h.Examples {
		items = append(items, nodesdk.Item{Kind: e.Kind, ID: e.ID, Config: e.Config}, nodesdk.Item{Kind: e.Kind, ID: e.ID, Config: e.Edited},
			nodesdk.Item{Kind: e.Kind, ID: e.ID, Config: json.RawMessage(`{}`)})
	}
	for _, it := range items {
		given := it
		given.Config = bytes.Clone(it.Config)
		once := r.device.Driver.Normalize(given)
		if !bytes.Equal(given.Config, it.Config) {
			r.Fatalf("Normalize changed what it was given: %s", given.Config)
		}
		if again := r.device.Driver.Normalize(given); !reflect.DeepEqual(again, once) {
			r.Fatalf("Normalize is %s, and then %s", once.Config, again.Config)
		}
		if twice := r.device.Driver.Normalize(once); !sameJSON(twice.Config, once.Config) || twice.ID != once.ID || twice.Kind != once.Kind {
			r.Fatalf("Normalize of %s is %s", once.Config, twice.Config)
		}
	}
}

func incomplete(r *rig) {
	r.create(r.h.Examples[0])
	for what, read := range map[string]func(nodesdk.State, error) (nodesdk.State, error){
		"a part": func(s nodesdk.State, err error) (nodesdk.State, error) {
			s.Complete, s.Items = false, nil
			return s, err
		},
		"an error": func(nodesdk.State, error) (nodesdk.State, error) {
			return nodesdk.State{Complete: true}, errors.New("not today")
		},
		"a panic": func(nodesdk.State, error) (nodesdk.State, error) { panic("not today") },
	} {
		r.driver.disturb(nil, read)
		if s := r.snapshot(); s.Complete || s.Error == "" || len(s.Objects) > 0 {
			r.Errorf("%s is the snapshot %+v", what, s)
		}
	}
	r.driver.disturb(nil, nil)
	if len(r.whole()) != 1 {
		r.Error("then the object is not there")
	}
}

func unreadable(r *rig) {
	e := r.h.Examples[0]
	made := r.create(e)
	repair, err := r.device.Break()
	if err != nil {
		r.Fatal(err)
	}
	if s := r.snapshot(); s.Complete || s.Error == "" {
		r.Errorf("of a device that cannot be read the snapshot is %+v", s)
	}
	r.expect("an edit of what cannot be read", r.apply(r.operation(e.Kind, e.ID, e.Edited, made.ETag)), nodesdk.OutcomeFailed, nodesdk.OutcomeUnknown)
	if err := repair(); err != nil {
		r.Fatal(err)
	}
	r.until("the device can be read", func() bool { return r.snapshot().Complete })
	if o := r.has(e.Kind, e.ID); o == nil || o.ETag != made.ETag {
		r.Errorf("then it is %+v, it was %+v", o, made)
	}
}

func panics(r *rig) {
	e := r.h.Examples[0]
	r.driver.disturb(func(context.Context, nodesdk.Op, func() error) error { panic("out of range") }, nil)
	got := r.expect("a panic", r.apply(r.operation(e.Kind, e.ID, e.Config, "")), nodesdk.OutcomeFailed)
	if !strings.Contains(got.Error, "panic") {
		r.Errorf("the error is %q", got.Error)
	}
	r.driver.disturb(nil, nil)
	r.create(e)
}
