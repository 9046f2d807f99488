// Package api is the server's edge: it opens what a server stands on, listens,
// and serves the agent API (see package wire) and the operator API over TLS 1.3. The
// caller of an agent route is the host of its client certificate and nobody else; no
// field of a request names a host.
package api

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/steadyfleet/steady/internal/api/operations"
	"github.com/steadyfleet/steady/internal/api/operator"
	"github.com/steadyfleet/steady/internal/control"
	"github.com/steadyfleet/steady/internal/core/warning"
	"github.com/steadyfleet/steady/internal/identity"
	"github.com/steadyfleet/steady/internal/nodes"
	"github.com/steadyfleet/steady/internal/store"
	"github.com/steadyfleet/steady/internal/store/embedded"
	"github.com/steadyfleet/steady/internal/trust"
	"github.com/steadyfleet/steady/internal/web"
	"github.com/steadyfleet/steady/internal/wire"
	"github.com/steadyfleet/steady/nodesdk"
)

// Options says what a server stands on and where it listens. DataDir is
// required.
type Options struct {
	// Fleet is the fleet's name; empty takes it from Root, or from the host
	// authority of an earlier start.
	Fleet string
	// DataDir is made if need be: store/, pki/ and admin.token live there.
	DataDir string
	// Root is the envelope of the fleet's 1.root.json, needed at the first start.
	Root []byte
	// Listen is the address of the agent API, ":8443" by default; port 0 picks
	// one.
	Listen string
	// OperatorListen is that of the operator API; empty serves it on Listen.
	OperatorListen string
	// Bind opens a listener; nil is net.Listen. Its addresses are *net.TCPAddr.
	Bind func(network, address string) (net.Listener, error)
	// Connections bounds those that are open at a time, of each listener; zero fields
	// take the defaults.
	Connections Connections
	// Names are the DNS names and addresses of the server's certificate;
	// localhost, 127.0.0.1 and ::1 are always in it.
	Names []string
	// MaxLogBytes bounds the log's file, 0 for no bound.
	MaxLogBytes int64
	// OpenStore opens what the log is kept in, below DataDir; nil is the embedded
	// engine. The server closes it.
	OpenStore func(ctx context.Context, dir string) (store.Store, error)
	// Keys keeps the keys of the authorities; nil is identity.FileKeys.
	Keys identity.Keys
	// Strict refuses to serve with authority keys in files, and while a private key
	// of the trusted root can be read in DataDir or in one of KeyFolders.
	Strict     bool
	KeyFolders []string
	// Nodes bounds what the connections of nodes cost; zero fields take the defaults.
	Nodes nodes.Limits
	// Control takes the rest of the runtime's settings; what Options say as well
	// is filled in.
	Control control.Config
}

// Server is a server that runs.
type Server struct {
	control   *control.Control
	store     store.Store
	serverCA  []byte
	urls      [2]string // agents, operators
	tokenFile string
	log       *slog.Logger
	nodes     *nodes.Hub
	https     []*http.Server
	stop      context.CancelFunc
	done      chan struct{}
	err       error
}

// Times of the listeners. An idle connection costs memory, and an agent that
// polls is never idle.
const (
	readHeaderTimeout = 10 * time.Second
	idleTimeout       = 2 * time.Minute
	writeTimeout      = time.Minute // routes that wait or send much set their own
	maxHeaderBytes    = 16 << 10
	pingAfter         = 65 * time.Second // a healthy agent is heard before
	pingTimeout       = 15 * time.Second
	shutdownTimeout   = 5 * time.Second
	maxStreams        = 64
	// headerTable bounds each connection's two tables of repeated headers, in
	// bytes. An agent repeats few; full tables of the default 4096 would be a
	// third of all that a connection costs.
	headerTable = 512
)

// Start opens the data folder, starts the runtime and listens. Ending ctx stops
// the server; call Wait either way.
func Start(ctx context.Context, o Options) (_ *Server, err error) {
	s := &Server{done: make(chan struct{}), log: cmp.Or(o.Control.Log, slog.New(slog.DiscardHandler))}
	var undo []func() error
	defer func() {
		for i := len(undo) - 1; err != nil && i >= 0; i-- {
			err = errors.Join(err, undo[i]())
		}
	}()
	if o.Keys == nil {
		o.Keys = identity.FileKeys{}
	}
	if err := o.strictKeys(); err != nil {
		return nil, err
	}
	if o.DataDir == "" {
		return nil, errors.New("the server needs a data folder")
	}
	if o.OpenStore == nil {
		o.OpenStore = func(ctx context.Context, dir string) (store.Store, error) {
			return embedded.Open(ctx, dir, embedded.Options{MaxBytes: o.MaxLogBytes})
		}
	}
	if s.store, err = o.OpenStore(ctx, filepath.Join(o.DataDir, "store")); err != nil {
		return nil, err
	}
	undo = append(undo, s.store.Close)
	hosts, servers, err := s.authorities(ctx, &o)
	if err != nil {
		return nil, err
	}
	conf := o.Control
	conf.Fleet, conf.DataDir, conf.Root, conf.Store, conf.HostCA = o.Fleet, o.DataDir, o.Root, s.store, hosts
	var issued atomic.Pointer[certificates]
	conf.EdgeExpiries = func() []warning.Fact { return edgeExpiries(servers, issued.Load()) }
	if s.control, err = control.Open(ctx, conf); err != nil {
		return nil, err
	}
	if err := o.strictFolders(s.control.Root()); err != nil {
		return nil, err
	}
	listeners, err := s.listen(&o)
	if err != nil {
		return nil, err
	}
	for _, l := range listeners {
		undo = append(undo, l.Close)
	}
	certificate, err := newCertificates(servers, o.Names)
	if err != nil {
		return nil, err
	}
	issued.Store(certificate)
	tlsConf, err := identity.ServerTLS(identity.ServerOptions{Fleet: o.Fleet, Certificate: certificate.current,
		HostCA: hosts.Pool(), Revoked: s.control.Revoked, Now: o.Control.Now})
	if err != nil {
		return nil, err
	}
	s.nodes = nodes.New(s.control, o.Nodes, o.Control.Now, s.log, s.control.Metrics())
	for _, h := range s.handlers(len(listeners)) {
		s.https = append(s.https, &http.Server{Handler: h, TLSConfig: tlsConf.Clone(), ReadHeaderTimeout: readHeaderTimeout,
			IdleTimeout: idleTimeout, WriteTimeout: writeTimeout, MaxHeaderBytes: maxHeaderBytes, ErrorLog: slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
			HTTP2: &http.HTTP2Config{MaxConcurrentStreams: maxStreams, SendPingTimeout: pingAfter, PingTimeout: pingTimeout,
				MaxDecoderHeaderTableSize: headerTable, MaxEncoderHeaderTableSize: headerTable}})
	}
	s.start(ctx, listeners)
	undo = nil // from here on the server's own goroutine closes all
	if s.store.SetBack() == nil {
		if _, err := s.control.BootstrapAdminToken(ctx); err != nil {
			s.stop()
			return nil, errors.Join(err, s.Wait())
		}
	}
	return s, nil
}

// authorities opens the server's own keys, or makes them where nothing was logged yet.
func (s *Server) authorities(ctx context.Context, o *Options) (hosts, servers *identity.Authority, err error) {
	pki := filepath.Join(o.DataDir, "pki")
	head, err := s.store.Head(ctx)
	if err != nil {
		return nil, nil, err
	}
	if head.Seq > 0 || s.store.SetBack() != nil {
		if err := authoritiesKept(o, pki, head.Seq); err != nil {
			return nil, nil, err
		}
	}
	if _, err := os.Stat(pki); head.Seq == 0 && errors.Is(err, fs.ErrNotExist) {
		s.log.Warn("the data folder is empty: this is a new server, with authorities of its own, which no enrolled host trusts", "data", o.DataDir,
			"next", "if this server ran before, stop it: its disk is not mounted, or --data names another folder")
	}
	if err := os.MkdirAll(pki, 0o700); err != nil {
		return nil, nil, fmt.Errorf("data folder: %w", err)
	}
	if o.Fleet == "" {
		if o.Fleet, err = fleetOf(o.Root, o.Keys, pki); err != nil {
			return nil, nil, err
		}
	}
	now := time.Now
	if o.Control.Now != nil {
		now = o.Control.Now
	}
	if hosts, err = identity.OpenAuthority(o.Keys, pki, identity.Hosts, o.Fleet, now()); err != nil {
		return nil, nil, err
	}
	if servers, err = identity.OpenAuthority(o.Keys, pki, identity.Servers, o.Fleet, now()); err != nil {
		return nil, nil, err
	}
	s.serverCA, s.tokenFile = servers.PEM(), filepath.Join(o.DataDir, control.AdminTokenFile)
	return hosts, servers, nil
}

// authoritiesKept refuses to go on with a log whose authorities are gone: hosts trust those alone.
func authoritiesKept(o *Options, pki string, events uint64) error {
	for _, purpose := range []identity.Purpose{identity.Hosts, identity.Servers} {
		if _, err := identity.LoadAuthority(o.Keys, pki, purpose); errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("the %s authority in %s is gone, or its disk is not mounted (%w), but the log of the fleet has %d events: its hosts trust only that authority; "+
				"mount or restore %s from the backup. If it is lost for ever, steady server init-ca --data %s --root 1.root.json --replace makes new ones, and every host enrols again",
				purpose, pki, err, events, pki, o.DataDir)
		}
	}
	return nil
}

// fleetOf takes the fleet's name from the root or from an earlier start.
func fleetOf(root []byte, keys identity.Keys, pki string) (string, error) {
	if len(root) > 0 {
		r, err := trust.ReadRoot(root)
		if err != nil {
			return "", fmt.Errorf("the fleet's root: %w", err)
		}
		return r.Fleet, nil
	}
	a, err := identity.LoadAuthority(keys, pki, identity.Hosts)
	if errors.Is(err, fs.ErrNotExist) {
		return "", errors.New("the server starts for the first time and needs the fleet's 1.root.json; steady keys init makes it")
	}
	if err != nil {
		return "", err
	}
	return a.Certificate().Subject.Organization[0], nil
}

// listen opens the listeners and completes the names of the certificate.
func (s *Server) listen(o *Options) ([]net.Listener, error) {
	o.Listen = cmp.Or(o.Listen, ":8443")
	if o.Bind == nil {
		o.Bind = net.Listen
	}
	addrs := []string{o.Listen}
	if o.OperatorListen != "" {
		addrs = append(addrs, o.OperatorListen)
	}
	refused := prometheus.NewCounter(prometheus.CounterOpts{Namespace: "steady", Name: "connections_refused_total", Help: "Connections closed at once, since too many were open."})
	s.control.Metrics().MustRegister(refused)
	var listeners []net.Listener
	for i, addr := range addrs {
		l, err := o.Bind("tcp", addr)
		if err != nil {
			for _, l := range listeners {
				err = errors.Join(err, l.Close())
			}
			return nil, err
		}
		listeners = append(listeners, &crowd{Listener: l, most: o.Connections.WithDefaults(), byAddr: map[netip.Addr]int{}, log: s.log, refused: refused})
		name := "localhost"
		if host, _, err := net.SplitHostPort(addr); err == nil && host != "" && !net.ParseIP(host).IsUnspecified() {
			name = host
			o.Names = append(o.Names, host)
		} else if len(o.Names) > 0 {
			name = o.Names[0]
		}
		port := l.Addr().(*net.TCPAddr).Port
		s.urls[i] = "https://" + net.JoinHostPort(name, strconv.Itoa(port))
	}
	if len(listeners) == 1 {
		s.urls[1] = s.urls[0]
	}
	return listeners, nil
}

// eventsPrefix begins operator.RouteEvents.
const eventsPrefix = "/v1/sessions/"

// handlers returns one handler per listener.
func (s *Server) handlers(listeners int) []http.Handler {
	agentAPI, operatorAPI := NewAgentRoutes(s.control, s.log), operations.New(s.control, s.serverCA, s.log)
	operatorAPI.ValidateWith(s.nodes)
	first := http.NewServeMux()
	for _, prefix := range []string{"/v1/agent/", wire.RouteEnrol, wire.RouteRollouts, wire.RouteBundles, wire.RouteBlobs, wire.RouteNars, wire.RouteTrust} {
		first.Handle(prefix, agentAPI)
	}
	first.Handle("GET "+nodesdk.Path, s.nodes)
	events := web.Protected(operatorAPI) // come from hosts as well
	first.Handle(eventsPrefix, events)
	second := first
	handlers := []http.Handler{first}
	if listeners > 1 {
		second = http.NewServeMux()
		second.Handle(eventsPrefix, events)
		handlers = append(handlers, second)
	}
	for _, prefix := range []string{operator.Prefix + "/", operator.RouteMetrics, operator.RouteHealth, operator.RouteReady, operator.RouteHook} {
		second.Handle(prefix, web.Protected(operatorAPI))
	}
	second.Handle("/", web.Protected(web.Handler()))
	return handlers
}

// start runs the runtime and the listeners, and ends all when one of them does.
func (s *Server) start(ctx context.Context, listeners []net.Listener) {
	ctx, s.stop = context.WithCancel(ctx)
	ran := make(chan error, 1)
	go func() { ran <- s.control.Run(ctx) }()
	go s.trim(ctx)
	served, turns := make(chan error, len(listeners)), newComputing()
	for i, l := range listeners {
		secure := newHandshakes(l, s.https[i].TLSConfig, s.log, turns)
		go func() { served <- s.https[i].Serve(secure) }()
	}
	go func() {
		defer close(s.done)
		var errs []error
		left := len(listeners)
		select {
		case err := <-ran:
			ran <- nil
			errs = append(errs, err)
		case err := <-served:
			left--
			errs = append(errs, err)
		case <-s.control.Stopping():
		}
		s.stop()
		s.nodes.Close() // the server tells nodes to come later, and does not wait for more of them
		errs = append(errs, <-ran)
		errs = append(errs, s.shutdown()...)
		for range left {
			if err := <-served; !errors.Is(err, http.ErrServerClosed) {
				errs = append(errs, err)
			}
		}
		s.err = errors.Join(append(errs, s.store.Close())...)
	}()
}

// shutdown lets requests end, for a moment.
func (s *Server) shutdown() []error {
	ctx, cancel := context.WithTimeout(context.Background(), shutdownTimeout)
	defer cancel()
	var errs []error
	for _, srv := range s.https {
		if err := srv.Shutdown(ctx); errors.Is(err, context.DeadlineExceeded) {
			errs = append(errs, srv.Close())
		} else {
			errs = append(errs, err)
		}
	}
	return errs
}

// Wait returns when the server has stopped: nil after ctx ended, otherwise why.
func (s *Server) Wait() error {
	<-s.done
	return s.err
}

// URL is the base URL of the agent API, by a name of the certificate.
func (s *Server) URL() string { return s.urls[0] }

// OperatorURL is the base URL of the operator API.
func (s *Server) OperatorURL() string { return s.urls[1] }

// ServerCA returns the PEM of the authority behind the server's certificate.
func (s *Server) ServerCA() []byte { return s.serverCA }

// AdminTokenFile returns where the first admin token was written.
func (s *Server) AdminTokenFile() string { return s.tokenFile }

// Nodes returns the connections of nodes.
func (s *Server) Nodes() *nodes.Hub { return s.nodes }

// Control returns the runtime.
func (s *Server) Control() *control.Control { return s.control }
