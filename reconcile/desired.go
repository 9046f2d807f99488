package reconcile

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"

	"github.com/steadyfleet/steady/reconcile/engine"
)

// Upgrader is an optional part of a Reconciler whose desired state D changed its form. What is
// desired is stored with the version that it was written in; a kind without Upgrade has version 1.
//
// Version is that of D. Upgrade turns what was written in version from into version from+1, and is
// called again until Version is reached; it is pure. What is stored is not rewritten: an owner or a
// parent that sets it again does. What is of a newer version is not read.
type Upgrader interface {
	Version() int
	Upgrade(from int, raw json.RawMessage) (json.RawMessage, error)
}

// WithUnknownFields has fields of desired state that its type does not have be passed over. Without it
// they are an error: a field that was renamed would be zero in silence. It is for programs that read
// what newer ones wrote, and whose fields are never renamed.
func WithUnknownFields() Option { return func(c *config) { c.lenient = true } }

// decoder reads what is desired of one kind.
type decoder[D any] struct {
	upgrade Upgrader // nil: version 1 is the only one
	lenient bool
}

func newDecoder[D any](m any, lenient bool) decoder[D] {
	u, _ := m.(Upgrader)
	return decoder[D]{u, lenient}
}

func (c *decoder[D]) version() int {
	if c.upgrade == nil {
		return 1
	}
	return max(1, c.upgrade.Version())
}

// read decodes what was written in a version.
func (c *decoder[D]) read(raw json.RawMessage, version int) (d D, err error) {
	if len(raw) == 0 {
		return d, nil
	}
	now := c.version()
	if version > now {
		return d, fmt.Errorf("it was written in version %d, and this program reads up to %d: run a newer one", version, now)
	}
	for v := version; v < now; v++ {
		err := protect("Upgrade", func() (err error) { raw, err = c.upgrade.Upgrade(v, raw); return err })
		if err != nil {
			return d, fmt.Errorf("upgrade it from version %d: %w", v, err)
		}
	}
	if bytes.Equal(raw, []byte("null")) && !nilable[D]() {
		return d, fmt.Errorf("null is not a %T", d)
	}
	if c.lenient {
		return d, json.Unmarshal(raw, &d)
	}
	j := json.NewDecoder(bytes.NewReader(raw))
	j.DisallowUnknownFields()
	if err := j.Decode(&d); err != nil {
		return d, err
	}
	if _, err := j.Token(); !errors.Is(err, io.EOF) {
		return d, errors.New("there is more than one JSON value")
	}
	return d, nil
}

func nilable[D any]() bool {
	switch reflect.TypeFor[D]().Kind() {
	case reflect.Pointer, reflect.Map, reflect.Slice, reflect.Interface:
		return true
	}
	return false
}

// Check is what Apply does with an intent before it is stored. It fails on an empty kind or id and,
// for an Upsert, on a kind that is not registered and on what does not decode as the kind's desired
// state; the intent that it returns has the version of the kind. An owner that calls ApplyTx of a
// store itself calls it before.
func (l *Controller) Check(in engine.Intent) (engine.Intent, error) {
	switch {
	case in.Err() != nil:
		return in, in.Err()
	case in.Ref.Kind == "" || in.Ref.ID == "":
		return in, fmt.Errorf("%s %q: a resource needs a kind and an id", in.Op, in.Ref.String())
	case in.Op != engine.OpUpsert:
		return in, nil
	}
	k := l.kinds[in.Ref.Kind]
	if k == nil {
		return in, fmt.Errorf("set %s: no reconciler is registered for kind %q: register it before, or correct the name (registered: %q)", in.Ref, in.Ref.Kind, l.names)
	}
	version, err := k.check(in.Desired)
	if err != nil {
		return in, fmt.Errorf("set %s: what is desired is not that of its kind: %w", in.Ref, err)
	}
	return in.WithVersion(version), nil
}

// versionOf is the version in which a kind is written, 0 of an unknown one.
func (l *Controller) versionOf(kind string) int {
	if k := l.kinds[kind]; k != nil {
		return k.version()
	}
	return 0
}

// checkChildren is Check for the intents of a record, which are those that change something.
func (l *Controller) checkChildren(rec *engine.Record) error {
	for i := range rec.Intents {
		in, err := l.Check(rec.Intents[i])
		if err != nil {
			return err
		}
		rec.Intents[i] = in
	}
	return nil
}

// KindOf is the name of a kind with the type of what is desired of it, so that the compiler
// checks what is written:
//
//	const files reconcile.KindOf[file] = "file"
//	c.Apply(ctx, files.Upsert("motd", file{"hello"}), reconcile.By("me"))
type KindOf[D any] string

// Ref names a resource of the kind.
func (k KindOf[D]) Ref(id string) Ref { return Ref{Kind: string(k), ID: id} }

// Upsert is the intent that the resource of that id be present as desired.
func (k KindOf[D]) Upsert(id string, desired D) Intent { return Upsert(k.Ref(id), desired) }
