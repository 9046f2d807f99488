package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/steadyfleet/steady/internal/control"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/wire"
)

// Enrolment costs a signature and two files: so many at a time, and so many
// more may wait for enrolWait.
const (
	maxEnrols     = 32
	maxEnrolQueue = 1024
	enrolWait     = 20 * time.Second
)

// dispatch is the long-poll. ?wait=SECONDS shortens it, ?news=N asks for news and
// streams as well, ?documents=N for what a grant needs beside the timestamp N.
func (h *AgentRoutes) dispatch(w http.ResponseWriter, r *http.Request, p *control.Peer) error {
	poll := control.Poll{Wait: wire.MaxWait.Std()}
	query := r.URL.Query()
	number := func(name, meaning string) (*uint64, error) {
		if query.Get(name) == "" {
			return nil, nil
		}
		n, err := strconv.ParseUint(query.Get(name), 10, 64)
		if err != nil {
			return nil, &statusError{http.StatusBadRequest, name + " is " + meaning}
		}
		return &n, nil
	}
	wait, err := number("wait", "a number of seconds")
	if err != nil {
		return err
	}
	if wait != nil {
		poll.Wait = min(poll.Wait, time.Duration(min(*wait, 1<<16))*time.Second)
	}
	if poll.News, err = number("news", "the count of the last news"); err != nil {
		return err
	}
	if poll.Documents, err = number("documents", "the version of a timestamp"); err != nil {
		return err
	}
	rc := http.NewResponseController(w)
	_ = rc.SetReadDeadline(time.Time{})
	_ = rc.SetWriteDeadline(time.Now().Add(poll.Wait + answerTimeout))
	d, err := h.c.Dispatch(r.Context(), p, poll)
	if err != nil {
		return err
	}
	if d == nil {
		w.WriteHeader(http.StatusNoContent)
		return nil
	}
	return answer(w, http.StatusOK, d)
}

// asks is a route on which a host's small message M is answered with an A.
func asks[M, A any](f func(context.Context, *control.Peer, M) (A, error)) peerFunc {
	return func(w http.ResponseWriter, r *http.Request, p *control.Peer) error {
		var m M
		if err := read(r, wire.MaxSmallBody, &m); err != nil {
			return err
		}
		a, err := f(r.Context(), p, m)
		if err != nil {
			return err
		}
		return answer(w, http.StatusOK, a)
	}
}

func (h *AgentRoutes) events(w http.ResponseWriter, r *http.Request, p *control.Peer) error {
	var b wire.EventBatch
	if err := read(r, wire.MaxEventBody, &b); err != nil {
		return err
	}
	ack, err := h.c.Ingest(r.Context(), p, &b)
	if errors.Is(err, wire.ErrConflict) {
		return answer(w, http.StatusConflict, ack)
	}
	if err != nil {
		return err
	}
	return answer(w, http.StatusOK, ack)
}

func (h *AgentRoutes) heartbeat(w http.ResponseWriter, r *http.Request, p *control.Peer) error {
	var m wire.Heartbeat
	if err := read(r, wire.MaxHeartbeat, &m); err != nil {
		return err
	}
	if len(m.Metrics) > wire.MaxMetrics {
		return &statusError{http.StatusRequestEntityTooLarge, fmt.Sprintf("the metrics have %d bytes: expected at most %d", len(m.Metrics), wire.MaxMetrics)}
	}
	if err := m.Check(); err != nil {
		return wire.Refuse(wire.ErrInvalid, "%v", err)
	}
	return answer(w, http.StatusOK, h.c.Heartbeat(p, m))
}

// joins is a route for a small message M of a host that has no certificate yet. So many
// are served at a time.
func joins[M any](h *AgentRoutes, f func(http.ResponseWriter, context.Context, M) error) func(http.ResponseWriter, *http.Request) error {
	return func(w http.ResponseWriter, r *http.Request) error {
		var m M
		if err := read(r, wire.MaxSmallBody, &m); err != nil {
			return err
		}
		leave, err := h.enter(r)
		if err != nil {
			return err
		}
		defer leave()
		return f(w, r.Context(), m)
	}
}

func (h *AgentRoutes) enrol(w http.ResponseWriter, ctx context.Context, m wire.Enrol) error {
	a, err := h.c.Enrol(ctx, m)
	if err != nil {
		return err
	}
	return answer(w, http.StatusOK, a)
}

// enter waits for a place among the enrolments under way.
func (h *AgentRoutes) enter(r *http.Request) (leave func(), err error) {
	busy := &statusError{http.StatusTooManyRequests, "too many hosts enrol at a time; try again"}
	select {
	case h.queue <- struct{}{}:
	default:
		return nil, busy
	}
	timeout := time.NewTimer(enrolWait)
	defer timeout.Stop()
	select {
	case h.enrols <- struct{}{}:
		return func() { <-h.enrols; <-h.queue }, nil
	case <-timeout.C:
		err = busy
	case <-r.Context().Done():
		err = r.Context().Err()
	}
	<-h.queue
	return nil, err
}

func (h *AgentRoutes) bootstrapReport(w http.ResponseWriter, ctx context.Context, m wire.BootstrapReport) error {
	if err := h.c.BootstrapReport(ctx, m); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// rollout serves the manifest with the caller's own leaf.
func (h *AgentRoutes) rollout(w http.ResponseWriter, r *http.Request, p *control.Peer) error {
	body, d, err := h.c.HostManifest(p, r.PathValue("rollout"))
	if err != nil {
		return err
	}
	return serve(w, r, "application/json", d, body)
}

// content serves bundles and blobs by digest to every enrolled host: what a host
// may do with them its own manifest says, and a digest is not guessed.
func (h *AgentRoutes) content(w http.ResponseWriter, r *http.Request, _ *control.Peer) error {
	d, err := digest.Parse(r.PathValue("digest"))
	if err != nil || d == "" {
		return &statusError{http.StatusBadRequest, "the path names no digest"}
	}
	return h.blob(w, r, "application/octet-stream", d)
}

// nar serves the archive of a store path, or the range of it that is asked for, as it is
// read: it is not compared with its digest here, but by the host.
func (h *AgentRoutes) nar(w http.ResponseWriter, r *http.Request, _ *control.Peer) error {
	d, err := digest.Parse(r.PathValue("digest"))
	if err != nil {
		return &statusError{http.StatusBadRequest, "the path names no digest"}
	}
	f, size, err := h.c.OpenBlob(r.Context(), d)
	if err != nil {
		return err
	}
	defer f.Close()
	deadlines(w, size)
	w.Header().Set("ETag", `"`+string(d)+`"`)
	w.Header().Set("Content-Type", "application/octet-stream")
	http.ServeContent(w, r, "", time.Time{}, f)
	return nil
}

func (h *AgentRoutes) trustFile(w http.ResponseWriter, r *http.Request) error {
	if r.PathValue("file") == wire.TrustOverrides {
		body, d := h.c.Overrides()
		return serve(w, r, "application/json", d, body)
	}
	d, err := h.c.TrustFile(r.PathValue("file"))
	if err != nil {
		return err
	}
	return h.blob(w, r, "application/json", d)
}

// blob serves stored content that the caller may not hold yet.
func (h *AgentRoutes) blob(w http.ResponseWriter, r *http.Request, kind string, d digest.Digest) error {
	if unchanged(w, r, d) {
		return nil
	}
	body, err := h.c.Blob(r.Context(), d)
	if err != nil {
		return err
	}
	return serve(w, r, kind, d, body)
}

// unchanged answers 304 when the caller holds this content already.
func unchanged(w http.ResponseWriter, r *http.Request, d digest.Digest) bool {
	if !strings.Contains(r.Header.Get("If-None-Match"), `"`+string(d)+`"`) {
		return false
	}
	w.Header().Set("ETag", `"`+string(d)+`"`)
	w.WriteHeader(http.StatusNotModified)
	return true
}

func serve(w http.ResponseWriter, r *http.Request, kind string, d digest.Digest, body []byte) error {
	if unchanged(w, r, d) {
		return nil
	}
	deadlines(w, int64(len(body)))
	w.Header().Set("ETag", `"`+string(d)+`"`)
	send(w, http.StatusOK, kind, body)
	return nil
}
