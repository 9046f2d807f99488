package testkit

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
)

const toxiproxyPackage = "github.com/Shopify/toxiproxy/v2/cmd/server"

// toxiproxyModule is the module of the program, whose version its go.mod names.
func toxiproxyModule() string {
	_, file, _, _ := runtime.Caller(0)
	return filepath.Join(filepath.Dir(file), "testdata", "toxiproxy")
}

// ToxiproxyProgram is Toxiproxy's server. It is built from its module: once, since the
// build cache has it then.
func ToxiproxyProgram(t testing.TB) string {
	t.Helper()
	Needs(t, ToxiproxyModule)
	program := filepath.Join(t.TempDir(), "toxiproxy")
	cmd := exec.Command("go", "build", "-o", program, toxiproxyPackage)
	cmd.Dir = toxiproxyModule()
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build Toxiproxy in %s: %v\n%s", cmd.Dir, err, out)
	}
	return program
}

// Toxiproxy is a running server of a fault injector for TCP connections.
type Toxiproxy struct {
	t    testing.TB
	Addr string // of its API
	*Process
	program string
}

// StartToxiproxy starts a server without proxies.
func StartToxiproxy(t testing.TB, program string) *Toxiproxy {
	t.Helper()
	x := &Toxiproxy{t: t, Addr: FreeAddr(t), program: program}
	x.Restart()
	return x
}

// Restart starts the server again, at the same address. It keeps nothing.
func (x *Toxiproxy) Restart() {
	x.t.Helper()
	if x.Process != nil {
		x.Kill()
	}
	host, port, err := net.SplitHostPort(x.Addr)
	Must(x.t, err)
	cmd := exec.Command(x.program, "-host", host, "-port", port)
	cmd.Env = append(os.Environ(), "LOG_LEVEL=warn")
	x.Process = Start(x.t, cmd)
	Eventually(x.t, "Toxiproxy answers", func() bool { _, err := x.Do("GET", "/version", nil); return err == nil })
}

// Do is a request of its API.
func (x *Toxiproxy) Do(method, path string, in any) ([]byte, error) {
	raw, err := json.Marshal(in)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequest(method, "http://"+x.Addr+path, bytes.NewReader(raw))
	if err != nil {
		return nil, err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode > 299 {
		err = fmt.Errorf("%s %s: %s: %s", method, path, res.Status, text)
	}
	return text, err
}

// Wire is a connection through Toxiproxy whose faults a test chooses.
type Wire struct {
	x    *Toxiproxy
	name string
	Addr string // where to connect
}

// Wire opens a way to an address.
func (x *Toxiproxy) Wire(name, to string) *Wire {
	x.t.Helper()
	w := &Wire{x: x, name: name, Addr: FreeAddr(x.t)}
	Value(x.Do("POST", "/proxies", map[string]any{"name": name, "listen": w.Addr, "upstream": to}))(x.t)
	return w
}

// Directions of a fault.
const (
	ToServer = "upstream"
	ToClient = "downstream"
)

// Add injects a fault of a type that Toxiproxy has (latency, timeout, reset_peer,
// limit_data, bandwidth, slicer, …) in one direction: timeout with timeout 0 swallows all
// that is sent from then on, and keeps the connection open.
func (w *Wire) Add(fault, direction string, attributes map[string]any) {
	w.x.t.Helper()
	Value(w.x.Do("POST", "/proxies/"+w.name+"/toxics", map[string]any{"name": fault + "-" + direction, "type": fault, "stream": direction, "attributes": attributes}))(w.x.t)
}

// Remove takes a fault away.
func (w *Wire) Remove(fault, direction string) {
	w.x.t.Helper()
	Value(w.x.Do("DELETE", "/proxies/"+w.name+"/toxics/"+fault+"-"+direction, nil))(w.x.t)
}

// Cut ends all connections and refuses new ones, until Mend.
func (w *Wire) Cut() { w.enable(false) }

// Mend lets connections through again.
func (w *Wire) Mend() { w.enable(true) }

func (w *Wire) enable(on bool) {
	w.x.t.Helper()
	Value(w.x.Do("POST", "/proxies/"+w.name, map[string]any{"enabled": on}))(w.x.t)
}
