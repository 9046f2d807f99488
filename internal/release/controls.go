package release

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/steadyfleet/steady/internal/compliance"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/prose"
	"github.com/steadyfleet/steady/internal/trust"
)

// ControlsPath is where the controls of a channel are.
func ControlsPath(d digest.Digest) string { return "controls/" + d.Hex() + ".json" }

// Compliance is what static controls find of one channel.
type Compliance struct {
	Channel  string                 `json:"channel"`
	Controls int                    `json:"controls"`
	Failures []fleet.ControlFailure `json:"failures"`
}

// packs are those that ship, for the plan to choose from.
func packs() map[string][]fleet.Control {
	out := map[string][]fleet.Control{}
	for _, name := range compliance.Packs() {
		out[name], _ = compliance.Pack(name)
	}
	return out
}

// controls asks the static controls about the plan. A required one that fails is
// an error.
func (b *builder) controls() []fleet.Finding {
	var out []fleet.Finding
	bundles := map[digest.Digest]fleet.Bundle{}
	for _, sb := range b.src.Bundles {
		bundles[sb.Digest] = sb.Bundle
	}
	for i := range b.plan.Channels {
		cp := &b.plan.Channels[i]
		if cp.Controls == nil {
			continue
		}
		failures := compliance.Evaluate(cp.Controls.Controls, &cp.Header, cp.Leaves, b.plan.Roster, bundles)
		b.rel.Compliance = append(b.rel.Compliance, Compliance{Channel: cp.Name, Controls: len(cp.Controls.Controls), Failures: failures})
		for k := range failures {
			f := &failures[k]
			finding := fleet.Finding{Path: b.declared(f.Control), Severity: fleet.Warning,
				Message: prose.Format("channel %s: %s[; source: %s]", cp.Name, f.Message(), f.Source)}
			if f.Mode == fleet.Enforce {
				finding.Severity = fleet.Error
				finding.Message += ": expected it to pass, or an override of the control with a reason"
			}
			out = append(out, finding)
		}
	}
	return out
}

// declared is where a control stands, or the packs.
func (b *builder) declared(id string) []string {
	d := b.src.Declaration.Compliance
	if i := slices.IndexFunc(d.Controls, func(c fleet.ControlDecl) bool { return c.ID == id }); i >= 0 {
		return []string{"compliance", "controls", strconv.Itoa(i)}
	}
	return []string{"compliance", "packs"}
}

// signControls writes a channel's controls and names them in its header.
func (b *builder) signControls(cp *fleet.ChannelPlan) error {
	if cp.Controls == nil {
		return nil
	}
	raw, err := trust.Canonical(cp.Controls)
	if err != nil {
		return err
	}
	cp.Header.Controls = digest.Of(raw)
	cp.Header.Critical = append(slices.Clone(cp.Header.Critical), fleet.CriticalControls)
	b.rel.Files[ControlsPath(cp.Header.Controls)] = raw
	return nil
}

// controls checks the controls that a manifest names.
func (v *verification) controls(m *fleet.Manifest) (*fleet.Controls, error) {
	if m.Controls == "" {
		return nil, nil
	}
	name := ControlsPath(m.Controls)
	raw, err := v.readNamed(name, m.Controls, "the manifest")
	if err != nil {
		return nil, err
	}
	var c fleet.Controls
	if err := trust.Decode(raw, trust.MaxList, &c); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if c.Type != fleet.TypeControls {
		return nil, fmt.Errorf("%s has type %q: expected %q", name, c.Type, fleet.TypeControls)
	}
	return &c, nil
}

// Evaluate asks the signed controls of a channel's newest manifest; nil when it
// has none.
func (v *Verified) Evaluate(channel string) *Compliance {
	list := v.Manifests[channel]
	if len(list) == 0 || list[0].Controls == nil {
		return nil
	}
	m := list[0].Header.Value()
	return &Compliance{Channel: channel, Controls: len(list[0].Controls.Controls),
		Failures: compliance.Evaluate(list[0].Controls.Controls, &m, list[0].Leaves.Value(), v.Roster.Value().Hosts, v.Bundles)}
}
