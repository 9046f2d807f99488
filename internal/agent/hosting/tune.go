package hosting

import (
	"context"
	"database/sql"
	"encoding/json"

	"github.com/steadyfleet/steady/internal/agent/measure"
	"github.com/steadyfleet/steady/internal/agent/state"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/wire"
)

// keyTuned is where settings are kept over restarts.
const keyTuned = "settings"

// tuned is what an operator tuned, as admitted; Offered is the whole of it.
type tuned struct {
	Settings fleet.Settings `json:"settings"`
	Offered  *wire.Settings `json:"offered,omitempty"`
}

func (h *Hosting) loadTuned(ctx context.Context) error {
	t := &tuned{}
	if _, err := h.o.Store.Get(ctx, keyTuned, t); err != nil {
		return err
	}
	h.tuned.Store(t)
	return nil
}

// retune takes again what was offered last: what is delegated may have changed.
func (h *Hosting) retune(ctx context.Context) error {
	h.admitting.Lock()
	defer h.admitting.Unlock()
	if t := h.tuned.Load(); t.Offered != nil {
		return h.tune(ctx, t.Offered)
	}
	return nil
}

// tune takes settings from the server, as far as the signed declaration lets it.
// The caller holds admitting.
func (h *Hosting) tune(ctx context.Context, offered *wire.Settings) error {
	s, err := AdmitSettings(offered, h.o.Agent.Delegation())
	if err != nil {
		h.o.Log.Warn("settings were applied in part", "error", err)
	}
	next := &tuned{Settings: s, Offered: offered}
	before, after := mustJSON(h.tuned.Load()), mustJSON(next)
	if string(before) == string(after) {
		return nil
	}
	if err := h.o.Store.Tx(ctx, func(tx *sql.Tx) error { return state.Put(ctx, tx, keyTuned, next) }); err != nil {
		return err
	}
	h.tuned.Store(next)
	h.metrics.Set(h.chosen())
	if h.docker != nil {
		h.docker.Tune(s)
	}
	h.o.Log.Info("settings changed", "settings", s)
	return nil
}

func mustJSON(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic("hosting: settings did not encode: " + err.Error())
	}
	return b
}

// chosen is what is measured: everything, unless it was turned off.
func (h *Hosting) chosen() measure.Settings {
	on := func(b *bool) bool { return b == nil || *b }
	m := h.tuned.Load().Settings.Metrics
	return measure.Settings{Host: on(m.Host), GPU: on(m.GPU), Workspaces: on(m.Workspaces)}
}
