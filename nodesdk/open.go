package nodesdk

import (
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/disk"
)

// fileToken keeps the token in the state folder: after the first start it is needed for the
// server's address and authority alone.
const fileToken = "token"

// Open returns a Config with all that a token has: the node's name, where its server is and by
// what that is verified, and the token itself. The caller adds the driver and its collections.
//
// Token is the file that steady node token wrote, as it is, or its text. It is kept in the state
// folder, so that later starts need neither: an empty token, and a file that is gone, are the
// one of an earlier start. A token is good for one registration until it expires; a node that is
// registered starts with an expired one. Whatever else is given is refused with words that say
// what it is.
func Open(token, stateDir string) (Config, error) {
	if stateDir == "" {
		return Config{}, errors.New("a node needs a folder for its state")
	}
	s := &store{dir: stateDir}
	if _, err := s.read(fileIdentity, &s.id); err != nil {
		return Config{}, err
	}
	kept, err := readToken(filepath.Join(stateDir, fileToken))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return Config{}, err
	}
	line, what := strings.TrimSpace(token), "the token"
	if !strings.HasPrefix(line, fleet.TokenPrefix) {
		if line, err = given(token, kept, stateDir); err != nil {
			return Config{}, err
		}
		what = token
	}
	if line == kept && kept != "" {
		what = filepath.Join(stateDir, fileToken)
	}
	text, claims, err := fleet.ReadNodeToken(line)
	if err != nil {
		return Config{}, fmt.Errorf("%s cannot register a node: %w; needed is the file that steady node token NODE writes", what, err)
	}
	if !s.id.Registered && claims.Expires.Reached(clock.FromTime(time.Now())) {
		return Config{}, fmt.Errorf("%s expired at %s, before node %s was registered with it: make a new one with steady node token %s", what, claims.Expires, claims.Node, claims.Node)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text.ServerCA) {
		return Config{}, fmt.Errorf("%s has no usable certificate of the servers' authority: make a new one with steady node token %s", what, claims.Node)
	}
	if line != kept {
		if err := keepToken(stateDir, line, kept, claims); err != nil {
			return Config{}, err
		}
	}
	return Config{Name: claims.Node, StateDir: stateDir, Server: text.Server, RootCAs: pool, Token: text.Envelope}, nil
}

// given returns the line in a file, or the one of an earlier start.
func given(file, kept, stateDir string) (string, error) {
	if file == "" && kept != "" {
		return kept, nil
	}
	if file == "" {
		return "", fmt.Errorf("%s has no node yet: give the file that steady node token NODE writes", stateDir)
	}
	line, err := readToken(file)
	if errors.Is(err, fs.ErrNotExist) && kept != "" {
		return kept, nil
	}
	if err != nil {
		return "", fmt.Errorf("%w; needed is the file that steady node token NODE writes", err)
	}
	return line, nil
}

// readToken reads a file that may be any.
func readToken(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("read the token: %w", err)
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, fleet.MaxTokenText+1))
	if err != nil {
		return "", fmt.Errorf("read the token: %w", err)
	}
	return strings.TrimSpace(string(raw)), nil
}

// keepToken keeps a token for later starts, unless the folder is another node's.
func keepToken(stateDir, line, kept string, now fleet.TokenClaims) error {
	if _, was, err := fleet.ReadNodeToken(kept); err == nil && (was.Node != now.Node || was.Fleet != now.Fleet) {
		return fmt.Errorf("the state folder %s is of node %s of fleet %s, and the token is for node %s of fleet %s: give each node a folder of its own",
			stateDir, was.Node, was.Fleet, now.Node, now.Fleet)
	}
	if err := os.MkdirAll(stateDir, 0o700); err != nil {
		return fmt.Errorf("make the state folder: %w", err)
	}
	if err := disk.Unversioned(stateDir, "*"); err != nil {
		return err
	}
	return writeFile(filepath.Join(stateDir, fileToken), []byte(line+"\n"))
}
