package storage

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/moby/moby/api/types/volume"

	"github.com/steadyfleet/steady/internal/core/spec"
	"github.com/steadyfleet/steady/internal/docker/convert"
	"github.com/steadyfleet/steady/internal/docker/dockerapi"
	"github.com/steadyfleet/steady/reconcile/engine"
)

// Codes of volumes of sessions.
const (
	CodeKeeping engine.Code = "volume-goes-to-bin"
	CodeBinned  engine.Code = "volume-in-bin"
	CodeWanted  engine.Code = "volume-out-of-bin"
	CodeFormer  engine.Code = "volume-of-earlier-session"
)

// Keep puts a volume into the bin, and Reclaim takes it out again. RetireFormer does with volumes of
// earlier sessions of this one's name what was to be done at their end.
type (
	Keep         struct{}
	Reclaim      struct{}
	RetireFormer struct {
		Titles []string `json:"titles"`
	}
)

// ActionName names the actions.
func (Keep) ActionName() string         { return "keep" }
func (Reclaim) ActionName() string      { return "reclaim" }
func (RetireFormer) ActionName() string { return "retire-former" }

// observeSession adds what is of a volume that was made for the session which owns it.
func (m *Volumes) observeSession(ctx context.Context, r *engine.Resource[DesiredVolume], v *volume.Volume, o *VolumeObserved) (err error) {
	n := &r.Desired.Spec
	if n.Owner == spec.Operators || v.Labels[convert.LabelSession] != string(n.Owner) {
		return nil
	}
	o.Session = true
	o.AllowDelete = o.AllowDelete || m.o.AllowSessions()
	if x, in := m.o.Bin.Find(o.Title); in {
		o.Binned = x.Until
	}
	if !r.Delete {
		o.Former, err = m.former(ctx, n, o.Title)
	}
	return err
}

// former lists the volumes under a volume's name that were made for an earlier session of its owner's name, and
// that nothing uses. The host was off when that session ended.
func (m *Volumes) former(ctx context.Context, n *spec.Volume, title string) (titles []string, err error) {
	own := m.o.Owner.Labels(spec.KindVolume, n.Name, "")
	all, err := m.o.Engine.VolumeList(ctx, convert.LabelOwner+"="+own[convert.LabelOwner], convert.LabelKind+"="+spec.KindVolume,
		convert.LabelName+"="+n.Name, convert.LabelSession+"="+string(n.Owner))
	if err != nil {
		return nil, err
	}
	for i := range all {
		v := &all[i]
		if _, in := m.o.Bin.Find(v.Name); in || v.Name == title || !m.owns(v, n.Name) {
			continue
		}
		if asked, err := askedOf(v); err != nil || asked.Keep == 0 && !m.o.AllowSessions() {
			continue // it is reported as an orphan once nothing has its name
		}
		users, err := m.users(ctx, v.Name)
		if err != nil {
			return nil, err
		}
		if len(users) == 0 {
			titles = append(titles, v.Name)
		}
	}
	return titles, nil
}

// askedOf is the declaration that a volume was made from.
func askedOf(v *volume.Volume) (n spec.Volume, err error) {
	return n, json.Unmarshal([]byte(v.Labels[labelAsked]), &n)
}

func (m *Volumes) retireFormer(ctx context.Context, n *spec.Volume, titles []string) error {
	for _, title := range titles {
		v, err := m.o.Engine.VolumeInspect(ctx, title)
		if dockerapi.NotFound(err) {
			continue
		}
		if err != nil {
			return err
		}
		asked, err := askedOf(&v)
		switch {
		case err != nil || !m.owns(&v, n.Name) || v.Labels[convert.LabelSession] != string(n.Owner):
			return fmt.Errorf("volume %s is no longer one of session %s", title, n.Owner.Name())
		case asked.Keep > 0:
			err = m.o.Bin.put(binned(&asked, title, m.o.Wall()))
		default:
			err = m.o.Engine.VolumeRemove(ctx, title)
		}
		if err != nil && !dockerapi.NotFound(err) {
			return err
		}
	}
	return nil
}

// ErrNotBinned says that there is no such volume in the bin.
var ErrNotBinned = errors.New("the bin of this host has no such volume; steady session bin lists it")

// Discard removes a volume that is in the bin, by its ID.
func (m *Volumes) Discard(ctx context.Context, id string) error {
	m.binning.Lock()
	defer m.binning.Unlock()
	x, in := m.o.Bin.Find(m.o.Owner.Title(id))
	if !in {
		return fmt.Errorf("%w: %s", ErrNotBinned, id)
	}
	v, err := m.o.Engine.VolumeInspect(ctx, x.Title)
	switch {
	case dockerapi.NotFound(err):
		return m.o.Bin.take(x.Title)
	case err != nil:
		return dockerapi.ErrorOf(ctx, err)
	case !m.owns(&v, x.Volume) || v.Labels[convert.LabelSession] == "":
		return errors.Join(fmt.Errorf("volume %s was made anew by others, and stays", x.Title), m.o.Bin.take(x.Title))
	}
	if err := m.o.Engine.VolumeRemove(ctx, x.Title); err != nil && !dockerapi.NotFound(err) {
		return dockerapi.ErrorOf(ctx, err)
	}
	return m.o.Bin.take(x.Title)
}

// Empty removes what is due in the bin. What is in use, or cannot be removed, is tried the next time.
func (m *Volumes) Empty(ctx context.Context) error {
	now := m.o.Wall()
	var errs []error
	for _, x := range m.o.Bin.List() {
		if x.Until.Reached(now) {
			errs = append(errs, m.Discard(ctx, x.ID))
		}
	}
	return errors.Join(errs...)
}

// Binned lists the bin.
func (m *Volumes) Binned() []Binned { return m.o.Bin.List() }
