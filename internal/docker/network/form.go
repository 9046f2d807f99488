package network

import (
	"strings"

	"github.com/moby/moby/api/types/network"

	"github.com/steadyfleet/steady/internal/core/diff"
	"github.com/steadyfleet/steady/internal/core/spec"
	"github.com/steadyfleet/steady/internal/docker/convert"
)

// compare lists how a network differs from the declaration.
func (m *Reconciler) compare(want *spec.Network, shown *network.Network) []diff.Difference {
	in := convert.Inputs{Digest: m.o.Digest}
	form := func(n *spec.Network) diff.Form { return convert.Network(n, n.EngineName(m.o.Owner.Title), in) }
	return convert.CompareMade(want, form, convert.ObservedNetwork(&network.Inspect{Network: *shown}, in), shown.Labels[labelAsked], rules{})
}

// rules are those of networks, with one more: this host owns the labels.
type rules struct{ diff.NetworkRules }

// OwnsExtra implements diff.Rules.
func (rules) OwnsExtra(field string) bool { return strings.HasPrefix(field, "label/") }
