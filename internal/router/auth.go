package router

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
)

// most bytes of a refusing answer of ForwardAuth that go to the client.
const maxRefusal = 1 << 20

// authorize asks the route's ForwardAuth about the request, without its body.
// If it refuses, its answer goes to the client; if it cannot be asked, nothing
// passes.
func (r *Router) authorize(ctx context.Context, w http.ResponseWriter, req *http.Request, x *exchange) bool {
	ctx, cancel := context.WithTimeout(ctx, x.route.Timeouts.Header.Std())
	defer cancel()
	res, err := r.forward(ctx, req, x)
	if err != nil {
		if req.Context().Err() != nil {
			x.fail(w, req, page{status: statusClientGone, text: "the client left"})
			return false
		}
		status := http.StatusBadGateway
		if errors.Is(err, context.DeadlineExceeded) {
			status = http.StatusGatewayTimeout
		}
		x.fail(w, req, page{status: status, text: "the service that authorizes requests of this route did not answer",
			next: "check its log and forwardAuth of the route"})
		return false
	}
	defer res.Body.Close()
	if res.StatusCode >= 200 && res.StatusCode < 300 {
		// So that the connection can be used again.
		_, _ = io.CopyN(io.Discard, res.Body, 4096)
		return true
	}
	dropHopByHop(res.Header)
	for name, values := range res.Header {
		w.Header()[name] = values
	}
	body := io.LimitReader(res.Body, maxRefusal)
	if res.ContentLength > maxRefusal {
		w.Header().Del("Content-Length")
	}
	w.WriteHeader(res.StatusCode)
	if _, err := io.Copy(w, body); err != nil {
		panic(http.ErrAbortHandler) // the answer is cut: say so on the connection
	}
	return false
}

func (r *Router) forward(ctx context.Context, req *http.Request, x *exchange) (*http.Response, error) {
	out, err := http.NewRequestWithContext(ctx, http.MethodGet, x.route.ForwardAuth, http.NoBody)
	if err != nil {
		return nil, err
	}
	out.Header = req.Header.Clone()
	dropHopByHop(out.Header)
	dropForwarding(out.Header)
	for _, name := range []string{"Content-Length", "Content-Type", "Content-Encoding", "Expect"} {
		out.Header.Del(name)
	}
	proto := "http"
	if req.TLS != nil {
		proto = "https"
	}
	out.Header.Set("X-Forwarded-Method", req.Method)
	out.Header.Set("X-Forwarded-Proto", proto)
	out.Header.Set("X-Forwarded-Host", req.Host)
	out.Header.Set("X-Forwarded-Uri", req.URL.RequestURI())
	if ip, _, err := net.SplitHostPort(req.RemoteAddr); err == nil {
		out.Header.Set("X-Forwarded-For", ip)
	}
	return r.auth.RoundTrip(out)
}
