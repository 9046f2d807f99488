package image

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/imageref"
	"github.com/steadyfleet/steady/internal/core/spec"
	"github.com/steadyfleet/steady/internal/docker/dockerapi"
	"github.com/steadyfleet/steady/reconcile"
	"github.com/steadyfleet/steady/reconcile/engine"
)

// Codes of acts that no retry cures, or that wait for the host.
const (
	CodeCredentials engine.Code = "registry-credentials"
	CodeArchive     engine.Code = "image-archive-wrong"
	CodeDockerfile  engine.Code = "dockerfile-missing"
)

// ErrBuildTimeout is the cause of a build that took longer than it may.
var ErrBuildTimeout = errors.New("the build took longer than its timeout")

// Act fetches the image and writes down its ID.
func (m *Reconciler) Act(ctx context.Context, r engine.Resource[Desired], a engine.Action) error {
	d := &r.Desired
	switch a := a.(type) {
	case Tag:
		return dockerapi.ErrorOf(ctx, m.tag(ctx, d, a))
	case Record:
		return m.record(ctx, d, Image{ID: a.ID, Fetched: d.Spec.Build != nil})
	case Pull:
		return m.logged(ctx, r, m.o.Pulls, m.pull)
	case Build:
		return m.logged(ctx, r, m.o.Builds, m.build)
	case Load:
		return m.logged(ctx, r, m.o.Builds, m.load)
	}
	return reconcile.Terminal(engine.CodeBadIntent, fmt.Errorf("an image has no action %s", a.ActionName()))
}

// logged runs what takes long inside its pool, with a log of its own. A full pool
// holds no worker: the resource waits.
func (m *Reconciler) logged(ctx context.Context, r engine.Resource[Desired], pool Pool, run func(context.Context, *Desired, *lines) error) (err error) {
	d := &r.Desired
	if pool != nil {
		leave, ok := pool.TryEnter(r.Ref.String())
		if !ok {
			return reconcile.Blocked(engine.NewReason(CodePoolFull, "as many run at once as may: it waits for its turn"))
		}
		defer leave()
	}
	out := &lines{w: io.Discard}
	if m.o.Output != nil {
		w, err := m.o.Output.OpenLog(d.Spec.Name)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, w.Close()) }()
		out.w = w
	}
	err = dockerapi.ErrorOf(ctx, run(ctx, d, out))
	switch {
	case err == nil:
		out.writeLine("finished")
	case ctx.Err() != nil:
		out.writeLine("stopped: " + context.Cause(ctx).Error())
		err = errors.Join(context.Cause(ctx), err)
	default:
		out.writeLine("failed: " + err.Error())
	}
	if out.err != nil { // the log is for people: what it lacks fails nothing
		m.o.Log.Warn("an image's log is incomplete", "image", d.Spec.Name, "error", out.err)
	}
	return err
}

// record writes down an image that is what the resource stands for.
func (m *Reconciler) record(ctx context.Context, d *Desired, i Image) error {
	i.Kind, i.Name, i.Ref = spec.KindImage, d.Spec.Name, d.Spec.EngineRef(m.o.Owner.Title)
	i.Identity, i.Tags, i.Run, i.At = Identity(&d.Spec), d.Spec.Names(), d.Run, clock.Instant(m.o.Now().UnixMilli())
	if d.Verb == VerbRebuild {
		i.Nonce = d.Nonce
	}
	return m.o.Ledger.Add(context.WithoutCancel(ctx), i)
}

// tag gives names to an image that is there.
func (m *Reconciler) tag(ctx context.Context, d *Desired, a Tag) error {
	for _, name := range a.Names {
		if err := m.o.Engine.ImageTag(ctx, a.ID, name); err != nil {
			return err
		}
	}
	return nil
}

func (m *Reconciler) pull(ctx context.Context, d *Desired, out *lines) error {
	ref := d.Spec.EngineRef(m.o.Owner.Title)
	if err := m.fetch(ctx, ref, d.Spec.Pull.Platform, out); err != nil {
		return err
	}
	return m.recordNamed(ctx, d, ref)
}

// recordNamed writes down what the engine names now.
func (m *Reconciler) recordNamed(ctx context.Context, d *Desired, ref string) error {
	i, err := m.o.Engine.ImageInspect(ctx, ref)
	if err != nil {
		return err
	}
	return m.record(ctx, d, Image{ID: i.ID, Fetched: true})
}

// fetch pulls a reference with the host's credentials. Those who want the same at
// the same time share one pull.
func (m *Reconciler) fetch(ctx context.Context, ref, platform string, out *lines) error {
	p := dockerapi.Pull{Ref: ref, Platform: platform}
	if m.o.Credentials != nil {
		auth, ok, err := m.o.Credentials.For(dockerapi.Host(ref))
		if err != nil {
			return reconcile.Blocked(engine.NewReason(CodeCredentials, err.Error()))
		}
		if ok {
			p.Auth = &auth
		}
	}
	out.writeLine("pull " + ref)
	err := m.pulls.do(ctx, ref+" "+platform, out.writeLine, func(ctx context.Context, emit func(string)) error {
		meter := meters{}
		return m.o.Engine.ImagePull(ctx, p, func(l dockerapi.Line) {
			if line := meter.show(l); line != "" {
				emit(line)
			}
		})
	})
	if dockerapi.NotFound(err) && imageref.Pinned(ref) {
		err = fmt.Errorf("%w: its registry has no image with this digest, or no longer: push it there again, or lock another (steady image lock --update) and release it", err)
	}
	return err
}

// load reads an archive that was checked before: it has to hold the reference and
// no other, since an engine moves every name that is in one.
func (m *Reconciler) load(ctx context.Context, d *Desired, out *lines) error {
	n := &d.Spec
	out.writeLine("load " + n.Load.Archive.Digest.Short())
	f, err := m.spool(ctx, n.Load.Archive)
	if err != nil {
		return err
	}
	defer f.Close()
	names, err := archiveNames(f)
	if err != nil {
		return reconcile.Terminal(CodeArchive, err)
	}
	if !slices.Equal(names, []string{familiar(n.Ref)}) {
		return reconcile.Terminal(CodeArchive, fmt.Errorf("the archive contains %v and not %s alone: write it with docker save %s", names, n.Ref, n.Ref))
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return err
	}
	if err := m.o.Engine.ImageLoad(ctx, f, out.engine); err != nil {
		return err
	}
	return m.recordNamed(ctx, d, n.Ref)
}
