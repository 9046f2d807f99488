package workspace

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/moby/moby/api/types/container"

	"github.com/steadyfleet/steady/internal/core/replace"
	"github.com/steadyfleet/steady/internal/core/secret"
	"github.com/steadyfleet/steady/internal/core/spec"
	"github.com/steadyfleet/steady/internal/docker/convert"
	"github.com/steadyfleet/steady/internal/docker/dockerapi"
	"github.com/steadyfleet/steady/reconcile"
	"github.com/steadyfleet/steady/reconcile/engine"
)

// HookTimeout bounds one command around a start or a stop. Engines end no command:
// one that takes longer goes on.
const HookTimeout = time.Duration(spec.HookTime) * time.Millisecond

// hookOutput bounds what is reported of the output of one that failed.
const hookOutput = 400

// hooks is how the commands after a start ended.
type hooks struct {
	Start string    `json:"start"` // when the container was started
	Error string    `json:"error,omitempty"`
	At    time.Time `json:"at"`
}

func startOf(run convert.RunInfo) string { return run.StartedAt.UTC().Format(time.RFC3339Nano) }

// hookStatus reports whether the commands after the start of a container have ended.
func (m *Reconciler) hookStatus(out *replace.Container, c *container.InspectResponse, run convert.RunInfo, last *hooks) {
	if !run.Up() || len(convert.HooksOf(c).PostStart) == 0 {
		return
	}
	if last == nil || last.Start != startOf(run) {
		out.HookPending = true
		return
	}
	out.HookPending, out.HookError, out.HookRested = last.Error != "", last.Error, since(m.o.Now(), last.At)
}

// RunHooks implements replace.Handler. A command that fails is no error of the step:
// the next check judges the container by it.
func (h *handler) RunHooks(a replace.RunHooks) error {
	c, err := h.get(a.ID)
	if c == nil || err != nil || c.run.State != convert.Running {
		return err
	}
	if h.m.o.Hooks != nil {
		leave, ok := h.m.o.Hooks.TryEnter(h.r.Ref.String())
		if !ok {
			return reconcile.Blocked(engine.NewReason(CodeNoSlot, noHookSlot))
		}
		defer leave()
	}
	failed := h.hooks(c, "post_start", convert.HooksOf(c.InspectResponse).PostStart)
	now, err := h.get(c.ID)
	if err != nil {
		return err
	}
	if now == nil || now.run.StartedAt != c.run.StartedAt || now.run.State != convert.Running {
		return nil // it ended meanwhile, which is reported as that
	}
	if h.ctx.Err() != nil {
		return h.ctx.Err()
	}
	rec, err := h.m.loadRecord(h.ctx, c.ID)
	if err != nil {
		return err
	}
	rec.Hooks = &hooks{Start: startOf(c.run), At: h.m.o.Now()}
	if failed != nil {
		rec.Hooks.Error = failed.Error()
	}
	return h.m.saveRecord(h.ctx, c.ID, rec)
}

// preStop runs the commands before a stop, in that time. A stop that was decided is carried out whatever comes of
// them: how they failed is reported with the workspace.
func (h *handler) preStop(c *current, within time.Duration) {
	list := convert.HooksOf(c.InspectResponse).PreStop
	if len(list) == 0 || !c.run.Up() {
		return
	}
	x, cancel := *h, context.CancelFunc(nil)
	x.ctx, cancel = context.WithTimeout(h.ctx, within)
	defer cancel()
	message := ""
	if err := x.hooks(c, "pre_stop", list); err != nil {
		message = "the container was stopped all the same: " + err.Error()
		h.m.o.Log.Warn("a command before a stop failed", "workspace", h.r.Ref.ID, "container", c.ID, "error", err)
	}
	h.m.mu.Lock()
	defer h.m.mu.Unlock()
	if h.m.stops[h.r.Ref] = message; message == "" {
		delete(h.m.stops, h.r.Ref)
	}
}

// hooks runs commands in order, up to the first that fails.
func (h *handler) hooks(c *current, key string, list []spec.Hook) error {
	for i, x := range list {
		if err := h.hook(c, x); err != nil {
			return fmt.Errorf("%s command %d (%s) %w", key, i+1, clipped(strings.Join(x.Command, " "), 80), err)
		}
	}
	return nil
}

func (h *handler) hook(c *current, x spec.Hook) error {
	began := h.m.o.Now()
	ctx, cancel := context.WithTimeout(h.ctx, HookTimeout)
	defer cancel()
	code, out, err := h.m.o.Engine.Run(ctx, c.ID, dockerapi.Exec{
		Cmd: x.Command, Env: x.Env, User: x.User, WorkingDir: x.WorkingDir, Privileged: x.Privileged}, hookOutput)
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return fmt.Errorf("did not end within %s", h.m.o.Now().Sub(began).Round(time.Second))
	case err != nil:
		return fmt.Errorf("could not be run: %w", err)
	case code == 0:
		return nil
	}
	text := strings.TrimSpace(strings.ToValidUTF8(string(out), ""))
	for _, name := range h.r.Desired.Spec.Workspace.Secrets() {
		v, err := h.m.secret(name)
		if err != nil {
			text = "" // nobody knows what would have to be taken out
			break
		}
		text = secret.Clean(text, name, v)
	}
	if text == "" {
		return fmt.Errorf("ended with exit code %d", code)
	}
	return fmt.Errorf("ended with exit code %d; output: %s", code, strings.Join(strings.Fields(text), " "))
}

func clipped(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}
