// Package netconf drives devices that speak NETCONF over SSH (RFC 6241, RFC 6242): entries of
// a YANG list are flows, or one subtree is a document. Changes are made in the candidate
// configuration under locks, validated, and committed so that the device takes them back by
// itself unless they are confirmed.
package netconf

import (
	"context"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/steadyfleet/steady/internal/core/nodeconfig"
	"github.com/steadyfleet/steady/internal/drivers/base"
	"github.com/steadyfleet/steady/nodesdk"
)

// Driver is a nodesdk.Driver.
type Driver struct {
	login login
	path  []xml.Name // of the list's entries, or of the subtree
	keys  []string   // of the list; none for a subtree
	form  form

	mu      sync.Mutex
	s       *session // nil or ended: a new one is opened
	pending bool     // a change of this session waits to be confirmed
}

// session returns the one that is open, or opens one.
func (d *Driver) session(ctx context.Context) (*session, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.s != nil && d.s.alive() {
		return d.s, nil
	}
	s, err := d.login.dial(ctx)
	if err != nil {
		return nil, err
	}
	d.s, d.pending = s, false
	return s, nil
}

// Close ends the session with the device.
func (d *Driver) Close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.s != nil {
		d.s.close()
	}
}

func (d *Driver) kind() string {
	if len(d.keys) == 0 {
		return nodeconfig.Document
	}
	return nodeconfig.Flow
}

// nested is what stands at the path.
func (d *Driver) nested(last *element) *element {
	for i := len(d.path) - 2; i >= 0; i-- {
		last = &element{Name: d.path[i], children: []*element{last}}
	}
	return last
}

func (e *element) xml() string {
	var b strings.Builder
	e.write(&b, nsBase)
	return b.String()
}

// get reads what stands at the path, all of it or the entry with keys.
func (d *Driver) get(ctx context.Context, s *session, keys []string) ([]*element, error) {
	last := &element{Name: d.path[len(d.path)-1], children: d.keyElements(keys)}
	defaults := ""
	if v, is := s.caps[capDefaults]; is {
		// What was set is told apart from a default, where the device can.
		modes := strings.Split(v.Get("also-supported"), ",")
		for _, mode := range []string{"explicit", "trim"} {
			if v.Get("basic-mode") == mode {
				break
			}
			if slices.Contains(modes, mode) {
				defaults = `<with-defaults xmlns="urn:ietf:params:xml:ns:yang:ietf-netconf-with-defaults">` + mode + `</with-defaults>`
				break
			}
		}
	}
	reply, err := s.rpc(ctx, `<get-config><source><running/></source><filter type="subtree">`+d.nested(last).xml()+`</filter>`+defaults+`</get-config>`)
	if err != nil {
		return nil, err
	}
	at := reply.child("data")
	if at == nil {
		return nil, fmt.Errorf("the device answers get-config without data")
	}
	found := []*element{at}
	for _, step := range d.path {
		var next []*element
		for _, e := range found {
			for _, c := range e.children {
				if c.Name == step {
					next = append(next, c)
				}
			}
		}
		found = next
	}
	return found, nil
}

func (d *Driver) keyElements(values []string) (out []*element) {
	for i, v := range values {
		out = append(out, &element{Name: xml.Name{Space: d.path[len(d.path)-1].Space, Local: d.keys[i]}, text: v})
	}
	return out
}

// item reads an entry, or the subtree.
func (d *Driver) item(e *element) (*nodesdk.Item, error) {
	v, err := d.form.value(e, "")
	if err != nil {
		return nil, err
	}
	m, is := v.(map[string]any)
	if !is { // a container without anything
		m = map[string]any{}
	}
	id := e.Local
	if len(d.keys) > 0 {
		var values []string
		for _, k := range d.keys {
			c := e.child(k)
			if c == nil {
				return nil, fmt.Errorf("an entry of %s has no key %s", e.Local, k)
			}
			values = append(values, c.text)
			delete(m, k)
		}
		id = joinKeys(values)
	}
	raw, err := json.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", id, err)
	}
	return &nodesdk.Item{Kind: d.kind(), ID: id, Config: raw}, nil
}

// An entry of more than one key is called by all of them, with commas.
var escapeKey, unescapeKey = strings.NewReplacer("%", "%25", ",", "%2C"), strings.NewReplacer("%2C", ",", "%25", "%")

func joinKeys(values []string) string {
	if len(values) == 1 {
		return values[0]
	}
	out := make([]string, len(values))
	for i, v := range values {
		out[i] = escapeKey.Replace(v)
	}
	return strings.Join(out, ",")
}

func (d *Driver) splitKeys(id string) ([]string, error) {
	if len(d.keys) < 2 {
		return []string{id}, nil
	}
	out := strings.Split(id, ",")
	if len(out) != len(d.keys) {
		return nil, base.Invalid("", "the name %.80q: expected the keys %s with commas in between", id, strings.Join(d.keys, ", "))
	}
	for i := range out {
		out[i] = unescapeKey.Replace(out[i])
	}
	return out, nil
}

// Snapshot implements nodesdk.Driver.
func (d *Driver) Snapshot(ctx context.Context) (nodesdk.State, error) {
	s, err := d.session(ctx)
	if err != nil {
		return nodesdk.State{}, err
	}
	found, err := d.get(ctx, s, nil)
	if err != nil {
		return nodesdk.State{}, err
	}
	out := nodesdk.State{Complete: true}
	for _, e := range found {
		it, err := d.item(e)
		if err != nil {
			return nodesdk.State{}, err
		}
		out.Items = append(out.Items, *it)
	}
	slices.SortFunc(out.Items, func(a, b nodesdk.Item) int { return strings.Compare(a.ID, b.ID) })
	return out, nil
}

// Read implements nodesdk.Reader.
func (d *Driver) Read(ctx context.Context, _, id string) (nodesdk.Item, bool, error) {
	s, err := d.session(ctx)
	if err != nil {
		return nodesdk.Item{}, false, err
	}
	it, err := d.one(ctx, s, id)
	if err != nil || it == nil {
		return nodesdk.Item{}, false, err
	}
	return *it, true, nil
}

// one reads an object, nil if there is none.
func (d *Driver) one(ctx context.Context, s *session, id string) (*nodesdk.Item, error) {
	var keys []string
	if len(d.keys) > 0 {
		var err error
		if keys, err = d.splitKeys(id); err != nil {
			return nil, nil //nolint:nilerr // no entry has such a name
		}
	}
	found, err := d.get(ctx, s, keys)
	if err != nil {
		return nil, err
	}
	for _, e := range found {
		it, err := d.item(e)
		if err != nil {
			return nil, err
		}
		if it.ID == id {
			return it, nil
		}
	}
	return nil, nil
}

// Normalize implements nodesdk.Driver: values as XML has them, without the keys, which are
// the name.
func (d *Driver) Normalize(it nodesdk.Item) nodesdk.Item {
	it = nodesdk.Fold{Nulls: true, Numbers: true}.Item(it) // XML has no null, and 1.0 is how a decimal64 is spelt
	m, err := base.Object(it.Config)
	if err != nil {
		return it
	}
	m, _ = d.form.normal(m, "").(map[string]any)
	if keys, err := d.splitKeys(it.ID); err == nil {
		for i, k := range d.keys {
			if d.keyText(m[k]) == keys[i] {
				delete(m, k)
			}
		}
	}
	raw, err := json.Marshal(m)
	if err != nil {
		return it
	}
	it.Config = raw
	return it
}

func (d *Driver) keyText(v any) string {
	if v == nil {
		return ""
	}
	return fmt.Sprint(v)
}

// target is an object as it is to be, in XML.
func (d *Driver) target(op nodesdk.Op) (*element, error) {
	it := d.Normalize(nodesdk.Item{Kind: op.Kind, ID: op.ID, Config: op.Config})
	m, err := base.Object(it.Config)
	if err != nil {
		return nil, err
	}
	last := d.path[len(d.path)-1]
	if len(d.keys) == 0 && op.ID != last.Local {
		return nil, base.Invalid("", "the device has one document, %s", last.Local)
	}
	for _, k := range d.keys {
		if _, there := m[k]; there {
			return nil, base.Invalid(k, "it is not the object's name")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(m)) {
		if _, err := named(name, last.Space); err != nil {
			return nil, base.Invalid(name, "%v", err)
		}
	}
	e, err := d.form.element(last, m, "")
	if err != nil {
		return nil, base.Invalid("", "%v", err)
	}
	if len(d.keys) > 0 {
		keys, err := d.splitKeys(op.ID)
		if err != nil {
			return nil, err
		}
		if strings.Contains(op.ID, "'") { // netconfd 2.13 ends when it is told to make one
			return nil, base.Invalid("", "the name has an apostrophe, with which devices that write paths to it fail")
		}
		e.children = append(d.keyElements(keys), e.children...)
	}
	return e, nil
}
