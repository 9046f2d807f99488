package operations

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/steadyfleet/steady/internal/api/live"
	"github.com/steadyfleet/steady/internal/api/operator"
	"github.com/steadyfleet/steady/internal/control"
	"github.com/steadyfleet/steady/internal/wire"
)

// personal are the operations whose answer depends on who asks: streams, which ask once for all,
// do not follow them.
var personal = []string{"me"}

// following registers the stream of topics.
func (h *Handler) following() {
	h.raw("stream-topics", http.MethodGet, operator.RouteLive, "Follow what GET routes of this API answer, each a topic, as server-sent events", viewing, h.follows)
	do(h, post("set-topics", "/stream/{id}", "Replace the topics of an open stream"), viewing, h.setTopics)
}

// follows sends a stream of topics until the viewer or the server ends it.
func (h *Handler) follows(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	for key := range q { // order-free: one that is not known is refused
		if key != "topic" {
			h.problem(w, refused(http.StatusUnprocessableEntity, fmt.Sprintf("unknown parameter %q", key)))
			return
		}
	}
	who, _ := r.Context().Value(actorKey{}).(control.Operator)
	v, err := h.live.Open(who.ID, q["topic"], &viewerAccess{h, r, operator.Role(who.Role)})
	if err != nil {
		h.problem(w, refused(http.StatusUnprocessableEntity, err.Error()))
		return
	}
	defer v.Close()
	s := h.serverSent(w)
	if s == nil {
		return
	}
	defer h.leave()
	for {
		b, err := v.Next(r.Context())
		if err == nil {
			err = s.write(b)
		}
		if err != nil {
			h.log.Debug("a stream of topics ended", "err", err)
			return
		}
	}
}

type topicsIn struct {
	ID   string `path:"id" maxLength:"64"`
	Body operator.Topics
}

func (h *Handler) setTopics(ctx context.Context, in *topicsIn) error {
	who, _ := ctx.Value(actorKey{}).(control.Operator)
	err := h.live.Set(who.ID, in.ID, in.Body.Topics)
	switch {
	case errors.Is(err, live.ErrUnknown):
		return wire.Refuse(wire.ErrNotFound, "%v", err)
	case err != nil:
		return wire.Refuse(wire.ErrInvalid, "%v", err)
	}
	return nil
}

// viewerAccess is what the bearer of a stream's request may see.
type viewerAccess struct {
	h    *Handler
	r    *http.Request
	role operator.Role
}

// Alive implements live.Access.
func (a *viewerAccess) Alive() error {
	if _, refused := a.h.admit(a.r, viewing); refused != nil {
		return errors.New(refused.Detail)
	}
	return nil
}

// Allows implements live.Access.
func (a *viewerAccess) Allows(topic string) *operator.TopicError {
	u, err := url.Parse(operator.Prefix + topic)
	if err == nil {
		_, err = url.ParseQuery(u.RawQuery)
	}
	if err != nil || !strings.HasPrefix(topic, "/") || u.Path != path.Clean(u.Path) {
		return &operator.TopicError{Status: http.StatusUnprocessableEntity, Detail: fmt.Sprintf("topic %q is no path with a query", topic)}
	}
	_, pattern := a.h.mux.Handler(&http.Request{Method: http.MethodGet, URL: u})
	p, known := a.h.topics[pattern]
	switch {
	case !known:
		return &operator.TopicError{Status: http.StatusNotFound, Detail: fmt.Sprintf("there is no topic %q", topic)}
	case !p.Admits(a.role):
		return &operator.TopicError{Status: http.StatusForbidden, Detail: "role " + string(a.role) + " does not allow this"}
	}
	return nil
}

type answerKey struct{}

// isAnswer reports whether a request is the server's own, for those who look at a topic.
func isAnswer(ctx context.Context) bool { return ctx.Value(answerKey{}) != nil }

// answer asks the route of a topic.
func (h *Handler) answer(ctx context.Context, topic string) ([]byte, *operator.TopicError) {
	r, err := http.NewRequestWithContext(context.WithValue(ctx, answerKey{}, true), http.MethodGet, operator.Prefix+topic, nil)
	if err != nil {
		return nil, &operator.TopicError{Status: http.StatusUnprocessableEntity, Detail: err.Error()}
	}
	w := &written{header: http.Header{}, status: http.StatusOK}
	h.ServeHTTP(w, r)
	if w.status == http.StatusOK {
		return w.body.Bytes(), nil
	}
	var e huma.ErrorModel
	if err := json.Unmarshal(w.body.Bytes(), &e); err != nil {
		e.Detail = http.StatusText(w.status)
	}
	for _, d := range e.Errors {
		e.Detail += "; " + strings.TrimSpace(d.Location+" "+d.Message)
	}
	return nil, &operator.TopicError{Status: w.status, Detail: e.Detail}
}

// written is a response in memory.
type written struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (w *written) Header() http.Header         { return w.header }
func (w *written) WriteHeader(status int)      { w.status = status }
func (w *written) Write(b []byte) (int, error) { return w.body.Write(b) }
