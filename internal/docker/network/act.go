package network

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/moby/moby/client"

	"github.com/steadyfleet/steady/internal/core/spec"
	"github.com/steadyfleet/steady/internal/docker/convert"
	"github.com/steadyfleet/steady/internal/docker/dockerapi"
	"github.com/steadyfleet/steady/reconcile"
	"github.com/steadyfleet/steady/reconcile/engine"
)

// CodeBadAddress is the code of an address pool that cannot be read.
const CodeBadAddress engine.Code = "network-bad-address"

// Act changes networks, and makes one at a time: between the last check and the create
// nobody else of the host makes one. A removal waits for no other.
func (m *Reconciler) Act(ctx context.Context, r engine.Resource[Desired], a engine.Action) (err error) {
	if _, removes := a.(Remove); !removes {
		select {
		case m.turn <- struct{}{}:
			defer func() { <-m.turn }()
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	switch a := a.(type) {
	case Create:
		err = m.create(ctx, r.Desired.Spec)
	case Remove:
		err = m.remove(ctx, r.Desired.Spec, a.ID, a.Detach)
	case Replace:
		gone := m.replacing(r.Desired.Spec.EngineName(m.o.Owner.Title))
		err = m.remove(ctx, r.Desired.Spec, a.ID, a.Detach)
		gone() // before the engine tells of the new one
		if err == nil {
			err = m.create(ctx, r.Desired.Spec)
		}
	default:
		err = reconcile.Terminal(engine.CodeBadIntent, fmt.Errorf("a network has no action %s", a.ActionName()))
	}
	return dockerapi.ErrorOf(ctx, err)
}

// create makes the network unless one of the name is there by now: an earlier
// create whose answer was lost, or somebody else's.
func (m *Reconciler) create(ctx context.Context, n spec.Network) error {
	o, err := m.find(ctx, n, true)
	if err != nil {
		return err
	}
	for _, f := range o.Found {
		if f.Name == o.Title {
			return nil
		}
	}
	req, err := m.request(&n, o.Title)
	if err != nil {
		return reconcile.Terminal(CodeBadAddress, err)
	}
	if err := checkOverlap(&n); err != nil {
		return reconcile.Terminal(CodeBadAddress, err)
	}
	// The answer is waited for: what is no longer wanted is not gone before that.
	_, _, err = m.o.Engine.NetworkCreate(context.WithoutCancel(ctx), o.Title, req)
	return err
}

// remove takes a network away by its ID. Who is on it is checked once more: a
// container that came since the decision, or a network that is no longer this
// host's, stops it.
func (m *Reconciler) remove(ctx context.Context, n spec.Network, id string, detach []string) error {
	o, err := m.find(ctx, n, true)
	if err != nil {
		return err
	}
	for _, f := range o.Found {
		if f.ID != id {
			continue
		}
		if !f.Owned {
			return fmt.Errorf("network %s is no longer this host's", short(id))
		}
		if foreign := names(f.Members, notOurs); foreign != "" {
			return reconcile.Blocked(engine.NewReason(CodeForeignMembers, "containers that are not this host's are on "+f.Name+": "+foreign))
		}
		detach = ids(f.Members)
	}
	for _, c := range detach {
		// Force also takes off one that knows a network which is gone.
		if err := m.o.Engine.NetworkDisconnect(ctx, id, c, true); err != nil && !dockerapi.NotFound(err) && !notConnected(err) {
			return err
		}
	}
	if err := m.o.Engine.NetworkRemove(ctx, id); err != nil && !dockerapi.NotFound(err) {
		return err
	}
	return nil
}

// notConnected: the container left meanwhile, or was never started on it.
func notConnected(err error) bool { return dockerapi.Conflict(err) || dockerapi.Refused(err) }

// request writes the engine's request.
func (m *Reconciler) request(n *spec.Network, title string) (client.NetworkCreateOptions, error) {
	made, err := json.Marshal(n)
	if err != nil {
		return client.NetworkCreateOptions{}, err
	}
	own := m.o.Owner.Labels(spec.KindNetwork, n.Name, title)
	own[labelAsked] = string(made)
	o, err := convert.CreateNetwork(n, own)
	if err != nil {
		err = fmt.Errorf("%w: correct the declaration", err)
	}
	return o, err
}
