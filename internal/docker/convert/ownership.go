package convert

// This file decides which things on an engine belong to this host: by
// labels with exact values and by names. Nothing else is ever changed or removed.

import (
	"context"
	"slices"
	"strings"

	"github.com/steadyfleet/steady/reconcile/engine"
)

// Labels that the agent puts on what it makes. They are no part of what is
// declared, and are taken out of snapshots.
const (
	Prefix     = "io.steady."
	LabelOwner = Prefix + "owner" // fleet/host
	LabelKind  = Prefix + "kind"
	LabelName  = Prefix + "name" // in the declaration
	// LabelSession is the owner, such as session/lab, that a volume was made for.
	LabelSession = Prefix + "session"
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

// HasPrefix reports whether a name on the engine is one that this agent gives. Labels
// prove nothing without it: an agent of another prefix may serve a host of the
// same name in a fleet of the same name.
func (o Owner) HasPrefix(name string) bool {
	return strings.HasPrefix(strings.TrimPrefix(name, "/"), o.Prefix)
}

// ID is the value of LabelOwner.
func (o Owner) ID() string { return o.Fleet + "/" + o.Host }

// Labels are those of a thing of a kind with a name and an engine's name.
func (o Owner) Labels(kind, name, title string) map[string]string {
	return map[string]string{LabelOwner: o.ID(), LabelKind: kind, LabelName: name, LabelTitle: title}
}

// Owns reports whether labels mean that a thing of the kind and name is this
// host's. Names on the engine have to fit as well; see HasPrefix.
func (o Owner) Owns(labels map[string]string, kind, name string) bool {
	return labels[LabelOwner] == o.ID() && labels[LabelKind] == kind && labels[LabelName] == name
}

// Managed reports whether a label is one of the agent's own.
func Managed(label string) bool { return strings.HasPrefix(label, Prefix) }

// Orphans are this host's things of a kind that nobody declares. List lists the engine's
// things with labels; of each, ours gives the labels, and whether it is one that this host
// made under that name. Declared is nil where nothing is known of what is declared: then
// there are none.
func Orphans[T any](ctx context.Context, o Owner, kind string, declared func(context.Context) (map[string]bool, error),
	list func(labels ...string) ([]T, error), ours func(*T) (labels map[string]string, made bool)) ([]engine.Ref, error) {
	if declared == nil {
		return nil, nil
	}
	known, err := declared(ctx)
	if err != nil {
		return nil, err
	}
	found, err := list(LabelOwner+"="+o.ID(), LabelKind+"="+kind)
	var out []engine.Ref
	for i := range found {
		labels, made := ours(&found[i])
		if name := labels[LabelName]; made && name != "" && !known[name] {
			out = append(out, engine.Ref{Kind: kind, ID: name})
		}
	}
	slices.SortFunc(out, engine.Ref.Compare)
	return slices.Compact(out), err
}
