package router

import (
	"context"
	"errors"
	"net"
	"net/http"
	"slices"
	"time"
)

const (
	dialTimeout = 5 * time.Second
	// Below the five seconds after which common servers close an idle
	// connection, so that a request with a body does not meet a closing one.
	upstreamIdle = 4 * time.Second
	// The response header of a workspace, in bytes.
	maxResponseHeader = 256 << 10
)

type dialer func(ctx context.Context, network, addr string) (net.Conn, error)

func newTransport(dial dialer) *http.Transport {
	var p http.Protocols
	p.SetHTTP1(true)
	return &http.Transport{
		DialContext:            dial,
		Protocols:              &p,
		DisableCompression:     true,
		MaxIdleConnsPerHost:    64,
		IdleConnTimeout:        upstreamIdle,
		MaxResponseHeaderBytes: maxResponseHeader,
	}
}

// refused reports whether no connection was made, so that nothing was sent.
func refused(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}

// idempotent methods may be sent again after a connection broke (RFC 9110, 9.2.2).
func idempotent(method string) bool {
	return slices.Contains([]string{http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodPut, http.MethodDelete}, method)
}

// most attempts of one request, over all addresses and swaps.
const maxAttempts = 8

// attempts carries one request to the upstream: it chooses an address, waits
// while the upstream holds, and tries again where that cannot do a thing twice.
type attempts struct{}

func (attempts) RoundTrip(req *http.Request) (*http.Response, error) {
	x := exchangeOf(req.Context())
	var tried []*backend
	var last error
	for range maxAttempts {
		x.headers.pause()
		x.idle.pause()
		l, err := x.upstream.acquire(req.Context(), &x.queue, tried)
		if err != nil {
			return nil, err
		}
		if l == nil {
			if last == nil {
				last = errGone // ready without an address
			}
			return nil, last
		}
		x.lease = l
		x.idle.resume()
		out := *req
		if x.body != nil {
			// Past the proxy's own wrapper, which a refused attempt closes for good.
			out.Body = x.body
		}
		u := *req.URL
		u.Host = x.address(l.b.addr)
		out.URL = &u
		res, err := l.transport().RoundTrip(&out)
		if err == nil {
			return res, nil
		}
		again := x.mayRepeat(req, l, err)
		l.release()
		x.lease = nil
		if last = err; !again {
			return nil, err
		}
		tried = append(tried, l.b)
	}
	return nil, last
}

// mayRepeat reports whether the failed attempt did nothing that a second one
// would do twice.
func (x *exchange) mayRepeat(req *http.Request, l *lease, err error) bool {
	if req.Context().Err() != nil || (x.body != nil && x.body.read.Load()) {
		return false
	}
	if refused(err) {
		return true
	}
	return idempotent(req.Method) && x.body == nil && l.moved()
}
