package reconcile

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"

	"github.com/steadyfleet/steady/reconcile/engine"
)

// Recorded is one decision with all that it was made from, encoded: what production decided
// can be decided again by the code of today.
type Recorded struct {
	Ref      engine.Ref      `json:"ref"`
	Revision int64           `json:"revision"`
	At       time.Time       `json:"at"`
	View     json.RawMessage `json:"view"`     // an engine.View
	Decision json.RawMessage `json:"decision"` // as Decision encodes
}

// WithRecorder gives f each decision that a turn recorded, from the goroutine that took it; f
// must not block. A view has what is desired and observed in full, with any secret in it.
func WithRecorder(f func(Recorded)) Option { return func(c *config) { c.recorder = f } }

// record encodes a decision and its view for the recorder.
func (r *run) record(k kind, in engine.Input, observed any, d engine.Decision) {
	view, err := k.encode(in, observed)
	decision, failed := json.Marshal(d)
	if err != nil || failed != nil {
		r.l.cfg.log.Warn("record a decision", "ref", r.ref.String(), "error", firstOf(err, failed))
		return
	}
	r.l.cfg.recorder(Recorded{r.ref, in.Snap.Row.Revision, in.Now, view, decision})
}

func firstOf(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// Replay decides a recorded view anew with m. Same reports whether the decision is the one
// that was recorded.
func Replay[D, O any](m Reconciler[D, O], r Recorded) (d engine.Decision, same bool, err error) {
	var v engine.View[D, O]
	if err := json.Unmarshal(r.View, &v); err != nil {
		return d, false, fmt.Errorf("decode the view of %s: %w", r.Ref, err)
	}
	if err := protect("Decide", func() error { d = m.Decide(v); return nil }); err != nil {
		return d, false, err
	}
	now, err := json.Marshal(d)
	if err != nil {
		return d, false, fmt.Errorf("encode the decision on %s: %w", r.Ref, err)
	}
	return d, bytes.Equal(now, r.Decision), nil
}
