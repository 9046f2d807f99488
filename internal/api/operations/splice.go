package operations

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/steadyfleet/steady/internal/api/operator"
	"github.com/steadyfleet/steady/internal/control/streams"
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/managed"
	"github.com/steadyfleet/steady/internal/core/spec"
	"github.com/steadyfleet/steady/internal/wire"
)

// startTimeout is how long an operator may take to say what is to run.
const startTimeout = 10 * time.Second

// splicing registers the routes that are streams of frames into a host.
func (h *Handler) splicing() {
	const host = operator.Prefix + "/hosts/{host}/"
	h.raw("workspace-logs", http.MethodGet, host+"workspace/{name}/logs", "Read or follow the log of a workspace, in frames", streaming, h.logs)
	h.raw("image-output", http.MethodGet, host+"image/{name}/output", "Read or follow the output of an image's build or pull, in frames", streaming, h.output)
	h.raw("workspace-exec", http.MethodPost, host+"workspace/{name}/exec", "Run a command in a workspace, frames both ways", operating, h.exec)
	h.raw("workspace-terminal", http.MethodGet, host+"workspace/{name}/terminal", "Run a command in a workspace over a WebSocket, a frame each message", operating, h.terminal)
	h.raw("host-orphans", http.MethodGet, host+"orphans", "List what carries the host's labels and nobody declares, in frames", operating, h.orphans)
	h.raw("host-prune", http.MethodPost, host+"prune", "Remove what carries the host's labels and nobody declares, in frames", operating, h.pruned)
}

// logArgs reads the query of a log.
func logArgs(q url.Values, known ...string) (a wire.StreamArgs, err error) {
	for key, v := range q {
		s := v[0]
		switch {
		case len(v) != 1:
			return a, fmt.Errorf("parameter %q is given %d times", key, len(v))
		case key == "follow":
			a.Follow, err = strconv.ParseBool(s)
		case !slices.Contains(known, key):
			return a, fmt.Errorf("unknown parameter %q", key)
		case key == "tail":
			a.Tail, err = strconv.Atoi(s)
		case key == "after":
			a.After, err = strconv.ParseInt(s, 10, 64)
		case key == "since":
			var n int64
			n, err = strconv.ParseInt(s, 10, 63)
			a.Since = clock.Instant(n)
		}
		if err != nil {
			return a, fmt.Errorf("parameter %q is %q, which is not its kind of value", key, s)
		}
	}
	return a, nil
}

func (h *Handler) logs(w http.ResponseWriter, r *http.Request) {
	h.read(w, r, wire.StreamLogs, spec.KindWorkspace, "tail", "since")
}

func (h *Handler) output(w http.ResponseWriter, r *http.Request) {
	h.read(w, r, wire.StreamOutput, spec.KindImage, "after")
}

func (h *Handler) orphans(w http.ResponseWriter, r *http.Request) { h.prune(w, r, wire.StreamOrphans) }

func (h *Handler) pruned(w http.ResponseWriter, r *http.Request) { h.prune(w, r, wire.StreamPrune) }

func (h *Handler) prune(w http.ResponseWriter, r *http.Request, stream wire.StreamKind) {
	r.SetPathValue("name", r.PathValue("host"))
	h.splice(r, h.listener(w, r), stream, "host", wire.StreamArgs{})
}

func (h *Handler) read(w http.ResponseWriter, r *http.Request, stream wire.StreamKind, kind string, known ...string) {
	args, err := logArgs(r.URL.Query(), known...)
	if err != nil {
		h.problem(w, refused(http.StatusUnprocessableEntity, err.Error()))
		return
	}
	h.splice(r, h.listener(w, r), stream, kind, args)
}

// caller is who asks for a stream: its end, and how it is told that the stream is open, or why
// it is not.
type caller struct {
	streams.End
	begin  func() error
	refuse func(*huma.ErrorModel)
}

// listener is a caller that says nothing.
func (h *Handler) listener(w http.ResponseWriter, r *http.Request) caller {
	c := streams.NewExchange(w, r)
	return caller{c.WriteEnd(), c.Begin, func(e *huma.ErrorModel) { h.problem(w, e) }}
}

func (h *Handler) exec(w http.ResponseWriter, r *http.Request) {
	if r.ProtoMajor < 2 {
		h.problem(w, refused(http.StatusHTTPVersionNotSupported, "a command's input and output go both ways at once, which takes HTTP/2, or a WebSocket at …/terminal"))
		return
	}
	c := streams.NewExchange(w, r)
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(startTimeout))
	h.run(r, caller{c.End(), c.Begin, func(e *huma.ErrorModel) { h.problem(w, e) }})
}

// terminal is exec for browsers, which send no body while they read the answer: each message of
// the WebSocket is a frame. What a page is not told by a handshake that fails is an exit frame.
func (h *Handler) terminal(w http.ResponseWriter, r *http.Request) {
	s, err := streams.NewSocket(w, r, startTimeout)
	if err != nil {
		h.c.CountRefusal("operator", http.StatusBadRequest) // the handshake was answered
		return
	}
	defer s.Close()
	h.run(r, caller{s.End(), func() error { return nil }, func(e *huma.ErrorModel) {
		h.c.CountRefusal("operator", e.Status)
		s.Refuse(e.Detail)
	}})
}

// run has a caller that speaks say what is to run, and splices it.
func (h *Handler) run(r *http.Request, c caller) {
	var args wire.StreamArgs
	f, err := c.Read()
	if err == nil {
		args, err = f.Start()
	}
	switch {
	case err != nil:
		c.refuse(refused(http.StatusUnprocessableEntity, "the first frame says what is to run: "+err.Error()))
		return
	case len(args.Argv) == 0 || args.Argv[0] == "":
		c.refuse(refused(http.StatusUnprocessableEntity, "the command is empty"))
		return
	}
	h.splice(r, c, wire.StreamExec, spec.KindWorkspace, wire.StreamArgs{Argv: args.Argv, Stdin: args.Stdin, TTY: args.TTY,
		Rows: args.Rows, Cols: args.Cols, User: args.User, WorkDir: args.WorkDir})
}

// splice opens a stream and is its operator's end until it is over.
func (h *Handler) splice(r *http.Request, c caller, stream wire.StreamKind, kind string, args wire.StreamArgs) {
	s, err := h.c.OpenStream(r.Context(), r.PathValue("host"), stream, managed.ID(kind, r.PathValue("name")), args, actor(r.Context()))
	if err != nil {
		c.refuse(h.refusal(err))
		return
	}
	defer s.Close()
	if err := c.begin(); err != nil {
		return // the caller is gone
	}
	err = h.c.ServeStream(r.Context(), s, c.End, func() error {
		if _, refused := h.admit(r, operating); refused != nil {
			return errors.New(refused.Detail)
		}
		return nil
	})
	if err != nil {
		h.log.Debug("a stream ended early", "host", s.Host, "kind", stream, "err", err)
	}
}

func notManaged(host, kind, name string) error {
	return wire.Refuse(wire.ErrNotFound, "the managed layer of host %s has no %s", host, managed.ID(kind, name))
}
