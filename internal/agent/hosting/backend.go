package hosting

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"time"

	"github.com/steadyfleet/steady/internal/agent/client"
	"github.com/steadyfleet/steady/internal/agent/stream"
	"github.com/steadyfleet/steady/internal/docker"
	"github.com/steadyfleet/steady/internal/docker/daemon"
	"github.com/steadyfleet/steady/internal/docker/output"
	"github.com/steadyfleet/steady/internal/wire"
)

var _ stream.Backend = (*Hosting)(nil)

// errNoEngine is told to operators.
var errNoEngine = errors.New("this host has no container engine; its agent was started without --engine")

// Logs writes the lines of a workspace. When it is replaced while they are
// followed, those of the new container go on after those of the old.
func (h *Hosting) Logs(ctx context.Context, name string, o stream.LogsOptions, stdout, stderr io.Writer) error {
	if h.docker == nil {
		return errNoEngine
	}
	last := ""
	for {
		id, _, err := h.docker.Find(ctx, name)
		if err != nil && !(o.Follow && last != "" && errors.Is(err, docker.ErrNoWorkspace)) {
			return err
		}
		if id != "" && id != last {
			if err := h.copyLogs(ctx, id, o, stdout, stderr); err != nil {
				return err
			}
			last, o.Tail, o.Since = id, 0, 0
		}
		if !o.Follow || ctx.Err() != nil {
			return ctx.Err()
		}
		if err := client.Pause(ctx, time.Second); err != nil {
			return err
		}
	}
}

func (h *Hosting) copyLogs(ctx context.Context, id string, o stream.LogsOptions, stdout, stderr io.Writer) error {
	l := daemon.Logs{Follow: o.Follow, Tail: -1}
	if o.Tail > 0 {
		l.Tail = o.Tail
	}
	if o.Since != 0 {
		l.Since = time.UnixMilli(int64(o.Since))
	}
	return h.docker.Engine().ContainerLogs(ctx, id, l, func(line daemon.LogLine) error {
		w, text := stdout, line.Text
		if line.Stderr {
			w = stderr
		}
		if !line.Partly {
			text += "\n"
		}
		_, err := io.WriteString(w, text)
		return err
	})
}

// Exec runs a command in a workspace.
func (h *Hosting) Exec(ctx context.Context, name string, o stream.ExecOptions, s stream.ExecStreams) (int, error) {
	if h.docker == nil {
		return 0, errNoEngine
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
	return h.docker.Output(ctx, name, output.Query{Follow: o.Follow, Tail: o.Tail, After: o.After}, stdout, stderr)
}

// Prune removes what nobody declares.
func (h *Hosting) Prune(ctx context.Context, dry bool, w io.Writer) error {
	if h.docker == nil {
		return errNoEngine
	}
	return h.docker.Prune(ctx, dry, w)
}

// Plan says what setting a resource would do.
func (h *Hosting) Plan(ctx context.Context, kind, name string, spec json.RawMessage) (wire.PlanAnswer, error) {
	if h.docker == nil {
		return wire.PlanAnswer{}, errNoEngine
	}
	p, err := h.docker.Preview(ctx, kind, name, spec)
	a := wire.PlanAnswer{Resource: kind + "/" + name, Does: p.Does, Why: p.Why, Fields: []wire.PlanField{}}
	for _, d := range p.Fields {
		a.Fields = append(a.Fields, wire.PlanField{Field: d.Field, Class: string(d.Class), Cause: string(d.Cause),
			Desired: d.Desired, Observed: d.Observed, Why: d.Why})
	}
	return a, err
}
