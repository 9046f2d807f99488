// Package api is the server's edge: it opens what a server stands on, listens,
// and serves the agent API and the operator API over TLS 1.3.
package api

import (
	"context"

	"github.com/steadyfleet/steady/internal/control"
)

// Options says what a server stands on and where it listens. Fleet and DataDir
// are required.
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
	// Names are the DNS names and addresses of the server's certificate;
	// localhost, 127.0.0.1 and ::1 are always in it.
	Names []string
	// MaxLogBytes bounds the log's file, 0 for no bound.
	MaxLogBytes int64
	// Control takes the rest of the runtime's settings; what Options say as well
	// is filled in.
	Control control.Config
}

// Server is a server that runs.
type Server struct{}

// Start opens the data folder, starts the runtime and listens. Ending ctx stops
// the server; call Wait either way.
func Start(ctx context.Context, o Options) (*Server, error) { panic("filled in by the next commit") }

// Wait returns when the server has stopped: nil after ctx ended, otherwise why.
func (s *Server) Wait() error { panic("filled in by the next commit") }

// URL is the base URL of the agent API, by a name of the certificate.
func (s *Server) URL() string { panic("filled in by the next commit") }

// OperatorURL is the base URL of the operator API.
func (s *Server) OperatorURL() string { panic("filled in by the next commit") }

// ServerCA returns the PEM of the authority behind the server's certificate.
func (s *Server) ServerCA() []byte { panic("filled in by the next commit") }

// AdminTokenFile returns where the first admin token was written.
func (s *Server) AdminTokenFile() string { panic("filled in by the next commit") }

// Control returns the runtime.
func (s *Server) Control() *control.Control { panic("filled in by the next commit") }
