package netconf

import (
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"

	"golang.org/x/crypto/ssh"

	"github.com/steadyfleet/steady/internal/drivers/base"
	"github.com/steadyfleet/steady/nodesdk"
)

// Options of Open, each with what it is for.
var Options = [][2]string{
	{"address", "of the device: HOST or HOST:PORT (default port: 830)"},
	{"host-key", "fingerprint of the device's SSH key, as ssh-keygen -l prints it: SHA256:…"},
	{"user", "to log in as"},
	{"key-file", "private SSH key of the user"},
	{"password-file", "file with the user's password"},
	{"path", "of the list whose entries are flows, or the subtree that is a document"},
	{"namespace", "of the elements of the path"},
	{"key", "leaf that names an entry, or several with +; without it the path is a document"},
	{"types", "of leaves that are no texts: FIELD=number, boolean, empty or identity"},
	{"lists", "lists within an object: FIELD or FIELD=KEY; the step * is an entry of a list"},
	{"secrets", "fields whose values never leave the node"},
	{"ignored", "fields that the device changes by itself"},
	{"ports", "fields with a port, or an address with one, that the device listens on"},
}

// Open returns a driver; it connects when it is used.
func Open(options map[string]string) (nodesdk.Driver, []nodesdk.Collection, error) {
	d := &Driver{login: login{address: options["address"], timeout: dialTimeout, config: &ssh.ClientConfig{User: options["user"]}},
		form: form{types: map[string]string{}, lists: map[string]string{}}}
	if options["address"] == "" || options["user"] == "" {
		return nil, nil, errors.New("address and user: give both")
	}
	if _, _, err := net.SplitHostPort(d.login.address); err != nil {
		d.login.address = net.JoinHostPort(strings.Trim(d.login.address, "[]"), "830")
	}
	if err := d.authenticate(options); err != nil {
		return nil, nil, err
	}
	for step := range strings.SplitSeq(strings.Trim(options["path"], "/"), "/") {
		n, err := named(step, options["namespace"])
		if err != nil {
			return nil, nil, fmt.Errorf("path: %w", err)
		}
		d.path = append(d.path, n)
	}
	if d.path[0].Space == "" {
		return nil, nil, errors.New("namespace: expected that of the YANG module, as the device's hello lists it")
	}
	if options["key"] != "" {
		d.keys = strings.Split(options["key"], "+")
	}
	c := nodesdk.Collection{Kind: d.kind(), Secrets: base.List(options["secrets"]), Ignored: base.List(options["ignored"]), Ports: base.List(options["ports"])}
	for _, pair := range base.List(options["types"]) {
		field, kind, _ := strings.Cut(pair, "=")
		if !slices.Contains(leafTypes, kind) {
			return nil, nil, fmt.Errorf("types: %q: expected FIELD= and one of %s", pair, strings.Join(leafTypes, ", "))
		}
		d.form.types[field] = kind
	}
	for _, pair := range base.List(options["lists"]) {
		field, key, _ := strings.Cut(pair, "=")
		d.form.lists[field] = key
		if c.Sets == nil {
			c.Sets = map[string]string{}
		}
		c.Sets[field] = key
	}
	return d, []nodesdk.Collection{c}, nil
}

func (d *Driver) authenticate(options map[string]string) error {
	pinned := options["host-key"]
	if !strings.HasPrefix(pinned, "SHA256:") {
		return errors.New("host-key: expected the fingerprint SHA256:… of the device's key; ssh-keygen -l -f FILE prints it on the device")
	}
	d.login.config.HostKeyCallback = func(_ string, _ net.Addr, key ssh.PublicKey) error {
		if got := ssh.FingerprintSHA256(key); got != pinned {
			return fmt.Errorf("the device has the %s key %s, and %s is pinned", key.Type(), got, pinned)
		}
		return nil
	}
	if path := options["key-file"]; path != "" {
		raw, err := os.ReadFile(path)
		if err != nil {
			return fmt.Errorf("key-file: %w", err)
		}
		signer, err := ssh.ParsePrivateKey(raw)
		if err != nil {
			return fmt.Errorf("key-file: %w", err)
		}
		d.login.config.Auth = append(d.login.config.Auth, ssh.PublicKeys(signer))
	}
	if path := options["password-file"]; path != "" {
		raw, err := os.ReadFile(path)
		if err != nil {
			return fmt.Errorf("password-file: %w", err)
		}
		d.login.config.Auth = append(d.login.config.Auth, ssh.Password(strings.TrimRight(string(raw), "\r\n")))
	}
	if len(d.login.config.Auth) == 0 {
		return errors.New("key-file or password-file: give one")
	}
	return nil
}
