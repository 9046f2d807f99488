package identity

import (
	"cmp"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/disk"
)

// Purpose is what an authority's certificates are for.
type Purpose string

// Hosts authorities issue client certificates, Servers authorities issue server
// certificates. Each is a root of its own.
const (
	Hosts   Purpose = "hosts"
	Servers Purpose = "servers"
)

const (
	// HostLife is how long a host's certificate lasts by default.
	HostLife = 7 * 24 * time.Hour
	// ServerLife is how long a server's certificate lasts by default.
	ServerLife = 90 * 24 * time.Hour
	// Backdate is how far before its issue a certificate starts, for clocks
	// that run behind.
	Backdate = time.Minute

	authorityLife = 10 * 365 * 24 * time.Hour
)

// Authority is a certificate authority: a self-signed certificate and its key.
type Authority struct {
	purpose Purpose
	fleet   string
	cert    *x509.Certificate
	key     crypto.Signer
}

// CreateAuthority makes an ECDSA P-256 authority for a fleet in a folder: its certificate
// as <purpose>-ca.pem, its key where keys keeps it. It never replaces one: an
// existing certificate is refused with fs.ErrExist. A key without a certificate,
// which a crash may have left, is taken.
func CreateAuthority(keys Keys, dir string, purpose Purpose, fleetName string, now time.Time) (*Authority, error) {
	if err := fleet.CheckName(fleetName); err != nil {
		return nil, err
	}
	eku, err := purpose.usage()
	if err != nil {
		return nil, err
	}
	keyPath, certPath := authorityPaths(keys, dir, purpose)
	if _, err := os.Lstat(certPath); err == nil {
		return nil, fmt.Errorf("create %s authority: %w", purpose, &fs.PathError{Op: "create", Path: certPath, Err: fs.ErrExist})
	}
	serial, err := newSerial()
	if err != nil {
		return nil, err
	}
	key, err := keys.Create(keyPath)
	if errors.Is(err, fs.ErrExist) {
		key, err = keys.Load(keyPath)
	}
	if err != nil {
		return nil, fmt.Errorf("create %s authority: %w", purpose, err)
	}
	tmpl := &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: "steady " + string(purpose) + " CA", Organization: []string{fleetName}},
		NotBefore:    now.Add(-Backdate), NotAfter: now.Add(authorityLife),
		IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true,
		KeyUsage:    x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
		ExtKeyUsage: []x509.ExtKeyUsage{eku},
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("create %s authority: %w", purpose, err)
	}
	if err := disk.Create(certPath, encodeCert(der), 0o644); err != nil {
		return nil, fmt.Errorf("create %s authority: %w", purpose, err)
	}
	return LoadAuthority(keys, dir, purpose)
}

// LoadAuthority reads what CreateAuthority wrote with the same keys.
func LoadAuthority(keys Keys, dir string, purpose Purpose) (*Authority, error) {
	eku, err := purpose.usage()
	if err != nil {
		return nil, err
	}
	if err := elsewhere(keys, dir, purpose); err != nil {
		return nil, err
	}
	keyPath, certPath := authorityPaths(keys, dir, purpose)
	key, err := keys.Load(keyPath)
	if err != nil {
		return nil, err
	}
	raw, err := os.ReadFile(certPath)
	if err != nil {
		return nil, err
	}
	cert, err := ParseCertificate(raw)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", certPath, err)
	}
	if !belongs(cert, key) {
		return nil, fmt.Errorf("%s and %s do not belong together", certPath, keyPath)
	}
	if !cert.IsCA || len(cert.ExtKeyUsage) != 1 || cert.ExtKeyUsage[0] != eku || len(cert.Subject.Organization) != 1 {
		return nil, fmt.Errorf("%s is not an authority for %s", certPath, purpose)
	}
	return &Authority{purpose: purpose, fleet: cert.Subject.Organization[0], cert: cert, key: key}, nil
}

// OpenAuthority loads the authority in a folder or, when there is none, creates it. One of
// another fleet is refused, and one whose key is kept by other means, with what to do.
func OpenAuthority(keys Keys, dir string, purpose Purpose, fleetName string, now time.Time) (*Authority, error) {
	a, err := LoadAuthority(keys, dir, purpose)
	if errors.Is(err, fs.ErrNotExist) {
		return CreateAuthority(keys, dir, purpose, fleetName, now)
	}
	if err != nil {
		return nil, err
	}
	if a.fleet != fleetName {
		return nil, fmt.Errorf("the %s authority in %s is of fleet %q, not %q", purpose, dir, a.fleet, fleetName)
	}
	return a, nil
}

// Certificate returns the authority's own certificate.
func (a *Authority) Certificate() *x509.Certificate { return a.cert }

// PEM returns the authority's own certificate in PEM.
func (a *Authority) PEM() []byte { return encodeCert(a.cert.Raw) }

// Pool returns a pool that holds the authority alone.
func (a *Authority) Pool() *x509.CertPool {
	p := x509.NewCertPool()
	p.AddCert(a.cert)
	return p
}

// IssueHost issues a client certificate for an incarnation of the named host to the key of
// a CSR (DER) and returns it in PEM. Of the CSR only the key counts, which must have
// signed it: Ed25519 or ECDSA P-256. A life of zero means HostLife.
func (a *Authority) IssueHost(csr []byte, host string, incarnation uint64, now time.Time, life time.Duration) ([]byte, error) {
	if a.purpose != Hosts {
		return nil, fmt.Errorf("an authority for %s issues no host certificates", a.purpose)
	}
	id, err := HostURI(a.fleet, host)
	if err != nil {
		return nil, err
	}
	req, err := ParseCSR(csr)
	if err != nil {
		return nil, err
	}
	// RFC 3739, 3.1.2: serialNumber tells subjects of one name apart.
	tmpl := &x509.Certificate{Subject: pkix.Name{CommonName: host, SerialNumber: strconv.FormatUint(incarnation, 10)}}
	tmpl.URIs = append(tmpl.URIs, id)
	cert, err := a.issue(tmpl, req.PublicKey, now, cmp.Or(life, HostLife))
	if err != nil {
		return nil, err
	}
	if got, err := HostOf(cert, a.fleet); err != nil || got != host {
		return nil, fmt.Errorf("certificate for host %q does not name it: %w", host, err)
	}
	return encodeCert(cert.Raw), nil
}

// IssueServer issues a server certificate for DNS names and IP addresses, told
// apart by their form, and returns it in PEM. A life of zero means ServerLife.
func (a *Authority) IssueServer(names []string, pub crypto.PublicKey, now time.Time, life time.Duration) ([]byte, error) {
	if a.purpose != Servers {
		return nil, fmt.Errorf("an authority for %s issues no server certificates", a.purpose)
	}
	if len(names) == 0 {
		return nil, errors.New("a server certificate needs at least one DNS name or IP address")
	}
	tmpl := &x509.Certificate{Subject: pkix.Name{CommonName: names[0]}}
	for _, n := range names {
		if ip := net.ParseIP(n); ip != nil {
			tmpl.IPAddresses = append(tmpl.IPAddresses, ip)
		} else {
			tmpl.DNSNames = append(tmpl.DNSNames, n)
		}
	}
	cert, err := a.issue(tmpl, pub, now, cmp.Or(life, ServerLife))
	if err != nil {
		return nil, err
	}
	return encodeCert(cert.Raw), nil
}

func (a *Authority) issue(tmpl *x509.Certificate, pub crypto.PublicKey, now time.Time, life time.Duration) (*x509.Certificate, error) {
	if err := checkPublic(pub); err != nil {
		return nil, err
	}
	if life <= 0 {
		return nil, fmt.Errorf("a certificate cannot last %s", life)
	}
	eku, err := a.purpose.usage()
	if err != nil {
		return nil, err
	}
	if tmpl.SerialNumber, err = newSerial(); err != nil {
		return nil, err
	}
	tmpl.NotBefore, tmpl.NotAfter = now.Add(-Backdate), now.Add(life)
	tmpl.KeyUsage = x509.KeyUsageDigitalSignature
	tmpl.ExtKeyUsage = []x509.ExtKeyUsage{eku}
	tmpl.BasicConstraintsValid = true
	der, err := x509.CreateCertificate(rand.Reader, tmpl, a.cert, pub, a.key)
	if err != nil {
		return nil, fmt.Errorf("issue certificate: %w", err)
	}
	return x509.ParseCertificate(der)
}

func (p Purpose) usage() (x509.ExtKeyUsage, error) {
	switch p {
	case Hosts:
		return x509.ExtKeyUsageClientAuth, nil
	case Servers:
		return x509.ExtKeyUsageServerAuth, nil
	}
	return 0, fmt.Errorf("unknown authority purpose %q", string(p))
}

func checkPublic(pub crypto.PublicKey) error {
	switch k := pub.(type) {
	case ed25519.PublicKey:
		return nil
	case *ecdsa.PublicKey:
		if k.Curve == elliptic.P256() {
			return nil
		}
	}
	return fmt.Errorf("a key of type %T cannot be certified; use Ed25519 or ECDSA P-256", pub)
}

func authorityPaths(keys Keys, dir string, p Purpose) (key, cert string) {
	return filepath.Join(dir, keys.File(p)), filepath.Join(dir, string(p)+"-ca.pem")
}

func newSerial() (*big.Int, error) {
	return rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
}

func encodeCert(der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: certBlock, Bytes: der})
}
