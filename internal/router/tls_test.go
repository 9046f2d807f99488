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
	"github.com/steadyfleet/steady/internal/router/table"
)

// writePair puts a self-signed NAME.crt and NAME.key in the folder.
func writePair(t *testing.T, folder, name string, serial int64, hosts ...string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	tmpl := &x509.Certificate{SerialNumber: big.NewInt(serial), DNSNames: hosts, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for ext, block := range map[string]*pem.Block{".crt": {Type: "CERTIFICATE", Bytes: der}, ".key": {Type: "PRIVATE KEY", Bytes: private}} {
		if err := os.WriteFile(filepath.Join(folder, name+ext), pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
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

func secure(name, host, cert string) table.Route {
	return table.Route{Name: name, Host: host, TLS: cert, Upstream: "web", Port: 80}
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
	if err := f.listen.Reload(); err != nil {
		t.Fatal(err)
	}
	check(map[string]int64{"a.example": 11, "b.example": 2})

	// A broken pair is reported and the one before stays; the other is renewed.
	if err := os.WriteFile(filepath.Join(folder, "one.key"), []byte("broken"), 0o600); err != nil {
		t.Fatal(err)
	}
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
	plainOnly := table.Route{Name: "plain", Host: "a.example", Path: "/plain", Upstream: "web", Port: 80}
	f := start(t, router.Config{}, router.Options{HTTPS: []string{"127.0.0.1:0"}, Folder: folder},
		redirected, plainOnly, secure("b", "b.example", "two"))
	f.ready("web", workspace(t, func(w http.ResponseWriter, req *http.Request) {
		_, _ = io.WriteString(w, req.Header.Get("X-Forwarded-Proto")+" "+req.Header.Get("X-Forwarded-Host"))
	}))
	for _, h2 := range []bool{false, true} {
		transport := &http.Transport{TLSClientConfig: &tls.Config{ServerName: "a.example", InsecureSkipVerify: true}, ForceAttemptHTTP2: h2}
		ask := func(host, path string) (*http.Response, string) {
			t.Helper()
			req, err := http.NewRequest("GET", "https://"+f.https+path, nil)
			if err != nil {
				t.Fatal(err)
			}
			req.Host = host
			res, err := transport.RoundTrip(req)
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			body, err := io.ReadAll(res.Body)
			if err != nil {
				t.Fatal(err)
			}
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

func TestWriteExport(t *testing.T) {
	path := filepath.Join(t.TempDir(), "routes.yml")
	for i, want := range []bool{true, false} {
		if changed, err := router.WriteExport(path, []byte("{}\n")); err != nil || changed != want {
			t.Errorf("write %d: %v %v", i, changed, err)
		}
	}
	if changed, err := router.WriteExport(path, []byte("{ }\n")); err != nil || !changed {
		t.Errorf("%v %v", changed, err)
	}
	if data, err := os.ReadFile(path); err != nil || string(data) != "{ }\n" {
		t.Errorf("%q %v", data, err)
	}
	left, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(left) != 1 {
		t.Errorf("%v %v", left, err)
	}
	if _, err := router.WriteExport(filepath.Join(path, "x"), nil); err == nil {
		t.Error("wrote below a file")
	}
	f := start(t, router.Config{}, router.Options{}, web())
	s := workspace(t, says("x"))
	f.ready("web", s)
	out, err := f.router.Table().Export(f.router.Addresses)
	if err != nil {
		t.Fatal(err)
	}
	has(t, string(out.JSON), addrOf(s).String())
}
