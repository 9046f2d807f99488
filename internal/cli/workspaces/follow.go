package workspaces

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/steadyfleet/steady/internal/api/operator"
	"github.com/steadyfleet/steady/internal/cli/command"
	"github.com/steadyfleet/steady/internal/cli/watch"
)

// source gives an image's output; *operator.Client is one.
type source interface {
	Output(ctx context.Context, host, image string, q operator.OutputQuery) (*operator.Stream, error)
}

// follower shows what an image's builds and pulls write after a point in its
// output, each line once: it goes on where it was whenever the host says
// something of the image, so that it loses nothing of what began and ended
// between two looks.
type follower struct {
	*command.Env
	source     source
	host, name string
	out        io.Writer
	otherwise  watch.OutcomeView // when the host shows no output

	after   int64
	refused bool
	missed  error // why the last look saw less than all
}

// Looks at an output whose stream broke off: the agent may be starting again.
const (
	maxPolls  = 5
	pollEvery = time.Second
)

// follow notes where the output stands before something is asked. On a terminal
// and in a pipe its lines are the progress; beside data they go to stderr.
func (a verbs) follow(ctx context.Context, c source, host, name string) (*follower, error) {
	table := a.TableOutput()
	f := &follower{Env: a.Env, source: c, host: host, name: name, out: a.Out, otherwise: watch.OutcomesFor(a.Env, table)}
	if !table {
		f.out = a.Err
	}
	err := f.poll(ctx, operator.OutputQuery{After: operator.OutputEnd})
	if err != nil || f.refused || f.missed == nil {
		return f, err
	}
	a.Warn("host %s did not report where its output is (%v): all that it keeps is shown, also of earlier builds", host, f.missed)
	f.after = 0
	return f, nil
}

// show is the view of a wait.
func (f *follower) show(ctx context.Context, all []watch.Outcome, changed *watch.Outcome) error {
	for n := 1; !f.refused; n++ {
		err := f.poll(ctx, operator.OutputQuery{Follow: true, After: f.after})
		if err != nil {
			return err
		}
		if f.missed == nil || n == maxPolls {
			return nil
		}
		if err := watch.Pause(ctx, pollEvery); err != nil {
			return err
		}
	}
	return f.otherwise(ctx, all, changed)
}

// end shows what is left, or says that it is not shown.
func (f *follower) end(ctx context.Context) error {
	if f.refused || f.missed == nil {
		return nil
	}
	if err := f.poll(ctx, operator.OutputQuery{After: f.after}); err != nil || f.missed == nil {
		return err
	}
	f.Warn("the output is not shown to its end: %v; what the host keeps of it: steady image output %s/%s", f.missed, f.host, f.name)
	return nil
}

// poll reads once. Only the end of ctx and of what it writes to are errors.
func (f *follower) poll(ctx context.Context, q operator.OutputQuery) error {
	s, err := f.source.Output(ctx, f.host, f.name, q)
	if err != nil {
		return f.failed(ctx, err)
	}
	defer s.Close()
	w := &counting{w: f.out}
	exit, err := s.Copy(w, f.Err)
	switch {
	case w.err != nil:
		return w.err
	case err != nil:
		f.after += w.lines
		return f.failed(ctx, err)
	}
	f.missed = nil
	f.after = max(exit.Last, f.after+w.lines) // an agent that is older does not say the last
	return nil
}

func (f *follower) failed(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if refusal, ok := errors.AsType[*operator.Error](err); ok && refusal.Status == http.StatusForbidden {
		f.refused = true
		f.Warn("its output is not shown: %v", refusal)
		return nil
	}
	f.missed = err
	return nil
}

type counting struct {
	w     io.Writer
	lines int64
	err   error
}

func (c *counting) Write(b []byte) (n int, err error) {
	n, c.err = c.w.Write(b)
	c.lines += int64(bytes.Count(b[:n], []byte("\n")))
	return n, c.err
}
