package fetch

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/steadyfleet/steady/internal/core/access"
	"github.com/steadyfleet/steady/internal/release"
)

// website is a URL that gives a packed release (see release.Pack).
type website struct {
	url  *url.URL
	o    Options
	http *http.Client
}

const (
	mostRedirects  = 3
	headerTimeout  = 30 * time.Second
	maxHeaderBytes = 64 << 10
	maxValidator   = 1 << 10
	minRate        = 1 << 10 // bytes a second
)

func openHTTP(u *url.URL, o Options) (Source, error) {
	if u.Fragment != "" {
		return nil, fmt.Errorf("source %s: a fragment is not sent to a server; expected none", redacted(u))
	}
	if u.Scheme == "http" && o.Credentials != (Credentials{}) {
		return nil, fmt.Errorf("source %s: credentials are not sent in the clear; expected https", redacted(u))
	}
	conf := &tls.Config{MinVersion: tls.VersionTLS12}
	if len(o.CA) > 0 {
		conf.RootCAs = x509.NewCertPool()
		if !conf.RootCAs.AppendCertsFromPEM(o.CA) {
			return nil, errors.New("the authority of the release source contains no certificate in PEM")
		}
	}
	s := &website{url: u, o: o}
	s.http = &http.Client{CheckRedirect: s.redirected, Transport: &http.Transport{
		Proxy: http.ProxyFromEnvironment, DialContext: guarded(u.Hostname()).dial, TLSClientConfig: conf, ForceAttemptHTTP2: true,
		DisableCompression: true, DisableKeepAlives: true, TLSHandshakeTimeout: headerTimeout,
		ResponseHeaderTimeout: headerTimeout, MaxResponseHeaderBytes: maxHeaderBytes,
	}}
	return s, nil
}

func (s *website) Name() string { return redacted(s.url) }

// redirected allows other paths of the same origin alone: a release comes from
// where the operator said, and credentials go nowhere else.
func (s *website) redirected(r *http.Request, via []*http.Request) error {
	if r.URL.Scheme != s.url.Scheme || r.URL.Host != s.url.Host {
		return failf(Redirected, "it sends on to %s://%s; name that as the source if it is meant", r.URL.Scheme, r.URL.Host)
	}
	if len(via) > mostRedirects {
		return failf(Redirected, "it redirects more than %d times", mostRedirects)
	}
	return nil
}

// Fetch asks for the release if its ETag, or its time where there is none, is
// another. A server that gives neither is read whole, and compared by digest.
func (s *website) Fetch(ctx context.Context, into, last string) (string, bool, error) {
	ctx, cancel := context.WithTimeout(ctx, s.o.Timeout)
	defer cancel()
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	req, err := s.request(ctx, last)
	if err != nil {
		return "", false, err
	}
	resp, err := s.http.Do(req)
	if err != nil {
		return "", false, s.broken(ctx, err)
	}
	defer resp.Body.Close()
	switch {
	case resp.StatusCode == http.StatusNotModified && last != "":
		return last, false, nil
	case resp.StatusCode != http.StatusOK:
		return "", false, failf(Refused, "the server answered %d %s", resp.StatusCode, http.StatusText(resp.StatusCode))
	case resp.Header.Get("Content-Encoding") != "":
		return "", false, failf(Content, "a release is accepted only as a plain tar, without Content-Encoding")
	case resp.ContentLength > s.most():
		return "", false, failf(Content, "it has %d bytes, at most %d are allowed", resp.ContentLength, s.most())
	}
	body := &arriving{r: resp.Body, left: s.most(), hash: sha256.New()}
	defer body.watch(s.o.Stall, stop)()
	err = release.Unpack(body, into, s.o.Caps)
	if err == nil {
		_, err = io.Copy(io.Discard, body) // what follows the last file is hashed too
	}
	switch {
	case body.err != nil:
		return "", false, s.broken(ctx, body.err)
	case err != nil:
		return "", false, unpacked(err)
	}
	now := validatorOf(resp.Header)
	if now == "" {
		now = "sha256 " + hex.EncodeToString(body.hash.Sum(nil))
	}
	return now, now != last, nil
}

// most bounds a body: tar adds up to two blocks to each file.
func (s *website) most() int64 { return s.o.Caps.Bytes + 1024*int64(s.o.Caps.Files) + 10240 }

func (s *website) request(ctx context.Context, last string) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url.String(), nil)
	if err != nil {
		return nil, failf(Unusable, "the URL cannot be asked for")
	}
	req.Header.Set("User-Agent", "steady")
	switch kind, value, _ := strings.Cut(last, " "); kind {
	case "etag":
		req.Header.Set("If-None-Match", value)
	case "time":
		req.Header.Set("If-Modified-Since", value)
	}
	switch c := s.o.Credentials; {
	case c.user != "":
		req.SetBasicAuth(c.user, c.secret)
	case c.secret != "":
		req.Header.Set("Authorization", "Bearer "+c.secret)
	}
	return req, nil
}

func validatorOf(h http.Header) string {
	if tag := h.Get("ETag"); tag != "" && len(tag) <= maxValidator {
		return "etag " + tag
	}
	if at := h.Get("Last-Modified"); at != "" && len(at) <= maxValidator {
		return "time " + at
	}
	return ""
}

// broken says why a request or its answer ended before its end.
func (s *website) broken(ctx context.Context, err error) error {
	if _, ok := errors.AsType[*Error](context.Cause(ctx)); ok || ctx.Err() != nil {
		return ended(ctx, s.plain(err))
	}
	if own, ok := errors.AsType[*Error](err); ok {
		return own
	}
	if n, ok := errors.AsType[net.Error](err); ok && n.Timeout() {
		return failf(Slow, "%w", s.plain(err))
	}
	return failf(Unreachable, "%w", s.plain(err))
}

// plain drops the URL from an error: its query may be secret.
func (s *website) plain(err error) error {
	if u, ok := errors.AsType[*url.Error](err); ok {
		return u.Err
	}
	return err
}

// arriving is a body on its way, bounded and measured.
type arriving struct {
	r    io.Reader
	left int64
	hash hash.Hash
	got  atomic.Int64
	err  error // why the network stopped giving
}

func (a *arriving) Read(p []byte) (int, error) {
	if a.left <= 0 {
		a.err = failf(Content, "more bytes came than a release may have")
		return 0, a.err
	}
	n, err := a.r.Read(p[:min(int64(len(p)), a.left)])
	a.left -= int64(n)
	a.got.Add(int64(n))
	a.hash.Write(p[:n])
	if err != nil && !errors.Is(err, io.EOF) {
		a.err = err
	}
	return n, err
}

// watch ends the fetch when less than minRate arrived during a stall. It returns
// what ends the watch.
func (a *arriving) watch(stall time.Duration, stop context.CancelCauseFunc) func() {
	done := make(chan struct{})
	go func() {
		tick := time.NewTicker(stall)
		defer tick.Stop()
		before, least := int64(0), max(1, int64(stall.Seconds()*minRate))
		for {
			select {
			case <-done:
				return
			case <-tick.C:
			}
			now := a.got.Load()
			if now-before < least {
				stop(&Error{Slow, fmt.Errorf("less than %d bytes came within %s", least, stall)})
				return
			}
			before = now
		}
	}()
	return func() { close(done) }
}

// guarded is the name of a host that may not turn out to be what is close to this
// machine: a name that points at its metadata service, or at itself, is a trap.
type guarded string

func (g guarded) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	d := net.Dialer{Timeout: headerTimeout}
	if host, _, err := net.SplitHostPort(addr); err == nil && host == string(g) { // others are the proxy's
		d.Control = func(_, address string, _ syscall.RawConn) error { return g.check(address) }
	}
	return d.DialContext(ctx, network, addr)
}

func (g guarded) check(address string) error {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return err
	}
	return g.allow(at.Addr())
}

// allow refuses addresses that only a source which names them may have.
func (g guarded) allow(ip netip.Addr) error {
	ip = ip.Unmap().WithZone("")
	if named, err := netip.ParseAddr(string(g)); err == nil && named.Unmap().WithZone("") == ip {
		return nil
	}
	if access.Inward(ip, nil) && !(ip.IsLoopback() && g == "localhost") {
		return failf(Refused, "%s is at %s, an address of this machine or of its closest network; name the address itself if it is meant", g, ip)
	}
	return nil
}
