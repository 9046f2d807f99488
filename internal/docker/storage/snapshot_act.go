package storage

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/moby/moby/api/types/container"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/diff"
	"github.com/steadyfleet/steady/internal/core/spec"
	"github.com/steadyfleet/steady/internal/docker/dockerapi"
	"github.com/steadyfleet/steady/internal/docker/image"
	"github.com/steadyfleet/steady/reconcile"
	"github.com/steadyfleet/steady/reconcile/engine"
)

// Act takes the snapshot, or gives one that is there its name.
func (m *Snapshots) Act(ctx context.Context, r engine.Resource[DesiredSnapshot], a engine.Action) error {
	n := &r.Desired.Spec
	ref := n.EngineRef(m.o.Owner.Title)
	switch a := a.(type) {
	case Capture:
		m.o.Snapshotting(n.Workspace, true)
		defer m.o.Snapshotting(n.Workspace, false)
		return dockerapi.ErrorOf(ctx, m.capture(ctx, n, ref, a))
	case Tag:
		return dockerapi.ErrorOf(ctx, m.o.Engine.ImageTag(ctx, a.ID, ref))
	case Sweep:
		return dockerapi.ErrorOf(ctx, m.sweep(ctx, n))
	case Record:
		return m.record(ctx, n, ref, a.ID)
	}
	return reconcile.Terminal(engine.CodeBadIntent, fmt.Errorf("a snapshot has no action %s", a.ActionName()))
}

// capture commits the container to an image without a name, searches for what must not
// be in it, and only then names it. What was found wanting is removed.
func (m *Snapshots) capture(ctx context.Context, n *spec.Snapshot, ref string, a Capture) error {
	secrets, known := Secrets{}, m.o.Secrets == nil
	if !known {
		secrets, known = m.o.Secrets(n.Workspace)
	}
	if !known {
		return reconcile.Blocked(engine.NewReason(CodeSecrets, "the secrets of workspace "+n.Workspace+" are not known yet"))
	}
	c, err := m.o.Engine.ContainerInspect(ctx, a.Container)
	if err != nil {
		return err
	}
	if file := exposed(&c, secrets.Files); file != "" {
		return reconcile.Terminal(CodeSecretFile, fmt.Errorf("the secret at %s lies in the container's own files and would be in the snapshot: mount it, or take no snapshot of %s", file, n.Workspace))
	}
	plan := Scrub(c.Config.Env, c.Config.Labels, secrets.Env, n.Keep)
	own := map[string]string{labelOwner: m.o.Owner.ID(), labelName: n.Name, labelWorkspace: n.Workspace, labelTake: strconv.FormatInt(n.Take, 10)}
	id, err := m.o.Engine.ContainerCommit(ctx, c.ID, dockerapi.Commit{Changes: plan.Changes(own), Comment: comment(n), NoPause: n.Live})
	if err != nil {
		return err
	}
	clean, err := m.rebuilt(ctx, id, plan)
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

func (m *Snapshots) record(ctx context.Context, n *spec.Snapshot, ref, id string) error {
	return m.o.Ledger.Add(context.WithoutCancel(ctx), image.Image{Kind: spec.KindSnapshot, Name: n.Name, Ref: ref, ID: id,
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

// rebuilt gives an image without what the engine noted of the container beside
// its settings. Engines before API 1.45 put the container's whole settings, with
// every secret, into the image of a commit; there the image is made again from
// the same layers with the settings that stay.
func (m *Snapshots) rebuilt(ctx context.Context, id string, p Plan) (string, error) {
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

// verify checks the result as the engine shows it.
func (m *Snapshots) verify(ctx context.Context, id string, p Plan) error {
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
func (m *Snapshots) discard(ctx context.Context, id string) error {
	if id == "" {
		return nil
	}
	if _, err := m.o.Engine.ImageRemove(ctx, id); err != nil && !dockerapi.NotFound(err) {
		return fmt.Errorf("remove the unfinished snapshot %s, which may hold secrets: %w", id, err)
	}
	return nil
}

// unfinished lists images that an earlier take left without a name when it was
// cut off: they may hold secrets. Images that others made from a snapshot have
// its labels but not its comment; takes that were finished are in the ledger and
// are collected like other images.
func (m *Snapshots) unfinished(ctx context.Context, n *spec.Snapshot) ([]string, error) {
	list, err := m.o.Engine.ImageList(ctx, labelOwner+"="+m.o.Owner.ID(), labelName+"="+n.Name)
	if err != nil || len(list) == 0 {
		return nil, err
	}
	known, err := m.o.Ledger.All(ctx)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, i := range list {
		if slices.ContainsFunc(known, func(k image.Image) bool { return k.ID == i.ID }) ||
			slices.ContainsFunc(i.RepoTags, func(t string) bool { return t != "<none>:<none>" }) {
			continue
		}
		seen, err := m.o.Engine.ImageInspect(ctx, i.ID)
		if err != nil && !dockerapi.NotFound(err) {
			return nil, err
		}
		if err == nil && seen.Comment == comment(n) {
			out = append(out, i.ID)
		}
	}
	slices.Sort(out)
	return m.unused(ctx, out)
}

// unused leaves out images of containers: such a one had a name once.
func (m *Snapshots) unused(ctx context.Context, ids []string) ([]string, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	all, err := m.o.Engine.ContainerList(ctx, true)
	return slices.DeleteFunc(ids, func(id string) bool {
		return slices.ContainsFunc(all, func(c container.Summary) bool { return c.ImageID == id })
	}), err
}

func (m *Snapshots) sweep(ctx context.Context, n *spec.Snapshot) error {
	ids, err := m.unfinished(ctx, n)
	for _, id := range ids {
		err = errors.Join(err, m.discard(ctx, id))
	}
	return err
}
