package nodesdk

import (
	"bytes"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"strings"
	"time"

	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/nodeconfig"
)

// Config is what Run needs. Open fills in what the token of a node has: Name, StateDir, Server,
// RootCAs and Token.
type Config struct {
	Driver Driver
	// DriverName and Program, with its version, are shown to operators.
	DriverName, Program string
	// Name of the node in the fleet.
	Name string
	// Machine names the computer whose ports the device uses; empty is a machine of its own.
	Machine string
	// Collections are the kinds of objects that the driver has.
	Collections []Collection
	// StateDir is a folder of this node alone, for its keys, secrets and operations. It is
	// made if it is not there, and readable by the user alone.
	StateDir string
	// Server is its address: host:port, or a URL of scheme wss.
	Server string
	// RootCAs verify the server. There is no default.
	RootCAs *x509.CertPool
	// Token registers the node: the envelope that Open takes out of what steady node token
	// wrote. It is sent until the server once accepted the node.
	Token []byte
	// Poll is how often the configuration is read to find changes by somebody else: 700 ms
	// by default, 10 s with a driver that is a Watcher.
	Poll time.Duration
	// Timeout is that of one call of the driver: 30 s by default.
	Timeout time.Duration
	// Log is where events of the connection go; the default of slog if nil.
	Log *slog.Logger
	// Dial opens connections to the server; a net.Dialer if nil.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// Intervals that are no business of a driver.
const (
	defaultPoll      = 700 * time.Millisecond
	defaultPollWatch = 10 * time.Second
	defaultTimeout   = 30 * time.Second
	probeInterval    = 2 * time.Second
)

func (c *Config) check() error {
	switch {
	case c.Driver == nil:
		return errors.New("no driver is given")
	case c.Name == "" || c.StateDir == "":
		return errors.New("a node needs a name and a folder for its state")
	case len(c.Collections) == 0 || len(c.Collections) > nodeconfig.MaxKinds:
		return fmt.Errorf("a driver has 1 to %d collections of objects, not %d", nodeconfig.MaxKinds, len(c.Collections))
	case bytes.HasPrefix(bytes.TrimSpace(c.Token), []byte(fleet.TokenPrefix)):
		return errors.New("the field Token has the text that steady node token writes: have Open make the Config of it")
	case c.RootCAs == nil:
		return errors.New("no certificates are given by which to verify the server")
	}
	for _, col := range c.Collections {
		if err := nodeconfig.CheckKind(col.Kind); err != nil {
			return fmt.Errorf("a collection of the driver: %w", err)
		}
		if err := rulesOf(col).Check(); err != nil {
			return fmt.Errorf("collection %s: %w", col.Kind, err)
		}
	}
	if c.Timeout <= 0 {
		c.Timeout = defaultTimeout
	}
	if c.Poll <= 0 {
		c.Poll = defaultPoll
		if _, watches := c.Driver.(Watcher); watches {
			c.Poll = defaultPollWatch
		}
	}
	if c.Log == nil {
		c.Log = slog.Default()
	}
	if c.Dial == nil {
		c.Dial = (&net.Dialer{Timeout: handshakeTimeout}).DialContext
	}
	return nil
}

// url is where to dial.
func (c *Config) url() (string, error) {
	address := c.Server
	if !strings.Contains(address, "://") {
		address = "wss://" + address
	}
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "wss" && u.Scheme != "https" || u.Host == "" {
		return "", fmt.Errorf("the server %q: expected host:port or wss://host:port", c.Server)
	}
	u.Scheme = "wss"
	return u.JoinPath(Path).String(), nil
}

func rulesOf(c Collection) *nodeconfig.Rules {
	return &nodeconfig.Rules{Sets: c.Sets, Secrets: c.Secrets, Ignored: c.Ignored, Ports: c.Ports}
}
