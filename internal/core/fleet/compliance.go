package fleet

import (
	"cmp"

	"github.com/steadyfleet/steady/internal/core/prose"
)

// ComplianceDecl declares static controls. Mode is enforce by default; Channels
// says otherwise for single channels, and Overrides for single controls.
type ComplianceDecl struct {
	Mode      ProbeMode               `json:"mode"`
	Channels  map[string]ProbeMode    `json:"channels"`
	Packs     []string                `json:"packs"`
	Controls  []ControlDecl           `json:"controls"`
	Overrides map[string]OverrideDecl `json:"overrides"` // by control id
}

// ControlDecl declares a control of the fleet's own.
type ControlDecl struct {
	ID         string    `json:"id"`
	Title      string    `json:"title"`
	Source     string    `json:"source"`
	Expression string    `json:"expression"`
	Severity   string    `json:"severity"` // medium by default
	Selector   *Selector `json:"selector"` // all by default
}

// OverrideDecl changes the mode of one control everywhere, with a reason.
type OverrideDecl struct {
	Mode   ProbeMode `json:"mode"`
	Reason string    `json:"reason"`
}

func (c *checker) compliance() {
	d := c.d.Compliance
	if d == nil {
		return
	}
	for _, n := range keys(d.Channels) {
		known(c, at("compliance", "channels", n), "channel", n, c.d.Channels)
	}
	seen := map[string]bool{}
	for i := range d.Controls {
		k, path := &d.Controls[i], at("compliance", "controls", i)
		c.once(at(path, "id"), "control", k.ID, seen)
		if k.Selector != nil {
			c.selector(at(path, "selector"), k.Selector)
		}
	}
}

// controls resolves the controls of every channel: those of packs, and the
// fleet's own, which replace ones of the same id.
func (r *resolver) controls() map[string]*Controls {
	d := r.d.Compliance
	if d == nil {
		return nil
	}
	all := map[string]Control{}
	for i, name := range d.Packs {
		pack, ok := r.in.Packs[name]
		if !ok {
			r.c.errorf(at("compliance", "packs", i), "there is no pack %q: %s", name, oneOf(keys(r.in.Packs)))
		}
		for _, c := range pack {
			all[c.ID] = c
		}
	}
	for _, k := range d.Controls {
		c := Control{ID: k.ID, Title: k.Title, Source: k.Source, Expression: k.Expression, Severity: cmp.Or(k.Severity, "medium"), Selector: Selector{All: true}}
		if k.Selector != nil {
			c.Selector = *k.Selector
		}
		all[c.ID] = c
	}
	for _, id := range keys(d.Overrides) {
		if _, ok := all[id]; !ok {
			r.c.errorf(at("compliance", "overrides", id), "there is no control %q: %s", id, oneOf(keys(all)))
		}
	}
	out := map[string]*Controls{}
	for _, channel := range keys(r.d.Channels) {
		mode := cmp.Or(d.Channels[channel], cmp.Or(d.Mode, Enforce))
		list := Controls{Type: TypeControls, Controls: []Control{}}
		for _, id := range keys(all) {
			c := all[id]
			c.Mode = mode
			if o, ok := d.Overrides[id]; ok && mode == Enforce {
				c.Mode = cmp.Or(o.Mode, mode)
			}
			if c.Mode != Disabled && mode != Disabled {
				list.Controls = append(list.Controls, c)
			}
		}
		if len(list.Controls) > 0 {
			out[channel] = &list
		}
	}
	return out
}

// Control is a static control: a CEL expression over a host and what it is to run
// that must be true. It travels in the signed release, so that the server asks
// what was signed.
type Control struct {
	ID    string `json:"id"`
	Title string `json:"title"`
	// Source says where the control is from, such as a section of a benchmark.
	Source     string    `json:"source"`
	Expression string    `json:"expression"`
	Severity   string    `json:"severity"` // low, medium, high or critical
	Mode       ProbeMode `json:"mode"`     // Enforce or Observe
	Selector   Selector  `json:"selector"` // whose hosts it is asked of
}

// Controls are the static controls of one channel, a document that its manifest
// names by digest. Agents do not need it.
type Controls struct {
	Type     string    `json:"_type"`
	Controls []Control `json:"controls"` // sorted by id, unique
}

// TypeControls is the type of Controls.
const TypeControls = "steady/controls/v1"

// CriticalControls is the critical name of a manifest with controls: a server that
// does not know them must not open its rollout.
const CriticalControls = "controls"

// ControlFailure is a control that some hosts of a manifest do not pass.
type ControlFailure struct {
	Control  string    `json:"control"`
	Title    string    `json:"title"`
	Source   string    `json:"source"`
	Severity string    `json:"severity"`
	Mode     ProbeMode `json:"mode"`
	// Hosts are the first of those that fail, sorted; More is how many others do.
	Hosts []string `json:"hosts"`
	More  int      `json:"more,omitempty"`
	// Detail says what of the first host fails, such as its containers.
	Detail string `json:"detail"`
}

// Message says the failure in a sentence.
func (f *ControlFailure) Message() string {
	var first, more string
	if len(f.Hosts) > 0 {
		first, more = "host "+f.Hosts[0], prose.Any(len(f.Hosts)+f.More-1, "more")
	}
	return prose.Format("control %s[ (%s)] fails[ on %s][ and %s][: %s]", f.Control, f.Title, first, more, f.Detail)
}

// MaxFailedHosts bounds ControlFailure.Hosts.
const MaxFailedHosts = 8
