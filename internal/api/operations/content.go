package operations

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/steadyfleet/steady/internal/api/operator"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/spec"
)

func (h *Handler) missingContent(ctx context.Context, in *bodyIn[operator.Contents]) (out operator.Contents, err error) {
	content := make([]spec.Blob, len(in.Body.Content))
	for i, c := range in.Body.Content {
		content[i] = spec.Blob{Digest: c.Digest, Size: c.Size}
	}
	lacks, err := h.c.MissingContent(ctx, content)
	out.Content = make([]operator.ContentRow, len(lacks))
	for i, l := range lacks {
		out.Content[i] = operator.ContentRow{Digest: l.Digest, Size: l.Size, Arrived: l.Arrived}
	}
	return out, err
}

// silence bounds how long the next bytes of an archive may take.
const silence = time.Minute

// receiveContent takes the rest of an archive. What arrived stays where the connection breaks.
func (h *Handler) receiveContent(w http.ResponseWriter, r *http.Request) {
	d, err := digest.Parse(r.PathValue("digest"))
	size, noSize := strconv.ParseInt(r.URL.Query().Get("size"), 10, 64)
	offset, noOffset := strconv.ParseInt(r.URL.Query().Get("offset"), 10, 64)
	if err != nil || noSize != nil || noOffset != nil || size < 1 || size > fleet.MaxNar || offset < 0 || offset > size || r.Header.Get("Content-Encoding") != "" {
		h.problem(w, refused(http.StatusBadRequest, "expected PUT content/DIGEST?size=N&offset=N with the bytes from there on, without Content-Encoding"))
		return
	}
	body := &patient{body: r.Body, rc: http.NewResponseController(w)}
	_ = body.rc.SetWriteDeadline(time.Now().Add(24 * time.Hour)) // the answer comes after the last byte
	err = h.c.Receive(r.Context(), spec.Blob{Digest: d, Size: size}, offset, body, body.stop)
	if err != nil {
		h.problem(w, h.refusal(err))
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// patient is a body that may take as long as bytes come.
type patient struct {
	body    io.Reader
	rc      *http.ResponseController
	stopped atomic.Bool
}

var errStopped = errors.New("another request goes on with this content")

func (p *patient) Read(b []byte) (int, error) {
	_ = p.rc.SetReadDeadline(time.Now().Add(silence))
	if p.stopped.Load() {
		return 0, errStopped
	}
	return p.body.Read(b)
}

func (p *patient) stop() {
	p.stopped.Store(true)
	_ = p.rc.SetReadDeadline(time.Now())
}
