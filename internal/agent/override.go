package agent

import (
	"context"
	"fmt"
	"net/http"

	"github.com/steadyfleet/steady/internal/agent/client"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/override"
	"github.com/steadyfleet/steady/internal/trust"
	"github.com/steadyfleet/steady/internal/wire"
)

// heard is which list of overrides was taken whole, and in which key epoch.
type heard struct {
	list  digest.Digest
	epoch uint64
}

// ordered are operators' verified words for the reducer.
type ordered struct {
	epoch uint64
	words []trust.Verified[fleet.Override]
}

func (m ordered) apply(_ context.Context, r *reducer, t *turn) error {
	if m.epoch == 0 {
		return nil // no words
	}
	var words []override.Taken
	for _, w := range m.words {
		words = append(words, override.Taken{Override: w.Value(), Digest: w.Digest()})
	}
	effects, news := r.state.Ordered(r.a.id.Host, m.epoch, words)
	t.add(effects)
	t.save = t.save || news
	if news {
		r.a.cfg.Log.Info("signed overrides", "in force", len(r.state.Overrides.Newest), "epoch", m.epoch)
	}
	return nil
}

// learnOverrides fetches the signed overrides when the server has another list
// than was taken last. What cannot be fetched or verified is asked for again with
// the next heartbeat; what is held stays held.
func (a *Agent) learnOverrides(ctx context.Context, list digest.Digest) {
	next := heard{list, a.follower.Epoch()}
	if next == a.heard {
		return
	}
	m, whole := ordered{epoch: next.epoch}, true
	if list != "" {
		envelopes, err := a.fetchOverrides(ctx)
		if err != nil {
			if trust.CodeOf(err) != "" {
				a.post(ctx, refused{err: err})
			} else {
				a.away("overrides", err)
			}
			return
		}
		for _, env := range envelopes {
			v, err := a.follower.Override(env)
			switch {
			case err == nil:
				m.words = append(m.words, v)
			case trust.CodeOf(err) == trust.Expired: // taken before, or too late for this host
			default:
				whole = false
				a.post(ctx, refused{err: err})
			}
		}
	}
	if a.post(ctx, m) && whole {
		a.heard = next
	}
}

func (a *Agent) fetchOverrides(ctx context.Context) ([][]byte, error) {
	raw, err := a.client.Trust(ctx, wire.TrustOverrides)
	if client.StatusOf(err) == http.StatusNotFound {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var doc wire.Overrides
	if err := wire.Decode(raw, &doc); err != nil {
		return nil, &trust.Error{Code: trust.Malformed, Words: "the list of overrides: " + err.Error()}
	}
	if len(doc.Overrides) > override.Max {
		return nil, &trust.Error{Code: trust.Malformed, Words: fmt.Sprintf("the list of overrides has %d, at most %d are taken", len(doc.Overrides), override.Max)}
	}
	out := make([][]byte, len(doc.Overrides))
	for i, env := range doc.Overrides {
		out[i] = env
	}
	return out, nil
}

// rolledBack reports whether an operator's signed rollback of a manifest orders
// this host back: one that it took before, or the one that the dispatch shows.
func (a *Agent) rolledBack(d *wire.Dispatch, manifest digest.Digest) (words ordered, ok bool, err error) {
	if a.status.Load().Overrides.RolledBack(manifest) != nil {
		return ordered{}, true, nil
	}
	if d.Override == nil {
		return ordered{}, false, nil
	}
	v, err := a.follower.Override(d.Override)
	if err != nil {
		return ordered{}, false, err
	}
	if o := v.Value(); o.Action != fleet.OverrideRollback || o.Manifest != manifest {
		return ordered{}, false, &trust.Error{Code: trust.ManifestMismatch, Words: fmt.Sprintf(
			"override %s is a %s of manifest %s, and rolls %s back nowhere", o.ID, o.Action, o.Manifest.Short(), manifest.Short())}
	}
	return ordered{a.follower.Epoch(), []trust.Verified[fleet.Override]{v}}, true, nil
}
