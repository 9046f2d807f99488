package identity

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"time"
)

// ServerOptions configures ServerTLS. All but Now are required.
type ServerOptions struct {
	Fleet string
	// Certificate returns the server's certificate, asked at every handshake so
	// that it can be renewed.
	Certificate func() (*tls.Certificate, error)
	// HostCA holds the authority of host certificates.
	HostCA *x509.CertPool
	// Revoked refuses a host's certificate with the reason, or returns nil. It
	// is asked at every handshake, resumed ones too; open streams are closed by
	// whoever serves them.
	Revoked func(host string, cert *x509.Certificate) error
	// Now is the wall clock; nil means time.Now.
	Now func() time.Time
}

// ServerTLS returns the configuration of the agent API: TLS 1.3, HTTP/2 or 1.1.
// A client certificate that is offered must be a host's of this fleet and not
// revoked. Enrolment comes without one, so every other route asks PeerHost.
func ServerTLS(o ServerOptions) (*tls.Config, error) {
	if o.Fleet == "" || o.Certificate == nil || o.HostCA == nil || o.Revoked == nil {
		return nil, errors.New("server TLS needs a fleet, a certificate, the hosts' authority and a revocation check")
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS13,
		NextProtos: []string{"h2", "http/1.1"},
		ClientAuth: tls.VerifyClientCertIfGiven,
		ClientCAs:  o.HostCA,
		Time:       o.Now,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			return o.Certificate()
		},
		VerifyConnection: func(cs tls.ConnectionState) error {
			if len(cs.PeerCertificates) == 0 {
				return nil
			}
			host, err := PeerHost(&cs, o.Fleet)
			if err != nil {
				return err
			}
			if err := o.Revoked(host, cs.PeerCertificates[0]); err != nil {
				return fmt.Errorf("host %s: %w", host, err)
			}
			return nil
		},
	}, nil
}

// PeerHost returns the host at the other end of a connection, from its verified
// client certificate and from nothing else. It is the one identity check of
// every route.
func PeerHost(cs *tls.ConnectionState, fleetName string) (string, error) {
	if cs == nil || len(cs.VerifiedChains) == 0 || len(cs.PeerCertificates) == 0 {
		return "", errors.New("no verified client certificate; enrol the host first")
	}
	return HostOf(cs.PeerCertificates[0], fleetName)
}

// AgentOptions configures AgentTLS. ServerCA and ServerName are required.
type AgentOptions struct {
	// Certificate returns the host's present certificate, asked at every
	// handshake so that it can be renewed; before enrolment it, or what it
	// returns, is nil.
	Certificate func() (*tls.Certificate, error)
	// ServerCA is the only authority whose servers are believed.
	ServerCA *x509.CertPool
	// ServerName is the DNS name or IP address that the server must prove.
	ServerName string
	// Now is the wall clock, not below the persisted floor; nil means time.Now.
	Now func() time.Time
}

// AgentTLS returns the configuration of an agent's connections: TLS 1.3, HTTP/2.
func AgentTLS(o AgentOptions) (*tls.Config, error) {
	if o.ServerCA == nil || o.ServerName == "" {
		return nil, errors.New("agent TLS needs the servers' authority and the server's name")
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS13,
		NextProtos: []string{"h2", "http/1.1"},
		RootCAs:    o.ServerCA,
		ServerName: o.ServerName,
		Time:       o.Now,
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			if o.Certificate == nil {
				return &tls.Certificate{}, nil
			}
			cert, err := o.Certificate()
			if err == nil && cert == nil {
				cert = &tls.Certificate{} // an empty one says: none
			}
			return cert, err
		},
	}, nil
}
