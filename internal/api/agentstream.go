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

// secrets serves what sessions give to the host's workspaces.
func (h *AgentRoutes) secrets(w http.ResponseWriter, r *http.Request, p *control.Peer) error {
	m, err := h.c.SessionSecrets(r.Context(), p)
	if err != nil {
		return err
	}
	w.Header().Set("Cache-Control", "no-store")
	return answer(w, http.StatusOK, m)
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
