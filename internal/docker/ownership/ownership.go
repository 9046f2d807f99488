// Package ownership says which things on an engine belong to this host: by
// labels with exact values and by names. Nothing else is ever changed or removed.
package ownership

import "strings"

// Labels that the agent puts on what it makes. They are no part of what is
// declared, and are taken out of snapshots.
const (
	Prefix     = "io.steady."
	LabelOwner = Prefix + "owner" // fleet/host
	LabelKind  = Prefix + "kind"
	LabelName  = Prefix + "name" // in the declaration
	// LabelReplica tells one container of a workspace from the next.
	LabelReplica = Prefix + "replica"
	// LabelReplaces is the id of the container that this one is made to replace.
	LabelReplaces = Prefix + "replaces"
	// LabelTitle is the engine's name that the thing was made for. One that stands
	// on a copy under another name, such as a snapshot run by hand, proves nothing.
	LabelTitle = Prefix + "title"
)

// Owner is this host on its engine. Two agents on one engine have different
// prefixes, neither of which begins with the other.
type Owner struct {
	Fleet, Host string
	// Prefix comes before every name that the agent gives, such as "edge-1.".
	Prefix string
}

// Title is the engine's name of a declared title.
func (o Owner) Title(title string) string { return o.Prefix + title }

// Gave reports whether a name on the engine is one that this agent gives. Labels
// prove nothing without it: an agent of another prefix may serve a host of the
// same name in a fleet of the same name.
func (o Owner) Gave(name string) bool {
	return strings.HasPrefix(strings.TrimPrefix(name, "/"), o.Prefix)
}

// ID is the value of LabelOwner.
func (o Owner) ID() string { return o.Fleet + "/" + o.Host }

// Labels are those of a thing of a kind with a name and an engine's name.
func (o Owner) Labels(kind, name, title string) map[string]string {
	return map[string]string{LabelOwner: o.ID(), LabelKind: kind, LabelName: name, LabelTitle: title}
}

// Owns reports whether labels say that a thing of the kind and name is this
// host's. Names on the engine have to fit as well; see Gave.
func (o Owner) Owns(labels map[string]string, kind, name string) bool {
	return labels[LabelOwner] == o.ID() && labels[LabelKind] == kind && labels[LabelName] == name
}

// Managed reports whether a label is one of the agent's own.
func Managed(label string) bool { return strings.HasPrefix(label, Prefix) }
