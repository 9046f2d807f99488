package dockerapi

// This file reads the credentials of registries from the host's own
// store: a file as docker login writes it (config.json), or a folder with one
// file of the form {"username": ..., "password": ...} for each registry, named by
// its host and port. Nothing is cached: a change counts from the next pull. What
// others on the host could read is refused.

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/moby/moby/api/types/registry"
)

// Hub is the registry of references that name none.
const Hub = "docker.io"

// Store is the store at a path.
type Store struct{ path string }

// Open uses a file or a folder. There need be none: then no registry has
// credentials.
func OpenCredentials(path string) *Store { return &Store{path: path} }

// Host is the registry that a reference names, such as registry.example:5000.
func Host(ref string) string {
	first, _, more := strings.Cut(ref, "/")
	if more && (strings.ContainsAny(first, ".:") || first == "localhost") {
		return canonical(first)
	}
	return Hub
}

// canonical is one spelling of each registry's name.
func canonical(name string) string {
	name = strings.TrimPrefix(strings.TrimPrefix(name, "https://"), "http://")
	name, _, _ = strings.Cut(name, "/")
	name = strings.ToLower(name)
	switch name {
	case "index.docker.io", "registry-1.docker.io", "registry.hub.docker.com":
		return Hub
	}
	return name
}

// For gives the credentials of a registry's host; false if there are none.
func (s *Store) For(host string) (registry.AuthConfig, bool, error) {
	host = canonical(host)
	info, err := os.Stat(s.path)
	if errors.Is(err, fs.ErrNotExist) {
		return registry.AuthConfig{}, false, nil
	}
	if err != nil {
		return registry.AuthConfig{}, false, fmt.Errorf("registry credentials: %w", err)
	}
	if info.IsDir() {
		return s.fromFolder(info, host)
	}
	text, err := read(s.path)
	if err != nil {
		return registry.AuthConfig{}, false, err
	}
	return fromConfig(s.path, text, host)
}

func (s *Store) fromFolder(info fs.FileInfo, host string) (registry.AuthConfig, bool, error) {
	none := registry.AuthConfig{}
	if err := private(s.path, info); err != nil {
		return none, false, err
	}
	if host == "" || host != filepath.Base(host) || strings.HasPrefix(host, ".") {
		return none, false, fmt.Errorf("registry credentials: %q is no name of a registry", host)
	}
	path := filepath.Join(s.path, host)
	text, err := read(path)
	if errors.Is(err, fs.ErrNotExist) {
		return none, false, nil
	}
	if err != nil {
		return none, false, err
	}
	var e entry
	if err := json.Unmarshal(text, &e); err != nil {
		return none, false, malformed(path, err)
	}
	return e.auth(path, host)
}

// entry is the credentials of one registry as docker login writes them, or as
// people do.
type entry struct {
	Auth          string `json:"auth"` // base64 of user:password
	Username      string `json:"username"`
	Password      string `json:"password"`
	IdentityToken string `json:"identitytoken"`
	RegistryToken string `json:"registrytoken"`
}

func (e entry) auth(path, host string) (registry.AuthConfig, bool, error) {
	out := registry.AuthConfig{Username: e.Username, Password: e.Password, IdentityToken: e.IdentityToken, RegistryToken: e.RegistryToken, ServerAddress: host}
	if host == Hub {
		out.ServerAddress = "https://index.docker.io/v1/"
	}
	if e.Auth != "" {
		text, err := base64.StdEncoding.DecodeString(e.Auth)
		user, password, ok := strings.Cut(string(text), ":")
		if err != nil || !ok {
			return out, false, malformed(path, fmt.Errorf("auth of %s is not the base64 of user:password", host))
		}
		out.Username, out.Password = user, strings.TrimRight(password, "\x00")
	}
	if out.Username == "" && out.IdentityToken == "" && out.RegistryToken == "" {
		return out, false, malformed(path, fmt.Errorf("%s has neither user nor token", host))
	}
	return out, true, nil
}

func fromConfig(path string, text []byte, host string) (registry.AuthConfig, bool, error) {
	var c struct {
		Auths       map[string]entry  `json:"auths"`
		CredHelpers map[string]string `json:"credHelpers"`
		CredsStore  string            `json:"credsStore"`
	}
	none := registry.AuthConfig{}
	if err := json.Unmarshal(text, &c); err != nil {
		return none, false, malformed(path, err)
	}
	for name, e := range c.Auths {
		if canonical(name) != host {
			continue
		}
		if e == (entry{}) && c.CredsStore != "" {
			return none, false, helper(path, host, c.CredsStore)
		}
		return e.auth(path, host)
	}
	for name, h := range c.CredHelpers {
		if canonical(name) == host {
			return none, false, helper(path, host, h)
		}
	}
	return none, false, nil
}

func helper(path, host, name string) error {
	return fmt.Errorf("registry credentials: %s names the helper docker-credential-%s for %s, which is not run: put user and password into a file of this form", path, name, host)
}

// malformed never quotes the content.
func malformed(path string, err error) error {
	if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
		err = fmt.Errorf("no JSON from byte %d on", syntax.Offset)
	} else if kind, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		err = fmt.Errorf("%s has the wrong type at byte %d", kind.Field, kind.Offset)
	}
	return fmt.Errorf("registry credentials: correct %s: %w", path, err)
}

// most bounds a file of credentials, in bytes.
const most = 1 << 20

// read reads a file that nobody else can read, checked on the open file.
func read(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("registry credentials: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("registry credentials: %w", err)
	}
	if err := private(path, info); err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && len(text) > most {
		err = fmt.Errorf("%s is larger than %d bytes", path, most)
	}
	if err != nil {
		return nil, fmt.Errorf("registry credentials: %w", err)
	}
	return text, nil
}

// private refuses what the group or others could read or change, and what
// belongs to another user.
func private(path string, info fs.FileInfo) error {
	if mode := info.Mode().Perm(); mode&0o077 != 0 {
		right := "600"
		if info.IsDir() {
			right = "700"
		}
		return fmt.Errorf("registry credentials: others on this host have access to %s (mode %04o), so it is not used: chmod %s %s, and change what was in it", path, mode, right, path)
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if ok && st.Uid != 0 && int(st.Uid) != os.Geteuid() {
		return fmt.Errorf("registry credentials: %s belongs to user %d, so it is not used: chown %d %s", path, st.Uid, os.Geteuid(), path)
	}
	return nil
}
