package testkit

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// KeaLocal is what of Kea's configuration belongs to the machine here, as the driver's option has it.
const KeaLocal = "control-socket,lease-database,interfaces-config,loggers"

// Kea is a DHCPv4 server that listens on no interface, and its control agent, both of an unprivileged
// user and of this test alone.
type Kea struct {
	t       testing.TB
	account *Account
	socket  string
	File    string // of its configuration
	First   string // what it has at the first start
	URL     string // of the control agent
	*Process
}

// StartKea starts one that has nothing but what belongs to the machine.
func StartKea(t testing.TB) *Kea {
	t.Helper()
	Needs(t, KeaServer)
	k := &Kea{t: t, account: Unprivileged(t)}
	address := FreeAddr(t)
	k.socket, k.URL = filepath.Join(k.account.Dir, "s"), "http://"+address
	k.First = fmt.Sprintf(`{ // by hand
"Dhcp4": {"control-socket": {"socket-type": "unix", "socket-name": %q},
	"interfaces-config": {"interfaces": []}, # none
	"lease-database": {"type": "memfile", "persist": false},
	"loggers": [{"name": "kea-dhcp4", "severity": "WARN", "output_options": [{"output": "stdout"}]}] /* and
	nothing else */ }}
`, k.socket)
	k.File = k.account.Write(t, "dhcp4.conf", k.First, 0o644)
	k.start()
	host, port, err := net.SplitHostPort(address)
	Must(t, err)
	k.run("kea-ctrl-agent", "-c", k.account.Write(t, "agent.conf", fmt.Sprintf(`{"Control-agent": {"http-host": %q, "http-port": %s,
		"control-sockets": {"dhcp4": {"socket-type": "unix", "socket-name": %q}}, "loggers": [{"name": "kea-ctrl-agent", "severity": "WARN", "output_options": [{"output": "stdout"}]}]}}`, host, port, k.socket), 0o644))
	Eventually(t, "Kea answers", func() bool { _, err := k.Config(); return err == nil })
	return k
}

func (k *Kea) run(name string, args ...string) *Process {
	k.t.Helper()
	cmd := k.account.Command(Find(name), args...)
	cmd.Env = append(cmd.Env, "KEA_LOCKFILE_DIR="+k.account.Dir, "KEA_PIDFILE_DIR="+k.account.Dir)
	return Start(k.t, cmd)
}

// start runs the server at a port that needs no privilege.
func (k *Kea) start() {
	k.t.Helper()
	k.Process = k.run("kea-dhcp4", "-p", "16767", "-c", k.File)
}

// Restart starts the server again; empty, as one that lost everything.
func (k *Kea) Restart(empty bool) {
	k.t.Helper()
	k.Kill()
	if empty {
		Must(k.t, os.WriteFile(k.File, []byte(k.First), 0o644))
	}
	Must(k.t, os.RemoveAll(k.socket))
	k.start()
}

// command sends one to the server.
func (k *Kea) command(name string, arguments any) (json.RawMessage, error) {
	req := map[string]any{"command": name, "service": []string{"dhcp4"}}
	if arguments != nil {
		req["arguments"] = arguments
	}
	raw, err := json.Marshal(req)
	if err != nil {
		return nil, err
	}
	resp, err := http.Post(k.URL, "application/json", bytes.NewReader(raw)) //nolint:noctx // it is local
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	var answers []struct {
		Result    int
		Text      string
		Arguments json.RawMessage
	}
	if err := json.NewDecoder(resp.Body).Decode(&answers); err != nil {
		return nil, err
	}
	if len(answers) != 1 || answers[0].Result != 0 {
		return nil, fmt.Errorf("%s: %+v", name, answers)
	}
	return answers[0].Arguments, nil
}

// Config is what the server runs.
func (k *Kea) Config() (map[string]any, error) {
	raw, err := k.command("config-get", nil)
	if err != nil {
		return nil, err
	}
	var out struct{ Dhcp4 map[string]any }
	err = json.Unmarshal(raw, &out)
	return out.Dhcp4, err
}

// whole is a document with what belongs to the machine.
func (k *Kea) whole(document map[string]any) map[string]any {
	k.t.Helper()
	now, to := Value(k.Config())(k.t), maps.Clone(document)
	if to == nil {
		to = map[string]any{}
	}
	for name := range strings.SplitSeq(KeaLocal, ",") {
		to[name] = now[name]
	}
	return map[string]any{"Dhcp4": to}
}

// Set is a person who has the server run another document, by its API.
func (k *Kea) Set(document map[string]any) {
	k.t.Helper()
	Value(k.command("config-set", k.whole(document)))(k.t)
}

// Edit is a person who writes the file and has the server read it.
func (k *Kea) Edit(document map[string]any) {
	k.t.Helper()
	raw := Value(json.MarshalIndent(k.whole(document), "", "  "))(k.t)
	Must(k.t, os.WriteFile(k.File, append([]byte("// edited by hand\n"), raw...), 0o644))
	Value(k.command("config-reload", nil))(k.t)
}
