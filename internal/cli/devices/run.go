package devices

import (
	"context"
	"crypto/ed25519"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/steadyfleet/steady/internal/cli/agentcmd"
	"github.com/steadyfleet/steady/internal/cli/command"
	"github.com/steadyfleet/steady/internal/cli/exit"
	"github.com/steadyfleet/steady/internal/identity"
	"github.com/steadyfleet/steady/nodesdk"
)

// runVerbs returns the commands.
func runVerbs(e *command.Env) []*cobra.Command {
	return []*cobra.Command{run(e), secret(e), key(e)}
}

type options struct {
	driver, state, token, server, machine string
	options                               []string
	log                                   agentcmd.Log
}

func run(e *command.Env) *cobra.Command {
	var o options
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Connect a device to the server",
		Long: `Connects the device beside it to the server, and stays connected: the server sets
objects of the device's configuration, and what else changes there is reported to it. Nothing
that the device has is overwritten unless an operator has decided so.

At the first start it registers with a token (see steady node token), which says who
the node is and where its server; both are kept in the state folder, with the node's
key and secrets. The log goes to stderr.

The drivers, each with its options:

` + driverHelp(),
		Example: "  steady node run --driver file --driver-option path=/etc/gateway/flows.json --state /var/lib/steady-node --token gw-1.token\n" +
			"  steady node run --driver file --driver-option path=flows.yaml --driver-option at=media/flows --driver-option 'reload=systemctl reload gateway' --state ./gw-1",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context(), e.Err) },
	}
	f := cmd.Flags()
	f.StringVar(&o.driver, "driver", "", "what reads and writes the device (required)")
	f.StringArrayVar(&o.options, "driver-option", nil, "KEY=VALUE of the driver; may be given several times")
	f.StringVar(&o.state, "state", "", "state folder of the node (required)")
	f.StringVar(&o.token, "token", "", "token or a file with it, for the first start")
	f.StringVar(&o.server, "server", "", "URL of the server (default: that of the token)")
	f.StringVar(&o.machine, "machine", "", "name of the machine whose ports the device uses, so that two devices of it get no port twice (default: the machine's host name)")
	o.log.Flags(f)
	command.Complete(cmd, "driver", driverNames()...)
	return cmd
}

func (o *options) run(ctx context.Context, errOut io.Writer) error {
	if o.state == "" {
		return exit.Badf("the node needs a state folder; give --state DIR")
	}
	log, err := o.log.New(errOut)
	if err != nil {
		return err
	}
	driver, collections, err := open(o.driver, o.options)
	if err != nil {
		return err
	}
	cfg, err := nodesdk.Open(o.token, o.state)
	if err != nil {
		return exit.Bad(err)
	}
	if o.server != "" {
		cfg.Server = o.server
	}
	if o.machine == "" {
		o.machine, _ = os.Hostname() // without a name it is a machine of its own
	}
	cfg.Driver, cfg.Collections, cfg.DriverName, cfg.Program = driver, collections, o.driver, "steady "+agentcmd.Version()
	cfg.Machine, cfg.Log = o.machine, log
	log.Info("the node starts", "node", cfg.Name, "server", cfg.Server, "driver", o.driver, "state", o.state)
	err = nodesdk.Run(ctx, cfg)
	if err != nil {
		return exit.Bad(err)
	}
	return nil
}

// maxSecret bounds a secret, in bytes.
const maxSecret = 64 << 10

func secret(e *command.Env) *cobra.Command {
	var state string
	var remove bool
	cmd := &cobra.Command{
		Use:   "secret NAME",
		Short: "Keep a secret on the node",
		Long: `Reads a value from standard input and keeps it in the state folder of the node, where
{"$secret": "NAME"} in the configuration of an object stands for it. It never leaves
the node. One line end at its end is no part of it.`,
		Example: "  steady node secret srt-key --state /var/lib/steady-node < srt.key\n  steady node secret srt-key --state /var/lib/steady-node --remove",
		Args:    cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			if state == "" {
				return exit.Badf("give the state folder of the node: --state DIR")
			}
			value := ""
			if !remove {
				raw, err := e.Input("-", maxSecret)
				if err != nil {
					return err
				}
				if value = strings.TrimSuffix(strings.TrimSuffix(string(raw), "\n"), "\r"); value == "" {
					return exit.Badf("standard input is empty; --remove removes a secret")
				}
			}
			if err := nodesdk.SetSecret(state, args[0], value); err != nil {
				return exit.Bad(err)
			}
			what := "is kept"
			if remove {
				what = "is removed"
			}
			e.Printf("secret %s %s in %s\n", args[0], what, state)
			return nil
		},
	}
	cmd.Flags().StringVar(&state, "state", "", "state folder of the node (required)")
	cmd.Flags().BoolVar(&remove, "remove", false, "remove it")
	return cmd
}

func key(e *command.Env) *cobra.Command {
	var state string
	cmd := &cobra.Command{
		Use:   "key",
		Short: "Print the digest of the node's key",
		Long: `Prints the digest of the key that the node proves itself with, and makes the key where
there is none yet. A token that names it (steady node token NODE --key sha256:...)
registers this node alone, whoever else gets hold of it.`,
		Example: "  steady node key --state /var/lib/steady-node",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if state == "" {
				return exit.Badf("give the state folder of the node: --state DIR")
			}
			public, err := nodesdk.PublicKey(state)
			if err != nil {
				return exit.Bad(err)
			}
			d, err := identity.PublicDigest(ed25519.PublicKey(public))
			if err != nil {
				return err
			}
			e.Printf("%s\n", d)
			return nil
		},
	}
	cmd.Flags().StringVar(&state, "state", "", "state folder of the node (required)")
	return cmd
}
