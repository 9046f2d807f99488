package router

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

var (
	errHeaderTimeout = errors.New("the workspace did not answer in time")
	errIdle          = errors.New("nothing was sent or received for too long")
)

// headerTimer bounds the wait for the response header once the request is sent.
type headerTimer struct {
	most   time.Duration
	cancel context.CancelCauseFunc

	mu      sync.Mutex
	timer   *time.Timer
	stopped bool
}

func (t *headerTimer) start(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err != nil || t.stopped {
		return
	}
	if t.timer != nil { // another attempt
		t.timer.Stop()
	}
	t.timer = time.AfterFunc(t.most, func() { t.cancel(errHeaderTimeout) })
}

// pause stops the count until the next attempt was sent.
func (t *headerTimer) pause() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.timer != nil {
		t.timer.Stop()
	}
}

func (t *headerTimer) stop() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.stopped = true
	if t.timer != nil {
		t.timer.Stop()
	}
}

// idleTimer ends an exchange in which no byte moves. Touching it costs one
// store: when it fires it looks how long ago that was.
type idleTimer struct {
	most   time.Duration
	start  time.Time
	last   atomic.Int64 // nanoseconds since start
	cancel context.CancelCauseFunc
	w      *http.ResponseController
	body   bool

	mu        sync.Mutex
	timer     *time.Timer
	stopped   bool
	paused    bool
	answering bool
}

func newIdleTimer(most time.Duration, w http.ResponseWriter, req *http.Request, cancel context.CancelCauseFunc) *idleTimer {
	t := &idleTimer{most: most, start: time.Now(), cancel: cancel, w: http.NewResponseController(w), body: req.ContentLength != 0}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.timer = time.AfterFunc(most, t.fire)
	return t
}

func (t *idleTimer) touch() { t.last.Store(int64(time.Since(t.start))) }

// pause stops the count while the request waits for an address.
func (t *idleTimer) pause() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.paused = true
}

func (t *idleTimer) resume() {
	t.touch()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.paused = false
}

func (t *idleTimer) responding() {
	t.touch()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.answering = true
}

func (t *idleTimer) stop() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.stopped = true
	t.timer.Stop()
}

func (t *idleTimer) fire() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.stopped {
		return
	}
	if t.paused {
		t.timer.Reset(t.most)
		return
	}
	if silent := time.Since(t.start) - time.Duration(t.last.Load()); silent < t.most {
		t.timer.Reset(t.most - silent)
		return
	}
	t.stopped = true
	t.cancel(errIdle)
	// A client that neither reads nor sends would hold the handler: end its
	// connection.
	past := time.Unix(1, 0)
	if t.body {
		_ = t.w.SetReadDeadline(past)
	}
	if t.answering {
		_ = t.w.SetWriteDeadline(past)
	}
}

// requestBody is the client's body on its way out.
type requestBody struct {
	from io.ReadCloser
	idle *idleTimer
	read atomic.Bool
	done atomic.Bool
	long atomic.Pointer[http.MaxBytesError]
}

func (b *requestBody) Read(p []byte) (int, error) {
	if b.done.Load() {
		return 0, http.ErrBodyReadAfterClose
	}
	b.read.Store(true)
	n, err := b.from.Read(p)
	b.idle.touch()
	var long *http.MaxBytesError
	if errors.As(err, &long) {
		b.long.Store(long)
	}
	return n, err
}

// Close leaves the body open: the server owns it, and a refused attempt closes
// what the next one sends.
func (b *requestBody) Close() error { return nil }

// finish ends reading: the connection may outlive the handler, the body must not.
func (b *requestBody) finish() { b.done.Store(true) }

type responseBody struct {
	io.ReadCloser
	idle *idleTimer
}

func (b *responseBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.idle.touch()
	return n, err
}

type upgradedBody struct {
	responseBody
	w io.Writer
}

func (b *upgradedBody) Write(p []byte) (int, error) {
	b.idle.touch()
	return b.w.Write(p)
}

// buffers lends the copies of responses their memory.
type buffers struct{ pool sync.Pool }

func (b *buffers) Get() []byte {
	if p, ok := b.pool.Get().(*[]byte); ok {
		return *p
	}
	return make([]byte, 32<<10)
}

func (b *buffers) Put(p []byte) { b.pool.Put(&p) }
