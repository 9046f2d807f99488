package operations

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"io"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/steadyfleet/steady/internal/api/operator"
	"github.com/steadyfleet/steady/internal/control"
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/forecast"
	"github.com/steadyfleet/steady/internal/replay"
	"github.com/steadyfleet/steady/internal/wire"
)

// How far a forecast and a rerun look beyond where they begin, and end.
const (
	forecastAhead = 7 * clock.Day
	rerunBeyond   = clock.Day
)

// maxRelease bounds the message that carries a packed release.
const maxRelease = 32 << 20

// maxRerun bounds the log that is played again for a rerun.
const maxRerun = 1_000_000

// forecasting registers what plays ahead, and again.
func (h *Handler) forecasting() {
	ask := func(id, method, path, summary string) huma.Operation {
		return huma.Operation{OperationID: id, Method: method, Path: path, Summary: summary, DefaultStatus: http.StatusAccepted, MaxBodyBytes: maxRelease}
	}
	add(h, ask("create-forecast", http.MethodPost, "/forecasts", "Play the fleet ahead, with a release or without"), releasing, h.createForecast)
	add(h, ask("create-rerun", http.MethodPost, "/reruns", "Play the log again with something changed"), releasing, h.createRerun)
	add(h, get("get-forecast", "/forecasts/{id}", "Where a forecast or a rerun stands, and what it found"), viewing, h.getForecast)
}

type forecastIn struct {
	ID string `path:"id" maxLength:"64"`
}

func (h *Handler) getForecast(_ context.Context, in *forecastIn) (operator.Forecast, error) {
	f, known := h.workers.get(in.ID)
	if !known {
		return f, wire.Refuse(wire.ErrNotFound, "there is no forecast %s any more; ask for it again", in.ID)
	}
	return f, nil
}

// question gives a job the id that follows from what is asked about which log.
func question(j *job, asked any) error {
	raw, err := json.Marshal([]any{j.Record, j.Start, asked})
	j.ID = digest.Of(raw).Hex()[:32]
	return err
}

func (h *Handler) createForecast(_ context.Context, in *bodyIn[operator.NewForecast]) (f operator.Forecast, err error) {
	n := in.Body
	head := h.c.Head()
	if n.Record > head.Seq {
		return f, wire.Refuse(wire.ErrNotFound, "the log ends with record %d", head.Seq)
	}
	j := &job{Forecast: operator.Forecast{Record: cmp.Or(n.Record, head.Seq), Start: cmp.Or(n.Start, h.c.Now()/clock.Instant(clock.Minute)*clock.Instant(clock.Minute))}}
	n.Record, n.Start, n.Times, n.Seed = 0, 0, cmp.Or(n.Times, 1), cmp.Or(n.Seed, 1)
	todo := replay.Job{Memory: h.workers.memory, Start: j.Start, Horizon: forecastAhead, Only: n.Rollout, Release: n.Release,
		Assumed: forecast.Default(n.Times), Runs: n.Runs, Seed: n.Seed}
	if n.Failure > 0 {
		todo.Assumed.Failure = []forecast.Rate{{Part: n.Failure}}
	}
	if n.Offline > 0 {
		todo.Assumed.Offline = []forecast.Rate{{Part: n.Offline}}
	}
	j.prepare = func(ctx context.Context) (func(io.Writer) error, error) {
		b, err := h.c.Beginning(ctx, j.Record)
		return func(w io.Writer) error { return begins(w, todo, b) }, err
	}
	if err := question(j, n); err != nil {
		return f, err
	}
	return h.workers.ask(j)
}

// begins writes a job that begins where the log was at a record.
func begins(w io.Writer, todo replay.Job, b *control.Beginning) error {
	if err := json.NewEncoder(w).Encode(todo); err != nil {
		return err
	}
	out, err := replay.NewHistoryWriter(w, b.Library)
	if err != nil {
		return err
	}
	var proofs [][]byte
	if b.Roster != nil {
		proofs = append(proofs, b.Roster)
	}
	begin := replay.Beginning{Seq: b.Through.Seq, Term: b.Through.Term, Hash: bytes.Clone(b.Through.Hash[:]), State: b.State}
	if err := out.Begin(&begin, b.Manifests, proofs); err != nil {
		return err
	}
	return out.Close()
}

func (h *Handler) createRerun(ctx context.Context, in *bodyIn[operator.NewRerun]) (f operator.Forecast, err error) {
	n := in.Body
	base, err := h.c.Base(ctx)
	if err != nil {
		return f, err
	}
	head := h.c.Head().Seq
	j := &job{Forecast: operator.Forecast{Record: cmp.Or(n.Record, head)}}
	switch {
	case j.Record > head:
		return f, wire.Refuse(wire.ErrNotFound, "the log ends with record %d", head)
	case j.Record > base.Seq+maxRerun:
		return f, wire.Refuse(wire.ErrInvalid, "the log has %d records, and at most %d are played again here; run steady replay", j.Record-base.Seq, maxRerun)
	}
	n.Record, n.Seed = 0, cmp.Or(n.Seed, 1)
	wish := replay.Wish{Delay: n.Delay, Drop: n.Drop, Policy: n.Policy, Budget: n.Budget, From: n.From}
	if _, err := wish.Change(); err != nil {
		return f, wire.Refuse(wire.ErrInvalid, "%v", err)
	}
	todo := replay.Job{Memory: h.workers.memory, Horizon: rerunBeyond, Assumed: forecast.Default(1), Seed: n.Seed, Otherwise: &wish}
	j.prepare = func(ctx context.Context) (func(io.Writer) error, error) {
		return func(w io.Writer) error {
			if err := json.NewEncoder(w).Encode(todo); err != nil {
				return err
			}
			return h.export(ctx, w, j.Record, func() {})
		}, nil
	}
	if err := question(j, n); err != nil {
		return f, err
	}
	return h.workers.ask(j)
}
