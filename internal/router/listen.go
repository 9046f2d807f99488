package router

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"golang.org/x/sync/errgroup"
)

// Options of the listeners; zero values are the defaults.
type Options struct {
	HTTP  []string // addresses, for example ":80"
	HTTPS []string
	// Folder holds the NAME.crt and NAME.key of the routes; needed with HTTPS.
	Folder string

	MaxHeader         int           // bytes of a request's header; 64 KiB
	ReadHeaderTimeout time.Duration // 10 s
	IdleTimeout       time.Duration // of a connection between requests; 2 min
	// Grace is how long requests may still run once the context of Listen
	// ended; 10 s.
	Grace time.Duration
	Log   *slog.Logger // for failed handshakes and the like; nil drops them
	// Bind opens an address; nil is net.Listen's way.
	Bind func(ctx context.Context, address string) (net.Listener, error)
}

// Listener serves a Router on a set of addresses.
type Listener struct {
	router  *Router
	certs   *Certificates
	servers []*http.Server
	http    []net.Addr
	https   []net.Addr
	bound   []net.Listener
	arrive  *arrivals
	group   errgroup.Group
	serving errgroup.Group
}

// Listen binds all addresses, or none, reads the certificates of the router's
// table and serves until ctx ends. A certificate that cannot be read does not
// keep it from serving: Reload reports it again.
func (r *Router) Listen(ctx context.Context, o Options) (*Listener, error) {
	o = o.withDefaults()
	if len(o.HTTPS) > 0 && o.Folder == "" {
		return nil, errors.New("HTTPS has no folder for certificates: name the one that holds NAME.crt and NAME.key")
	}
	l := &Listener{router: r, certs: OpenCertificates(o.Folder), arrive: newArrivals()}
	bind := func(addrs []string, into *[]net.Addr) error {
		for _, a := range addrs {
			ln, err := o.Bind(ctx, a)
			if err != nil {
				return fmt.Errorf("listen for routes on %s: %w; free the address or choose another", a, err)
			}
			l.bound = append(l.bound, ln)
			*into = append(*into, ln.Addr())
		}
		return nil
	}
	if err := errors.Join(bind(o.HTTP, &l.http), bind(o.HTTPS, &l.https)); err != nil {
		for _, ln := range l.bound {
			err = errors.Join(err, ln.Close())
		}
		return nil, err
	}
	if err := l.Reload(); err != nil {
		o.Log.Warn("certificates of routes", "error", err)
	}
	// Ends the connections that outlive the grace, upgraded ones among them.
	base, cancel := context.WithCancel(context.WithoutCancel(ctx))
	for i, ln := range l.bound {
		l.serve(base, ln, i >= len(l.http), o)
	}
	l.group.Go(func() error {
		<-ctx.Done()
		defer cancel()
		return errors.Join(l.accepted(), l.shutdown(o.Grace))
	})
	return l, nil
}

func (o Options) withDefaults() Options {
	o.MaxHeader = cmp.Or(o.MaxHeader, 64<<10)
	o.ReadHeaderTimeout = cmp.Or(o.ReadHeaderTimeout, 10*time.Second)
	o.IdleTimeout = cmp.Or(o.IdleTimeout, 2*time.Minute)
	o.Grace = cmp.Or(o.Grace, 10*time.Second)
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	if o.Bind == nil {
		o.Bind = func(ctx context.Context, address string) (net.Listener, error) {
			return (&net.ListenConfig{}).Listen(ctx, "tcp", address)
		}
	}
	return o
}

func (l *Listener) serve(base context.Context, ln net.Listener, secure bool, o Options) {
	var p http.Protocols
	p.SetHTTP1(true)
	p.SetHTTP2(secure)
	s := &http.Server{
		Handler:           l.router,
		Protocols:         &p,
		HTTP2:             &http.HTTP2Config{MaxConcurrentStreams: 250},
		MaxHeaderBytes:    o.MaxHeader,
		ReadHeaderTimeout: o.ReadHeaderTimeout,
		IdleTimeout:       o.IdleTimeout,
		BaseContext:       func(net.Listener) context.Context { return base },
		ErrorLog:          slog.NewLogLogger(o.Log.Handler(), slog.LevelWarn),
	}
	l.arrive.follow(s)
	l.servers = append(l.servers, s)
	l.serving.Go(func() error {
		var err error
		if secure {
			s.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: l.certificate}
			err = s.ServeTLS(ln, "", "")
		} else {
			err = s.Serve(ln)
		}
		if errors.Is(err, net.ErrClosed) {
			return nil
		}
		return fmt.Errorf("serve routes on %s: %w", ln.Addr(), err)
	})
}

// certificate answers a handshake. Without one for the name the client is told
// that the name is not known here.
func (l *Listener) certificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	return l.certs.get(l.router.Table().Certificate(hello.ServerName)), nil
}

// arriveWithin is how long a connection that was accepted has to send its first request
// once no more are.
const arriveWithin = time.Second

// accepted ends accepting, and waits until what was accepted has begun.
func (l *Listener) accepted() error {
	for _, ln := range l.bound {
		if err := ln.Close(); err != nil {
			return fmt.Errorf("close %s: %w", ln.Addr(), err)
		}
	}
	err := l.serving.Wait()
	l.arrive.wait(arriveWithin)
	return err
}

func (l *Listener) shutdown(grace time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), grace)
	defer cancel()
	var group errgroup.Group
	for _, s := range l.servers {
		group.Go(func() error {
			if err := s.Shutdown(ctx); err != nil {
				return s.Close() // the grace is over
			}
			return nil
		})
	}
	return group.Wait()
}

// Reload reads the certificates of the router's table again. Call it after a
// Swap that names another certificate and when a file changed. What cannot be
// read is in the error; everything else is in use.
func (l *Listener) Reload() error { return l.certs.Reload(l.router.Table().Certificates()) }

// HTTP returns the bound addresses of plain HTTP, in the order of Options.
func (l *Listener) HTTP() []net.Addr { return l.http }

// HTTPS returns the bound addresses of HTTPS, in the order of Options.
func (l *Listener) HTTPS() []net.Addr { return l.https }

// Wait returns when the context of Listen ended and all requests did, or their
// grace.
func (l *Listener) Wait() error { return l.group.Wait() }
