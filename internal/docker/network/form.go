package network

import (
	"encoding/json"
	"strings"

	"github.com/moby/moby/api/types/network"

	"github.com/steadyfleet/steady/internal/core/diff"
	"github.com/steadyfleet/steady/internal/core/spec"
	"github.com/steadyfleet/steady/internal/docker/convert"
)

// compare reports how a network differs from the declaration. One whose label tells
// what it was made from is compared by that, so that nothing which an engine
// fills in or spells otherwise ever replaces it.
func (m *Reconciler) compare(want *spec.Network, shown *network.Network) []diff.Difference {
	in := convert.Inputs{Digest: m.o.Digest}
	seen := convert.ObservedNetwork(&network.Inspect{Network: *shown}, in)
	var base *diff.Baseline
	var made spec.Network
	// A label of another version, or put there by hand, tells nothing.
	if json.Unmarshal([]byte(shown.Labels[labelAsked]), &made) == nil {
		base = &diff.Baseline{Desired: convert.Network(&made, made.EngineName(m.o.Owner.Title), in), Observed: seen}
	}
	return diff.Compare(convert.Network(want, want.EngineName(m.o.Owner.Title), in), seen, base, rules{})
}

// rules are those of networks, with one more: this host owns the labels.
type rules struct{ diff.NetworkRules }

// OwnsExtra implements diff.Rules.
func (rules) OwnsExtra(field string) bool { return strings.HasPrefix(field, "label/") }
