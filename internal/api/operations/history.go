package operations

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/steadyfleet/steady/internal/control/documents"
	"github.com/steadyfleet/steady/internal/logverify"
	"github.com/steadyfleet/steady/internal/replay"
)

// history streams the whole log, up to where it ends now, with the documents that
// it names. An error in the middle leaves the stream without its last line, by
// which its reader knows.
func (h *Handler) history(w http.ResponseWriter, r *http.Request) {
	if !h.enter(w) {
		return
	}
	defer func() { <-h.streams }()
	rc := http.NewResponseController(w)
	w.Header().Set("Content-Type", "application/jsonl")
	err := h.export(r.Context(), w, h.c.Head().Seq, func() { _ = rc.SetWriteDeadline(time.Now().Add(time.Minute)) })
	if err != nil {
		h.log.Warn("the history was not handed out whole", "err", err)
	}
}

// export writes the log up to a record. On hears of every page before it goes out.
func (h *Handler) export(ctx context.Context, w io.Writer, end uint64, on func()) error {
	library := documents.New(h.c)
	out, err := replay.NewHistoryWriter(w, library)
	begin, failed := h.c.Begin(ctx)
	if err = errors.Join(err, failed); err == nil {
		err = logverify.Export(ctx, out, begin, library)
	}
	for after := begin.Through.Seq; err == nil && after < end; {
		on()
		records, failed := h.c.Records(ctx, after, int(min(1000, end-after)))
		if err = failed; err != nil || len(records) == 0 {
			break
		}
		after = records[len(records)-1].Seq
		err = out.Write(records)
	}
	if err == nil {
		err = out.Close()
	}
	return err
}
