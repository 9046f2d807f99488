package nodesdk

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/steadyfleet/steady/internal/core/secret"
	"github.com/steadyfleet/steady/internal/disk"
)

// SetSecret stores the value that {"$secret": NAME} stands for, in the state folder of a
// node, which may be running. An empty value removes it.
func SetSecret(stateDir, name, value string) error {
	if name == "" || len(name) > 200 {
		return errors.New("the name of a secret: expected 1 to 200 bytes")
	}
	if err := os.MkdirAll(stateDir, 0o700); err != nil {
		return fmt.Errorf("make the state folder: %w", err)
	}
	path := filepath.Join(stateDir, fileSecrets)
	lock, err := disk.TryLock(path + ".lock")
	if err != nil {
		return err
	}
	defer lock.Release() //nolint:errcheck // the lock ends with the process
	all, err := namedSecrets(stateDir)
	if err != nil {
		return err
	}
	if value == "" {
		delete(all, name)
	} else {
		all[name] = value
	}
	raw, err := json.MarshalIndent(all, "", "  ")
	if err != nil {
		return fmt.Errorf("write the secrets: %w", err)
	}
	return writeFile(path, raw)
}

// namedSecrets reads the secrets that were stored by name.
func namedSecrets(dir string) (map[string]string, error) {
	path := filepath.Join(dir, fileSecrets)
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return map[string]string{}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the secrets: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("read the secrets: %w", err)
	}
	if info.Mode().Perm()&0o077 != 0 {
		return nil, fmt.Errorf("%s can be read by others: chmod 600 it, and change the secrets", path)
	}
	all := map[string]string{}
	if json.NewDecoder(f).Decode(&all) != nil {
		return nil, fmt.Errorf("%s is no JSON object of texts", path)
	}
	return all, nil
}

// clean takes every secret that the node knows out of a text that leaves it.
func (s *store) clean(text string) string {
	if text == "" {
		return ""
	}
	named, err := namedSecrets(s.dir)
	if err != nil {
		return "an error that is not shown, because the node's secrets could not be read to take them out of it"
	}
	for name, v := range named {
		text = secret.Clean(text, name, []byte(v))
	}
	s.vaultMu.Lock()
	defer s.vaultMu.Unlock()
	for _, e := range s.vault.Entries {
		value := []byte(e.Value)
		var v string
		if json.Unmarshal(value, &v) == nil {
			value = []byte(v)
		} else if bytes.Equal(value, []byte("true")) || bytes.Equal(value, []byte("false")) {
			continue
		}
		text = secret.Clean(text, "of the node", value)
	}
	return text
}
