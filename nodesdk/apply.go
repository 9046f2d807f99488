package nodesdk

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/steadyfleet/steady/internal/core/nodeconfig"
)

// Codes of what a node refuses by itself.
const (
	codeStaleTerm  = "stale-term"      // of an operation: the server is an older one
	codeStaleOp    = "stale-operation" // a newer one was done, or another one has its number
	codeKind       = "unknown-kind"
	codeMalformed  = "malformed"
	codeSecret     = "secret-missing"
	codeUnreadable = "unreadable"   // the device cannot be read
	codeState      = "node-state"   // the node cannot write what it has to remember
	codeDevice     = "device"       // the device answered with an error
	codeUnlike     = "other-values" // the device accepted the change, and has something else than was asked
)

// confirmWithin is how long a device waits for a change to be confirmed.
const confirmWithin = time.Minute

// operation is one that is being applied.
type operation struct {
	*Apply
	rec   *record
	hash  string // of what is asked
	asked json.RawMessage
	was   *object
	to    *object // what the device is to have, nil for nothing
	fresh json.RawMessage
}

// want is the ETag of what the device is to have, empty for nothing.
func (op *operation) want() string { return op.to.etagOf() }

// apply does an operation. It is not cut short when the session ends.
func (d *device) apply(ctx context.Context, a *Apply) *Applied {
	d.mu.Lock()
	defer d.mu.Unlock()
	out := d.applyLocked(context.WithoutCancel(ctx), a)
	out.Op, out.Generation, out.Error = a.Op, d.st.ops.Generation, d.st.clean(out.Error)
	if err := d.st.saveVault(); err != nil {
		d.log.Error("secrets are not durable", "error", err)
		return &Applied{Op: a.Op, Outcome: OutcomeUnknown, Code: codeState, Error: "the node cannot write its state", Generation: out.Generation}
	}
	if out.Object != nil {
		out.Effect = d.probeNow(ctx, out.Object)
	}
	return out
}

func refused(o Outcome, code, text string) *Applied {
	return &Applied{Outcome: o, Code: code, Error: text}
}

func (d *device) applyLocked(ctx context.Context, a *Apply) *Applied {
	rules := d.rules[a.Kind]
	switch {
	case a.Term < d.st.ops.Term:
		return refused(OutcomeFailed, codeStaleTerm, fmt.Sprintf("the server is of term %d, the node has seen %d", a.Term, d.st.ops.Term))
	case rules == nil:
		return refused(OutcomeInvalid, codeKind, fmt.Sprintf("the node has no objects of kind %q", a.Kind))
	case nodeconfig.CheckID(a.ID) != nil || a.Op == 0:
		return refused(OutcomeInvalid, codeMalformed, "the operation has no number, or no usable id")
	}
	op := &operation{Apply: a}
	if !a.Delete {
		config, err := nodeconfig.Canonical(a.Config)
		if err != nil {
			return refused(OutcomeInvalid, codeMalformed, err.Error())
		}
		op.asked, op.fresh = config, config
	}
	op.hash = hash(a.Kind, a.ID, a.Delete, op.fresh)
	op.rec = d.st.ops.Records[keyOf(a.Kind, a.ID)]
	if op.rec == nil {
		op.rec = &record{}
	}
	var err error
	if op.was, err = d.read(ctx, a.Kind, a.ID); err != nil {
		return refused(OutcomeFailed, codeUnreadable, err.Error())
	}
	again := a.Op == op.rec.Op && op.hash == op.rec.Hash
	if a.Op <= op.rec.Op && !again {
		return &Applied{Outcome: OutcomeConflict, Code: codeStaleOp, Object: d.message(op.was),
			Error: fmt.Sprintf("operation %d of the object was done already, and this one is number %d", op.rec.Op, a.Op)}
	}
	if out := d.wanted(op, rules); out != nil {
		return out
	}
	if again && op.was.etagOf() != op.want() {
		return &Applied{Outcome: OutcomeConflict, Code: codeUnlike, Object: d.message(op.was),
			Error: fmt.Sprintf("operation %d was done, and the device has something else since", a.Op)}
	}
	return d.change(ctx, op)
}

// wanted works out what the device is to have.
func (d *device) wanted(op *operation, rules *nodeconfig.Rules) *Applied {
	if op.Delete {
		return nil
	}
	config, err := d.resolve(op.fresh, rules)
	if err != nil {
		code := codeState
		if missing := (*missingError)(nil); errors.As(err, &missing) {
			code = codeSecret
		}
		return refused(OutcomeInvalid, code, err.Error())
	}
	if op.was != nil {
		config = rules.Pushed(config, op.was.item.Config)
	}
	want, err := d.object(Item{Kind: op.Kind, ID: op.ID, Config: config})
	if err != nil {
		return refused(OutcomeInvalid, codeMalformed, err.Error())
	}
	op.fresh, op.to = config, want
	return nil
}

// acknowledged is that the device has what was asked, with how it spells that.
func (op *operation) acknowledged(o Outcome) *Applied {
	out := &Applied{Outcome: o}
	if op.to != nil && string(op.to.shown) != string(op.asked) {
		out.Want = op.to.shown
	}
	return out
}

// change has the driver make an object what is wanted.
func (d *device) change(ctx context.Context, op *operation) *Applied {
	was := op.was.etagOf()
	if was == op.want() {
		if err := d.done(op, op.was); err != nil {
			return refused(OutcomeUnknown, codeState, err.Error())
		}
		out := op.acknowledged(OutcomeAlready)
		out.Object = d.message(op.was)
		return out
	}
	if was != op.IfMatch {
		return &Applied{Outcome: OutcomeConflict, Object: d.message(op.was)}
	}
	rec := d.st.record(keyOf(op.Kind, op.ID))
	op.rec = rec
	rec.Begun = &intent{Op: op.Op, Term: op.Term, Hash: op.hash, Was: was, Want: op.want()}
	d.st.ops.Term = max(d.st.ops.Term, op.Term)
	if err := errors.Join(d.st.saveVault(), d.st.saveOps()); err != nil {
		rec.Begun = nil
		return refused(OutcomeFailed, codeState, err.Error())
	}
	change := Op{Number: op.Op, Kind: op.Kind, ID: op.ID, Delete: op.Delete, Config: op.fresh}
	if op.was != nil {
		item := op.was.item
		change.Was = &item
	}
	applyErr := d.push(ctx, op, change)
	after, readErr := d.read(ctx, op.Kind, op.ID)
	out := d.outcome(op, applyErr, after, readErr)
	if readErr == nil {
		d.own(keyOf(op.Kind, op.ID), after)
	}
	var err error
	switch out.Outcome {
	case OutcomeApplied:
		err = d.done(op, after)
	case OutcomeUnknown: // stays begun, until a snapshot shows what came of it
		err = d.st.saveOps()
	default:
		rec.Begun = nil
		err = d.st.saveOps()
	}
	if err != nil {
		return refused(OutcomeUnknown, codeState, err.Error())
	}
	out.Object = d.message(after)
	return out
}

// push calls the driver.
func (d *device) push(ctx context.Context, asked *operation, op Op) error {
	ctx, cancel := context.WithTimeout(ctx, d.cfg.Timeout)
	defer cancel()
	c, confirms := d.cfg.Driver.(Confirmer)
	if !confirms {
		return d.guard("Apply", func() error { return d.cfg.Driver.Apply(ctx, op) })
	}
	if err := d.guard("ApplyUnconfirmed", func() error { return c.ApplyUnconfirmed(ctx, op, confirmWithin) }); err != nil {
		return err
	}
	// Only what was asked is confirmed: the device takes anything else back by itself.
	after, err := d.read(ctx, op.Kind, op.ID)
	if err == nil && after.etagOf() != asked.want() {
		err = errors.New("the change is not confirmed, for the device " + d.unlike(asked, after))
	}
	if err != nil {
		return err
	}
	return d.guard("Confirm", func() error { return c.Confirm(ctx) })
}

// outcome judges by what the device has after the driver's answer: an operation was applied if
// that is what was asked, and in no other case.
func (d *device) outcome(op *operation, applyErr error, after *object, readErr error) *Applied {
	now, was := after.etagOf(), op.was.etagOf()
	var invalid *InvalidError
	switch {
	case readErr != nil && applyErr == nil:
		return refused(OutcomeUnknown, codeUnreadable, readErr.Error())
	case readErr != nil:
		return refused(OutcomeUnknown, codeDevice, applyErr.Error()+"; then it could not be read: "+readErr.Error())
	case errors.Is(applyErr, ErrConflict):
		return refused(OutcomeConflict, "", "")
	case errors.As(applyErr, &invalid) && now == was:
		return refused(OutcomeInvalid, cmp.Or(invalid.Code, "invalid"), applyErr.Error())
	case now == op.want() && (applyErr == nil || !d.confirms()):
		return op.acknowledged(OutcomeApplied)
	case applyErr == nil:
		return refused(OutcomeFailed, codeUnlike, "the device accepted the change, and "+d.unlike(op, after))
	case now == was:
		return refused(OutcomeFailed, codeDevice, applyErr.Error())
	}
	return refused(OutcomeUnknown, codeDevice, applyErr.Error()+"; then it "+d.unlike(op, after))
}

// unlike names what the device has other than was asked, each field with both values.
func (d *device) unlike(op *operation, after *object) string {
	text := "has something else"
	switch {
	case after == nil:
		text = "does not have the object"
	case after.etagOf() == op.was.etagOf():
		text = "has what it had before"
	}
	if op.to == nil || after == nil {
		return text
	}
	return text + ": " + nodeconfig.Describe(d.rules[op.Kind].Compare(op.to.shown, after.shown, nil))
}

// done makes it durable that an operation was applied, and what the device has after it.
func (d *device) done(op *operation, after *object) error {
	rec := d.st.record(keyOf(op.Kind, op.ID))
	*rec = record{Op: op.Op, Term: op.Term, Hash: op.hash, ETag: after.etagOf()}
	d.st.ops.Op, d.st.ops.Term = max(d.st.ops.Op, op.Op), max(d.st.ops.Term, op.Term)
	return d.st.saveOps()
}

// finish judges operations of which the outcome is not known by what the device has: those
// in the middle of which the process ended, and those whose outcome could not be read.
func (d *device) finish(have map[string]*object) error {
	changed := false
	for key, rec := range d.st.ops.Records {
		if rec.Begun == nil {
			continue
		}
		b, now := rec.Begun, have[key].etagOf()
		switch {
		case now == b.Want && !d.confirmed():
			continue // until the device confirms it or took it back
		case now == b.Want:
			*rec = record{Op: b.Op, Term: b.Term, Hash: b.Hash, ETag: now}
			d.st.ops.Op = max(d.st.ops.Op, b.Op)
		default: // before, or something else: the server is shown what there is
			rec.Begun = nil
		}
		changed = true
	}
	if !changed {
		return nil
	}
	return d.st.saveOps()
}

func (d *device) confirms() bool { _, is := d.cfg.Driver.(Confirmer); return is }

// confirmed confirms what the device has, where it would take it back.
func (d *device) confirmed() bool {
	c, is := d.cfg.Driver.(Confirmer)
	if !is {
		return true
	}
	ctx, cancel := context.WithTimeout(context.Background(), d.cfg.Timeout)
	defer cancel()
	return d.guard("Confirm", func() error { return c.Confirm(ctx) }) == nil
}

// validate asks the device whether it would accept an object.
func (d *device) validate(ctx context.Context, v *Validate) *Validated {
	d.mu.Lock()
	defer d.mu.Unlock()
	problem := func(err error) *Validated {
		return &Validated{Supported: true, Problems: []Problem{{Message: d.st.clean(err.Error())}}}
	}
	rules := d.rules[v.Kind]
	if rules == nil {
		return problem(fmt.Errorf("the node has no objects of kind %q", v.Kind))
	}
	val, can := d.cfg.Driver.(Validator)
	config, err := d.resolve(v.Config, rules)
	if err != nil {
		return problem(err)
	}
	if !can {
		return &Validated{}
	}
	ctx, cancel := context.WithTimeout(ctx, d.cfg.Timeout)
	defer cancel()
	var problems []Problem
	err = d.guard("Validate", func() (err error) {
		problems, err = val.Validate(ctx, Item{Kind: v.Kind, ID: v.ID, Config: config})
		return err
	})
	if err != nil {
		d.log.Warn("the device cannot be asked whether it accepts an object", "error", d.st.clean(err.Error()))
		return &Validated{}
	}
	for i := range problems {
		problems[i].Field, problems[i].Message = d.st.clean(problems[i].Field), d.st.clean(problems[i].Message)
	}
	return &Validated{Supported: true, Problems: problems}
}
