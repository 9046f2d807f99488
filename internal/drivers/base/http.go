package base

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"
)

// Bounds of one exchange.
const (
	requestTimeout = 15 * time.Second
	maxAnswer      = 16 << 20
	maxRefusal     = 2048 // of the text of a refusal, in an error
)

// HTTP is a client of a JSON API.
type HTTP struct {
	base           *url.URL
	user, password string
	client         *http.Client
}

// Options name an API and how to log in there.
type Options struct {
	URL, User string
	// PasswordFile is a file with the password of User.
	PasswordFile string
}

// StatusError is an answer that is no success.
type StatusError struct {
	Status int
	Body   string // its beginning
}

func (e *StatusError) Error() string { return fmt.Sprintf("status %d: %s", e.Status, e.Body) }

// Status is that of an answer which is no success, or zero.
func Status(err error) int {
	if s := (*StatusError)(nil); errors.As(err, &s) {
		return s.Status
	}
	return 0
}

// NewHTTP returns a client. It follows no redirects: a device that sends some is not the API.
func NewHTTP(o Options) (*HTTP, error) {
	u, err := url.Parse(o.URL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" {
		return nil, errors.New("url: expected http://HOST:PORT or https://HOST:PORT, without a password")
	}
	c := &HTTP{base: u, user: o.User, client: &http.Client{Timeout: requestTimeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
	if (o.User == "") != (o.PasswordFile == "") {
		return nil, errors.New("user and password-file: give both or none")
	}
	if o.PasswordFile != "" {
		raw, err := os.ReadFile(o.PasswordFile)
		if err != nil {
			return nil, fmt.Errorf("password-file: %w", err)
		}
		c.password = strings.TrimRight(string(raw), "\r\n")
	}
	return c, nil
}

// Do sends in, unless it is nil, and reads the answer into out, unless that is nil. Steps of
// the path are escaped. An answer of another status than 2xx is a *StatusError.
func (c *HTTP) Do(ctx context.Context, method string, path []string, in, out any) error {
	return c.do(ctx, method, path, nil, in, out)
}

// Get reads the answer to a query.
func (c *HTTP) Get(ctx context.Context, path []string, query url.Values, out any) error {
	return c.do(ctx, http.MethodGet, path, query, nil, out)
}

func (c *HTTP) do(ctx context.Context, method string, path []string, query url.Values, in, out any) error {
	raw, err := c.send(ctx, method, path, query, in)
	if err != nil || out == nil {
		return err
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if err := d.Decode(out); err != nil {
		return fmt.Errorf("%s %s: the answer is no JSON as expected: %w", method, c.base.Host, err)
	}
	return nil
}

func (c *HTTP) send(ctx context.Context, method string, path []string, query url.Values, in any) ([]byte, error) {
	var body io.Reader
	if in != nil {
		raw, err := json.Marshal(in)
		if err != nil {
			return nil, fmt.Errorf("encode a request: %w", err)
		}
		body = bytes.NewReader(raw)
	}
	at := strings.TrimSuffix(c.base.String(), "/")
	for _, step := range path {
		at += "/" + url.PathEscape(step)
	}
	if len(query) > 0 {
		at += "?" + query.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, method, at, body)
	if err != nil {
		return nil, fmt.Errorf("make a request: %w", err)
	}
	if in != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if c.user != "" {
		req.SetBasicAuth(c.user, c.password)
	}
	res, err := c.client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("the device does not answer: %w", err)
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("the device's answer broke off: %w", err)
	case len(raw) > maxAnswer:
		return nil, fmt.Errorf("the device's answer has more than %d bytes", maxAnswer)
	case res.StatusCode < 200 || res.StatusCode > 299:
		return nil, &StatusError{Status: res.StatusCode, Body: strings.TrimSpace(string(raw[:min(len(raw), maxRefusal)]))}
	}
	return raw, nil
}
