package hosting

import (
	"context"
	"database/sql"
	"slices"
	"strings"

	"github.com/steadyfleet/steady/internal/agent/state"
	"github.com/steadyfleet/steady/internal/wire"
	"github.com/steadyfleet/steady/reconcile"
	"github.com/steadyfleet/steady/reconcile/engine"
)

// keyRetries is where the retries are kept that were carried out, of those that the
// server still names.
const keyRetries = "managed.retries"

// maxRetries bounds what a document may ask for at once.
const maxRetries = 64

// retry begins anew with what operators want tried again, each retry once. It needs
// no delegation: nothing but what is declared is tried, and nothing that is as it
// should be is touched.
func (h *Hosting) retry(ctx context.Context, list []wire.Retry) error {
	var done, named []string
	if _, err := h.o.Store.Get(ctx, keyRetries, &done); err != nil {
		return err
	}
	resources := map[string]bool{}
	for _, r := range list[max(0, len(list)-maxRetries):] {
		named = append(named, r.Nonce)
		if !slices.Contains(done, r.Nonce) {
			resources[r.Resource] = true
		}
	}
	if slices.Equal(done, named) {
		return nil
	}
	var refs []engine.Ref
	if len(resources) > 0 {
		rows, err := h.o.Rows.List(ctx, reconcile.Filter{Phases: []engine.Phase{engine.Failed, engine.Retrying, engine.Orphaned}})
		if err != nil {
			return err
		}
		for i := range rows {
			if resources[""] || resources[rows[i].Ref.String()] {
				refs = append(refs, rows[i].Ref)
			}
		}
	}
	cause := engine.Cause{Trigger: engine.TriggerOperator, ID: "retry " + strings.Join(named[max(0, len(named)-1):], "")}
	err := h.o.Store.Tx(ctx, func(tx *sql.Tx) error {
		for _, ref := range refs {
			if _, err := h.o.Rows.ApplyTx(ctx, tx, engine.Retry(ref), h.o.Now().Time(), cause); err != nil {
				return err
			}
		}
		return state.Put(ctx, tx, keyRetries, named)
	})
	if err != nil {
		return err
	}
	for _, ref := range refs {
		h.o.Loop.Enqueue(ref, cause)
	}
	return nil
}
