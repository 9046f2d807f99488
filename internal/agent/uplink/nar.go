package uplink

import (
	"context"
	"fmt"
	"io"
	"net/http"

	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/wire"
)

// Nar writes an archive of size bytes to w, from an offset on. The caller checks what came.
func (c *Client) Nar(ctx context.Context, d digest.Digest, offset, size int64, w io.Writer) error {
	path := wire.RouteNars + string(d)
	ctx, cancel := context.WithTimeout(ctx, copyTimeout(size-offset))
	defer cancel()
	req, err := c.request(ctx, http.MethodGet, path, nil)
	if err != nil {
		return err
	}
	if offset > 0 {
		req.Header.Set("Range", fmt.Sprintf("bytes=%d-", offset))
	}
	res, err := c.send(req)
	if err != nil {
		return err
	}
	defer drain(res)
	if offset > 0 && res.StatusCode != http.StatusPartialContent {
		return fmt.Errorf("GET %s: the server answered %s, and the range from %d on was asked for", path, res.Status, offset)
	}
	n, err := io.Copy(w, io.LimitReader(res.Body, size-offset+1))
	switch {
	case err == nil && n > size-offset:
		err = wire.ErrTooLarge
	case err == nil && n < size-offset:
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return fmt.Errorf("GET %s: %w", path, err)
	}
	return nil
}
