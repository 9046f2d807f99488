package identity

import (
	"crypto"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"time"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/fleet"
)

// HostURI returns the identity spiffe://<fleet>/host/<name>.
func HostURI(fleetName, host string) (*url.URL, error) {
	if err := fleet.CheckName(fleetName); err != nil {
		return nil, err
	}
	if err := fleet.CheckName(host); err != nil {
		return nil, err
	}
	return &url.URL{Scheme: "spiffe", Host: fleetName, Path: "/host/" + host}, nil
}

// HostOf returns the host that a verified client certificate names. It refuses
// one of another fleet, one with other than exactly this one name, and one that
// is not for clients alone. It does not check the chain: TLS has done that.
func HostOf(cert *x509.Certificate, fleetName string) (string, error) {
	if cert == nil {
		return "", errors.New("no client certificate")
	}
	if cert.IsCA || len(cert.ExtKeyUsage) != 1 || cert.ExtKeyUsage[0] != x509.ExtKeyUsageClientAuth || len(cert.UnknownExtKeyUsage) != 0 {
		return "", errors.New("the certificate is not one for a host: it must be for client authentication alone")
	}
	if len(cert.URIs) != 1 || len(cert.DNSNames)+len(cert.IPAddresses)+len(cert.EmailAddresses) != 0 {
		return "", errors.New("the certificate must name one URI and nothing else")
	}
	const prefix = "/host/"
	u := cert.URIs[0]
	if len(u.Path) <= len(prefix) {
		return "", fmt.Errorf("identity %q is not spiffe://%s/host/<name>", u, fleetName)
	}
	host := u.Path[len(prefix):]
	want, err := HostURI(fleetName, host)
	if err != nil || u.String() != want.String() {
		return "", fmt.Errorf("identity %q is not spiffe://%s/host/<name>", u, fleetName)
	}
	return host, nil
}

// NewCSR makes a certificate request (DER) for a key. It carries the key and
// nothing else: the name comes from the token or the present certificate.
func NewCSR(key crypto.Signer) ([]byte, error) {
	return x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{}}, key)
}

// ParseCSR reads a certificate request (DER) of at most 16 KiB, checks that its
// key signed it, and that the key is Ed25519 or ECDSA P-256.
func ParseCSR(der []byte) (*x509.CertificateRequest, error) {
	if len(der) > 16<<10 {
		return nil, fmt.Errorf("a certificate request of %d bytes is too large", len(der))
	}
	req, err := x509.ParseCertificateRequest(der)
	if err != nil {
		return nil, fmt.Errorf("certificate request: %w", err)
	}
	if err := req.CheckSignature(); err != nil {
		return nil, fmt.Errorf("certificate request: %w", err)
	}
	return req, checkPublic(req.PublicKey)
}

// PublicDigest names a public key by its SPKI DER.
func PublicDigest(pub crypto.PublicKey) (digest.Digest, error) {
	der, err := x509.MarshalPKIXPublicKey(pub)
	if err != nil {
		return "", err
	}
	return digest.Of(der), nil
}

// ParseCertificate reads exactly one certificate in PEM.
func ParseCertificate(raw []byte) (*x509.Certificate, error) {
	if len(raw) > maxFile {
		return nil, fmt.Errorf("a certificate of %d bytes is too large", len(raw))
	}
	der, err := onePEM(raw, certBlock)
	if err != nil {
		return nil, err
	}
	return x509.ParseCertificate(der)
}

// Pair joins a certificate in PEM with its key for TLS. It refuses a key that
// does not belong to the certificate.
func Pair(certPEM []byte, key crypto.Signer) (*tls.Certificate, error) {
	cert, err := ParseCertificate(certPEM)
	if err != nil {
		return nil, err
	}
	if !belongs(cert, key) {
		return nil, errors.New("the certificate and the key do not belong together")
	}
	return &tls.Certificate{Certificate: [][]byte{cert.Raw}, PrivateKey: key, Leaf: cert}, nil
}

// belongs reports whether a certificate is for a key.
func belongs(cert *x509.Certificate, key crypto.Signer) bool {
	pub, ok := cert.PublicKey.(interface{ Equal(crypto.PublicKey) bool })
	return ok && pub.Equal(key.Public())
}

// Serial names a certificate in events and states.
func Serial(cert *x509.Certificate) string { return cert.SerialNumber.Text(16) }

// IncarnationOf returns the incarnation of the host that a certificate was issued to; zero
// where it does not say, as those of 0.1.0.
func IncarnationOf(cert *x509.Certificate) uint64 {
	n, err := strconv.ParseUint(cert.Subject.SerialNumber, 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// IssuedAt returns when a certificate of an Authority was issued, which is
// Backdate after it starts, to the second below.
func IssuedAt(cert *x509.Certificate) clock.Instant {
	return clock.FromTime(cert.NotBefore.Add(Backdate))
}

// RenewAt returns when to renew a certificate: at the given fraction of its
// life, which the caller draws at random. Fractions are held to 0.5 to 0.8.
func RenewAt(cert *x509.Certificate, fraction float64) time.Time {
	if !(fraction >= 0.5) {
		fraction = 0.5
	}
	fraction = min(fraction, 0.8)
	life := cert.NotAfter.Sub(cert.NotBefore)
	return cert.NotBefore.Add(time.Duration(float64(life) * fraction))
}
