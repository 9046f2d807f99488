package cli

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/pflag"

	"github.com/steadyfleet/steady/internal/cli/exit"
	"github.com/steadyfleet/steady/internal/control"
	"github.com/steadyfleet/steady/internal/control/fetch"
	"github.com/steadyfleet/steady/internal/core/clock"
)

// sourceOptions say where a server looks for releases.
type sourceOptions struct {
	specs                  []string
	poll                   string
	credentials, ca, hooks string
}

// sourceHelp is the part of the help of steady server about sources.
const sourceHelp = `
Releases are pushed, and with --release-source fetched as well, from a folder, a
URL of a packed release, or a branch of a git repository:

  dir:/srv/release
  https://releases.example/acme.tar
  git+https://git.example/acme/fleet.git#main:release
  git+ssh://git@git.example/acme/fleet.git#main:release
  git+file:///srv/fleet.git#main:release

Each is verified like a push. What does not verify changes nothing and is said
once per cause. A webhook at /v1/hooks/release, signed with the secret in
--release-hook-secret as GitHub, Gitea and Forgejo sign, makes the server look
at once.`

func (o *sourceOptions) flags(f *pflag.FlagSet) {
	f.StringArrayVar(&o.specs, "release-source", nil, "where releases are kept; may be repeated")
	f.StringVar(&o.poll, "release-poll", "60s", "how often to check it, 1s to 24h")
	f.StringVar(&o.credentials, "release-credentials", "", "file with USER:PASSWORD or a token for the https sources")
	f.StringVar(&o.ca, "release-ca", "", "file with the authority of the https sources (default: the machine's)")
	f.StringVar(&o.hooks, "release-hook-secret", "", "file with the secret that signs webhooks")
}

// minHookSecret is the least length of a secret that signs webhooks.
const minHookSecret = 16

// apply fills in what the runtime needs to know of sources.
func (o *sourceOptions) apply(c *control.Config, data string) error {
	every, err := clock.ParseDuration(o.poll)
	if err != nil || every < clock.Second || every > clock.Day {
		return exit.Badf("--release-poll %s: expected a duration from 1s to 24h", o.poll)
	}
	c.SourceEvery = every
	if o.hooks != "" {
		if c.HookSecret, err = fetch.ReadSecret(o.hooks); err != nil {
			return exit.Badf("--release-hook-secret: %w", err)
		}
		if len(c.HookSecret) < minHookSecret {
			return exit.Badf("--release-hook-secret: %s holds %d bytes: expected at least %d, such as from openssl rand -hex 32", o.hooks, len(c.HookSecret), minHookSecret)
		}
	}
	var common fetch.Options
	if o.ca != "" {
		if common.CA, err = os.ReadFile(o.ca); err != nil {
			return exit.Badf("--release-ca: %w", err)
		}
	}
	var creds fetch.Credentials
	if o.credentials != "" {
		if creds, err = fetch.ReadCredentials(o.credentials); err != nil {
			return exit.Badf("--release-credentials: %w", err)
		}
	}
	if data, err = filepath.Abs(data); err != nil {
		return err
	}
	var names []string
	for _, spec := range o.specs {
		own := common
		if fetch.MaySendCredentials(spec) {
			own.Credentials = creds
		}
		sum := sha256.Sum256([]byte(spec))
		own.Cache = filepath.Join(data, "sources", hex.EncodeToString(sum[:8]))
		s, err := fetch.Open(spec, own)
		if err != nil {
			return exit.Badf("--release-source: %w", err)
		}
		if slices.Contains(names, s.Name()) {
			return exit.Badf("--release-source: %s is named twice", s.Name())
		}
		names = append(names, s.Name())
		c.Sources = append(c.Sources, s)
	}
	return nil
}
