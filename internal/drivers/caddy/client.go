package caddy

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"time"
)

const (
	maxAnswer  = 32 << 20
	apiTimeout = 25 * time.Second
	root       = "/config/"
	attempts   = 4
	pause      = 20 * time.Millisecond // times the number of the attempt
)

// apiError is an error that Caddy answers with. It left its configuration as it was.
type apiError struct {
	status int
	text   string
}

func (e *apiError) Error() string { return fmt.Sprintf("caddy: %s (status %d)", e.text, e.status) }

// client speaks Caddy's admin API.
type client struct {
	base string
	http *http.Client
}

// newClient takes http://host:port, or unix:///path of a socket.
func newClient(address string) (*client, error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, fmt.Errorf("the address of Caddy %q: %w", address, err)
	}
	// Caddy replaces its admin server at every change, and closes connections that are kept.
	transport := &http.Transport{DisableKeepAlives: true}
	c := &client{base: strings.TrimSuffix(address, "/"), http: &http.Client{Timeout: apiTimeout, Transport: transport}}
	switch {
	case u.Scheme == "unix" && u.Path != "":
		transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", u.Path)
		}
		c.base = "http://127.0.0.1"
	case u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return nil, fmt.Errorf("the address of Caddy %q: expected http://host:port or unix:///path", address)
	}
	return c, nil
}

// get returns what stands at a path, null if there is nothing, and its ETag.
func (c *client) get(ctx context.Context, path string) (value json.RawMessage, etag string, err error) {
	return c.do(ctx, http.MethodGet, path, "", nil)
}

// change changes what stands at a path if it still has the ETag.
func (c *client) change(ctx context.Context, method, path, etag string, value json.RawMessage) error {
	_, _, err := c.do(ctx, method, path, etag, value)
	return err
}

func (c *client) do(ctx context.Context, method, path, etag string, value json.RawMessage) (json.RawMessage, string, error) {
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, bytes.NewReader(value))
	if err != nil {
		return nil, "", fmt.Errorf("caddy: %w", err)
	}
	if value != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if etag != "" {
		req.Header.Set("If-Match", etag)
	}
	resp, raw, err := c.send(req)
	if err != nil {
		return nil, "", fmt.Errorf("caddy does not answer: %w", err)
	}
	if resp.StatusCode != http.StatusOK {
		var e struct{ Error string }
		if json.Unmarshal(raw, &e) != nil || e.Error == "" {
			return nil, "", fmt.Errorf("something else than Caddy answers, with status %d: is %s its admin address?", resp.StatusCode, c.base)
		}
		return nil, "", &apiError{resp.StatusCode, e.Error}
	}
	if method == http.MethodGet && !json.Valid(raw) {
		return nil, "", fmt.Errorf("something else than Caddy answers, without JSON: is %s its admin address?", c.base)
	}
	if etag = resp.Trailer.Get("Etag"); etag == "" {
		etag = resp.Header.Get("Etag")
	}
	return raw, etag, nil
}

// send tries again what has changed nothing: after a change Caddy replaces its admin server,
// and resets or refuses a connection that comes at that instant.
func (c *client) send(req *http.Request) (*http.Response, []byte, error) {
	for attempt := 1; ; attempt++ {
		resp, raw, err := c.once(req)
		harmless := req.Method == http.MethodGet || errors.Is(err, syscall.ECONNREFUSED)
		if err == nil || !harmless || attempt == attempts {
			return resp, raw, err
		}
		select {
		case <-req.Context().Done():
			return nil, nil, err
		case <-time.After(time.Duration(attempt) * pause):
		}
		if req.GetBody != nil {
			if req.Body, err = req.GetBody(); err != nil {
				return nil, nil, err
			}
		}
	}
}

func (c *client) once(req *http.Request) (*http.Response, []byte, error) {
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, nil, err
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if err == nil && len(raw) > maxAnswer {
		err = fmt.Errorf("the answer has more than %d bytes", maxAnswer)
	}
	return resp, raw, err
}
