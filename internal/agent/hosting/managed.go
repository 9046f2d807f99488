package hosting

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"time"

	"github.com/steadyfleet/steady/internal/agent/state"
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/deploy"
	"github.com/steadyfleet/steady/internal/core/managed"
	"github.com/steadyfleet/steady/internal/core/spec"
	"github.com/steadyfleet/steady/internal/wire"
	"github.com/steadyfleet/steady/reconcile/engine"
)

// keyManaged is where the managed layer is kept over restarts, as it came: a host
// that boots without its server goes on with it.
const keyManaged = "managed"

type managedDoc struct {
	ETag string       `json:"etag"`
	Doc  wire.Managed `json:"doc"`
}

// keyVersions is where the highest version of each signed entry is kept: an older
// one is refused for ever.
const keyVersions = "managed.versions"

// verifier checks signed entries, and notes their versions in seen.
func (h *Hosting) verifier(seen map[string]uint64) func(json.RawMessage) (SignedEntry, error) {
	return func(env json.RawMessage) (SignedEntry, error) {
		v, err := h.o.Agent.Entry(env)
		if err != nil {
			return SignedEntry{}, err
		}
		e := v.Value()
		id := e.Kind + "/" + e.Name
		if e.Version < seen[id] {
			return SignedEntry{}, fmt.Errorf("version %d of %s was signed before version %d, which this host has seen", e.Version, id, seen[id])
		}
		seen[id] = e.Version
		return SignedEntry{Kind: e.Kind, Name: e.Name, Spec: json.RawMessage(e.Spec), NotAfter: e.NotAfter}, nil
	}
}

// Replied takes what a heartbeat was answered.
func (h *Hosting) Replied(ctx context.Context, r wire.HeartbeatReply) error {
	if r.Settings != nil {
		h.admitting.Lock()
		err := h.tune(ctx, r.Settings)
		h.admitting.Unlock()
		if err != nil {
			return err
		}
	}
	var have managedDoc
	if _, err := h.o.Store.Get(ctx, keyManaged, &have); err != nil {
		return err
	}
	if r.Managed == 0 || r.Managed == have.Doc.Version {
		h.lateSecrets(ctx, &have.Doc)
		return nil
	}
	doc, etag, same, err := h.o.Client.Managed(ctx, have.ETag)
	if err != nil {
		h.o.Log.Warn("the managed layer was not fetched", "version", r.Managed, "error", err)
		return nil // the next heartbeat asks again
	}
	if same {
		return nil
	}
	values := h.fetchSecrets(ctx, &doc)
	h.admitting.Lock()
	defer h.admitting.Unlock()
	h.keepSecrets(values)
	return h.admit(ctx, managedDoc{etag, doc})
}

// admitHeld admits what is held. It is read under the lock: a newer layer that
// came meanwhile must not be undone by the one before.
func (h *Hosting) admitHeld(ctx context.Context) error {
	h.admitting.Lock()
	defer h.admitting.Unlock()
	var have managedDoc
	if ok, err := h.o.Store.Get(ctx, keyManaged, &have); err != nil || !ok {
		return err
	}
	return h.admit(ctx, have)
}

// aheadBy is how far the host's own clock may drift from the wall clock before what
// ends is told by the new difference.
const aheadBy = clock.Minute

// clockAhead is by how much the host's own clock is ahead of the wall clock. Time while
// the machine is off counts by the latter alone, and a wall clock may be set right at any
// time. The caller holds admitting.
func (h *Hosting) clockAhead() clock.Duration {
	now := h.o.Now().Sub(h.o.Wall())
	if d := now - h.ahead; !h.aheadKnown || d >= aheadBy || d <= -aheadBy {
		h.ahead, h.aheadKnown = now, true
	}
	return h.ahead
}

// clockEvery is how often the clocks are compared, with a server or without.
const clockEvery = 30 * time.Second

func (h *Hosting) clockMoved() bool {
	h.admitting.Lock()
	defer h.admitting.Unlock()
	was := h.ahead
	return h.clockAhead() != was
}

// admitAgain admits what is held when the agent starts, whenever what is delegated or
// declared may have changed, and when the wall clock moved.
func (h *Hosting) admitAgain(ctx context.Context) error {
	clocks := time.NewTicker(clockEvery)
	defer clocks.Stop()
	for {
		if h.o.Agent.Parked() {
			return nil
		}
		if err := h.admitHeld(ctx); err != nil && ctx.Err() == nil {
			return err
		}
		if err := h.retune(ctx); err != nil && ctx.Err() == nil {
			return err
		}
		for due := false; !due; {
			select {
			case <-ctx.Done():
				return nil
			case <-h.changed:
				due = true
			case <-clocks.C:
				h.forgetSecrets(ctx)
				due = h.clockMoved()
			}
		}
	}
}

// admit takes of a managed layer what the signed declaration lets through,
// reports the rest, and hands it to the loop, in one transaction. The caller holds
// admitting.
func (h *Hosting) admit(ctx context.Context, doc managedDoc) error {
	declared, err := h.o.Agent.Declared(ctx)
	if err != nil {
		h.o.Log.Warn("the managed layer waits: the bundle of this host cannot be read", "error", err)
		return nil
	}
	seen := map[string]uint64{}
	if _, err := h.o.Store.Get(ctx, keyVersions, &seen); err != nil {
		return err
	}
	got := Admit(AdmitInput{Doc: doc.Doc, Delegation: h.o.Agent.Delegation(), Ahead: h.clockAhead(), Bundles: declared, Title: h.Title(), Verify: h.verifier(seen)})
	now := h.o.Now()
	cause := engine.Cause{Trigger: engine.TriggerOperator, ID: "managed " + strconv.FormatUint(doc.Doc.Version, 10)}
	err = h.o.Store.Tx(ctx, func(tx *sql.Tx) error {
		if err := state.Put(ctx, tx, keyManaged, doc); err != nil {
			return err
		}
		if err := state.Put(ctx, tx, keyVersions, seen); err != nil {
			return err
		}
		if err := h.refuseAll(ctx, tx, got); err != nil {
			return err
		}
		if h.docker == nil {
			return nil
		}
		_, err := h.o.Rows.ApplyTx(ctx, tx, engine.Upsert(deploy.ManagedLayer, got.Layer), now.Time(), cause)
		return err
	})
	if err != nil {
		return err
	}
	h.request(got.BundleRequests)
	if err := h.retry(ctx, doc.Doc.Retries); err != nil {
		return err
	}
	if h.docker != nil {
		h.o.Loop.Enqueue(deploy.ManagedLayer, cause)
	}
	return nil
}

// Refusals that are reported in an hour: a server that makes up entries must not
// fill the host's disk with what it is told about them.
const (
	refusalsAtOnce = 256
	refusalsEvery  = clock.Hour
	refusalsKept   = managed.MaxEntries + managed.MaxRequests // of one layer
)

// refuseAll reports what is kept off, once for each reason and version, and where
// that stands which no longer is.
func (h *Hosting) refuseAll(ctx context.Context, tx *sql.Tx, got Admitted) error {
	now, list := h.o.Now(), got.Refused
	if now.Sub(h.refusedAt) > refusalsEvery || h.refusedAt == 0 {
		h.refusedAt, h.refusals = now, 0
	}
	var refused []state.Refused
	untold := max(0, len(list)-refusalsKept)
	for _, r := range list[:min(len(list), refusalsKept)] {
		x := state.Refused{Ref: r.Kind + "/" + r.Name, Detail: "refused: " + r.Message, Version: r.Version}
		refused = append(refused, x)
		if h.refusals >= refusalsAtOnce {
			untold++
			continue
		}
		news, err := state.ReportRefused(ctx, tx, now, x)
		if err != nil {
			return err
		}
		if news {
			h.refusals++
		}
	}
	if untold > 0 {
		h.o.Log.Warn("more entries of the managed layer were refused than are reported in an hour", "not reported", untold)
	}
	over, err := state.SetRefused(ctx, tx, refused)
	if err != nil {
		return err
	}
	for _, ref := range over {
		kind, id, _ := strings.Cut(ref, "/")
		taken := got.Layer.Set.Has(spec.ID{Kind: kind, Name: id})
		if err := state.ReportAdmitted(ctx, tx, now, h.o.Rows, engine.Ref{Kind: kind, ID: id}, taken); err != nil {
			return err
		}
	}
	return nil
}

// request hands verbs for what the bundle declares to its generation.
func (h *Hosting) request(list []deploy.LayerRequest) {
	asks := make(map[spec.ID]deploy.Request, len(list))
	for _, a := range list {
		asks[spec.ID{Kind: a.Kind, Name: a.Name}] = deploy.Request{Verb: a.Verb, Nonce: a.Nonce, Version: a.Version}
	}
	if !maps.Equal(*h.asks.Swap(&asks), asks) {
		h.o.Agent.VerbsChanged()
	}
}

// aboutFor bounds the question which engine this is.
const aboutFor = 5 * time.Second

// Fill adds to a heartbeat what is known of the engine and what was measured.
func (h *Hosting) Fill(ctx context.Context, b *wire.Heartbeat) error {
	ctx, cancel := context.WithTimeout(ctx, aboutFor)
	defer cancel()
	b.Engine, b.Runtimes = h.about(ctx)
	b.Capabilities, b.Bin = h.capabilities(), h.bin()
	return h.measure(ctx, b)
}
