package api

import (
	"net/http"

	"github.com/steadyfleet/steady/internal/control"
	"github.com/steadyfleet/steady/internal/control/streams"
)

// managed serves the host's managed layer.
func (h *AgentRoutes) managed(w http.ResponseWriter, r *http.Request, p *control.Peer) error {
	body, d, err := h.c.Managed(r.Context(), p)
	if err != nil {
		return err
	}
	return serve(w, r, "application/json", d, body)
}

// stream is the agent's end of a stream: frames both ways until it is over.
func (h *AgentRoutes) stream(w http.ResponseWriter, r *http.Request, p *control.Peer) error {
	if r.ProtoMajor < 2 {
		return &statusError{http.StatusHTTPVersionNotSupported, "streams go both ways at once, which takes HTTP/2"}
	}
	c := streams.NewExchange(w, r)
	begun := false
	err := h.c.AttachStream(r.Context(), p, r.PathValue("id"), c.End(), func() error {
		begun = true
		return c.Begin()
	})
	if begun {
		if err != nil {
			h.log.Debug("a stream ended early", "host", p.Name, "err", err)
		}
		return nil // the frames have said it
	}
	return err
}
