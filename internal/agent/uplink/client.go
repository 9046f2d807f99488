// Package uplink is a host's connection to its server: the client of the agent API, which
// bounds every body and decodes strictly; the host's enrolment, its keys and its
// certificate; and the reporter, which sends events, heartbeats and renewals. What to
// do about an answer the agent decides.
package uplink

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/steadyfleet/steady/internal/core/agent"
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/wire"
)

// StatusError is a refusal by the server.
type StatusError struct {
	Status int
	Detail string
	After  time.Duration // when the server wants to be asked again, or zero
}

func (e *StatusError) Error() string {
	return fmt.Sprintf("the server answered %d %s: %s", e.Status, http.StatusText(e.Status), e.Detail)
}

// StatusOf returns the status of a refusal in err's chain, or 0.
func StatusOf(err error) int {
	if e, ok := errors.AsType[*StatusError](err); ok {
		return e.Status
	}
	return 0
}

// PutOff reports whether err is that the host is above its rate, and after how long to
// come again, at most MaxPutOff: what this host has to say is never put off for good.
func PutOff(err error) (time.Duration, bool) {
	e, ok := errors.AsType[*StatusError](err)
	if !ok || e.Status != http.StatusTooManyRequests {
		return 0, false
	}
	return min(max(e.After, time.Second), MaxPutOff), true
}

// MaxPutOff bounds how long a server can put a host off at a time.
const MaxPutOff = 10 * time.Minute

// ClientOptions of New.
type ClientOptions struct {
	// Servers are base URLs, of which the first one that answers is used.
	Servers []string
	// TLS is for each of them; its server's name is that of the URL.
	TLS  *tls.Config
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Begin is called before a request of the agent's own routes, and Accepted
	// with its result after the server accepted that request. Both may be nil.
	Begin    func() int64
	Accepted func(begun int64)
}

// Client is safe for concurrent use.
type Client struct {
	o    ClientOptions
	http atomic.Pointer[http.Client]

	mu      sync.Mutex
	address agent.Address
}

// requestTimeout bounds a request that is not a long-poll or a blob.
const requestTimeout = 30 * time.Second

// NewClient makes a client with connections of its own.
func NewClient(o ClientOptions) (*Client, error) {
	c := &Client{o: o}
	if err := c.Use(o.Servers); err != nil {
		return nil, err
	}
	c.http.Store(c.connect())
	return c, nil
}

// Use sets the addresses of the server. The one in use stays, if it is among them.
func (c *Client) Use(servers []string) error {
	var bases []string
	for _, s := range servers {
		u, err := url.Parse(s)
		if err != nil || u.Scheme != "https" || u.Host == "" {
			return fmt.Errorf("server %q is not an https URL", s)
		}
		bases = append(bases, strings.TrimSuffix(u.String(), "/"))
	}
	if len(bases) == 0 {
		return errors.New("no address of a server")
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.address = c.address.Use(bases)
	return nil
}

// Server is the address in use.
func (c *Client) Server() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.address.Current()
}

// tried notes how a request to an address ended: answered by a server, or not.
func (c *Client) tried(req *http.Request, res *http.Response) {
	ok := false
	if res != nil { // a proxy answers these for a server that does not
		ok = res.StatusCode != http.StatusBadGateway && res.StatusCode != http.StatusServiceUnavailable && res.StatusCode != http.StatusGatewayTimeout
	} else if errors.Is(req.Context().Err(), context.Canceled) {
		return
	}
	address, _ := req.Context().Value(addressKey{}).(string)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.address = c.address.Tried(address, ok)
}

// addressKey is where the context of a request has its address.
type addressKey struct{}

func (c *Client) connect() *http.Client {
	conf := c.o.TLS.Clone()
	conf.ServerName = "" // that of the URL
	t := &http.Transport{
		DialContext: c.o.Dial, TLSClientConfig: conf, ForceAttemptHTTP2: true,
		TLSHandshakeTimeout: 10 * time.Second, MaxIdleConns: 4, IdleConnTimeout: 90 * time.Second,
		ResponseHeaderTimeout: wire.MaxWait.Std() + 15*time.Second,
		// A connection that a firewall forgot is found within 80 s; a healthy one
		// hears the end of a long-poll before, and is not pinged.
		HTTP2: &http.HTTP2Config{SendPingTimeout: wire.MaxWait.Std() + 5*time.Second, PingTimeout: 15 * time.Second},
	}
	if t.DialContext == nil {
		t.DialContext = (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}).DialContext
		t.Proxy = http.ProxyFromEnvironment
	}
	return &http.Client{
		Transport:     t,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// Renew makes later requests use new connections, and with them a new
// certificate. A request that is under way ends on the old one.
func (c *Client) Renew() { c.http.Swap(c.connect()).CloseIdleConnections() }

// Close closes idle connections.
func (c *Client) Close() { c.http.Load().CloseIdleConnections() }

// Dispatch waits for an offer, for streams, and for news other than those that
// the host has, at most wire.MaxWait; nil when nothing came. Stamp is the version of the
// timestamp that the host has, zero for none.
func (c *Client) Dispatch(ctx context.Context, news, stamp uint64) (*wire.Dispatch, error) {
	var d wire.Dispatch
	path := wire.RouteDispatch + "?news=" + strconv.FormatUint(news, 10) + "&documents=" + strconv.FormatUint(stamp, 10)
	status, err := c.call(ctx, http.MethodGet, path, nil, &d, wire.MaxDocument, wire.MaxWait.Std()+20*time.Second)
	if err != nil || status == http.StatusNoContent {
		return nil, err
	}
	return &d, nil
}

// post sends a document and reads the answer to it.
func post[A any](ctx context.Context, c *Client, path string, m any) (answer A, err error) {
	_, err = c.call(ctx, http.MethodPost, path, m, &answer, wire.MaxSmallBody, requestTimeout)
	return answer, err
}

// Claim asks for a grant. A *StatusError of 404, 409 or 410 is final.
func (c *Client) Claim(ctx context.Context, m wire.Claim) (wire.ClaimAnswer, error) {
	return post[wire.ClaimAnswer](ctx, c, wire.RouteClaim, m)
}

// Events sends a batch. The answer is valid too with a *StatusError of 409.
func (c *Client) Events(ctx context.Context, m wire.EventBatch) (wire.EventAck, error) {
	return post[wire.EventAck](ctx, c, wire.RouteEvents, m)
}

// Heartbeat says that the host lives.
func (c *Client) Heartbeat(ctx context.Context, m wire.Heartbeat) (wire.HeartbeatReply, error) {
	return post[wire.HeartbeatReply](ctx, c, wire.RouteHeartbeat, m)
}

// Managed fetches the host's managed layer, unless it is still the one of etag,
// which an earlier call gave; empty is none. What a layer says is for the caller
// to check entry by entry.
func (c *Client) Managed(ctx context.Context, etag string) (m wire.Managed, newer string, notModified bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	accepted := c.begin(wire.RouteManaged)
	req, err := c.request(ctx, http.MethodGet, wire.RouteManaged, nil)
	if err != nil {
		return m, "", false, err
	}
	if etag != "" {
		req.Header.Set("If-None-Match", etag)
	}
	res, err := c.send(req)
	if StatusOf(err) == http.StatusNotModified && etag != "" {
		accepted()
		return m, etag, true, nil
	}
	if err != nil {
		return m, "", false, err
	}
	defer drain(res)
	b, err := wire.Read(res.Body, wire.MaxDocument)
	if err == nil {
		err = wire.Decode(b, &m)
	}
	if err != nil {
		return wire.Managed{}, "", false, fmt.Errorf("GET %s: %w", wire.RouteManaged, err)
	}
	accepted()
	return m, res.Header.Get("ETag"), false, nil
}

// SessionSecrets fetches the secrets of sessions that the host is to have now.
func (c *Client) SessionSecrets(ctx context.Context) (m wire.SessionSecrets, err error) {
	_, err = c.call(ctx, http.MethodGet, wire.RouteSecrets, nil, &m, wire.MaxDocument, requestTimeout)
	return m, err
}

// RenewCertificate asks for a certificate for a new key.
func (c *Client) RenewCertificate(ctx context.Context, m wire.Renew) (wire.Certificate, error) {
	return post[wire.Certificate](ctx, c, wire.RouteRenew, m)
}

// Enrol trades a token for an identity.
func (c *Client) Enrol(ctx context.Context, m wire.Enrol) (wire.Certificate, error) {
	return post[wire.Certificate](ctx, c, wire.RouteEnrol, m)
}

// BootstrapReport tells why enrolment failed.
func (c *Client) BootstrapReport(ctx context.Context, m wire.BootstrapReport) error {
	_, err := c.call(ctx, http.MethodPost, wire.RouteBootstrapReport, m, nil, wire.MaxSmallBody, requestTimeout)
	return err
}

// Manifest fetches a rollout's manifest with this host's leaf.
func (c *Client) Manifest(ctx context.Context, rollout string) (wire.HostManifest, error) {
	var m wire.HostManifest
	_, err := c.call(ctx, http.MethodGet, wire.RouteRollouts+url.PathEscape(rollout), nil, &m, wire.MaxDocument, requestTimeout)
	return m, err
}

// Trust fetches a file of the trust route.
func (c *Client) Trust(ctx context.Context, file string) ([]byte, error) {
	return c.bytes(ctx, wire.RouteTrust+url.PathEscape(file))
}

// Bundle fetches a bundle's bytes.
func (c *Client) Bundle(ctx context.Context, d digest.Digest) ([]byte, error) {
	return c.bytes(ctx, wire.RouteBundles+string(d))
}

func (c *Client) bytes(ctx context.Context, path string) ([]byte, error) {
	var b bytes.Buffer
	err := c.copy(ctx, path, &b, wire.MaxDocument)
	return b.Bytes(), err
}

// Blob writes a blob of at most size bytes to w. The caller checks what came.
func (c *Client) Blob(ctx context.Context, d digest.Digest, size int64, w io.Writer) error {
	return c.copy(ctx, wire.RouteBlobs+string(d), w, size)
}

func (c *Client) copy(ctx context.Context, path string, w io.Writer, limit int64) error {
	ctx, cancel := context.WithTimeout(ctx, copyTimeout(limit))
	defer cancel()
	res, err := c.do(ctx, http.MethodGet, path, nil)
	if err != nil {
		return err
	}
	defer drain(res)
	n, err := io.Copy(w, io.LimitReader(res.Body, limit+1))
	if err == nil && n > limit {
		err = wire.ErrTooLarge
	}
	if err != nil {
		return fmt.Errorf("GET %s: %w", path, err)
	}
	return nil
}

// call makes one JSON exchange. into is filled from a 2xx or 409 answer.
func (c *Client) call(ctx context.Context, method, path string, body, into any, limit int64, timeout time.Duration) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	var raw []byte
	if body != nil {
		var err error
		if raw, err = json.Marshal(body); err != nil {
			return 0, fmt.Errorf("%s %s: %w", method, path, err)
		}
	}
	accepted := c.begin(path)
	res, err := c.do(ctx, method, path, raw)
	if err != nil {
		refused, ok := errors.AsType[*StatusError](err)
		if !ok || refused.Status != http.StatusConflict {
			return 0, err
		}
		// do has read the body into Detail, to be decoded below as far as it goes.
		if into != nil {
			_ = wire.Decode([]byte(refused.Detail), into) // a Problem instead leaves into as it is
		}
		return refused.Status, err
	}
	defer drain(res)
	if res.StatusCode != http.StatusNoContent && into != nil {
		b, err := wire.Read(res.Body, limit)
		if err == nil {
			err = wire.Decode(b, into)
		}
		if err != nil {
			return res.StatusCode, fmt.Errorf("%s %s: %w", method, path, err)
		}
	}
	accepted()
	return res.StatusCode, nil
}

// begin notes the begin of a request, and returns what to call once the server
// has accepted it.
func (c *Client) begin(path string) (accepted func()) {
	var begun int64
	own := strings.HasPrefix(path, "/v1/agent/")
	if own && c.o.Begin != nil {
		begun = c.o.Begin()
	}
	return func() {
		if own && c.o.Accepted != nil {
			c.o.Accepted(begun)
		}
	}
}

// do sends a request; every answer but 2xx is a *StatusError.
func (c *Client) do(ctx context.Context, method, path string, body []byte) (*http.Response, error) {
	req, err := c.request(ctx, method, path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	return c.send(req)
}

func (c *Client) request(ctx context.Context, method, path string, body io.Reader) (*http.Request, error) {
	base := c.Server()
	req, err := http.NewRequestWithContext(context.WithValue(ctx, addressKey{}, base), method, base+path, body)
	if err != nil {
		return nil, err
	}
	req.Header.Set(wire.Protocol, wire.Version)
	return req, nil
}

// send is do for a request that is made.
func (c *Client) send(req *http.Request) (*http.Response, error) {
	used := c.http.Load()
	res, err := used.Do(req)
	c.tried(req, res)
	if err != nil {
		return nil, err
	}
	if used != c.http.Load() { // renewed meanwhile: the old connection goes once it is idle
		res.Body = &closing{res.Body, used}
	}
	if res.StatusCode/100 == 2 {
		if err := wire.Known.Understands(res.Header.Get(wire.Protocol)); err != nil {
			_ = res.Body.Close()
			return nil, err
		}
		return res, nil
	}
	defer drain(res)
	b, err := wire.Read(res.Body, wire.MaxSmallBody)
	if err != nil {
		b = nil
	}
	e := &StatusError{Status: res.StatusCode, Detail: string(b)}
	if s, err := strconv.ParseUint(res.Header.Get("Retry-After"), 10, 31); err == nil {
		e.After = time.Duration(s) * time.Second
	}
	var p wire.Problem
	if wire.Decode(b, &p) == nil && p.Title+p.Detail != "" {
		e.Detail = strings.TrimSpace(p.Title + ": " + p.Detail)
	}
	return nil, e
}

// closing closes the connections of a replaced client with the last body.
type closing struct {
	io.ReadCloser
	client *http.Client
}

func (b *closing) Close() error {
	err := b.ReadCloser.Close()
	b.client.CloseIdleConnections()
	return err
}

// copyTimeout is an hour for wire.MaxBlob bytes, and less for fewer.
func copyTimeout(limit int64) time.Duration {
	return requestTimeout + time.Duration(limit/(wire.MaxBlob/3600))*time.Second
}

func drain(res *http.Response) {
	_, _ = io.CopyN(io.Discard, res.Body, 4096) // so that the connection can be used again
	_ = res.Body.Close()
}

// Backoff is exponential with full jitter.
type Backoff struct {
	Base, Cap clock.Duration // zero: 100 ms and 30 s
	n         int
}

// Next returns how long to wait before the next try.
func (b *Backoff) Next() time.Duration {
	base, most := b.Base, b.Cap
	if base == 0 {
		base = 100 * clock.Millisecond
	}
	if most == 0 {
		most = 30 * clock.Second
	}
	d := min(most, base<<min(b.n, 20))
	b.n++
	return time.Duration(rand.Int64N(int64(d.Std()))) + time.Millisecond
}

// Reset starts again from the base.
func (b *Backoff) Reset() { b.n = 0 }

// Wait waits for the next try or until ctx ends, whose error it returns.
func (b *Backoff) Wait(ctx context.Context) error { return Pause(ctx, b.Next()) }

// Pause waits for d or until ctx ends.
func Pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}
