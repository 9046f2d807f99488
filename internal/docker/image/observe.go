package image

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/moby/moby/api/types/image"

	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/spec"
	"github.com/steadyfleet/steady/internal/docker/convert"
	"github.com/steadyfleet/steady/internal/docker/dockerapi"
	"github.com/steadyfleet/steady/reconcile/engine"
)

// labelBuild holds the identity of what an image was built from.
const labelBuild = convert.Prefix + "build"

// Identity is the digest of all that a built or loaded image is made from; empty
// for a pulled one, whose registry defines what it is.
func Identity(i *spec.Image) digest.Digest {
	switch {
	case i.Build != nil:
		raw, err := json.Marshal(i.Build)
		if err != nil {
			panic("image: a build of strings and numbers did not encode: " + err.Error())
		}
		return digest.Of(raw)
	case i.Load != nil:
		return i.Load.Archive.Digest
	}
	return ""
}

// Observed is what is known of an image.
type Observed struct {
	Ref string // how the engine is to name it
	ID  string // what the engine names so now; empty: nothing
	// Owned means that it carries this host's labels for the resource and the
	// reference; Identity is what it was built from.
	Owned    bool
	Identity string
	Platform string // os/arch[/variant]
	// Made is the newest that the ledger knows under the reference.
	Known bool
	Made  Image
	// MadeThere means that the engine still has it, under whatever name.
	MadeThere bool
	// Older means that what the reference names was built by this host from the same
	// before the one that the ledger knows: by another agent, at the same time.
	Older bool
	// Missing are further names that do not name it.
	Missing []string
	// Short is why there is no room for another image.
	Short string
}

// Observe looks the image up by its reference, and what the ledger knows by its ID.
func (m *Reconciler) Observe(ctx context.Context, r engine.Resource[Desired]) (Observed, error) {
	n := &r.Desired.Spec
	o := Observed{Ref: n.EngineRef(m.o.Owner.Title)}
	if r.Delete {
		return o, nil
	}
	var err error
	if o.Made, o.Known, err = m.o.Ledger.Newest(ctx, spec.KindImage, n.Name, o.Ref); err != nil {
		return o, err
	}
	seen, err := m.o.Engine.ImageInspect(ctx, o.Ref)
	switch {
	case dockerapi.NotFound(err):
	case err != nil:
		return o, dockerapi.ErrorOf(ctx, err)
	default:
		o.ID = seen.ID
		o.Platform = seen.Os + "/" + seen.Architecture
		if seen.Variant != "" {
			o.Platform += "/" + seen.Variant
		}
		if seen.Config != nil {
			o.Owned = m.owns(seen.Config.Labels, n.Name, o.Ref)
			o.Identity = seen.Config.Labels[labelBuild]
		}
	}
	made, err := m.findMade(ctx, &o, &seen)
	if err != nil {
		return o, dockerapi.ErrorOf(ctx, err)
	}
	o.MadeThere = made != nil
	o.Older = made != nil && o.Owned && o.Identity == string(Identity(n)) && before(&seen, made)
	for _, name := range n.Names() {
		i, err := m.o.Engine.ImageInspect(ctx, name)
		if err != nil && !dockerapi.NotFound(err) {
			return o, dockerapi.ErrorOf(ctx, err)
		}
		if err != nil || i.ID != o.ID {
			o.Missing = append(o.Missing, name)
		}
	}
	if m.o.Space != nil {
		o.Short, err = m.o.Space.Short(ctx)
	}
	return o, dockerapi.ErrorOf(ctx, err)
}

// findMade is what the ledger knows, if the engine still has it.
func (m *Reconciler) findMade(ctx context.Context, o *Observed, named *image.InspectResponse) (*image.InspectResponse, error) {
	switch {
	case !o.Known:
		return nil, nil
	case o.Made.ID == o.ID:
		return named, nil
	}
	made, err := m.o.Engine.ImageInspect(ctx, o.Made.ID)
	switch {
	case dockerapi.NotFound(err):
		return nil, nil
	case err != nil:
		return nil, err
	}
	return &made, nil
}

// before orders two images by when they were made, the same for everybody.
func before(a, b *image.InspectResponse) bool {
	at, errA := time.Parse(time.RFC3339Nano, a.Created)
	bt, errB := time.Parse(time.RFC3339Nano, b.Created)
	if errA != nil || errB != nil {
		return false
	}
	return at.Before(bt) || at.Equal(bt) && a.ID < b.ID
}

func (m *Reconciler) owns(labels map[string]string, name, ref string) bool {
	return m.o.Owner.Owns(labels, spec.KindImage, name) && labels[convert.LabelTitle] == ref
}

// Orphans lists images that were built here for a name which no row declares.
func (m *Reconciler) Orphans(ctx context.Context) ([]engine.Ref, error) {
	list := func(labels ...string) ([]image.Summary, error) { return m.o.Engine.ImageList(ctx, labels...) }
	return convert.Orphans(ctx, m.o.Owner, spec.KindImage, m.o.Declared, list, func(i *image.Summary) (map[string]string, bool) {
		// Images made from ours have our labels too, under other names.
		title := i.Labels[convert.LabelTitle]
		return i.Labels, m.o.Owner.HasPrefix(title) && slices.Contains(i.RepoTags, title)
	})
}

// platformFits reports whether an image's platform is the one asked for; one
// without a variant takes any.
func platformFits(want, have string) bool {
	return want == "" || want == have || cmp.Compare(len(have), len(want)) > 0 && have[:len(want)+1] == want+"/"
}
