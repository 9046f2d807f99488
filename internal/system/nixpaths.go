package system

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/spec"
)

// Nars brings archives of store paths to the host.
type Nars interface {
	// List is what a system consists of, which the bundle names.
	List(ctx context.Context, n *fleet.Nix) (fleet.Closure, error)
	// Bring has each archive in nar/ of the folder, by the digits of its digest, verified.
	Bring(ctx context.Context, list []spec.Blob) error
	Folder() string
	// Drop removes them.
	Drop() error
}

var errNoNars = errors.New("this agent takes no systems path by path")

// narsOf lists the archives of paths, each once.
func narsOf(paths []fleet.StorePath) []spec.Blob {
	c := fleet.Closure{Paths: paths}
	return c.Nars()
}

// LacksNix lists the paths of a system that the host's store does not have. None are listed
// where nothing says what they are.
func (h Host) LacksNix(ctx context.Context, bundle digest.Digest, n *fleet.Nix) ([]fleet.StorePath, error) {
	if n.Paths == nil {
		return nil, nil
	}
	if h.Nars == nil {
		return nil, errNoNars
	}
	lacks, err := h.invalid(ctx, bundle, []string{n.Path})
	if err != nil || len(lacks) == 0 {
		return nil, err // a valid path has all that it refers to
	}
	c, err := h.Nars.List(ctx, n)
	if err != nil {
		return nil, err
	}
	all := make([]string, len(c.Paths))
	for i := range c.Paths {
		all[i] = c.Paths[i].Path
	}
	for some := range slices.Chunk(all, mostArguments) {
		more, err := h.invalid(ctx, bundle, some)
		if err != nil {
			return nil, err
		}
		for p := range more {
			lacks[p] = true
		}
	}
	return slices.DeleteFunc(c.Paths, func(p fleet.StorePath) bool { return !lacks[p.Path] }), nil
}

// mostArguments bounds how many paths one command is given.
const mostArguments = 500

// invalid returns which of the paths are not valid in the store.
func (h Host) invalid(ctx context.Context, bundle digest.Digest, paths []string) (map[string]bool, error) {
	var out bytes.Buffer
	err := h.nix(ctx, bundle, Command{Argv: append([]string{"nix-store", "--check-validity", "--print-invalid"}, paths...), Stdout: &out})
	lacks := map[string]bool{}
	for _, p := range strings.Fields(out.String()) {
		lacks[p] = true
	}
	return lacks, err
}

// takePaths brings what the host's store lacks of a system into it, and keeps the system from
// being collected. Nix takes the paths from a binary cache in the state folder, in its own
// order, and checks them as those of any cache: each is signed by a key that lives as long as
// this call and that this one command trusts, since the signed bundle names what they are.
func (h Host) takePaths(ctx context.Context, bundle digest.Digest, n *fleet.Nix) error {
	lacks, err := h.LacksNix(ctx, bundle, n)
	if err != nil || len(lacks) == 0 {
		return err
	}
	if err := h.Nars.Bring(ctx, narsOf(lacks)); err != nil {
		return err
	}
	public, err := writeCache(h.Nars.Folder(), filepath.Dir(n.Path), lacks)
	if err != nil {
		return fmt.Errorf("write the binary cache of the host: %w", err)
	}
	cache := url.URL{Scheme: "file", Path: h.Nars.Folder()}
	err = h.nix(ctx, bundle, Command{Argv: []string{"nix-store", "--option", "substituters", cache.String(), "--option", "trusted-public-keys", public,
		"--realise", n.Path, "--add-root", filepath.Join(h.Systems, n.Name+".next"), "--indirect"}, Timeout: MaxTimeout})
	if err != nil {
		return fmt.Errorf("the store of this host does not take %s: %w", n.Path, err)
	}
	return h.Nars.Drop()
}

// keyName is the name under which the agent signs what it gives to Nix.
const keyName = "steady-agent-1"

// writeCache makes the folder of archives a binary cache, and returns the key that signs it.
func writeCache(folder, store string, paths []fleet.StorePath) (public string, err error) {
	key, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		return "", err
	}
	if err := os.WriteFile(filepath.Join(folder, "nix-cache-info"), fleet.NixCacheInfo(store), 0o600); err != nil {
		return "", err
	}
	for i := range paths {
		p := paths[i]
		p.Signatures = append(slices.Clone(p.Signatures), keyName+":"+base64.StdEncoding.EncodeToString(ed25519.Sign(private, p.Fingerprint())))
		text := p.Narinfo("nar/" + p.Content.Hex())
		if err := os.WriteFile(filepath.Join(folder, fleet.NarinfoName(p.Path)), text, 0o600); err != nil {
			return "", err
		}
	}
	return keyName + ":" + base64.StdEncoding.EncodeToString(key), nil
}
