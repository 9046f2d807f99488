package netconf

import (
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/steadyfleet/steady/internal/drivers/base"
	"github.com/steadyfleet/steady/nodesdk"
)

// persistID names the driver's changes that are not confirmed, so that its next session can
// confirm one (RFC 6241 section 8.4.1).
const persistID = "steady"

// Apply implements nodesdk.Driver.
func (d *Driver) Apply(ctx context.Context, op nodesdk.Op) error { return d.apply(ctx, op, 0) }

// ApplyUnconfirmed implements nodesdk.Confirmer. A device without confirmed commits is
// changed for good.
func (d *Driver) ApplyUnconfirmed(ctx context.Context, op nodesdk.Op, within time.Duration) error {
	return d.apply(ctx, op, within)
}

func (s *session) datastore() string {
	if s.has(capCandidate) {
		return "candidate"
	}
	return "running"
}

// lock locks what is changed: nobody else changes it until unlock. A candidate that
// somebody has edits in cannot be locked.
func (s *session) lock(ctx context.Context) (unlock func(), err error) {
	names := []string{"running"}
	if s.has(capCandidate) {
		names = append(names, "candidate")
	}
	unlock = func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), dialTimeout)
		defer cancel()
		for _, name := range slices.Backward(names) {
			if _, err := s.rpc(ctx, "<unlock><target><"+name+"/></target></unlock>"); err != nil {
				s.close() // the end of the session unlocks
				return
			}
		}
	}
	for i, name := range names {
		if _, err := s.rpc(ctx, "<lock><target><"+name+"/></target></lock>"); err != nil {
			names = names[:i]
			unlock()
			return nil, fmt.Errorf("somebody else is changing the device: lock %s: %w", name, err)
		}
	}
	return unlock, nil
}

func (d *Driver) apply(ctx context.Context, op nodesdk.Op, within time.Duration) error {
	var to *element
	if !op.Delete {
		var err error
		if to, err = d.target(op); err != nil {
			return err
		}
	}
	s, err := d.session(ctx)
	if err != nil {
		return err
	}
	unlock, err := s.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock() // netconfd 2.13 cannot take back what is locked
	return d.change(ctx, s, op, to, within)
}

// change makes a change under locks.
func (d *Driver) change(ctx context.Context, s *session, op nodesdk.Op, to *element, within time.Duration) error {
	now, err := d.one(ctx, s, op.ID)
	if err != nil {
		return err
	}
	if moved, err := base.Moved(d, now, op.Was); err != nil {
		return err
	} else if moved {
		return nodesdk.ErrConflict
	}
	if op.Delete {
		if now == nil {
			return nil
		}
		last := d.path[len(d.path)-1]
		to = &element{Name: last}
		if len(d.keys) > 0 {
			keys, err := d.splitKeys(op.ID)
			if err != nil {
				return err
			}
			to.children = d.keyElements(keys)
		}
	}
	if err := d.edit(ctx, s, to, op.Delete); err != nil {
		return err
	}
	return d.commit(ctx, s, within)
}

// edit puts a change into the candidate; without one, into the running configuration. What
// the device refuses is discarded.
func (d *Driver) edit(ctx context.Context, s *session, to *element, remove bool) error {
	operation := "replace"
	if remove {
		operation = "delete"
	}
	to.attrs = append(to.attrs, xml.Attr{Name: xml.Name{Local: "xmlns:nc"}, Value: nsBase}, xml.Attr{Name: xml.Name{Local: "nc:operation"}, Value: operation})
	config := "<target><" + s.datastore() + "/></target>"
	if !s.has(capCandidate) {
		if s.has(capValidate11) {
			config += "<test-option>test-then-set</test-option>"
		}
		if s.has(capRollback) {
			config += "<error-option>rollback-on-error</error-option>"
		}
	}
	_, err := s.rpc(ctx, "<edit-config>"+config+"<config>"+d.nested(to).xml()+"</config></edit-config>")
	if err == nil {
		return nil
	}
	s.discard(ctx)
	if !s.has(capCandidate) && !s.has(capRollback) {
		return err // it may be there in part
	}
	return d.refused(err)
}

// discard empties the candidate of this session's edits.
func (s *session) discard(ctx context.Context) {
	if !s.has(capCandidate) || !s.alive() {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), dialTimeout)
	defer cancel()
	if _, err := s.rpc(ctx, "<discard-changes/>"); err != nil {
		s.close() // the end of the session discards what is locked
	}
}

// transient are errors that say nothing about an object (RFC 6241 appendix A).
var transient = []string{"in-use", "lock-denied", "resource-denied", "too-big", "access-denied"}

// refused has an answer with errors be the refusal of an object.
func (d *Driver) refused(err error) error {
	var r *refusal
	if !errors.As(err, &r) || slices.ContainsFunc(transient, r.has) {
		return err
	}
	return &nodesdk.InvalidError{Code: "invalid", Problems: d.problems(r)}
}

func (d *Driver) problems(r *refusal) (out []nodesdk.Problem) {
	for _, e := range r.errors {
		text := e.tag
		if e.app != "" && e.app != "no-support" {
			text += " (" + e.app + ")"
		}
		if e.message != "" {
			text += ": " + e.message
		}
		field := d.field(e.path)
		if field == "" { // it names the parent
			field = e.bad[strings.IndexByte(e.bad, ':')+1:]
		}
		out = append(out, nodesdk.Problem{Field: field, Message: text})
	}
	return out
}

var predicate = regexp.MustCompile(`\[[^\]]*\]`)

// field is the path of an error within the object.
func (d *Driver) field(path string) string {
	var steps []string
	for step := range strings.SplitSeq(strings.Trim(predicate.ReplaceAllString(path, ""), "/"), "/") {
		if _, local, is := strings.Cut(step, ":"); is {
			step = local
		}
		steps = append(steps, step)
	}
	for i := range steps {
		if i+len(d.path) <= len(steps) && slices.EqualFunc(steps[i:i+len(d.path)], d.path, func(s string, n xml.Name) bool { return s == n.Local }) {
			return strings.Join(steps[i+len(d.path):], "/")
		}
	}
	return ""
}

// commit makes the candidate the running configuration, and the device validates it then:
// after a request to validate, netconfd 2.13 has nothing to commit. Within is how long the
// device waits for the confirmation; zero is for good.
func (d *Driver) commit(ctx context.Context, s *session, within time.Duration) error {
	if !s.has(capCandidate) {
		return s.save(ctx)
	}
	confirmed := within > 0 && (s.has(capConfirmed10) || s.has(capConfirmed11))
	text := ""
	if confirmed {
		text = fmt.Sprintf("<confirmed/><confirm-timeout>%d</confirm-timeout>", max(1, int(within/time.Second)))
		if s.persists() {
			text += "<persist>" + persistID + "</persist>"
		}
		d.setPending(true)
	}
	if _, err := s.rpc(ctx, "<commit>"+text+"</commit>"); err != nil {
		d.setPending(false)
		s.discard(ctx)
		return d.refused(err)
	}
	if confirmed {
		return nil
	}
	return s.save(ctx)
}

func (s *session) persists() bool { return s.has(capConfirmed11) && s.f.chunked }

func (d *Driver) setPending(is bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.pending = is
}

// save has the running configuration outlive a restart, where the device does not by itself.
func (s *session) save(ctx context.Context) error {
	if !s.has(capStartup) {
		return nil
	}
	_, err := s.rpc(ctx, "<copy-config><target><startup/></target><source><running/></source></copy-config>")
	return err
}

// Confirm implements nodesdk.Confirmer. A change of an earlier session is confirmed where
// the device knows it by name; else the device has taken it back when that session ended.
func (d *Driver) Confirm(ctx context.Context) error {
	s, err := d.session(ctx)
	if err != nil {
		return err
	}
	d.mu.Lock()
	pending := d.pending
	d.mu.Unlock()
	if !s.has(capCandidate) || !pending && !s.persists() {
		return nil
	}
	// The candidate cannot be locked while a commit waits, and a confirmation commits it.
	if clean, err := s.clean(ctx); err != nil || !clean {
		return errors.Join(err, errors.New("somebody has edits in the candidate, which a confirmation would commit"))
	}
	text := ""
	if s.persists() {
		text = "<persist-id>" + persistID + "</persist-id>"
	}
	_, err = s.rpc(ctx, "<commit>"+text+"</commit>")
	if r := (*refusal)(nil); errors.As(err, &r) && (r.has("invalid-value") || strings.HasSuffix(r.errors[0].path, "persist-id")) {
		err = nil // nothing of that name waits
	}
	if err != nil {
		return err
	}
	d.setPending(false)
	return s.save(ctx)
}

// clean reports whether the candidate is as the running configuration.
func (s *session) clean(ctx context.Context) (bool, error) {
	var texts []string
	for _, name := range []string{"running", "candidate"} {
		reply, err := s.rpc(ctx, "<get-config><source><"+name+"/></source></get-config>")
		if err != nil {
			return false, err
		}
		data := reply.child("data")
		if data == nil {
			return false, errors.New("the device answers get-config without data")
		}
		texts = append(texts, data.xml())
	}
	return texts[0] == texts[1], nil
}

// Validate implements nodesdk.Validator: the device checks the candidate, which is discarded.
func (d *Driver) Validate(ctx context.Context, it nodesdk.Item) ([]nodesdk.Problem, error) {
	s, err := d.session(ctx)
	if err != nil {
		return nil, err
	}
	if !s.has(capCandidate) {
		return nil, errors.New("the device has no candidate configuration to check an object in")
	}
	to, err := d.target(nodesdk.Op{Kind: it.Kind, ID: it.ID, Config: it.Config})
	if err == nil {
		var unlock func()
		if unlock, err = s.lock(ctx); err != nil {
			return nil, err
		}
		defer unlock()
		if err = d.edit(ctx, s, to, false); err == nil {
			if s.has(capValidate11) || s.has(capValidate10) {
				_, err = s.rpc(ctx, "<validate><source><candidate/></source></validate>")
				err = d.refused(err)
			}
			s.discard(ctx)
		}
	}
	if invalid := (*nodesdk.InvalidError)(nil); errors.As(err, &invalid) {
		return invalid.Problems, nil
	}
	return nil, err
}

// pollWithout is how often a device is read that tells of no changes.
const pollWithout = time.Second

// Watch implements nodesdk.Watcher, with a session of its own (RFC 5277, RFC 6470).
func (d *Driver) Watch(ctx context.Context, changed func()) error {
	s, err := d.login.dial(ctx)
	if err != nil {
		return err
	}
	defer s.close()
	if !s.has(capNotification) {
		s.close()
		tick := time.NewTicker(pollWithout)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return nil
			case <-tick.C:
				changed()
			}
		}
	}
	if _, err := s.rpc(ctx, `<create-subscription xmlns="urn:ietf:params:xml:ns:netconf:notification:1.0"/>`); err != nil {
		return fmt.Errorf("subscribe to notifications: %w", err)
	}
	changed() // what changed before the subscription
	for {
		e, err := s.message(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		// That a commit was taken back is an event of its own.
		if e.child("netconf-config-change") != nil || e.child("netconf-confirmed-commit") != nil {
			changed()
		}
	}
}
