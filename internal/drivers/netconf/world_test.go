package netconf

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/steadyfleet/steady/internal/testkit"
)

const (
	install   = "apt-get install netconfd openssh-server (services of theirs need not run)"
	namespace = "urn:steady:test:flows"
	empty     = `<config xmlns="urn:ietf:params:xml:ns:netconf:base:1.0"/>`
)

// world is a netconfd behind an sshd, both of an unprivileged user and of this test alone.
type world struct {
	t               *testing.T
	account         *testkit.Account
	address, port   string
	fingerprint     string
	key             string // path
	daemon, sshd    *testkit.Process
	flags           []string
	startup, socket string
}

func newWorld(t *testing.T, flags ...string) *world {
	t.Helper()
	for _, name := range []string{"netconfd", "sshd"} {
		if _, err := os.Stat("/usr/sbin/" + name); err != nil {
			testkit.Missing(t, name+" is not installed: "+install)
		}
	}
	w := &world{t: t, account: testkit.Unprivileged(t), address: testkit.FreeAddr(t), flags: flags}
	var host string
	var err error
	host, w.port, err = net.SplitHostPort(w.address)
	testkit.Must(t, err)
	w.socket = filepath.Join(w.account.Dir, "n.sock")
	w.startup = w.account.Write(t, "startup-cfg.xml", empty, 0o644)
	w.account.Write(t, "steady-flows.yang", string(testkit.Value(os.ReadFile("testdata/steady-flows.yang"))(t)), 0o644)
	hostKey, public := w.newKey()
	w.fingerprint = ssh.FingerprintSHA256(public)
	userKey, user := w.newKey()
	w.key = filepath.Join(t.TempDir(), "key")
	testkit.Must(t, os.WriteFile(w.key, userKey, 0o600))
	config := w.account.Write(t, "sshd_config", fmt.Sprintf(`Port %s
ListenAddress %s
HostKey %s
PidFile none
AuthorizedKeysFile %s
StrictModes no
UsePAM no
PasswordAuthentication no
KbdInteractiveAuthentication no
Subsystem netconf "/usr/sbin/netconf-subsystem --ncxserver-sockname=%[1]s@%[5]s"
`, w.port, host, w.account.Write(t, "host", string(hostKey), 0o600), w.account.Write(t, "authorized", string(ssh.MarshalAuthorizedKey(user)), 0o644), w.socket), 0o644)
	w.start()
	w.sshd = testkit.Start(t, w.account.Command("/usr/sbin/sshd", "-D", "-e", "-f", config))
	testkit.Eventually(t, "sshd listens", func() bool { return reachable("tcp", w.address) })
	return w
}

func (w *world) newKey() (private []byte, public ssh.PublicKey) {
	w.t.Helper()
	pub, priv, err := ed25519.GenerateKey(rand.Reader)
	testkit.Must(w.t, err)
	block := testkit.Value(ssh.MarshalPrivateKey(priv, ""))(w.t)
	return pem.EncodeToMemory(block), testkit.Value(ssh.NewPublicKey(pub))(w.t)
}

// start runs the daemon with what its startup file has.
func (w *world) start() {
	w.t.Helper()
	_ = os.Remove(w.socket) // it does not start where one is left
	args := append([]string{"--module=" + filepath.Join(w.account.Dir, "steady-flows.yang"), "--startup=" + w.startup, "--ncxserver-sockname=" + w.socket,
		"--port=" + w.port, "--superuser=" + w.account.Name, "--access-control=off", "--indent=0", "--log-level=warn"}, w.flags...)
	w.daemon = testkit.Start(w.t, w.account.Command("/usr/sbin/netconfd", args...))
	testkit.Eventually(w.t, "netconfd listens", func() bool { return reachable("unix", w.socket) })
}

func reachable(network, address string) bool {
	c, err := net.Dial(network, address)
	if err == nil {
		_ = c.Close()
	}
	return err == nil
}

func (w *world) restart() {
	w.t.Helper()
	w.daemon.Kill()
	w.start()
}

func (w *world) options(more map[string]string) map[string]string {
	o := map[string]string{"address": w.address, "user": w.account.Name, "host-key": w.fingerprint, "key-file": w.key, "namespace": namespace,
		"path": "/flows/flow", "key": "name", "types": "port=number,enabled=boolean,gain=number", "lists": "tag,output=id", "secrets": "auth/password"}
	maps.Copy(o, more)
	return o
}

func (w *world) open(more map[string]string) *Driver {
	w.t.Helper()
	d, _, err := Open(w.options(more))
	testkit.Must(w.t, err)
	own := d.(*Driver)
	own.login.timeout = 5 * time.Second // netconfd forgets who connects while it starts
	w.t.Cleanup(own.Close)
	return own
}
