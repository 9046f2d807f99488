package uplink

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"sync"
	"time"

	"github.com/steadyfleet/steady/internal/wire"
)

// streamTimeout bounds the wait for the server to accept a stream.
const streamTimeout = 15 * time.Second

// Duplex is a stream to the server: what is written goes up while what comes
// down is read. One goroutine may read while another writes.
type Duplex interface {
	// Read waits for the server's acceptance first. The server's end is io.EOF.
	io.Reader
	// Write needs no acceptance. It blocks while the server takes nothing.
	io.Writer
	// Accepted waits until the server has accepted the stream. A *StatusError
	// says that it has not.
	Accepted() error
	// CloseWrite ends what goes up; the server is heard until its own end.
	CloseWrite() error
	// Close breaks the stream off and lets go of it. It may be called again and
	// makes every other call return.
	Close() error
}

// ErrNoDuplex says that there is no HTTP/2 between here and the server.
var ErrNoDuplex = errors.New("the server does not speak HTTP/2, which streams need; look for a proxy before it that does not")

// errClosed is what calls on a closed stream return.
var errClosed = fmt.Errorf("the stream: %w", io.ErrClosedPipe)

// Stream opens a stream that the server asked for. It returns at once; Close must
// follow, and the end of ctx closes as well.
func (c *Client) Stream(ctx context.Context, id string) (Duplex, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	body, up := io.Pipe()
	s := &duplex{up: up, cancel: cancel, ready: make(chan struct{}), over: make(chan struct{})}
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: s.gotConn})
	req, err := c.request(ctx, http.MethodPost, wire.RouteStreams+url.PathEscape(id), body)
	if err != nil {
		cancel(nil)
		return nil, err
	}
	req.ContentLength = -1
	req.Header.Set("Content-Type", wire.FrameContentType)
	go s.open(ctx, c, req)
	return s, nil
}

// duplex is one request, its body a pipe.
type duplex struct {
	up     *io.PipeWriter
	cancel context.CancelCauseFunc
	once   sync.Once

	ready chan struct{} // closed once res or err is set
	res   *http.Response
	err   error
	over  chan struct{} // closed once open has returned
}

// gotConn gives up before anything is sent where nothing could be answered while
// the body goes on.
func (s *duplex) gotConn(i httptrace.GotConnInfo) {
	if t, ok := i.Conn.(*tls.Conn); ok && t.ConnectionState().NegotiatedProtocol != "h2" {
		s.cancel(ErrNoDuplex)
	}
}

// open waits for the answer, and then for the end of ctx: neither a writer nor
// the transport must wait for the other then.
func (s *duplex) open(ctx context.Context, c *Client, req *http.Request) {
	defer close(s.over)
	ended := make(chan struct{})
	context.AfterFunc(ctx, func() {
		defer close(ended)
		_ = s.up.CloseWithError(context.Cause(ctx))
	})
	defer func() { <-ended }()
	late := time.AfterFunc(streamTimeout, func() {
		s.cancel(fmt.Errorf("the server did not accept the stream within %s", streamTimeout))
	})
	accepted := c.begin(wire.RouteStreams)
	res, err := c.send(req)
	late.Stop()
	switch {
	case err != nil && ctx.Err() != nil:
		err = context.Cause(ctx)
	case err == nil && res.ProtoMajor < 2:
		_ = res.Body.Close()
		err = ErrNoDuplex
	}
	if err != nil {
		s.err = err
		close(s.ready)
		s.cancel(err)
		return
	}
	accepted()
	s.res = res
	close(s.ready)
	<-ctx.Done()
	_ = res.Body.Close()
}

func (s *duplex) Accepted() error {
	<-s.ready
	return s.err
}

func (s *duplex) Read(b []byte) (int, error) {
	if err := s.Accepted(); err != nil {
		return 0, err
	}
	return s.res.Body.Read(b)
}

func (s *duplex) Write(b []byte) (int, error) { return s.up.Write(b) }

func (s *duplex) CloseWrite() error { return s.up.Close() }

func (s *duplex) Close() error {
	s.once.Do(func() {
		s.cancel(errClosed)
		<-s.over
	})
	return nil
}
