package testkit

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// Caddy is a web server with a home and an admin API of its own.
type Caddy struct {
	*Process
	Dir, URL string // the folder, and the admin API
	Empty    []byte // the configuration that it begins with

	t testing.TB
}

// StartCaddy starts one without sites.
func StartCaddy(t testing.TB) *Caddy {
	t.Helper()
	Needs(t, CaddyServer)
	at := "127.0.0.1:" + strconv.Itoa(Ports(t, "tcp", 1)[0])
	c := &Caddy{t: t, Dir: t.TempDir(), URL: "http://" + at, Empty: fmt.Appendf(nil, `{"admin":{"listen":%q},"apps":{"http":{"servers":{}}}}`, at)}
	c.Write(c.Empty)
	c.Restart()
	return c
}

// File is its configuration file.
func (c *Caddy) File() string { return filepath.Join(c.Dir, "caddy.json") }

// Write writes it.
func (c *Caddy) Write(config []byte) {
	c.t.Helper()
	Must(c.t, os.WriteFile(c.File(), config, 0o600))
}

// Restart starts it again with its file: --resume takes what it saved instead, and
// --watch loads the file when it changes.
func (c *Caddy) Restart(flags ...string) {
	c.t.Helper()
	if c.Process != nil {
		c.Kill()
	}
	cmd := exec.Command("caddy", append([]string{"run", "--config", c.File()}, flags...)...)
	cmd.Env = append(os.Environ(), "HOME="+c.Dir, "XDG_CONFIG_HOME="+c.Dir, "XDG_DATA_HOME="+c.Dir)
	c.Process = Start(c.t, cmd)
	Eventually(c.t, "Caddy answers", func() bool { _, err := c.Do(http.MethodGet, "/config/", nil); return err == nil })
	if slices.Contains(flags, "--watch") { // an edit before that is what it compares the file with
		Eventually(c.t, "Caddy watches its file", func() bool { return strings.Contains(c.Output(), "watching config file for changes") })
	}
}

// Do is a request of its admin API.
func (c *Caddy) Do(method, path string, config json.RawMessage) ([]byte, error) {
	req, err := http.NewRequest(method, c.URL+path, bytes.NewReader(config))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode > 299 {
		err = fmt.Errorf("%s %s: %s: %s", method, path, res.Status, raw)
	}
	return raw, err
}
