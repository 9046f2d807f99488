package identity

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"errors"
	"io/fs"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/testkit"
)

const testFleet = "acme"

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func newKey(t testing.TB) crypto.Signer {
	t.Helper()
	key := testkit.Value(NewKey())(t)
	return key
}

func authority(t testing.TB, p Purpose, fleetName string) *Authority {
	t.Helper()
	a := testkit.Value(OpenAuthority(FileKeys{}, t.TempDir(), p, fleetName, now))(t)
	return a
}

func hostCert(t testing.TB, a *Authority, key crypto.Signer, host string) []byte {
	t.Helper()
	csr := testkit.Value(NewCSR(key))(t)
	pem := testkit.Value(a.IssueHost(csr, host, 1, now, 0))(t)
	return pem
}

func parse(t testing.TB, pem []byte) *x509.Certificate {
	t.Helper()
	c := testkit.Value(ParseCertificate(pem))(t)
	return c
}

func TestKeyFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "host.key")
	key := testkit.Value(KeyFile(path))(t)
	again := testkit.Value(KeyFile(path))(t)
	if !key.Public().(interface{ Equal(crypto.PublicKey) bool }).Equal(again.Public()) {
		t.Error("the key changed between two loads")
	}
	info := testkit.Value(os.Stat(path))(t)
	if info.Mode().Perm() != 0o600 {
		t.Errorf("mode %o", info.Mode().Perm())
	}
	if err := SaveKey(path, newKey(t)); !errors.Is(err, fs.ErrExist) {
		t.Errorf("a key was overwritten: %v", err)
	}
	for _, mode := range []fs.FileMode{0o640, 0o604, 0o620, 0o602, 0o610} {
		testkit.Must(t, os.Chmod(path, mode))
		if _, err := LoadKey(path); err == nil {
			t.Errorf("a key of mode %o is loaded", mode)
		}
		if _, err := KeyFile(path); err == nil {
			t.Errorf("a key of mode %o is used", mode)
		}
	}
	entries := testkit.Value(os.ReadDir(filepath.Dir(path)))(t)
	if len(entries) != 1 {
		t.Errorf("left over: %v", entries)
	}
	if _, err := LoadKey(filepath.Dir(path)); err == nil {
		t.Error("a folder is loaded as a key")
	}
	p384 := testkit.Value(ecdsa.GenerateKey(elliptic.P384(), rand.Reader))(t)
	odd := filepath.Join(t.TempDir(), "odd.key")
	testkit.Must(t, SaveKey(odd, p384))
	if _, err := LoadKey(odd); err == nil {
		t.Error("a P-384 key is loaded")
	}
	testkit.Must(t, os.WriteFile(odd, []byte("not a key"), 0o600))
	if _, err := LoadKey(odd); err == nil {
		t.Error("text is loaded as a key")
	}
}

func TestAuthorityStays(t *testing.T) {
	dir := t.TempDir()
	a := testkit.Value(OpenAuthority(FileKeys{}, dir, Hosts, testFleet, now))(t)
	b := testkit.Value(OpenAuthority(FileKeys{}, dir, Hosts, testFleet, now.Add(time.Hour)))(t)
	if !a.Certificate().Equal(b.Certificate()) {
		t.Error("the authority changed between two starts")
	}
	if _, err := CreateAuthority(FileKeys{}, dir, Hosts, testFleet, now); !errors.Is(err, fs.ErrExist) {
		t.Errorf("an authority was replaced: %v", err)
	}
	if _, err := OpenAuthority(FileKeys{}, dir, Hosts, "other", now); err == nil {
		t.Error("the authority of another fleet is opened")
	}
	if _, err := OpenAuthority(FileKeys{}, dir, "both", testFleet, now); err == nil {
		t.Error("an unknown purpose is accepted")
	}
	s := testkit.Value(OpenAuthority(FileKeys{}, dir, Servers, testFleet, now))(t)
	// The files of one purpose do not pass for those of the other.
	for _, ext := range []string{".key", ".pem"} {
		testkit.Must(t, os.Remove(filepath.Join(dir, "servers-ca"+ext)))
		testkit.Must(t, os.Link(filepath.Join(dir, "hosts-ca"+ext), filepath.Join(dir, "servers-ca"+ext)))
	}
	if _, err := LoadAuthority(FileKeys{}, dir, Servers); err == nil {
		t.Error("a hosts authority is loaded as a servers authority")
	}
	csr := testkit.Value(NewCSR(newKey(t)))(t)
	if _, err := s.IssueHost(csr, "web-1", 1, now, 0); err == nil {
		t.Error("a servers authority issued for a host")
	}
	if _, err := a.IssueServer([]string{"localhost"}, newKey(t).Public(), now, 0); err == nil {
		t.Error("a hosts authority issued for a server")
	}
}

func TestHostCertificate(t *testing.T) {
	a := authority(t, Hosts, testFleet)
	ec := testkit.Value(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	for _, key := range []crypto.Signer{newKey(t), ec} {
		for _, host := range []string{"web-1", "a", "0", "a.b_c-d"} {
			cert := parse(t, hostCert(t, a, key, host))
			got, err := HostOf(cert, testFleet)
			if err != nil || got != host {
				t.Fatalf("host %q, %v", got, err)
			}
			if life := cert.NotAfter.Sub(now); life != HostLife {
				t.Errorf("life %s", life)
			}
			if IncarnationOf(cert) != 1 {
				t.Errorf("incarnation %d", IncarnationOf(cert))
			}
			if IssuedAt(cert) != clock.FromTime(now) {
				t.Errorf("issued %s", IssuedAt(cert))
			}
			if _, err := HostOf(cert, "other"); err == nil {
				t.Error("a certificate passes for another fleet")
			}
		}
	}
	csr := testkit.Value(NewCSR(newKey(t)))(t)
	for _, host := range []string{"", "Web", "../x", "a/b", "a b", "x\x00"} {
		if _, err := a.IssueHost(csr, host, 1, now, 0); err == nil {
			t.Errorf("a certificate for host %q", host)
		}
	}
	weak := testkit.Value(rsa.GenerateKey(rand.Reader, 2048))(t)
	weakCSR := testkit.Value(NewCSR(weak))(t)
	csr[len(csr)-1] ^= 1
	for name, bad := range map[string][]byte{"RSA": weakCSR, "broken signature": csr, "empty": nil, "large": make([]byte, 17<<10)} {
		if _, err := a.IssueHost(bad, "web-1", 1, now, 0); err == nil {
			t.Errorf("a certificate for a request that is %s", name)
		}
	}
	if _, err := a.IssueHost(weakCSR, "web-1", 1, now, -time.Hour); err == nil {
		t.Error("a certificate with a negative life")
	}
}

// TestTheRequestNamesNobody: a CSR that asks for names gets the issuer's.
func TestTheRequestNamesNobody(t *testing.T) {
	a := authority(t, Hosts, testFleet)
	evil := testkit.Value(HostURI(testFleet, "db-1"))(t)
	csr, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{
		URIs: []*url.URL{evil}, DNSNames: []string{"steady.example"}, IPAddresses: []net.IP{{127, 0, 0, 1}}}, newKey(t))
	testkit.Must(t, err)
	pem, err := a.IssueHost(csr, "web-1", 1, now, 0)
	testkit.Must(t, err)
	if host, err := HostOf(parse(t, pem), testFleet); err != nil || host != "web-1" {
		t.Errorf("host %q, %v", host, err)
	}
}

func TestHostOfIsExact(t *testing.T) {
	good := func() *x509.Certificate {
		u := testkit.Value(HostURI(testFleet, "web-1"))(t)
		return &x509.Certificate{ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}, URIs: []*url.URL{u}}
	}
	testkit.Value(HostOf(good(), testFleet))(t)
	for name, change := range map[string]func(c *x509.Certificate){
		"any usage":    func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageAny} },
		"server usage": func(c *x509.Certificate) { c.ExtKeyUsage[0] = x509.ExtKeyUsageServerAuth },
		"both usages": func(c *x509.Certificate) {
			c.ExtKeyUsage = append(c.ExtKeyUsage, x509.ExtKeyUsageServerAuth)
		},
		"no usage":  func(c *x509.Certificate) { c.ExtKeyUsage = nil },
		"authority": func(c *x509.Certificate) { c.IsCA = true },
		"no name":   func(c *x509.Certificate) { c.URIs = nil },
		"two names": func(c *x509.Certificate) { c.URIs = append(c.URIs, c.URIs[0]) },
		"DNS name":  func(c *x509.Certificate) { c.DNSNames = []string{"web-1"} },
		"address":   func(c *x509.Certificate) { c.IPAddresses = []net.IP{{1, 2, 3, 4}} },
	} {
		c := good()
		change(c)
		if host, err := HostOf(c, testFleet); err == nil {
			t.Errorf("%s: named %q", name, host)
		}
	}
	for _, uri := range []string{"spiffe://acme/host/", "spiffe://acme/host", "spiffe://acme/node/web-1", "spiffe://acme/host/web-1/x",
		"spiffe://acme/host/web-1?x=1", "spiffe://acme/host/web-1#x", "spiffe://u@acme/host/web-1", "spiffe://acme:1/host/web-1",
		"https://acme/host/web-1", "spiffe://acme/host/web%2d1", "spiffe://acme/host/..", "spiffe://ACME/host/web-1", "spiffe:acme/host/web-1"} {
		u := testkit.Value(url.Parse(uri))(t)
		c := good()
		c.URIs[0] = u
		if host, err := HostOf(c, testFleet); err == nil {
			t.Errorf("%s: named %q", uri, host)
		}
	}
	if _, err := HostOf(nil, testFleet); err == nil {
		t.Error("no certificate named a host")
	}
}

func TestRenewAt(t *testing.T) {
	cert := parse(t, hostCert(t, authority(t, Hosts, testFleet), newKey(t), "web-1"))
	life := cert.NotAfter.Sub(cert.NotBefore)
	nan := 0.0
	nan /= nan
	for _, c := range []struct{ fraction, want float64 }{{0.5, 0.5}, {0.65, 0.65}, {0.8, 0.8}, {0, 0.5}, {-1, 0.5}, {1, 0.8}, {nan, 0.5}} {
		got := RenewAt(cert, c.fraction).Sub(cert.NotBefore).Seconds() / life.Seconds()
		if got < c.want-1e-9 || got > c.want+1e-9 {
			t.Errorf("fraction %v renews at %v of the life", c.fraction, got)
		}
	}
}

func TestPairBelongsTogether(t *testing.T) {
	key := newKey(t)
	pem := hostCert(t, authority(t, Hosts, testFleet), key, "web-1")
	if _, err := Pair(pem, key); err != nil {
		t.Error(err)
	}
	if _, err := Pair(pem, newKey(t)); err == nil {
		t.Error("a certificate with the key of another")
	}
	if _, err := ParseCertificate(append(pem, pem...)); err == nil {
		t.Error("two certificates where one belongs")
	}
}
