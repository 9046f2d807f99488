package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/steadyfleet/steady/internal/cli/exit"
)

// Context says how to reach a server as an operator. It is the content of
// DATA/operator.json, which steady server writes, and of the file that steady
// login keeps.
type Context struct {
	Server string `json:"server"` // https URL for operators
	// Agents is the URL for hosts; empty means Server.
	Agents string `json:"agents,omitempty"`
	Token  string `json:"token"`
	CA     string `json:"ca"` // PEM of the servers' authority; empty trusts the machine's
}

// Names of the environment variables that give a context.
const (
	envContext = "STEADY_CONTEXT"
	envServer  = "STEADY_SERVER"
	envToken   = "STEADY_TOKEN"
	envCA      = "STEADY_CA"
)

// remoteFlags are the flags of commands that talk to a server.
type remoteFlags struct{ file, server, token, ca string }

func (r *remoteFlags) register(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&r.file, "context", "", "context file, such as DATA/operator.json (env "+envContext+"; default ~/.config/steady/config.json)")
	f.StringVar(&r.server, "server", "", "URL of the server (env "+envServer+")")
	f.StringVar(&r.token, "token", "", "operator token; prefer the environment (env "+envToken+")")
	f.StringVar(&r.ca, "ca", "", "file with the authority of the server's certificate (env "+envCA+")")
}

// context joins the context file, the environment and the flags, the later
// winning.
func (r *remoteFlags) context(a *app) (Context, error) {
	c, err := r.kept(a)
	if err != nil {
		return Context{}, err
	}
	if v := first(r.server, a.Getenv(envServer)); v != "" {
		c.Server, c.Agents = v, ""
	}
	if v := first(r.token, a.Getenv(envToken)); v != "" {
		c.Token = v
	}
	if v := first(r.ca, a.Getenv(envCA)); v != "" {
		pem, err := os.ReadFile(v)
		if err != nil {
			return Context{}, exit.Badf("--ca: %w", err)
		}
		c.CA = string(pem)
	}
	if c.Server == "" {
		return Context{}, exit.Bad(errors.New("no server is known; give --server URL, --context DATA/operator.json of the server, or run steady login"))
	}
	return c, nil
}

func (r *remoteFlags) kept(a *app) (Context, error) {
	path, optional := first(r.file, a.Getenv(envContext)), false
	if path == "" {
		path, optional = configFile(a.Getenv), true
	}
	c, err := readContext(path)
	if optional && errors.Is(err, fs.ErrNotExist) {
		return Context{}, nil
	}
	return c, exit.Bad(err)
}

func readContext(path string) (Context, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return Context{}, fmt.Errorf("context: %w", err)
	}
	var c Context
	if err := json.Unmarshal(raw, &c); err != nil {
		return Context{}, fmt.Errorf("context %s: %w; expected what steady server writes as operator.json", path, err)
	}
	return c, nil
}

// writeContext keeps a context where only its owner reads it.
func writeContext(path string, c Context) error {
	raw, err := json.MarshalIndent(c, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	next := path + ".new"
	if err := os.Remove(next); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.WriteFile(next, append(raw, '\n'), 0o600); err != nil {
		return err
	}
	return os.Rename(next, path)
}

// configFile is where steady login keeps the context.
func configFile(getenv func(string) string) string {
	dir := getenv("XDG_CONFIG_HOME")
	if dir == "" {
		dir = filepath.Join(getenv("HOME"), ".config")
	}
	return filepath.Join(dir, "steady", "config.json")
}
