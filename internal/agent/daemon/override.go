package daemon

import (
	"context"
	"fmt"
	"net/http"

	"github.com/steadyfleet/steady/internal/agent/uplink"
	core "github.com/steadyfleet/steady/internal/core/agent"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/gate"
	"github.com/steadyfleet/steady/internal/trust"
	"github.com/steadyfleet/steady/internal/wire"
)

// overrideList is which list of overrides was accepted whole, and in which key epoch.
type overrideList struct {
	list  digest.Digest
	epoch uint64
}

// learnOverrides fetches the signed overrides when the server has another list
// than was taken last. What cannot be fetched or verified is asked for again with
// the next heartbeat; what is held stays held.
func (a *Agent) learnOverrides(ctx context.Context, list digest.Digest) {
	next := overrideList{list, a.follower.Epoch()}
	if next == a.overrides {
		return
	}
	in, whole := core.OverridesReceived{Host: a.id.Host, Incarnation: a.id.Incarnation, Epoch: next.epoch}, true
	if list != "" {
		envelopes, err := a.fetchOverrides(ctx)
		if err != nil {
			if trust.CodeOf(err) != "" {
				a.post(ctx, refusal("", err))
			} else {
				a.unreachable("overrides", err)
			}
			return
		}
		for _, env := range envelopes {
			v, err := a.follower.Override(env)
			switch {
			case err == nil:
				in.Overrides = append(in.Overrides, gate.AcceptedOverride{Override: v.Value(), Digest: v.Digest()})
			case trust.CodeOf(err) == trust.Expired: // accepted before, or too late for this host
			default:
				whole = false
				a.post(ctx, refusal("", err))
			}
		}
	}
	if a.post(ctx, in) && whole {
		a.overrides = next
		a.cfg.Log.Info("signed overrides", "in force", len(in.Overrides), "epoch", in.Epoch)
	}
}

func (a *Agent) fetchOverrides(ctx context.Context) ([][]byte, error) {
	raw, err := a.client.Trust(ctx, wire.TrustOverrides)
	if uplink.StatusOf(err) == http.StatusNotFound {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var doc wire.Overrides
	if err := wire.Decode(raw, &doc); err != nil {
		return nil, &trust.Error{Code: trust.Malformed, Message: "the list of overrides: " + err.Error()}
	}
	if len(doc.Overrides) > gate.MaxOverrides {
		return nil, &trust.Error{Code: trust.Malformed, Message: fmt.Sprintf("the list of overrides has %d, at most %d are allowed", len(doc.Overrides), gate.MaxOverrides)}
	}
	out := make([][]byte, len(doc.Overrides))
	for i, env := range doc.Overrides {
		out[i] = env
	}
	return out, nil
}

// signedRetry is the override of a dispatch that has this host take again what it refuses,
// if there is one that may still be taken.
func (a *Agent) signedRetry(d *wire.Dispatch) (*core.OverridesReceived, error) {
	if d.Override == nil {
		return nil, nil
	}
	in, err := a.signedOverride(d, fleet.OverrideRetry)
	if trust.CodeOf(err) == trust.Expired {
		return nil, nil // it was accepted in time, or counts no more
	}
	return in, err
}

// signedOverride is the override of a dispatch, if it does this to the dispatch's manifest.
func (a *Agent) signedOverride(d *wire.Dispatch, action fleet.OverrideAction) (*core.OverridesReceived, error) {
	v, err := a.follower.Override(d.Override)
	if err != nil {
		return nil, err
	}
	o := v.Value()
	if o.Action != action || o.Manifest != d.Manifest {
		return nil, &trust.Error{Code: trust.ManifestMismatch, Message: fmt.Sprintf(
			"override %s is a %s of manifest %s, expected a %s of %s", o.ID, o.Action, o.Manifest.Short(), action, d.Manifest.Short())}
	}
	return &core.OverridesReceived{Host: a.id.Host, Incarnation: a.id.Incarnation, Epoch: a.follower.Epoch(), Overrides: []gate.AcceptedOverride{{Override: o, Digest: v.Digest()}}}, nil
}
