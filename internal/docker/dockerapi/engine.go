package dockerapi

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/moby/moby/client"
)

// DefaultSocket is where an engine listens unless it is reported otherwise.
const DefaultSocket = "unix:///var/run/docker.sock"

// Options say where the engine is and how long it may take. The zero value of
// each field stands for the default named here.
type Options struct {
	// Socket is a path of a unix socket, or a URL (unix://, tcp://). Default: DefaultSocket.
	Socket string
	// Timeout ends a call that should be quick. Default 30 s.
	Timeout time.Duration
	// PullTimeout ends a pull that makes no progress for so long. Default 2 min.
	PullTimeout time.Duration
	// LongTimeout ends a build, a load, a copy into a container or a follow-less
	// stream that is silent for so long, and a commit or the removal of an
	// image that takes longer. Default 10 min.
	LongTimeout time.Duration
	// Log is notified when the stream of events is lost and found. Default: nothing.
	Log *slog.Logger
	// Now is the wall clock. Default time.Now.
	Now func() time.Time
}

// Engine is one container engine. Its methods may be called at the same time.
type Engine struct {
	api     *client.Client
	raw     *http.Client
	socket  string
	timeout time.Duration
	pull    time.Duration
	longest time.Duration
	log     *slog.Logger
	now     func() time.Time

	listed listed

	reads  atomic.Int64
	writes atomic.Int64

	negotiated atomic.Bool
	turn       chan struct{} // holds one token; the holder negotiates
}

// Open prepares a client. The engine need not be up.
func Open(o Options) (*Engine, error) {
	e := &Engine{
		socket: cmp.Or(o.Socket, DefaultSocket), timeout: cmp.Or(o.Timeout, 30*time.Second), pull: cmp.Or(o.PullTimeout, 2*time.Minute),
		longest: cmp.Or(o.LongTimeout, 10*time.Minute), log: cmp.Or(o.Log, slog.New(slog.DiscardHandler)), now: o.Now, turn: make(chan struct{}, 1),
	}
	if strings.HasPrefix(e.socket, "/") {
		e.socket = "unix://" + e.socket
	}
	if e.now == nil {
		e.now = time.Now
	}
	api, err := client.New(
		client.WithHost(e.socket),
		client.WithUserAgent("steady"),
		client.WithHTTPRequestHook(e.countRequest),
		client.WithHTTPResponseHook(noteStatus),
	)
	if err != nil {
		return nil, fmt.Errorf("container engine socket %q: %w: give the path of a unix socket, or a URL such as %s", o.Socket, err, DefaultSocket)
	}
	e.api = api
	e.raw = e.rawClient()
	return e, nil
}

// Socket is the URL of the engine.
func (e *Engine) Socket() string { return e.socket }

// Close lets go of idle connections. Streams stay open.
func (e *Engine) Close() error {
	e.raw.CloseIdleConnections()
	return e.api.Close()
}

// Calls counts the requests sent since Open.
type Calls struct {
	Reads  int64 // GET and HEAD
	Writes int64 // everything else
}

// Calls counts the requests sent so far.
func (e *Engine) Calls() Calls { return Calls{Reads: e.reads.Load(), Writes: e.writes.Load()} }

// call names what is asked of the engine and of which object. It travels in the
// context, so that the hooks of the client find it.
type call struct {
	name    string
	object  string
	long    bool         // silence may be the fault of a registry or of a step of a build
	endless bool         // it is a stream that may be silent
	sent    atomic.Bool  // a request was handed to the transport
	status  atomic.Int64 // of the last answer
}

type callKey struct{}

func (e *Engine) countRequest(r *http.Request) error {
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		e.reads.Add(1)
	} else {
		e.writes.Add(1)
	}
	if c, ok := r.Context().Value(callKey{}).(*call); ok {
		c.sent.Store(true)
	}
	return nil
}

func noteStatus(r *http.Response) {
	if r.Request == nil {
		return
	}
	if c, ok := r.Request.Context().Value(callKey{}).(*call); ok {
		c.status.Store(int64(r.StatusCode))
	}
}

// errDeadline is the cause of a context that this package ended.
var errDeadline = errors.New("the engine took too long")

// do runs one call that has to be over within limit.
func (e *Engine) do(ctx context.Context, limit time.Duration, name, object string, run func(context.Context) error) error {
	c := &call{name: name, object: object}
	ctx, cancel := context.WithTimeoutCause(ctx, limit, errDeadline)
	defer cancel()
	if err := e.negotiate(ctx); err != nil {
		return e.failed(ctx, c, limit, err)
	}
	if err := run(context.WithValue(ctx, callKey{}, c)); err != nil {
		return e.failed(ctx, c, limit, err)
	}
	return nil
}

// request runs one request of the client about an object that has to be over within limit.
func request[O, R any](ctx context.Context, e *Engine, limit time.Duration, name, object string, f func(context.Context, string, O) (R, error), o O) (out R, err error) {
	err = e.do(ctx, limit, name, object, func(ctx context.Context) (err error) {
		out, err = f(ctx, object, o)
		return err
	})
	return out, err
}

// requestAll is request about the engine or all of its objects.
func requestAll[O, R any](ctx context.Context, e *Engine, limit time.Duration, name string, f func(context.Context, O) (R, error), o O) (R, error) {
	return request(ctx, e, limit, name, "", func(ctx context.Context, _ string, o O) (R, error) { return f(ctx, o) }, o)
}

// watched runs one call that may take as long as it likes while it makes
// progress: it ends when alive was not called for limit.
func (e *Engine) watched(ctx context.Context, limit time.Duration, name, object string, run func(ctx context.Context, alive func()) error) error {
	return e.stream(ctx, &call{name: name, object: object, long: true}, limit, run)
}

// endless is watched for a stream that may be silent once its answer has begun.
func (e *Engine) endless(ctx context.Context, name, object string, run func(ctx context.Context, alive func()) error) error {
	return e.stream(ctx, &call{name: name, object: object, endless: true}, e.timeout, run)
}

func (e *Engine) stream(ctx context.Context, c *call, limit time.Duration, run func(ctx context.Context, alive func()) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	timer := time.AfterFunc(limit, func() {
		if !c.endless || c.status.Load() == 0 {
			cancel(errDeadline)
		}
	})
	defer timer.Stop()
	alive := func() {
		if !c.endless && ctx.Err() == nil {
			timer.Reset(limit)
		}
	}
	if err := e.negotiateWithin(ctx); err != nil {
		return e.failed(ctx, c, limit, err)
	}
	if err := run(context.WithValue(ctx, callKey{}, c), alive); err != nil {
		return e.failed(ctx, c, limit, err)
	}
	return nil
}

func (e *Engine) negotiateWithin(ctx context.Context) error {
	if e.negotiated.Load() {
		return nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, e.timeout, errDeadline)
	defer cancel()
	return e.negotiate(ctx)
}

// negotiate agrees on the version of the API once. The client would do so by
// itself, but goes on with its newest version when that fails, which an engine
// that comes up a moment later refuses as if the request were wrong; and it
// waits for another one's negotiation without a deadline.
func (e *Engine) negotiate(ctx context.Context) error {
	if e.negotiated.Load() {
		return nil
	}
	select {
	case e.turn <- struct{}{}:
		defer func() { <-e.turn }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if e.negotiated.Load() {
		return nil
	}
	if _, err := e.api.Ping(ctx, client.PingOptions{NegotiateAPIVersion: true}); err != nil {
		return fmt.Errorf("agree on the version of the API: %w", err)
	}
	e.negotiated.Store(true)
	return nil
}
