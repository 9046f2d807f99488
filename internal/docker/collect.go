package docker

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/steadyfleet/steady/internal/core/spec"
	"github.com/steadyfleet/steady/internal/disk"
	"github.com/steadyfleet/steady/internal/docker/dockerapi"
	"github.com/steadyfleet/steady/internal/docker/storage"
	"github.com/steadyfleet/steady/reconcile/engine"
)

// imageDisk measures the disk that the engine keeps its data on.
func (h *Host) imageDisk(ctx context.Context) (disk.Space, error) {
	i, err := h.o.Engine.Info(ctx)
	if err != nil {
		return disk.Space{}, err
	}
	return disk.SpaceOf(i.DockerRootDir)
}

// running is the container in a workspace's place if it runs, or empty.
func (h *Host) running(ctx context.Context, name string) (id string, err error) {
	id, running, err := h.Find(ctx, name)
	switch {
	case errors.Is(err, ErrNoWorkspace):
		return "", nil
	case err != nil || !running:
		return "", err
	}
	return id, nil
}

// deployed reports whether a workspace's deployment is over.
func (h *Host) deployed(name string) bool {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	row, err := h.row(ctx, spec.KindWorkspace, name)
	return err == nil && row != nil && !row.Delete && row.Phase == engine.Converged && row.ConvergedGen == row.Generation
}

// secretsOf lists what a workspace was given from the host's store.
func (h *Host) secretsOf(name string) (storage.Secrets, bool) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	row, err := h.row(ctx, spec.KindWorkspace, name)
	if err != nil || row == nil {
		return storage.Secrets{}, false
	}
	var d spec.Desired[spec.Deployment]
	if json.Unmarshal(row.Desired, &d) != nil {
		return storage.Secrets{}, false
	}
	var out storage.Secrets
	for _, e := range d.Spec.Workspace.Env {
		if e.Secret != "" {
			out.Env = append(out.Env, e.Name)
		}
	}
	for _, c := range d.Spec.Workspace.Contents {
		if c.Secret != "" {
			out.Files = append(out.Files, c.Target)
		}
	}
	return out, true
}

// setCapturing notes that a workspace is being captured, and has it checked: it is
// shown as that, and a pause of the engine's own is none to be ended.
func (h *Host) setCapturing(name string, on bool) {
	h.mu.Lock()
	if on {
		h.capturing[name] = true
	} else {
		delete(h.capturing, name)
	}
	h.mu.Unlock()
	h.enqueue(spec.KindWorkspace+"/"+name, engine.Cause{Trigger: engine.TriggerSibling, ID: "a snapshot"})
}

func (h *Host) isCapturing(name string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.capturing[name]
}

// collect removes images that nothing refers to: no container, and no image that
// is declared, now or by a generation that may run next or come back; the
// output of images that are declared no longer; and shared copies of files that no
// container mounts.
func (h *Host) collect(ctx context.Context, grace time.Duration) error {
	keep, names, err := h.referenced(ctx)
	if err != nil {
		return err // what is wanted is not known: remove nothing
	}
	outputs := h.output.Collect(names)
	removed, err := h.images.Collect(ctx, grace, func(ref string) bool { return keep[ref] })
	for _, ref := range removed {
		h.o.Log.Info("image removed", "image", ref)
	}
	if dockerapi.Unavailable(err) {
		return outputs
	}
	return errors.Join(outputs, err, h.workspaces.PruneShared(ctx))
}

// referenced is every reference that is declared or pinned, and the names of the images.
func (h *Host) referenced(ctx context.Context) (keep, names map[string]bool, err error) {
	sets, err := h.o.Pinned(ctx)
	if err != nil {
		return nil, nil, err
	}
	declared := &spec.Set{}
	if declared.Images, err = specs[spec.Image](ctx, h, spec.KindImage); err != nil {
		return nil, nil, err
	}
	if declared.Snapshots, err = specs[spec.Snapshot](ctx, h, spec.KindSnapshot); err != nil {
		return nil, nil, err
	}
	keep, names = map[string]bool{}, map[string]bool{}
	for _, s := range append(sets, declared) {
		if s == nil {
			continue
		}
		for i := range s.Images {
			names[s.Images[i].Name] = true
			keep[s.Images[i].EngineRef(h.Title)] = true
			for _, n := range s.Images[i].Names() {
				keep[n] = true
			}
		}
		for i := range s.Snapshots {
			keep[s.Snapshots[i].EngineRef(h.Title)] = true
		}
	}
	return keep, names, nil
}

// specs are the declared resources of a kind that are not on their way out.
func specs[S any](ctx context.Context, h *Host, kind string) ([]S, error) {
	rows, err := h.rows(ctx, kind)
	if err != nil {
		return nil, err
	}
	var out []S
	for i := range rows {
		if rows[i].Delete {
			continue
		}
		var d spec.Desired[S]
		if err := json.Unmarshal(rows[i].Desired, &d); err != nil {
			return nil, err
		}
		out = append(out, d.Spec)
	}
	return out, nil
}
