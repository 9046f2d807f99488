package command

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/steadyfleet/steady/internal/cli/exit"
	"github.com/steadyfleet/steady/internal/disk"
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
	EnvContext = "STEADY_CONTEXT"
	EnvServer  = "STEADY_SERVER"
	EnvToken   = "STEADY_TOKEN"
	EnvCA      = "STEADY_CA"
)

// remoteFlags are the flags of commands that talk to a server.
type remoteFlags struct{ file, server, token, ca string }

// NamesServer adds the flags that say how to reach a server.
func (e *Env) NamesServer(cmd *cobra.Command) {
	f, r := cmd.Flags(), &e.remote
	f.StringVar(&r.file, "context", "", "context file, such as DATA/operator.json (env "+EnvContext+"; default ~/.config/steady/config.json, then ./"+hereFile+")")
	f.StringVar(&r.server, "server", "", "URL of the server (env "+EnvServer+")")
	f.StringVar(&r.token, "token", "", "operator token; prefer the environment (env "+EnvToken+")")
	f.StringVar(&r.ca, "ca", "", "file with the authority of the server's certificate (env "+EnvCA+")")
}

// Context joins the context file, the environment and the flags, the later
// winning.
func (e *Env) Context() (Context, error) {
	r := &e.remote
	c, err := e.kept()
	if err != nil {
		return Context{}, err
	}
	if v := cmp.Or(r.server, e.Getenv(EnvServer)); v != "" {
		c.Server, c.Agents = v, ""
	}
	if v := cmp.Or(r.token, e.Getenv(EnvToken)); v != "" {
		c.Token = v
	}
	if v := cmp.Or(r.ca, e.Getenv(EnvCA)); v != "" {
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

func (e *Env) kept() (Context, error) {
	path, optional := cmp.Or(e.remote.file, e.Getenv(EnvContext)), false
	if path == "" {
		path, optional = ConfigFile(e.Getenv), true
	}
	c, err := readContext(path)
	if optional && errors.Is(err, fs.ErrNotExist) {
		if path = serverHere(); path == "" {
			return Context{}, nil
		}
		c, err = readContext(path)
	}
	return c, exit.Bad(err)
}

// hereFile is what a server that runs with --data data in the present folder wrote.
const hereFile = "data/operator.json"

// serverHere names the context of a server whose data folder lies in the present
// one, or nothing. Only a file that nobody else may read or write counts: what comes
// with a repository must not choose the server.
func serverHere() string {
	info, err := os.Lstat(hereFile)
	if err != nil || !info.Mode().IsRegular() || info.Mode().Perm()&0o077 != 0 {
		return ""
	}
	return hereFile
}

func readContext(path string) (Context, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return Context{}, fmt.Errorf("context: %w; --context or %s names a file that steady server wrote as operator.json, or steady login keeps one", err, EnvContext)
	}
	var c Context
	if err := json.Unmarshal(raw, &c); err != nil {
		return Context{}, fmt.Errorf("context %s: %w; expected what steady server writes as operator.json", path, err)
	}
	return c, nil
}

// ChangeToken gives a context file another token. It is fs.ErrNotExist when there is
// no such file.
func ChangeToken(path, token string) error {
	c, err := readContext(path)
	if err != nil {
		return err
	}
	c.Token = token
	return WriteContext(path, c)
}

// WriteContext keeps a context where only its owner reads it.
func WriteContext(path string, c Context) error {
	raw, err := json.MarshalIndent(c, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	if err := disk.Unversioned(filepath.Dir(path), "/"+filepath.Base(path)); err != nil {
		return err
	}
	return disk.Replace(path, append(raw, '\n'), 0o600)
}

// ConfigFile is where steady login keeps the context.
func ConfigFile(getenv func(string) string) string {
	dir := getenv("XDG_CONFIG_HOME")
	if dir == "" {
		dir = filepath.Join(getenv("HOME"), ".config")
	}
	return filepath.Join(dir, "steady", "config.json")
}

// StoreFolder is the folder with the log in a server's data folder.
func StoreFolder(data string) (string, error) {
	dir := filepath.Join(data, "store")
	_, err := os.Stat(dir)
	switch {
	case data == "":
		return "", exit.Badf("--data is missing; give with --data DIR the data folder that steady server has")
	case errors.Is(err, fs.ErrPermission):
		return "", exit.With(exit.Refused, fmt.Errorf("the data folder %s is not readable by this user; run this as the user of the server, or as root", data))
	case err != nil:
		return "", exit.Badf("--data %q is no server's data folder; give with --data DIR the one that steady server has", data)
	}
	return dir, nil
}
