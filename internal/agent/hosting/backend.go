package hosting

import (
	"context"
	"encoding/json"
	"errors"
	"io"

	"github.com/steadyfleet/steady/internal/agent/stream"
	"github.com/steadyfleet/steady/internal/docker/image"
	"github.com/steadyfleet/steady/internal/wire"
)

var _ stream.Backend = (*Hosting)(nil)

// errNoEngine is told to operators.
var errNoEngine = errors.New("this host has no container engine; its agent was started without --engine")

// ready refuses what a person asks for when there is no engine, or none that
// answers.
func (h *Hosting) ready(ctx context.Context) error {
	if h.docker == nil {
		return errNoEngine
	}
	return h.docker.Engine().Alive(ctx)
}

// Exec runs a command in a workspace.
func (h *Hosting) Exec(ctx context.Context, name string, o stream.ExecOptions, s stream.ExecStreams) (int, error) {
	if err := h.ready(ctx); err != nil {
		return 0, err
	}
	id, err := h.docker.FindRunning(ctx, name)
	if err != nil {
		return 0, err
	}
	running, err := h.docker.Engine().Exec(ctx, id, stream.Command(o, s))
	if err != nil {
		return 0, err
	}
	return stream.Attend(ctx, running, o, s)
}

// Output writes the output of an image's pulls and builds.
func (h *Hosting) Output(ctx context.Context, name string, o stream.OutputOptions, stdout, stderr io.Writer) (last int64, err error) {
	if h.docker == nil {
		return 0, errNoEngine
	}
	return h.docker.Output(ctx, name, image.Query{Follow: o.Follow, Tail: o.Tail, After: o.After}, stdout, stderr)
}

// Prune removes what nobody declares.
func (h *Hosting) Prune(ctx context.Context, dry bool, w io.Writer) error {
	if err := h.ready(ctx); err != nil {
		return err
	}
	return h.docker.Prune(ctx, dry, w)
}

// Plan says what setting a resource would do.
func (h *Hosting) Plan(ctx context.Context, kind, name string, spec json.RawMessage) (wire.PlanAnswer, error) {
	if err := h.ready(ctx); err != nil {
		return wire.PlanAnswer{}, err
	}
	p, err := h.docker.Preview(ctx, kind, name, spec)
	a := wire.PlanAnswer{Resource: kind + "/" + name, Does: p.Does, Why: p.Why, Fields: []wire.PlanField{}}
	for _, d := range p.Fields {
		a.Fields = append(a.Fields, wire.PlanField{Field: d.Field, Class: string(d.Class), Cause: string(d.Cause),
			Desired: d.Desired, Observed: d.Observed, Why: d.Why})
	}
	return a, err
}
