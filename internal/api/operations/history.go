package operations

import (
	"errors"
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
	end := h.c.Head().Seq
	library := documents.New(h.c)
	out, err := replay.NewHistoryWriter(w, library)
	begin, failed := h.c.Begin(r.Context())
	if err = errors.Join(err, failed); err == nil {
		err = logverify.Export(r.Context(), out, begin, library)
	}
	for after := begin.Through.Seq; err == nil && after < end; {
		_ = rc.SetWriteDeadline(time.Now().Add(time.Minute)) // of each page
		records, failed := h.c.Records(r.Context(), after, int(min(1000, end-after)))
		if err = failed; err != nil || len(records) == 0 {
			break
		}
		after = records[len(records)-1].Seq
		err = out.Write(records)
	}
	if err == nil {
		err = out.Close()
	}
	if err != nil {
		h.log.Warn("the history was not handed out whole", "err", err)
	}
}
