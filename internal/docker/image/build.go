package image

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"

	"github.com/moby/moby/api/types/registry"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/imageref"
	"github.com/steadyfleet/steady/internal/core/spec"
	"github.com/steadyfleet/steady/internal/docker/dockerapi"
	"github.com/steadyfleet/steady/reconcile"
	"github.com/steadyfleet/steady/reconcile/engine"
)

// build makes the image with the engine's own builder: its base images are
// fetched first, since the builder has no credentials of this host.
func (m *Reconciler) build(ctx context.Context, d *Desired, out *lines) error {
	b := d.Spec.Build
	limit := b.Timeout
	if limit <= 0 {
		limit = DefaultTimeout
	}
	ctx, cancel := context.WithTimeoutCause(ctx, limit.Std(), ErrBuildTimeout)
	defer cancel()
	files, text, err := m.context(ctx, b)
	if err != nil {
		return timedOut(ctx, limit, err)
	}
	if files != nil {
		defer files.Close()
	}
	pinned := imageref.PinBases(text, b.Args, b.Bases)
	on := imageref.Bases(pinned, b.Args)
	if i := slices.IndexFunc(on, func(ref string) bool { return b.Bases[ref] != "" }); i >= 0 {
		return reconcile.Terminal(CodeDockerfile, fmt.Errorf("base image %s is to be %s, which cannot be written into the Dockerfile: write it there", on[i], b.Bases[on[i]]))
	}
	defer m.pin(on)()
	if err := m.bases(ctx, d, on, out); err != nil {
		return timedOut(ctx, limit, err)
	}
	id, err := m.run(ctx, d, on, pinned, pinned != text, files, out)
	if err != nil {
		return timedOut(ctx, limit, err)
	}
	return m.record(ctx, d, Image{ID: id, Fetched: true, Bases: on})
}

func timedOut(ctx context.Context, limit clock.Duration, err error) error {
	if errors.Is(context.Cause(ctx), ErrBuildTimeout) {
		return fmt.Errorf("%w of %s: raise it, or see in the log what takes long", ErrBuildTimeout, limit.Std())
	}
	return err
}

// context gives the checked files of a build and the text of its Dockerfile.
func (m *Reconciler) context(ctx context.Context, b *spec.Build) (files *os.File, text string, err error) {
	if b.Context == nil {
		if b.Inline == "" {
			return nil, "", reconcile.Terminal(CodeDockerfile, errors.New("a build has neither context nor Dockerfile: correct the declaration"))
		}
		return nil, b.Inline, nil
	}
	if files, err = m.spool(ctx, *b.Context); err != nil {
		return nil, "", err
	}
	if b.Inline != "" {
		return files, b.Inline, nil
	}
	name := b.Dockerfile
	if name == "" {
		name = "Dockerfile"
	}
	raw, err := fromTar(files, name)
	if err != nil {
		err = fmt.Errorf("the context of the build is not usable: %w", err)
		return nil, "", errors.Join(reconcile.Terminal(CodeDockerfile, err), files.Close())
	}
	return files, string(raw), nil
}

// bases fetches base images that are not there, or all if newer ones are wanted.
func (m *Reconciler) bases(ctx context.Context, d *Desired, on []string, out *lines) error {
	for _, ref := range on {
		_, err := m.o.Engine.ImageInspect(ctx, ref)
		if err != nil && !dockerapi.NotFound(err) {
			return err
		}
		if err == nil && !d.Spec.Build.Pull {
			continue
		}
		if err := m.fetch(ctx, ref, d.Spec.Build.Platform, out); err != nil {
			return fmt.Errorf("base image: %w", err)
		}
		i, err := m.o.Engine.ImageInspect(ctx, ref)
		if err != nil {
			return err
		}
		// Known by no resource's reference, so that it is collected by itself.
		if err := m.o.Ledger.Add(ctx, Image{Kind: kindBase, Name: d.Spec.Name, Ref: ref, ID: i.ID, Fetched: true, At: clock.Instant(m.o.Now().UnixMilli())}); err != nil {
			return err
		}
	}
	return nil
}

// pin keeps images from being collected until the result is called.
func (m *Reconciler) pin(refs []string) (done func()) {
	add := func(n int) {
		m.mu.Lock()
		defer m.mu.Unlock()
		for _, ref := range refs {
			if m.pinned[ref] += n; m.pinned[ref] == 0 {
				delete(m.pinned, ref)
			}
		}
	}
	add(1)
	return func() { add(-1) }
}

// kindBase marks images in the ledger that others were built on.
const kindBase = "base"

func (m *Reconciler) run(ctx context.Context, d *Desired, on []string, text string, changed bool, files *os.File, out *lines) (string, error) {
	b := d.Spec.Build
	ref := d.Spec.EngineRef(m.o.Owner.Title)
	labels := maps.Clone(b.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	maps.Copy(labels, m.o.Owner.Labels(spec.KindImage, d.Spec.Name, ref))
	labels[labelBuild] = string(Identity(&d.Spec))
	req := dockerapi.Build{
		Tags: append([]string{ref}, d.Spec.Names()...), Dockerfile: b.Dockerfile, Target: b.Target,
		Labels: labels, NoCache: b.NoCache, Network: b.Network, Platform: b.Platform,
		ExtraHosts: b.ExtraHosts, ShmSize: b.ShmSize, Memory: b.Memory, NanoCPUs: b.NanoCPUs,
	}
	var err error
	if req.Auth, err = m.auths(on); err != nil {
		return "", err
	}
	for k, v := range b.Args {
		if req.Args == nil {
			req.Args = map[string]*string{}
		}
		req.Args[k] = &v
	}
	// Each label of the request is a step of its own, with a container and a
	// layer; in the Dockerfile all of them are one.
	labelled, ok := withLabels(text, labels)
	if ok = ok && b.Target == ""; ok {
		text, req.Labels = labelled, nil
	}
	var tar io.Reader = files
	if ok || changed || b.Inline != "" {
		req.Dockerfile = inlineName
		var context io.Reader
		if files != nil {
			context = files
		}
		if tar, err = withInline(text, context); err != nil {
			return "", err
		}
	}
	return m.o.Engine.ImageBuild(ctx, tar, req, out.engine)
}

// auths are the credentials for the registries of references.
func (m *Reconciler) auths(refs []string) (map[string]registry.AuthConfig, error) {
	out := map[string]registry.AuthConfig{}
	if m.o.Credentials == nil {
		return out, nil
	}
	for _, ref := range refs {
		auth, ok, err := m.o.Credentials.For(dockerapi.Host(ref))
		if err != nil {
			return nil, reconcile.Blocked(engine.NewReason(CodeCredentials, err.Error()))
		}
		if ok {
			out[auth.ServerAddress] = auth
		}
	}
	return out, nil
}
