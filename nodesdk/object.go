package nodesdk

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"

	"github.com/steadyfleet/steady/internal/core/nodeconfig"
)

// object is one of the device's in normal form.
type object struct {
	item  Item            // secrets in clear
	shown json.RawMessage // digests in their place
	etag  string
}

func keyOf(kind, id string) string { return kind + "\x00" + id }

// guard turns a panic of the driver into an error of the call.
func (d *device) guard(what string, f func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("the driver panicked in %s: %v", what, r)
			d.log.Error("the driver panicked", "in", what, "panic", d.clean(fmt.Sprint(r)), "stack", d.clean(string(debug.Stack())))
		}
	}()
	return f()
}

// object normalises what the driver reads or is to write.
func (d *device) object(it Item) (*object, error) {
	rules := d.rules[it.Kind]
	if rules == nil {
		return nil, fmt.Errorf("an object is of kind %q, which is none of the driver's collections", it.Kind)
	}
	if err := nodeconfig.CheckID(it.ID); err != nil {
		return nil, err
	}
	revision := it.Revision
	if err := d.guard("Normalize", func() error { it = d.cfg.Driver.Normalize(it); return nil }); err != nil {
		return nil, err
	}
	it.Revision = revision
	config, err := nodeconfig.Canonical(it.Config)
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", it.Kind, it.ID, err)
	}
	it.Config = config
	out := &object{item: it}
	if out.shown, err = d.redacted(it, rules); err != nil {
		return nil, err
	}
	out.etag = etag(it.Kind, it.ID, out.shown, rules)
	return out, nil
}

// redacted is the config with digests in the place of secrets.
func (d *device) redacted(it Item, rules *nodeconfig.Rules) (json.RawMessage, error) {
	if r, is := d.cfg.Driver.(Redactor); is {
		if err := d.guard("Redact", func() error { it = r.Redact(it, func(v string) string { return d.st.digest(v) }); return nil }); err != nil {
			return nil, err
		}
	}
	return rules.Replace(it.Config, func(path []string, v any) (any, error) {
		if !rules.IsSecret(path, v) {
			return v, nil
		}
		if s, isText := v.(string); isText && nodeconfig.IsDigest(s) {
			if _, known := d.st.secretOf(s); known {
				return v, nil // the driver's Redact put it there
			}
		}
		return d.st.digest(v), nil
	})
}

// etag is over the fields that rules compare, in their normal form: the order of a set and
// fields that the device changes by itself are no part of it.
func etag(kind, id string, shown json.RawMessage, rules *nodeconfig.Rules) string {
	form := rules.Form(shown)
	for field := range form {
		if rules.Ignores(field) {
			delete(form, field)
		}
	}
	return hash(kind, id, form)
}

func hash(parts ...any) string {
	raw, err := json.Marshal(parts) // maps are sorted
	if err != nil {
		panic("nodesdk: what is hashed is data: " + err.Error())
	}
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:])
}

// missingError names a secret that the node lacks.
type missingError struct{ what string }

func (e *missingError) Error() string { return e.what }

// resolve returns a config with the secrets in clear that the node has for its references
// and digests.
func (d *device) resolve(config json.RawMessage, rules *nodeconfig.Rules) (json.RawMessage, error) {
	named, err := namedSecrets(d.st.dir)
	if err != nil {
		return nil, err
	}
	return rules.Replace(config, func(path []string, v any) (any, error) {
		if name, is := nodeconfig.ReferenceOf(v); is {
			value, there := named[name]
			if !there {
				return nil, &missingError{fmt.Sprintf("field %s: the node has no secret %q: store it there with steady node secret", nodeconfig.Field(path), name)}
			}
			d.st.digest(value) // so that it is taken out of texts, also when it has another value by then
			return value, nil
		}
		s, isText := v.(string)
		if !isText || !nodeconfig.IsDigest(s) {
			return v, nil
		}
		value, known := d.st.secretOf(s)
		if !known {
			return nil, &missingError{fmt.Sprintf("field %s: the node does not have the secret any more whose digest stands there: store it by a name", nodeconfig.Field(path))}
		}
		return value, nil
	})
}

// read returns the device's object, nil if there is none.
func (d *device) read(ctx context.Context, kind, id string) (*object, error) {
	ctx, cancel := context.WithTimeout(ctx, d.cfg.Timeout)
	defer cancel()
	var found *Item
	err := d.guard("reading an object", func() error {
		if r, is := d.cfg.Driver.(Reader); is {
			item, there, err := r.Read(ctx, kind, id)
			if there {
				found = &item
			}
			return err
		}
		s, err := d.cfg.Driver.Snapshot(ctx)
		if err != nil {
			return err
		}
		if !s.Complete {
			return errors.New("the device's configuration could not be read as a whole")
		}
		for i := range s.Items {
			if s.Items[i].Kind == kind && s.Items[i].ID == id {
				found = &s.Items[i]
			}
		}
		return nil
	})
	if err != nil || found == nil {
		return nil, err
	}
	return d.object(*found)
}

// etagOf is that of an object which may be nil.
func (o *object) etagOf() string {
	if o == nil {
		return ""
	}
	return o.etag
}

// message is the object as it is sent.
func (d *device) message(o *object) *Object {
	if o == nil {
		return nil
	}
	out := &Object{Kind: o.item.Kind, ID: o.item.ID, ETag: o.etag, Config: o.shown}
	if r := d.st.ops.Records[keyOf(o.item.Kind, o.item.ID)]; r != nil {
		out.Op, out.OpETag = r.Op, r.ETag
	}
	return out
}
