package operator

import (
	"context"
	"net/url"
	"time"
)

// Bin is the volumes that hosts keep of sessions that are over, what goes first in front.
type Bin struct {
	Volumes []KeptVolume `json:"volumes"`
	More    int          `json:"more,omitempty" doc:"that hosts have beside those which they name"`
}

// KeptVolume is one of them.
type KeptVolume struct {
	Host    string    `json:"host"`
	ID      string    `json:"id"` // on the engine, without the host's prefix
	Volume  string    `json:"volume"`
	Session string    `json:"session"`
	Pod     string    `json:"pod"` // SESSION/PART/POD
	Since   time.Time `json:"since"`
	Until   time.Time `json:"until"` // it goes then
}

// Bin lists the volumes that hosts keep of sessions that are over.
func (c *Client) Bin(ctx context.Context) (b Bin, err error) {
	return b, c.get(ctx, "/bin", nil, &b)
}

// DiscardVolume removes a kept volume now, with its data.
func (c *Client) DiscardVolume(ctx context.Context, host, id string) error {
	return c.post(ctx, "/hosts/"+url.PathEscape(host)+"/bin/"+url.PathEscape(id)+"/discard", struct{}{}, nil)
}
