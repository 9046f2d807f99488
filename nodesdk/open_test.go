package nodesdk_test

import (
	"encoding/pem"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/identity"
	"github.com/steadyfleet/steady/internal/testkit"
	"github.com/steadyfleet/steady/internal/testkit/testfleet"
	"github.com/steadyfleet/steady/nodesdk"
)

// tokens makes the files that commands of a fleet write.
type tokens struct {
	t    *testing.T
	keys testfleet.Keys
	root []byte
	ca   []byte
}

func newTokens(t *testing.T) *tokens {
	server := httptest.NewTLSServer(nil)
	t.Cleanup(server.Close)
	k := testfleet.NewKeys("")
	return &tokens{t, k, testkit.Value(k.First())(t), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})}
}

func (k *tokens) text(envelope []byte) string {
	return fleet.TokenText{Envelope: envelope, Server: "https://steady.example:8443", ServerCA: k.ca, Root: k.root}.String()
}

func (k *tokens) node(name string, edit ...func(*identity.NodeToken)) string {
	return k.text(testkit.Value(k.keys.NodeToken(name, edit...))(k.t))
}

func (k *tokens) expired(name string) string {
	return k.node(name, func(n *identity.NodeToken) {
		n.IssuedAt -= clock.Instant(clock.Day)
		n.Expires -= clock.Instant(clock.Day)
	})
}

func (k *tokens) file(text string) string {
	path := filepath.Join(k.t.TempDir(), "a file")
	testkit.Must(k.t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// TestOpen: the file of a token is all that a node needs, and at later starts not even that.
func TestOpen(t *testing.T) {
	k, state := newTokens(t), filepath.Join(t.TempDir(), "state")
	line := k.node("studio-1")
	file := k.file(line + "\n")
	for what, token := range map[string]string{"a file": file, "the text": "  " + line, "none": "", "a file that is gone": file + ".gone"} {
		if what != "a file" && what != "the text" {
			testkit.Value(nodesdk.Open(file, state))(t)
		}
		c, err := nodesdk.Open(token, state)
		if err != nil || c.Name != "studio-1" || c.Server != "https://steady.example:8443" || c.RootCAs == nil || c.StateDir != state || !strings.HasPrefix(string(c.Token), "{") {
			t.Errorf("%s: %+v, %v", what, c, err)
		}
	}
	if info := testkit.Value(os.Stat(filepath.Join(state, "token")))(t); info.Mode().Perm() != 0o600 {
		t.Errorf("the token that is kept has mode %s", info.Mode())
	}
	if c, err := nodesdk.Open(k.node("studio-1"), state); err != nil || c.Name != "studio-1" {
		t.Errorf("another token of the node: %v", err)
	}
	if _, err := nodesdk.Open(k.node("studio-2"), state); err == nil || !strings.Contains(err.Error(), "is of node studio-1") {
		t.Errorf("the token of another node: %v", err)
	}
}

// TestOpenExpired: an expired token registers no node, and is enough for one that is registered.
func TestOpenExpired(t *testing.T) {
	k, state := newTokens(t), t.TempDir()
	_, err := nodesdk.Open(k.file(k.expired("studio-1")), state)
	refusedWith(t, "an expired token", err, "expired at", "steady node token studio-1")
	if _, err := os.Stat(filepath.Join(state, "token")); err == nil {
		t.Error("a token that was refused is kept")
	}
	peer := newPeer(t)
	stop := start(t, peer, newMemory(), state)
	request(t, session(t, peer), nodesdk.Request{Snapshot: &nodesdk.SnapshotRequest{}}) // the welcome is durable before
	stop()
	if _, err := nodesdk.Open(k.file(k.expired("studio-1")), state); err != nil {
		t.Errorf("of a node that is registered: %v", err)
	}
}

func refusedWith(t *testing.T, what string, err error, words ...string) {
	t.Helper()
	for _, w := range words {
		if err == nil || !strings.Contains(err.Error(), w) {
			t.Errorf("%s: %v, want words with %q", what, err, w)
		}
	}
}

// TestOpenRefuses: whatever else is given is refused with what it is, and what is needed.
func TestOpenRefuses(t *testing.T) {
	k, state := newTokens(t), t.TempDir()
	line := k.node("studio-1")
	bad := k.node("studio-1")
	for what, c := range map[string]struct{ text, says string }{
		"the root":                 {string(k.root), "a root of trust of the fleet"},
		"the token of a host":      {k.text(testkit.Value(k.keys.Token("web-1", k.root))(t)), `the token of host "web-1"`},
		"cut short":                {line[:len(line)/2], "cut short"},
		"without its last letter":  {line[:len(line)-1], "cut short"},
		"a letter changed":         {bad[:40] + "!" + bad[41:], "cut short or damaged"},
		"two tokens":               {line + "\n" + line, "cut short or damaged"},
		"nothing":                  {"", "is empty"},
		"the authority":            {string(k.ca), `a PEM file ("CERTIFICATE")`},
		"a private key":            {"-----BEGIN PRIVATE KEY-----\nMC4CAQAw\n", `a PEM file ("PRIVATE KEY")`},
		"the envelope alone":       {string(testkit.Value(k.keys.NodeToken("studio-1"))(t)), `of type "steady/node-token/v1" by itself`},
		"the JSON of the command":  {`{"token":"` + line + `","node":"studio-1"}`, `its member "token"`},
		"other JSON":               {`{"a":1}`, "a JSON document"},
		"a configuration":          {"listen: 8080\n", "is no token"},
		"too long":                 {line + strings.Repeat("A", 200_000), "too long"},
		"a prefix of another time": {"steady2." + line[8:], "is no token"},
		"without the authority":    {fleet.TokenText{Envelope: testkit.Value(k.keys.NodeToken("a"))(t), Server: "https://a:1"}.String(), "lacks the node, the server or its authority"},
	} {
		_, err := nodesdk.Open(k.file(c.text), state)
		refusedWith(t, what, err, c.says, "steady node token")
		if err != nil && strings.Contains(err.Error(), "MC4CAQAw") {
			t.Errorf("%s: the error has the content", what)
		}
	}
	_, err := nodesdk.Open(t.TempDir(), state)
	refusedWith(t, "a folder", err, "steady node token")
	_, err = nodesdk.Open("", state)
	refusedWith(t, "nothing at the first start", err, "steady node token")
	_, err = nodesdk.Open(line, "")
	refusedWith(t, "no folder", err, "folder")
	// What steady node token writes is no value of Config.Token.
	c := testkit.Value(nodesdk.Open(line, state))(t)
	c.Driver, c.Collections, c.Token = newMemory(), []nodesdk.Collection{{Kind: "flow"}}, []byte(line)
	refusedWith(t, "the text as Config.Token", nodesdk.Run(t.Context(), c), "Open")
}
