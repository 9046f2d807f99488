// Package nodeconfig is the configuration of nodes as data: objects that span one or more
// nodes, the rules by which a device's own habits are no difference, and the form in which
// two versions of one object are compared.
package nodeconfig

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/steadyfleet/steady/internal/core/fleet"
)

// Kind is a kind of object.
type Kind struct {
	Name  string   `json:"name"`
	Roles []string `json:"roles"` // of its legs, in the order of creation; deletion is in reverse
	Modes []Mode   `json:"modes"` // the first is the default
}

// Mode is a shape of a kind: the roles that an object of it has.
type Mode struct {
	Name  string   `json:"name"`
	Roles []string `json:"roles"`
}

// The roles of a tunnel's legs. A flow and a document have one leg, of the kind's name.
const (
	Relay   = "relay"
	Ingress = "ingress"
	Egress  = "egress"
)

// Names of kinds.
const (
	Flow     = "flow"
	Tunnel   = "tunnel"
	Document = "document"
)

// Kinds is every kind. A new one is a row here, and one in package event that names what
// its events are about.
var Kinds = []Kind{
	{Name: Flow, Roles: []string{Flow}, Modes: []Mode{{Roles: []string{Flow}}}},
	{Name: Tunnel, Roles: []string{Relay, Ingress, Egress}, Modes: []Mode{{"direct", []string{Ingress, Egress}}, {"relay", []string{Relay, Ingress, Egress}}, {"single", []string{Ingress}}}},
	{Name: Document, Roles: []string{Document}, Modes: []Mode{{Roles: []string{Document}}}},
}

// KindNames lists the names of Kinds.
func KindNames() []string {
	out := make([]string, len(Kinds))
	for i := range Kinds {
		out[i] = Kinds[i].Name
	}
	return out
}

// KindOf returns a kind by its name, or nil.
func KindOf(name string) *Kind {
	if i := slices.IndexFunc(Kinds, func(k Kind) bool { return k.Name == name }); i >= 0 {
		return &Kinds[i]
	}
	return nil
}

// Bounds of one object.
const (
	MaxConfig = 256 << 10 // bytes of one leg's config, and of what legs share
	MaxDepth  = 24
	MaxID     = 200 // bytes of the name that a device has for an object
)

// Definition is an object as an operator wants it.
type Definition struct {
	// Mode is one of its kind; empty is the first.
	Mode string `json:"mode,omitempty"`
	// Shared are fields that every leg has, unless its own config says otherwise.
	Shared json.RawMessage `json:"shared,omitempty"`
	// Legs are in the order of the kind's roles.
	Legs []Leg `json:"legs"`
}

// Leg is the part of an object that one node has.
type Leg struct {
	Role string `json:"role"`
	Node string `json:"node"`
	// ID is what the device calls it; empty is DefaultID.
	ID     string          `json:"id,omitempty"`
	Config json.RawMessage `json:"config"`
}

// DefaultID is what a device calls a leg unless its definition says otherwise.
func DefaultID(kind, name, role string) string {
	if kind == Tunnel {
		return name + "." + role
	}
	return name
}

// Leg returns the leg of a role, or nil.
func (d *Definition) Leg(role string) *Leg {
	if i := slices.IndexFunc(d.Legs, func(l Leg) bool { return l.Role == role }); i >= 0 {
		return &d.Legs[i]
	}
	return nil
}

// Normal checks a definition and returns it with what is left out filled in: the mode, the
// device's names, configs in canonical JSON, and legs in order.
func Normal(kind, name string, d Definition) (Definition, error) {
	k := KindOf(kind)
	if k == nil {
		return d, fmt.Errorf("unknown kind %q: expected one of %s", kind, strings.Join(KindNames(), ", "))
	}
	if err := fleet.CheckName(name); err != nil {
		return d, err
	}
	m, err := k.mode(d.Mode)
	if err != nil {
		return d, err
	}
	d.Mode = m.Name
	if d.Shared, err = canonicalObject("shared", d.Shared); err != nil {
		return d, err
	}
	legs := make([]Leg, 0, len(m.Roles))
	for _, role := range k.Roles {
		l := d.Leg(role)
		switch wanted := slices.Contains(m.Roles, role); {
		case l == nil && wanted:
			return d, fmt.Errorf("%s %s has no leg %q: expected %s", kind, name, role, strings.Join(m.Roles, ", "))
		case l != nil && !wanted:
			return d, fmt.Errorf("%s %s of mode %q has no leg %q: expected %s", kind, name, m.Name, role, strings.Join(m.Roles, ", "))
		case l != nil:
			n, err := l.normal(kind, name)
			if err != nil {
				return d, err
			}
			legs = append(legs, n)
		}
	}
	if len(legs) != len(d.Legs) {
		return d, fmt.Errorf("%s %s has a leg twice, or one of no role: expected %s", kind, name, strings.Join(m.Roles, ", "))
	}
	for i := range legs {
		if slices.ContainsFunc(legs[:i], func(l Leg) bool { return l.Node == legs[i].Node && l.ID == legs[i].ID }) {
			return d, fmt.Errorf("%s %s has two legs %q on node %s: give one another id", kind, name, legs[i].ID, legs[i].Node)
		}
	}
	d.Legs = legs
	return d, nil
}

func (k *Kind) mode(name string) (Mode, error) {
	var names []string
	for _, m := range k.Modes {
		if m.Name == name || name == "" {
			return m, nil
		}
		names = append(names, m.Name)
	}
	return Mode{}, fmt.Errorf("unknown mode %q of a %s: expected one of %q", name, k.Name, names)
}

func (l *Leg) normal(kind, name string) (Leg, error) {
	out := *l
	if err := fleet.CheckName(l.Node); err != nil {
		return out, fmt.Errorf("leg %s: node %w", l.Role, err)
	}
	if out.ID == "" {
		out.ID = DefaultID(kind, name, l.Role)
	}
	if err := CheckID(out.ID); err != nil {
		return out, fmt.Errorf("leg %s: %w", l.Role, err)
	}
	var err error
	if out.Config, err = canonicalObject("leg "+l.Role, l.Config); err != nil {
		return out, err
	}
	if out.Config == nil {
		out.Config = json.RawMessage("{}")
	}
	return out, nil
}

// CheckID refuses what cannot be the name that a device has for an object.
func CheckID(id string) error {
	if id == "" || len(id) > MaxID || !utf8.ValidString(id) || strings.ContainsFunc(id, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return fmt.Errorf("id %.40q: expected 1 to %d bytes of text in one line", id, MaxID)
	}
	return nil
}

// canonicalObject checks a JSON object and returns it in the form of Canonical.
func canonicalObject(what string, raw json.RawMessage) (json.RawMessage, error) {
	if len(bytes.TrimSpace(raw)) == 0 {
		return nil, nil
	}
	if len(raw) > MaxConfig {
		return nil, fmt.Errorf("%s: %d bytes of config, at most %d are allowed", what, len(raw), MaxConfig)
	}
	v, err := Decode(raw)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	if _, is := v.(map[string]any); !is {
		return nil, fmt.Errorf("%s: the config is no JSON object", what)
	}
	return encode(v), nil
}
