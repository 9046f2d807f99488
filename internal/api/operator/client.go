package operator

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/steadyfleet/steady/internal/core/plan"
	"github.com/steadyfleet/steady/internal/core/server"
)

// maxAnswer bounds an answer, in bytes.
const maxAnswer = 256 << 20

// Options says how to reach a server.
type Options struct {
	URL   string // base URL, https
	Token string
	// ServerCA is the PEM of the only authority that is believed; empty takes
	// the machine's.
	ServerCA []byte
	// Dial replaces the network; nil is net.Dialer's.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// Client calls the operator API. It is safe for concurrent use.
type Client struct {
	base  *url.URL
	token string
	http  *http.Client
}

// Error is a refusal by the server.
type Error struct {
	Status int
	Title  string
	Detail string
	// Problems are what is wrong where in what was sent, as far as the server says.
	Problems []Problem
}

// Problem is what is wrong with a part of a request.
type Problem struct {
	Message  string `json:"message"`
	Location string `json:"location"`
}

func (e *Error) Error() string {
	if e.Detail == "" {
		return fmt.Sprintf("the server answered %d %s", e.Status, e.Title)
	}
	return e.Detail
}

// NewClient returns a client. It does not connect.
func NewClient(o Options) (*Client, error) {
	base, err := url.Parse(o.URL)
	if err != nil || base.Scheme != "https" || base.Host == "" {
		return nil, fmt.Errorf("server %q is not an https URL", o.URL)
	}
	conf := &tls.Config{MinVersion: tls.VersionTLS13}
	if len(o.ServerCA) > 0 {
		conf.RootCAs = x509.NewCertPool()
		if !conf.RootCAs.AppendCertsFromPEM(o.ServerCA) {
			return nil, errors.New("the server CA contains no certificate in PEM")
		}
	}
	return &Client{base: base, token: o.Token, http: &http.Client{
		// A connection that a firewall forgot is found within half a minute, also by
		// who only follows what comes.
		Transport: &http.Transport{DialContext: o.Dial, TLSClientConfig: conf, ForceAttemptHTTP2: true, Proxy: http.ProxyFromEnvironment,
			HTTP2: &http.HTTP2Config{SendPingTimeout: 15 * time.Second, PingTimeout: 15 * time.Second}},
		CheckRedirect: func(*http.Request, []*http.Request) error {
			return http.ErrUseLastResponse // a token goes to its own server only
		},
	}}, nil
}

// URL is where the server is.
func (c *Client) URL() string { return c.base.String() }

// Close drops idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Status sums up the fleet.
func (c *Client) Status(ctx context.Context) (s Status, err error) {
	return s, c.get(ctx, "/status", nil, &s)
}

// SafeMode lists for which hosts the server waits since it began.
func (c *Client) SafeMode(ctx context.Context) (w server.RestoreWait, err error) {
	return w, c.get(ctx, "/safe-mode", nil, &w)
}

// EndSafeMode has the server go on without the events that hosts owe it, and returns for
// what it waited.
func (c *Client) EndSafeMode(ctx context.Context, reason string) (w server.RestoreWait, err error) {
	return w, c.post(ctx, "/safe-mode/end", Verb{Reason: reason}, &w)
}

// Sources says where every source of releases stands.
func (c *Client) Sources(ctx context.Context) (all []Source, err error) {
	return all, c.get(ctx, "/sources", nil, &all)
}

// Hosts lists every host, by name.
func (c *Client) Hosts(ctx context.Context) (hosts []Host, err error) {
	return hosts, c.get(ctx, "/hosts", nil, &hosts)
}

// Host returns one host.
func (c *Client) Host(ctx context.Context, name string) (h HostDetail, err error) {
	return h, c.get(ctx, "/hosts/"+url.PathEscape(name), nil, &h)
}

// Reference says what every status means.
func (c *Client) Reference(ctx context.Context) (r Reference, err error) {
	return r, c.get(ctx, "/reference", nil, &r)
}

// Why says why a host has not moved yet.
func (c *Client) Why(ctx context.Context, host string) (a plan.Answer, err error) {
	return a, c.get(ctx, "/hosts/"+url.PathEscape(host)+"/why", nil, &a)
}

// Rollouts lists the rollouts, newest first.
func (c *Client) Rollouts(ctx context.Context) (rs []Rollout, err error) {
	return rs, c.get(ctx, "/rollouts", nil, &rs)
}

// AllRollouts lists the rollouts, newest first, and after them those of which
// only a row is kept.
func (c *Client) AllRollouts(ctx context.Context) (rs []Rollout, err error) {
	return rs, c.get(ctx, "/rollouts", url.Values{"all": {"true"}}, &rs)
}

// Rollout returns one by name or manifest digest.
func (c *Client) Rollout(ctx context.Context, id string) (r RolloutDetail, err error) {
	return r, c.get(ctx, "/rollouts/"+url.PathEscape(id), nil, &r)
}

// Operate carries out a verb on a rollout.
func (c *Client) Operate(ctx context.Context, verb plan.Verb, id, reason string) error {
	return c.post(ctx, "/rollouts/"+url.PathEscape(id)+"/"+url.PathEscape(string(verb)), Verb{Reason: reason}, nil)
}

// Events returns a page of the log.
func (c *Client) Events(ctx context.Context, q EventQuery) (p EventPage, err error) {
	return p, c.get(ctx, "/events", q.values(), &p)
}

func (q EventQuery) values() url.Values {
	v := url.Values{}
	if q.After > 0 {
		v.Set("after", strconv.FormatUint(q.After, 10))
	}
	if q.Limit > 0 {
		v.Set("limit", strconv.Itoa(q.Limit))
	}
	for _, s := range q.About {
		v.Add("about", s.String())
	}
	for _, t := range q.Types {
		v.Add("type", t)
	}
	if q.Actor != "" {
		v.Set("actor", q.Actor)
	}
	for name, n := range map[string]int64{"from": int64(q.From), "until": int64(q.Until), "at": int64(q.At)} { // order-free: a query has no order
		if n != 0 {
			v.Set(name, strconv.FormatInt(n, 10))
		}
	}
	if q.Tail {
		v.Set("tail", "true")
	}
	return v
}

// Follow calls fn for every event after q.After as it is committed, until ctx
// ends, the connection breaks or fn returns an error, and returns that. With
// Tail it starts at the end of the log. Limit is not used.
func (c *Client) Follow(ctx context.Context, q EventQuery, fn func(Event) error) error {
	q.Limit = 0
	return c.serverSent(ctx, "/events/stream", q.values(), func(s LiveEvent) error {
		var e Event
		if err := json.Unmarshal(s.Data, &e); err != nil {
			return fmt.Errorf("event stream: %w", err)
		}
		return fn(e)
	})
}

// History hands the whole log with the manifests that it names to read, as the
// stream that history.Read takes.
func (c *Client) History(ctx context.Context, read func(io.Reader) error) error {
	return c.read(ctx, "/history", read)
}

// NewestRelease hands the newest accepted release to read, packed. It is what the
// server says: verify it.
func (c *Client) NewestRelease(ctx context.Context, read func(io.Reader) error) error {
	return c.read(ctx, strings.TrimPrefix(RouteNewest, Prefix), read)
}

// Push sends a packed release (see release.Pack), which was built on the newest one.
func (c *Client) Push(ctx context.Context, packed io.Reader) (Pushed, error) {
	return c.push(ctx, packed, nil)
}

// PushRestored sends a release that follows the newest one of a restored server by others
// which the server lacks.
func (c *Client) PushRestored(ctx context.Context, packed io.Reader) (Pushed, error) {
	return c.push(ctx, packed, url.Values{"restored": {"true"}})
}

func (c *Client) push(ctx context.Context, packed io.Reader, q url.Values) (p Pushed, err error) {
	resp, err := c.do(ctx, http.MethodPost, "/releases", q, packed, "application/x-tar")
	if err != nil {
		return p, err
	}
	return p, answer(resp, &p)
}

// MissingContent returns what of the content the server does not have, and how much arrived.
func (c *Client) MissingContent(ctx context.Context, content []ContentRow) (out []ContentRow, err error) {
	var answer Contents
	err = c.post(ctx, "/content/missing", Contents{Content: content}, &answer)
	return answer.Content, err
}

// SendContent sends the rest of an archive, of which row.Arrived bytes are there.
func (c *Client) SendContent(ctx context.Context, row ContentRow, rest io.Reader) error {
	q := url.Values{"size": {strconv.FormatInt(row.Size, 10)}, "offset": {strconv.FormatInt(row.Arrived, 10)}}
	resp, err := c.do(ctx, http.MethodPut, "/content/"+url.PathEscape(string(row.Digest)), q, rest, "application/octet-stream")
	if err != nil {
		return err
	}
	return resp.Body.Close()
}

// Foresee reports which hosts would not run what a release gives them.
func (c *Client) Foresee(ctx context.Context, given []plan.Given) (out []plan.Refusing, err error) {
	return out, c.post(ctx, "/releases/foresee", Gives{Given: given}, &out)
}

// Reconcile has the planner look at everything now.
func (c *Client) Reconcile(ctx context.Context) error {
	return c.post(ctx, "/reconcile", struct{}{}, nil)
}

// ClearQuarantine allows a bundle again on a channel; bundle is a digest or its
// first 12 digits.
func (c *Client) ClearQuarantine(ctx context.Context, channel, bundle, reason string) error {
	return c.post(ctx, "/quarantine/"+url.PathEscape(channel)+"/"+url.PathEscape(bundle)+"/clear", Verb{Reason: reason}, nil)
}

// Quarantine lists every quarantined bundle.
func (c *Client) Quarantine(ctx context.Context) (rows []QuarantineRow, err error) {
	return rows, c.get(ctx, "/quarantine", nil, &rows)
}

// Tokens lists the operators' tokens, by id.
func (c *Client) Tokens(ctx context.Context) (ts []Token, err error) {
	return ts, c.get(ctx, "/tokens", nil, &ts)
}

// CreateToken makes an operator token.
func (c *Client) CreateToken(ctx context.Context, n NewToken) (t MadeToken, err error) {
	return t, c.post(ctx, "/tokens", n, &t)
}

// RevokeToken withdraws an operator token; the last admin's only by force.
func (c *Client) RevokeToken(ctx context.Context, id string, force bool) error {
	return c.post(ctx, "/tokens/"+url.PathEscape(id)+"/revoke", TokenRevocation{Force: force}, nil)
}

// Enrolment returns what the text of an enrolment token needs.
func (c *Client) Enrolment(ctx context.Context) (e Enrolment, err error) {
	return e, c.get(ctx, "/enrolment", nil, &e)
}

func (c *Client) get(ctx context.Context, path string, q url.Values, into any) error {
	return c.send(ctx, http.MethodGet, path, q, nil, into)
}

func (c *Client) post(ctx context.Context, path string, body, into any) error {
	return c.send(ctx, http.MethodPost, path, nil, body, into)
}

// send is a request with a JSON body, if any.
func (c *Client) send(ctx context.Context, method, path string, q url.Values, body, into any) error {
	var content io.Reader
	kind := ""
	if body != nil {
		raw, err := json.Marshal(body)
		if err != nil {
			return err
		}
		content, kind = bytes.NewReader(raw), "application/json"
	}
	resp, err := c.do(ctx, method, path, q, content, kind)
	if err != nil {
		return err
	}
	return answer(resp, into)
}

// read hands the body of an answer to read.
func (c *Client) read(ctx context.Context, path string, read func(io.Reader) error) error {
	resp, err := c.do(ctx, http.MethodGet, path, nil, nil, "")
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	return read(resp.Body)
}

// do sends a request; path is escaped already. An answer that is no success is
// an *Error.
func (c *Client) do(ctx context.Context, method, path string, q url.Values, body io.Reader, kind string) (*http.Response, error) {
	target := strings.TrimSuffix(c.base.String(), "/") + Prefix + path
	if len(q) > 0 {
		target += "?" + q.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, method, target, body)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+c.token)
	if kind != "" {
		req.Header.Set("Content-Type", kind)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, fmt.Errorf("reach the server: %w", err)
	}
	if resp.StatusCode/100 == 2 {
		return resp, nil
	}
	defer resp.Body.Close()
	refusal := &Error{Status: resp.StatusCode, Title: http.StatusText(resp.StatusCode)}
	raw, err := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	if err == nil {
		var p problem
		if json.Unmarshal(raw, &p) == nil {
			refusal.Detail, refusal.Problems = p.String(), p.Errors
		}
	}
	return nil, refusal
}

// problem is an RFC 9457 body with the details of a failed validation.
type problem struct {
	Detail string    `json:"detail"`
	Errors []Problem `json:"errors"`
}

func (p problem) String() string {
	s := p.Detail
	for _, e := range p.Errors {
		s += "; " + strings.TrimSpace(e.Location+" "+e.Message)
	}
	return s
}

func answer(resp *http.Response, into any) error {
	defer resp.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return fmt.Errorf("read the server's answer: %w", err)
	}
	if into == nil {
		return nil
	}
	if err := json.Unmarshal(raw, into); err != nil {
		return fmt.Errorf("read the server's answer: %w", err)
	}
	return nil
}
