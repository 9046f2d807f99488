package snapshot

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/image"

	"github.com/steadyfleet/steady/internal/core/clock"
	spec "github.com/steadyfleet/steady/internal/core/container"
	"github.com/steadyfleet/steady/internal/core/diff"
	"github.com/steadyfleet/steady/internal/docker/daemon"
	"github.com/steadyfleet/steady/internal/docker/fault"
	"github.com/steadyfleet/steady/internal/docker/ledger"
	"github.com/steadyfleet/steady/reconcile"
	"github.com/steadyfleet/steady/reconcile/engine"
)

// Act takes the snapshot, or gives one that is there its name.
func (m *Manager) Act(ctx context.Context, r engine.Resource[Desired], a engine.Action) error {
	n := &r.Desired.Spec
	ref := n.EngineRef(m.o.Owner.Title)
	switch a := a.(type) {
	case Take:
		m.o.Snapshotting(n.Workspace, true)
		defer m.o.Snapshotting(n.Workspace, false)
		return fault.Of(ctx, m.take(ctx, n, ref, a))
	case Tag:
		return fault.Of(ctx, m.o.Engine.ImageTag(ctx, a.ID, ref))
	case Record:
		return m.record(ctx, n, ref, a.ID)
	}
	return reconcile.Terminal(engine.CodeBadIntent, fmt.Errorf("a snapshot has no action %s", a.ActionName()))
}

// take commits the container to an image without a name, looks for what must not
// be in it, and only then names it. What was found wanting is removed.
func (m *Manager) take(ctx context.Context, n *spec.Snapshot, ref string, a Take) error {
	secrets, known := Secrets{}, m.o.Secrets == nil
	if !known {
		secrets, known = m.o.Secrets(n.Workspace)
	}
	if !known {
		return reconcile.Blocked(0, engine.Because(CodeSecrets, "the secrets of workspace "+n.Workspace+" are not known yet"))
	}
	c, err := m.o.Engine.ContainerInspect(ctx, a.Container)
	if err != nil {
		return err
	}
	if file := exposed(&c, secrets.Files); file != "" {
		return reconcile.Terminal(CodeSecretFile, fmt.Errorf("the secret at %s lies in the container's own files and would be in the snapshot: mount it, or take no snapshot of %s", file, n.Workspace))
	}
	if err := m.sweep(ctx, n); err != nil {
		return err
	}
	plan := Scrub(c.Config.Env, c.Config.Labels, secrets.Env, n.Keep)
	own := map[string]string{labelOwner: m.o.Owner.ID(), labelName: n.Name, labelWorkspace: n.Workspace, labelTake: strconv.FormatInt(n.Take, 10)}
	id, err := m.o.Engine.ContainerCommit(ctx, c.ID, daemon.Commit{Changes: plan.Changes(own), Comment: comment(n), NoPause: n.Live})
	if err != nil {
		return err
	}
	clean, err := m.cleaned(ctx, id, plan)
	if err == nil {
		err = m.verify(ctx, clean, plan)
	}
	if err != nil {
		// Whatever happened, what may hold secrets goes.
		return errors.Join(err, m.discard(context.WithoutCancel(ctx), id), m.discard(context.WithoutCancel(ctx), clean))
	}
	if err := m.o.Engine.ImageTag(ctx, clean, ref); err != nil {
		return err
	}
	return m.record(ctx, n, ref, clean)
}

func (m *Manager) record(ctx context.Context, n *spec.Snapshot, ref, id string) error {
	return m.o.Ledger.Add(context.WithoutCancel(ctx), ledger.Image{Kind: spec.KindSnapshot, Name: n.Name, Ref: ref, ID: id,
		Fetched: true, Take: n.Take, At: clock.Instant(m.o.Now().UnixMilli())})
}

// exposed finds a secret file that is not on a mount.
func exposed(c *container.InspectResponse, files []string) string {
	for _, f := range files {
		mounted := slices.ContainsFunc(c.Mounts, func(x container.MountPoint) bool {
			return f == x.Destination || strings.HasPrefix(f, strings.TrimSuffix(x.Destination, "/")+"/")
		})
		if c.HostConfig != nil && !mounted {
			for path := range c.HostConfig.Tmpfs {
				mounted = mounted || f == path || strings.HasPrefix(f, strings.TrimSuffix(path, "/")+"/")
			}
		}
		if !mounted {
			return f
		}
	}
	return ""
}

func comment(n *spec.Snapshot) string { return "snapshot " + n.Name + " of " + n.Workspace }

// cleaned gives an image without what the engine noted of the container beside
// its settings. Engines before API 1.45 put the container's whole settings, with
// every secret, into the image of a commit; there the image is made again from
// the same layers with the settings that stay.
func (m *Manager) cleaned(ctx context.Context, id string, p Plan) (string, error) {
	v, err := m.o.Engine.Version(ctx)
	if err != nil {
		return "", err
	}
	if diff.AtLeast(v.API, 45) {
		return id, nil
	}
	seen, err := m.o.Engine.ImageInspect(ctx, id)
	if err != nil {
		return "", err
	}
	archive, made, err := rewrite(&seen, p)
	if err != nil {
		return "", err
	}
	if err := m.o.Engine.ImageLoad(ctx, archive, nil); err != nil {
		return "", fmt.Errorf("make the snapshot without the container's settings: %w", err)
	}
	return made, m.discard(ctx, id)
}

// verify looks at the result as the engine shows it.
func (m *Manager) verify(ctx context.Context, id string, p Plan) error {
	seen, err := m.o.Engine.ImageInspect(ctx, id)
	if err != nil {
		return err
	}
	c := seen.Config
	if c == nil {
		return fmt.Errorf("the engine shows no settings of the snapshot")
	}
	text := slices.Concat(c.Cmd, c.Entrypoint, c.Env, c.Shell, c.OnBuild, []string{seen.Comment, seen.Author, c.WorkingDir, c.User})
	for k, v := range c.Labels {
		text = append(text, k, v)
	}
	if c.Healthcheck != nil {
		text = append(text, c.Healthcheck.Test...)
	}
	if left := p.Left(c.Env, c.Labels, text); len(left) > 0 {
		return reconcile.Terminal(CodeLeftovers, fmt.Errorf("the snapshot still holds %s, so it was removed: take it out of the workspace's settings", strings.Join(left, ", ")))
	}
	return nil
}

// discard removes an image without a name; one that is gone is fine.
func (m *Manager) discard(ctx context.Context, id string) error {
	if id == "" {
		return nil
	}
	if _, err := m.o.Engine.ImageRemove(ctx, id); err != nil && !daemon.NotFound(err) {
		return fmt.Errorf("remove the unfinished snapshot %s, which may hold secrets: %w", id, err)
	}
	return nil
}

// sweep removes what an earlier take left without a name when it was cut off.
// Images that others made from a snapshot have its labels, but not its comment.
func (m *Manager) sweep(ctx context.Context, n *spec.Snapshot) error {
	list, err := m.o.Engine.ImageList(ctx, labelOwner+"="+m.o.Owner.ID(), labelName+"="+n.Name)
	if err != nil {
		return err
	}
	newest, _, err := m.o.Ledger.Newest(ctx, spec.KindSnapshot, n.Name, n.EngineRef(m.o.Owner.Title))
	if err != nil {
		return err
	}
	slices.SortFunc(list, func(a, b image.Summary) int { return cmp.Compare(a.ID, b.ID) })
	for _, i := range list {
		if i.ID == newest.ID || slices.ContainsFunc(i.RepoTags, func(t string) bool { return t != "<none>:<none>" }) {
			continue
		}
		seen, err := m.o.Engine.ImageInspect(ctx, i.ID)
		if daemon.NotFound(err) || err == nil && seen.Comment != comment(n) {
			continue
		}
		if err == nil {
			err = m.discard(ctx, i.ID)
		}
		if err != nil && !daemon.Conflict(err) { // in use: it was named once
			return err
		}
	}
	return nil
}
