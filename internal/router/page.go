package router

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
)

// page is an answer of the router itself.
type page struct {
	status int
	route  string
	text   string // cause
	next   string // step
	retry  int    // seconds, 0 for no Retry-After
}

// statusClientGone is what the counters show when the client left first.
const statusClientGone = 499

// pageFor says what a failed attempt means to the client. Addresses of
// workspaces do not leave the host.
func pageFor(err error) page {
	var timeout net.Error
	switch {
	case errors.Is(err, errGone):
		return page{status: http.StatusServiceUnavailable, text: errGone.Error(), next: "start the workspace", retry: 5}
	case errors.Is(err, errQueueFull), errors.Is(err, errQueueTimeout):
		return page{status: http.StatusServiceUnavailable, text: err.Error(), next: "try again", retry: 1}
	case errors.Is(err, errHeaderTimeout):
		return page{status: http.StatusGatewayTimeout, text: errHeaderTimeout.Error(), next: "check the workspace's log, or raise timeouts.header of the route"}
	case errors.Is(err, errIdle):
		return page{status: http.StatusGatewayTimeout, text: errIdle.Error(), next: "check the workspace's log, or raise timeouts.idle of the route"}
	case errors.Is(err, context.Canceled):
		return page{status: statusClientGone, text: "the client left"}
	case errors.As(err, &timeout) && timeout.Timeout():
		return page{status: http.StatusGatewayTimeout, text: "no connection to the workspace in time", next: "check whether it is overloaded"}
	case refused(err):
		return page{status: http.StatusBadGateway, text: "the workspace accepts no connection on the route's port", next: "check its log and the port of the route"}
	}
	return page{status: http.StatusBadGateway, text: "the connection to the workspace broke before it answered", next: "check the workspace's log"}
}

func (p page) write(w http.ResponseWriter, req *http.Request) {
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	if p.retry > 0 {
		h.Set("Retry-After", strconv.Itoa(p.retry))
	}
	body := p.plain()
	h.Set("Content-Type", "text/plain; charset=utf-8")
	if wantsJSON(req.Header) {
		h.Set("Content-Type", "application/json")
		body = p.json()
	}
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(p.status)
	if req.Method != http.MethodHead {
		_, _ = w.Write(body) // the client may be gone; there is nobody else to tell
	}
}

func (p page) plain() []byte {
	out := fmt.Sprintf("%d %s\n%s\n", p.status, http.StatusText(p.status), p.text)
	if p.route != "" {
		out += "route: " + p.route + "\n"
	}
	if p.next != "" {
		out += "next: " + p.next + "\n"
	}
	return []byte(out)
}

func (p page) json() []byte {
	out, err := json.Marshal(struct {
		Status int    `json:"status"`
		Error  string `json:"error"`
		Route  string `json:"route,omitempty"`
		Next   string `json:"next,omitempty"`
	}{p.status, p.text, p.route, p.next})
	if err != nil {
		return p.plain() // strings and a number always marshal
	}
	return append(out, '\n')
}

// wantsJSON prefers text when the client names neither or both.
func wantsJSON(h http.Header) bool {
	accept := strings.Join(h["Accept"], ",")
	return strings.Contains(accept, "json") && !strings.Contains(accept, "text/")
}
