package testkit

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"golang.org/x/crypto/ssh"
)

const (
	netconfEmpty = `<config xmlns="urn:ietf:params:xml:ns:netconf:base:1.0"/>`
	// NetconfNamespace is that of the module of flows, in the driver's testdata.
	NetconfNamespace = "urn:steady:test:flows"
)

// Netconf is a netconfd behind an sshd, both of an unprivileged user and of this test alone.
type Netconf struct {
	t               testing.TB
	Account         *Account
	Address, port   string
	Fingerprint     string // of the host key
	Key             string // path of the user's
	*Process               // of netconfd
	flags           []string
	startup, socket string
}

// StartNetconf starts one without flows.
func StartNetconf(t testing.TB, flags ...string) *Netconf {
	t.Helper()
	Needs(t, NetconfServer)
	w := &Netconf{t: t, Account: Unprivileged(t), Address: FreeAddr(t), flags: flags}
	var host string
	var err error
	host, w.port, err = net.SplitHostPort(w.Address)
	Must(t, err)
	w.socket = filepath.Join(w.Account.Dir, "n.sock")
	w.startup = w.Account.Write(t, "startup-cfg.xml", netconfEmpty, 0o644)
	w.Account.Write(t, "steady-flows.yang", string(Value(os.ReadFile(netconfModule()))(t)), 0o644)
	hostKey, public := w.newKey()
	w.Fingerprint = ssh.FingerprintSHA256(public)
	userKey, user := w.newKey()
	w.Key = filepath.Join(t.TempDir(), "key")
	Must(t, os.WriteFile(w.Key, userKey, 0o600))
	config := w.Account.Write(t, "sshd_config", fmt.Sprintf(`Port %s
ListenAddress %s
HostKey %s
PidFile none
AuthorizedKeysFile %s
StrictModes no
UsePAM no
PasswordAuthentication no
KbdInteractiveAuthentication no
Subsystem netconf "/usr/sbin/netconf-subsystem --ncxserver-sockname=%[1]s@%[5]s"
`, w.port, host, w.Account.Write(t, "host", string(hostKey), 0o600), w.Account.Write(t, "authorized", string(ssh.MarshalAuthorizedKey(user)), 0o644), w.socket), 0o644)
	w.Start()
	Start(t, w.Account.Command(Find("sshd"), "-D", "-e", "-f", config))
	Eventually(t, "sshd listens", func() bool { return reachable("tcp", w.Address) })
	return w
}

func (w *Netconf) newKey() (private []byte, public ssh.PublicKey) {
	w.t.Helper()
	pub, priv, err := ed25519.GenerateKey(rand.Reader)
	Must(w.t, err)
	block := Value(ssh.MarshalPrivateKey(priv, ""))(w.t)
	return pem.EncodeToMemory(block), Value(ssh.NewPublicKey(pub))(w.t)
}

// Start runs the daemon with what its startup file has.
func (w *Netconf) Start() {
	w.t.Helper()
	_ = os.Remove(w.socket) // it does not start where one is left
	args := append([]string{"--module=" + filepath.Join(w.Account.Dir, "steady-flows.yang"), "--startup=" + w.startup, "--ncxserver-sockname=" + w.socket,
		"--port=" + w.port, "--superuser=" + w.Account.Name, "--access-control=off", "--indent=0", "--log-level=warn"}, w.flags...)
	w.Process = Start(w.t, w.Account.Command(Find("netconfd"), args...))
	Eventually(w.t, "netconfd listens", func() bool { return reachable("unix", w.socket) })
}

func reachable(network, address string) bool {
	c, err := net.Dial(network, address)
	if err == nil {
		_ = c.Close()
	}
	return err == nil
}

// Restart starts it again; empty, as one that lost everything.
func (w *Netconf) Restart(empty bool) {
	w.t.Helper()
	w.Kill()
	if empty {
		Must(w.t, os.WriteFile(w.startup, []byte(netconfEmpty), 0o644))
	}
	w.Start()
}

// netconfModule is the YANG module of flows.
func netconfModule() string {
	_, file, _, _ := runtime.Caller(0)
	return filepath.Join(filepath.Dir(file), "..", "drivers", "netconf", "testdata", "steady-flows.yang")
}

// Options are those of a driver.
func (w *Netconf) Options() map[string]string {
	return map[string]string{"address": w.Address, "user": w.Account.Name, "host-key": w.Fingerprint, "key-file": w.Key, "namespace": NetconfNamespace,
		"path": "/flows/flow", "key": "name", "types": "port=number,enabled=boolean,gain=number", "lists": "tag,output=id", "secrets": "auth/password"}
}
