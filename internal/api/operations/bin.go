package operations

import (
	"context"

	"github.com/steadyfleet/steady/internal/api/operator"
)

type keptIn struct {
	Host   string `path:"host" maxLength:"63"`
	Volume string `path:"volume" maxLength:"63"`
}

// bin registers the routes of volumes that hosts keep of sessions that are over.
func (h *Handler) bin() {
	add(h, get("list-kept-volumes", "/bin", "List the volumes that hosts keep of sessions that are over, and until when"), viewing, func(context.Context, *none) (operator.Bin, error) {
		all, more := h.c.Kept()
		out := operator.Bin{Volumes: []operator.KeptVolume{}, More: more}
		for _, v := range all {
			out.Volumes = append(out.Volumes, operator.KeptVolume{Host: v.Host, ID: v.ID, Volume: v.Volume, Session: v.Session, Pod: v.Pod, Since: v.Since.Time(), Until: v.Until.Time()})
		}
		return out, nil
	})
	do(h, post("discard-kept-volume", "/hosts/{host}/bin/{volume}/discard", "Remove a kept volume now, with its data"), operating, func(ctx context.Context, in *keptIn) error {
		return h.c.Discard(ctx, in.Host, in.Volume, actor(ctx))
	})
}
