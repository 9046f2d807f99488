package cli

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/steadyfleet/steady/internal/api"
	"github.com/steadyfleet/steady/internal/cli/agentcmd"
	"github.com/steadyfleet/steady/internal/cli/command"
	"github.com/steadyfleet/steady/internal/cli/exit"
	"github.com/steadyfleet/steady/internal/cli/term"
	"github.com/steadyfleet/steady/internal/control"
	"github.com/steadyfleet/steady/internal/control/fetch"
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/drift"
	"github.com/steadyfleet/steady/internal/core/plan"
	"github.com/steadyfleet/steady/internal/core/server"
	"github.com/steadyfleet/steady/internal/disk"
	"github.com/steadyfleet/steady/internal/store"
	"github.com/steadyfleet/steady/internal/trust"
)

// operatorFile is the context that a server writes into its data folder.
const operatorFile = "operator.json"

type serverOptions struct {
	data, root, fleet      string
	listen, operatorListen string
	names                  []string
	heartbeat, tickGap     string
	retention, hostLife    string
	pushRetry, pushMost    string
	keepLog                string
	hostMetrics, hostFacts bool
	log                    agentcmd.Log
	maxLog                 int64
	connections            api.Connections
	caKey                  string
	strict                 bool
	sources                sourceOptions
	sessions               sessionOptions
}

func (a *app) serverCmd() *cobra.Command {
	var o serverOptions
	cmd := &cobra.Command{
		Use:     "server",
		GroupID: command.GroupRun,
		Short:   "Run the server of a fleet",
		Long: `Runs the server of a fleet on an embedded database. The data folder is made at
the first start, with the authorities behind the certificates of the server and
of the hosts, and a first admin token. The server holds no key that can change
what a host runs.

The keys of the authorities are files unless --ca-key names a TPM. With --strict
the server refuses to start with keys in files, or where it can read a private
key of the fleet.

DATA/operator.json holds all that the other commands need: give it with
--context, or in STEADY_CONTEXT, or keep it with steady login. With -o json, one
line on stdout says when the server listens and where.
` + sourceHelp,
		Example: "  steady server --data data --root keys/1.root.json\n  steady server --data /var/lib/steady --root 1.root.json --listen :8443 --name steady.example\n  steady server --data data --root 1.root.json --ca-key tpm:/dev/tpmrm0 --strict\n  steady server --data data --release-source git+https://git.example/acme/fleet.git#main:release",
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.serve(cmd.Context(), o) },
	}
	f := cmd.Flags()
	f.StringVar(&o.data, "data", "", "data folder (required)")
	f.StringVar(&o.root, "root", "", "the fleet's first root document, needed at the first start")
	f.StringVar(&o.fleet, "fleet", "", "name of the fleet (default: that of the root)")
	f.StringVar(&o.listen, "listen", ":8443", "address for agents; port 0 picks one")
	f.StringVar(&o.operatorListen, "operator-listen", "", "another address for operators (default: the same)")
	f.StringSliceVar(&o.names, "name", nil, "DNS name or address of this server for its certificate; may be repeated")
	f.StringVar(&o.heartbeat, "heartbeat", "60s", "how often agents report, 5s to 10m")
	f.StringVar(&o.tickGap, "max-tick-gap", "500ms", "how long an event may wait for the planner while it is busy")
	f.StringVar(&o.retention, "retention", plan.DefaultRetention.Age.String(), "how long ended rollouts are kept whole; the last 10 of a channel always are, and no more than the last 50")
	f.StringVar(&o.keepLog, "keep-log", "2160h", "how long records of the log are kept at least, by the signed timestamps, or by the log itself before the first; older ones are removed behind a checkpoint; 0 keeps all")
	f.StringVar(&o.pushRetry, "push-retry", drift.RetryEvery.String(), "how long a push to a node that failed waits before it is tried again, 1s to 24h; half as long again after each more failure, and anew when the node connects")
	f.StringVar(&o.pushMost, "push-retry-max", drift.MaxBackoff.String(), "how long it waits at most, --push-retry to 24h")
	f.StringVar(&o.hostLife, "host-life", "168h", "how long the certificates of hosts last, 1h to 2160h; agents renew them between half and 80 % of it")
	f.BoolVar(&o.hostFacts, "host-facts", true, "ask hosts for what they are, and keep it in the log; older servers do not read that")
	f.BoolVar(&o.hostMetrics, "host-metrics", false, "measurements of every host in /metrics, not their sums alone")
	o.log.Flags(f)
	f.StringVar(&o.caKey, "ca-key", "file", "where the keys of the authorities are: file, tpm:/dev/tpmrm0, or tpm:unix:SOCKET of an emulator")
	f.BoolVar(&o.strict, "strict", false, "refuse authority keys in files, and private keys of the fleet within reach")
	f.IntVar(&o.connections.All, "max-connections", o.connections.WithDefaults().All, "how many connections may be open; a sixteenth is kept for addresses that have few, such as operators'")
	f.IntVar(&o.connections.PerAddress, "max-connections-per-address", o.connections.WithDefaults().PerAddress, "how many of them may be of one address; many hosts may share one")
	f.Int64Var(&o.maxLog, "max-log-bytes", 0, "largest size of the log in bytes; 0 for no bound")
	cmd.AddCommand(a.backupCmd(), a.initCACmd(), a.recoverAdminCmd(), a.safeModeCmd())
	o.sources.flags(f)
	o.sessions.flags(f)
	return a.PrintsData(cmd)
}

func (o serverOptions) options(a *app) (api.Options, error) {
	if o.data == "" {
		return api.Options{}, exit.Badf("the server needs a data folder; give --data DIR")
	}
	log, err := o.log.New(a.Err)
	if err != nil {
		return api.Options{}, err
	}
	heartbeat, err := clock.ParseDuration(o.heartbeat)
	if err != nil || heartbeat < 5*clock.Second || heartbeat > 10*clock.Minute {
		return api.Options{}, exit.Badf("--heartbeat %s: expected a duration from 5s to 10m", o.heartbeat)
	}
	gap, err := clock.ParseDuration(o.tickGap)
	if err != nil {
		return api.Options{}, exit.Badf("--max-tick-gap: %w", err)
	}
	retention, err := clock.ParseDuration(o.retention)
	if err != nil || retention == 0 {
		return api.Options{}, exit.Badf("--retention %s: expected a duration such as 2160h", o.retention)
	}
	keepLog, err := clock.ParseDuration(o.keepLog)
	if err != nil || keepLog != 0 && keepLog < clock.Second {
		return api.Options{}, exit.Badf("--keep-log %s: expected a duration of 1s or more, such as 2160h, or 0", o.keepLog)
	}
	pushes, err := o.backoff()
	if err != nil {
		return api.Options{}, err
	}
	retry, err := o.sessions.policy()
	if err != nil {
		return api.Options{}, err
	}
	hostLife, err := clock.ParseDuration(o.hostLife)
	if err != nil || hostLife < clock.Hour || hostLife > 90*clock.Day {
		return api.Options{}, exit.Badf("--host-life %s: expected a duration from 1h to 2160h", o.hostLife)
	}
	if o.connections.All < 16 || o.connections.PerAddress < 16 {
		return api.Options{}, exit.Badf("--max-connections %d, --max-connections-per-address %d: expected 16 or more", o.connections.All, o.connections.PerAddress)
	}
	collectEvery, collectGrace := clock.Day, clock.Day
	if keepLog != 0 { // often enough to prune what is old, and what that no longer names
		collectEvery = min(collectEvery, max(keepLog/10, 100*clock.Millisecond))
		collectGrace = min(collectGrace, max(keepLog, clock.Minute)) // no request but a push takes longer, and that puts collecting off
	}
	opts := api.Options{
		Fleet: o.fleet, DataDir: o.data, Listen: o.listen, OperatorListen: o.operatorListen, Names: o.names, MaxLogBytes: o.maxLog, Strict: o.strict, Connections: o.connections,
		Control: control.Config{
			Config:  server.Config{Heartbeat: heartbeat, MaxTickGap: gap, PushBackoff: pushes, Retention: plan.Retention{Age: retention, Keep: plan.DefaultRetention.Keep, Most: plan.DefaultRetention.Most}},
			Version: agentcmd.Version(), Log: log, SessionRetry: retry, HostLife: hostLife.Std(), KeepLog: keepLog, CollectEvery: collectEvery, CollectGrace: collectGrace, HostMetrics: o.hostMetrics, NoHostFacts: !o.hostFacts,
		},
	}
	if err := o.sources.apply(&opts.Control, o.data); err != nil {
		return api.Options{}, err
	}
	if o.root != "" {
		opts.KeyFolders = []string{filepath.Dir(o.root)}
		if opts.Root, err = os.ReadFile(o.root); err != nil {
			return api.Options{}, exit.Badf("--root: %w; steady keys init makes it", err)
		}
		if _, err := trust.ReadRoot(opts.Root); err != nil {
			return api.Options{}, fmt.Errorf("--root %s: %w; give the 1.root.json that steady keys init made", o.root, err)
		}
	}
	return opts, nil
}

// backoff is how long pushes to nodes that failed wait.
func (o serverOptions) backoff() (b drift.Backoff, err error) {
	if b.First, err = clock.ParseDuration(o.pushRetry); err != nil || b.First < drift.MinRetry || b.First > drift.MaxRetry {
		return b, exit.Badf("--push-retry %s: expected a duration from %s to %s", o.pushRetry, drift.MinRetry, drift.MaxRetry)
	}
	if b.Most, err = clock.ParseDuration(o.pushMost); err != nil || b.Most < b.First || b.Most > drift.MaxRetry {
		return b, exit.Badf("--push-retry-max %s: expected a duration from --push-retry, %s, to %s", o.pushMost, b.First, drift.MaxRetry)
	}
	return b, nil
}

// gcPercent is the server's GOGC unless the environment gives one: most of its
// memory is connections that stay, and collecting them more often costs some
// 5 % of the CPU time of a change and saves 10 % of the memory.
const gcPercent = 50

// serverReady is the line that says where a server listens.
type serverReady struct {
	Ready    bool   `json:"ready"`
	Server   string `json:"server"`
	Operator string `json:"operator"`
	Context  string `json:"context"`
	// AdminToken is the file of an admin's token; empty when there is none.
	AdminToken string `json:"adminToken,omitempty"`
}

func (a *app) serve(ctx context.Context, o serverOptions) (err error) {
	table := a.TableOutput()
	opts, err := o.options(a)
	if err != nil {
		return err
	}
	unlock, err := lockData(o.data)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	if a.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	keys, closeKeys, err := authorityKeys(o.caKey)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeKeys()) }()
	opts.Keys = keys
	s, err := api.Start(ctx, opts)
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("%w: another program listens there, perhaps a server that runs already; stop it, or give another address with --listen", err)
	}
	if errors.Is(err, store.ErrFull) {
		return fmt.Errorf("%w\nThe server has to write as it starts: free space on the disk of %s, or raise --max-log-bytes, and start it again", err, o.data)
	}
	if err != nil {
		return err
	}
	r, err := a.announce(s, o)
	if err == nil {
		if table {
			a.showServer(r)
		} else {
			err = term.Line(a.Out, r)
		}
	}
	if err != nil {
		return err // the process ends, and the server with it
	}
	return s.Wait()
}

func (a *app) announce(s *api.Server, o serverOptions) (serverReady, error) {
	data, err := filepath.Abs(o.data)
	if err != nil {
		return serverReady{}, err
	}
	r := serverReady{Ready: true, Server: s.URL(), Operator: s.OperatorURL(), Context: filepath.Join(data, operatorFile), AdminToken: s.AdminTokenFile()}
	c := command.Context{Server: r.Operator, Agents: r.Server, CA: string(s.ServerCA())}
	token, err := os.ReadFile(r.AdminToken)
	switch {
	case err == nil:
		c.Token = strings.TrimSpace(string(token))
	case errors.Is(err, fs.ErrNotExist):
		a.Warn("%s was removed, so %s is without a token: give one in %s. If none is left, whoever owns %s makes one: steady server recover-admin --data %[4]s",
			r.AdminToken, r.Context, command.EnvToken, data)
		r.AdminToken = ""
	default:
		return r, err
	}
	if err := command.WriteContext(r.Context, c); err != nil {
		return r, fmt.Errorf("write the operator's context: %w", err)
	}
	return r, nil
}

func (a *app) showServer(r serverReady) {
	a.Printf("Serving agents and operators at %s", r.Server)
	if r.Operator != r.Server {
		a.Printf(", operators at %s", r.Operator)
	}
	if r.AdminToken != "" {
		a.Printf("\nAdmin token: %s", r.AdminToken)
	}
	a.Printf("\nNext, in another terminal:\n  export %s=%s\n  steady status\n  steady ui       # the same in a browser\n", command.EnvContext, r.Context)
}

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

const lockFile = "server.lock" // of a data folder

// lockData takes a server's data folder for this process, and makes the folder
// if need be. A second server on one folder would take the log over and leave the
// first one's agents with a server that decides nothing. The lock ends with the
// process, however that ends.
func lockData(dir string) (release func() error, err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("data folder: %w", err)
	}
	if err := disk.Unversioned(dir, "*"); err != nil {
		return nil, fmt.Errorf("data folder: %w", err)
	}
	lock, err := disk.TryLock(filepath.Join(dir, lockFile))
	if errors.Is(err, disk.ErrLocked) {
		return nil, fmt.Errorf("another server runs on the data folder %s; stop it first: %w", dir, err)
	}
	if err != nil {
		return nil, fmt.Errorf("data folder: %w", err)
	}
	return lock.Release, nil
}
