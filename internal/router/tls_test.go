package router_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"math/big"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/steadyfleet/steady/internal/router"
	"github.com/steadyfleet/steady/internal/testkit"
)

// writePair puts a self-signed NAME.crt and NAME.key in the folder.
func writePair(t *testing.T, folder, name string, serial int64, hosts ...string) {
	t.Helper()
	key := testkit.Value(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	tmpl := &x509.Certificate{SerialNumber: big.NewInt(serial), DNSNames: hosts, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour)}
	der := testkit.Value(x509.CreateCertificate(rand.Reader, tmpl, tmpl, key.Public(), key))(t)
	private := testkit.Value(x509.MarshalPKCS8PrivateKey(key))(t)
	for ext, block := range map[string]*pem.Block{".crt": {Type: "CERTIFICATE", Bytes: der}, ".key": {Type: "PRIVATE KEY", Bytes: private}} {
		testkit.Must(t, os.WriteFile(filepath.Join(folder, name+ext), pem.EncodeToMemory(block), 0o600))
	}
}

// serial returns the serial number of the certificate for the name; 0 if the
// handshake is refused.
func (f *front) serial(name string) int64 {
	conn, err := tls.Dial("tcp", f.https, &tls.Config{ServerName: name, InsecureSkipVerify: true})
	if err != nil {
		if !strings.Contains(err.Error(), "unrecognized name") {
			f.t.Errorf("%s: %v", name, err)
		}
		return 0
	}
	defer conn.Close()
	return conn.ConnectionState().PeerCertificates[0].SerialNumber.Int64()
}

func secure(name, host, cert string) router.Route {
	return router.Route{Name: name, Host: host, TLS: cert, Upstream: "web", Port: 80}
}

func TestCertificatesBySNIAndReload(t *testing.T) {
	folder := t.TempDir()
	writePair(t, folder, "one", 1, "a.example")
	writePair(t, folder, "two", 2, "b.example")
	f := start(t, router.Config{}, router.Options{HTTPS: []string{"127.0.0.1:0"}, Folder: folder},
		secure("a", "a.example", "one"), secure("b", "b.example", "two"))
	check := func(want map[string]int64) {
		t.Helper()
		for name, serial := range want {
			if got := f.serial(name); got != serial {
				t.Errorf("%s has certificate %d, expected %d", name, got, serial)
			}
		}
	}
	check(map[string]int64{"a.example": 1, "B.example": 2, "c.example": 0})

	writePair(t, folder, "one", 11, "a.example")
	check(map[string]int64{"a.example": 1}) // not before Reload
	testkit.Must(t, f.listen.Reload())
	check(map[string]int64{"a.example": 11, "b.example": 2})

	// A broken pair is reported and the one before stays; the other is renewed.
	testkit.Must(t, os.WriteFile(filepath.Join(folder, "one.key"), []byte("broken"), 0o600))
	writePair(t, folder, "two", 22, "b.example")
	err := f.listen.Reload()
	if err == nil {
		t.Fatal("a broken key passes")
	}
	has(t, err.Error(), "certificate one")
	check(map[string]int64{"a.example": 11, "b.example": 22})

	// The map of names follows the table, without a reload.
	f.swap(secure("a", "a.example", "two"), secure("any", "", "one"))
	check(map[string]int64{"a.example": 22, "b.example": 11, "": 11})
}

func TestHTTPSRequests(t *testing.T) {
	folder := t.TempDir()
	writePair(t, folder, "one", 1, "a.example")
	writePair(t, folder, "two", 2, "b.example")
	redirected := secure("a", "a.example", "one")
	redirected.RedirectHTTP = true
	plainOnly := router.Route{Name: "plain", Host: "a.example", Path: "/plain", Upstream: "web", Port: 80}
	f := start(t, router.Config{}, router.Options{HTTPS: []string{"127.0.0.1:0"}, Folder: folder},
		redirected, plainOnly, secure("b", "b.example", "two"))
	f.ready("web", workspace(t, func(w http.ResponseWriter, req *http.Request) {
		_, _ = io.WriteString(w, req.Header.Get("X-Forwarded-Proto")+" "+req.Header.Get("X-Forwarded-Host"))
	}))
	for _, h2 := range []bool{false, true} {
		transport := &http.Transport{TLSClientConfig: &tls.Config{ServerName: "a.example", InsecureSkipVerify: true}, ForceAttemptHTTP2: h2}
		ask := func(host, path string) (*http.Response, string) {
			t.Helper()
			req := testkit.Value(http.NewRequest("GET", "https://"+f.https+path, nil))(t)
			req.Host = host
			res := testkit.Value(transport.RoundTrip(req))(t)
			defer res.Body.Close()
			body := testkit.Value(io.ReadAll(res.Body))(t)
			return res, string(body)
		}
		if res, body := ask("a.example", "/"); res.StatusCode != 200 || body != "https a.example" || (res.ProtoMajor == 2) != h2 {
			t.Errorf("%s %d %q", res.Proto, res.StatusCode, body)
		}
		if res, body := ask("b.example", "/"); res.StatusCode != 421 {
			t.Errorf("another certificate's host: %d %q", res.StatusCode, body)
		}
		if res, body := ask("a.example", "/plain"); res.StatusCode != 404 {
			t.Errorf("a route without TLS: %d %q", res.StatusCode, body)
		}
		transport.CloseIdleConnections()
	}
	for path, want := range map[string]string{"/x?y=1": "https://a.example/x?y=1", "//evil.example/": "https://a.example/evil.example/"} {
		req := f.request("GET", path, nil)
		req.Host = "A.Example:80"
		if res, _ := f.do(req); res.StatusCode != 308 || res.Header.Get("Location") != want {
			t.Errorf("%d to %q", res.StatusCode, res.Header.Get("Location"))
		}
	}
}

func TestListenSaysWhatIsMissing(t *testing.T) {
	r := router.New(router.Config{})
	if _, err := r.Listen(t.Context(), router.Options{HTTPS: []string{"127.0.0.1:0"}}); err == nil {
		t.Error("HTTPS without a folder")
	}
	f := start(t, router.Config{}, router.Options{}, web())
	if _, err := r.Listen(t.Context(), router.Options{HTTP: []string{"127.0.0.1:0", f.addr}}); err == nil {
		t.Error("an address that is taken")
	} else {
		has(t, err.Error(), "free the address")
	}
}
