package workspace

import (
	"context"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/moby/moby/api/types/container"

	"github.com/steadyfleet/steady/internal/core/diff"
	"github.com/steadyfleet/steady/internal/core/replace"
	"github.com/steadyfleet/steady/internal/core/secret"
	"github.com/steadyfleet/steady/internal/core/spec"
	"github.com/steadyfleet/steady/internal/docker/convert"
	"github.com/steadyfleet/steady/internal/docker/dockerapi"
	"github.com/steadyfleet/steady/internal/docker/storage"
	"github.com/steadyfleet/steady/reconcile"
	"github.com/steadyfleet/steady/reconcile/engine"
)

const labelReplaces = convert.LabelReplaces

// replica reads the number of a container; role has checked it.
func (m *Reconciler) replica(c *current) int {
	n, _ := strconv.Atoi(c.Config.Labels[convert.LabelReplica])
	return n
}

// Create implements replace.Handler.
func (h *handler) Create(a replace.Create) error {
	name := h.title
	var old *current
	if a.Replaces != "" {
		var err error
		if old, err = h.get(a.Replaces); old == nil || err != nil || old.role != replace.Main {
			return err
		}
		name = replace.Name(h.title, a.Replica, replace.New)
	}
	in, missing, err := h.m.inputs(h.ctx, &h.r, "")
	if err != nil {
		return err
	}
	if in == nil || len(missing.make) > 0 {
		return reconcile.Blocked(engine.NewReason(replace.CodeNotThere, missing.String()))
	}
	req, err := h.request(a, name, in, old)
	if err != nil {
		return err
	}
	if err := h.confined(); err != nil {
		return err
	}
	if a.Run {
		leave, err := h.startSlot() // one that is made and waits would only be checked in vain
		if err != nil {
			return err
		}
		defer leave()
	}
	// Once asked for, the answer is waited for: what is no longer wanted is not gone
	// before the engine has made it.
	id, warnings, err := h.m.o.Engine.ContainerCreate(context.WithoutCancel(h.ctx), dockerapi.Creation{
		Name: name, Config: req.Config, Host: req.Host, Network: req.Networking(), Platform: req.Platform, MAC: req.MAC})
	switch {
	case dockerapi.Conflict(err):
		return h.conflict(name, err)
	case err != nil:
		return err
	}
	for _, w := range warnings {
		h.m.o.Log.Warn("the engine warns of a container", "workspace", h.r.Ref.ID, "warning", w)
	}
	for _, e := range req.Rest {
		if err := h.m.o.Engine.NetworkConnect(h.ctx, e.ID, id, e.Settings); err != nil {
			return err
		}
	}
	return h.made(id, in, a.Run)
}

// CodeLinked is the code of a mount that a link leads out of the folder that allows it.
const CodeLinked engine.Code = "workspace-mount-linked"

// confined looks that the mounts of the managed layer stay in their folders, before the
// engine follows them.
func (h *handler) confined() error {
	for _, m := range h.r.Desired.Spec.Workspace.Mounts {
		if m.Beneath == "" {
			continue
		}
		if err := storage.CheckBeneath(path.Clean(m.Beneath), path.Clean(m.Source)); err != nil {
			return reconcile.Terminal(CodeLinked, err)
		}
	}
	return nil
}

// conflict checks who has the name of a container that was to be made. One of
// this workspace was made by somebody else meanwhile: the next check takes it from
// there.
func (h *handler) conflict(name string, refused error) error {
	c, err := h.m.o.Engine.ContainerInspect(h.ctx, name)
	switch {
	case dockerapi.NotFound(err):
		return nil
	case err != nil:
		return err
	}
	if _, ours, err := h.m.role(h.ctx, &c, h.r.Ref.ID, h.title); ours || err != nil {
		return err
	}
	return fmt.Errorf("the name %s belongs to container %.12s of somebody else: rename or remove it: %w", name, c.ID, refused)
}

// request writes the request of a container.
func (h *handler) request(a replace.Create, name string, in *needs, old *current) (*convert.Request, error) {
	d := &h.r.Desired.Spec
	madeFor, err := json.Marshal(slices.Concat([]string{}, a.MadeFor))
	if err != nil {
		return nil, err
	}
	labels := h.m.o.Owner.Labels(spec.KindWorkspace, h.r.Ref.ID, h.title)
	labels[convert.LabelReplica] = strconv.Itoa(a.Replica)
	labels[labelReplaces] = a.Replaces
	labels[labelAsked] = a.Nonce
	labels[labelMadeFor] = string(madeFor)
	if a.Replaces != "" && !a.Live {
		labels[labelIdle] = "true"
	}
	labels[labelRepeats] = strconv.Itoa(a.Repeats)
	ci := convert.CreateInputs{Inputs: in.Inputs, As: name, Labels: labels, Values: map[string]string{}}
	for _, e := range d.Workspace.Env {
		if e.Secret == "" {
			continue
		}
		v, err := h.m.secret(e.Secret)
		if err != nil {
			return nil, err
		}
		ci.Values[e.Secret] = secret.Variable(v)
	}
	if old != nil {
		ci.Anonymous = convert.AnonymousVolumes(old.InspectResponse)
	}
	if ci.Files, err = h.m.files.Files(h.ctx, h.r.Ref.ID, d.Workspace.Contents, in.Secrets); err != nil {
		return nil, err
	}
	ci.Idle = !a.Run
	return convert.Create(d, ci)
}

// made keeps what was asked for and what the engine made of it, and starts the
// container if that is the same.
func (h *handler) made(id string, in *needs, run bool) error {
	c, err := h.m.o.Engine.ContainerInspect(h.ctx, id)
	if err != nil {
		return gone(err)
	}
	if err := h.recordAs(&c, in); err != nil || !run {
		return err
	}
	if ds, err := h.m.differences(h.ctx, &h.r, &c, in); err != nil || len(ds) > 0 {
		return err // the next check decides what becomes of it
	}
	return h.start(&current{InspectResponse: &c})
}

func (h *handler) recordAs(c *container.InspectResponse, in *needs) error {
	rec, err := h.m.loadRecord(h.ctx, c.ID)
	if err != nil {
		return err
	}
	made, err := convert.RecordWorkspace(&h.r.Desired.Spec, in.Inputs, c)
	if err != nil {
		return err
	}
	rec.Form = &made
	return h.m.saveRecord(h.ctx, c.ID, rec)
}

// Adjust implements replace.Handler.
func (h *handler) Adjust(a replace.Adjust) error {
	c, err := h.get(a.ID)
	if c == nil || err != nil {
		return err
	}
	in, missing, err := h.m.inputs(h.ctx, &h.r, c.Image)
	if err != nil {
		return err
	}
	if in == nil {
		return reconcile.Blocked(engine.NewReason(replace.CodeNotThere, missing.String()))
	}
	before, err := h.m.differences(h.ctx, &h.r, c.InspectResponse, in)
	if err != nil {
		return err
	}
	before = slices.DeleteFunc(before, func(d diff.Difference) bool {
		return d.Class != diff.InPlace || !slices.Contains(a.Fields, d.Field)
	})
	if err := h.change(c, before, in); err != nil {
		return err
	}
	return h.verify(c, before, in)
}

// change makes the calls that cure differences in place.
func (h *handler) change(c *current, ds []diff.Difference, in *needs) error {
	d := &h.r.Desired.Spec
	if u := convert.Update(ds, d, in.Inputs); u.Resources != nil || u.Restart != nil {
		warnings, err := h.m.o.Engine.ContainerUpdate(h.ctx, c.ID, u.Resources, u.Restart)
		if err != nil {
			return err
		}
		for _, w := range warnings {
			h.m.o.Log.Warn("the engine warns of an update", "workspace", h.r.Ref.ID, "warning", w)
		}
	}
	if slices.ContainsFunc(ds, func(x diff.Difference) bool { return strings.HasPrefix(x.Field, fieldFile+"/") }) {
		if _, err := h.m.files.Files(h.ctx, h.r.Ref.ID, d.Workspace.Contents, in.Secrets); err != nil {
			return err
		}
	}
	ends, err := convert.Endpoints(d, in.Inputs)
	if err != nil {
		return err
	}
	var titles []string
	for _, x := range ds {
		if rest, ok := strings.CutPrefix(x.Field, "network/"); ok {
			title, _, _ := strings.Cut(rest, "/")
			titles = append(titles, title)
		}
	}
	slices.Sort(titles)
	for _, title := range slices.Compact(titles) {
		if err := h.reconnect(c, title, ends); err != nil {
			return err
		}
	}
	return nil
}

// reconnect joins a container to a network as desired, or takes it off. A
// connection that stays is made again with all of its settings: engines change
// none, and forget aliases.
func (h *handler) reconnect(c *current, title string, ends []convert.Endpoint) error {
	var end *convert.Endpoint
	for i := range ends {
		if ends[i].Network == title {
			end = &ends[i]
		}
	}
	if have := c.NetworkSettings; have != nil && have.Networks[title] != nil {
		// By name, and with force: a stopped container may know a network that is gone
		// by an ID that leads nowhere.
		from := title
		if id := have.Networks[title].NetworkID; end != nil && id == end.ID {
			from = id
		}
		if err := gone(h.m.o.Engine.NetworkDisconnect(h.ctx, from, c.ID, true)); err != nil {
			return err
		}
	}
	if end == nil {
		return nil
	}
	return h.m.o.Engine.NetworkConnect(h.ctx, end.ID, c.ID, end.Settings)
}

// verify looks whether an adjustment took effect. A field that the engine spells
// otherwise now is recorded; one that it left as it was is an error.
func (h *handler) verify(c *current, before []diff.Difference, in *needs) error {
	now, err := h.get(c.ID)
	if now == nil || err != nil {
		return err
	}
	after, err := h.m.differences(h.ctx, &h.r, now.InspectResponse, in)
	if err != nil {
		return err
	}
	same := func(a diff.Difference) bool {
		return slices.ContainsFunc(before, func(b diff.Difference) bool { return a.Field == b.Field && a.Observed == b.Observed })
	}
	changed := func(a diff.Difference) bool {
		return slices.ContainsFunc(before, func(b diff.Difference) bool { return a.Field == b.Field })
	}
	for _, x := range after {
		if same(x) {
			return fmt.Errorf("%s: the engine accepted the change and it has no effect: %s", replace.CodeFutile, x.Show())
		}
	}
	if !slices.ContainsFunc(after, func(x diff.Difference) bool { return !changed(x) }) {
		if err := h.recordAs(now.InspectResponse, in); err != nil {
			return err
		}
	}
	if now.role == replace.Main && now.live() {
		return h.route(now.ID)
	}
	return nil
}
