package control

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/steadyfleet/steady/internal/control/fetch"
	"github.com/steadyfleet/steady/internal/control/streams"
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/server"
	"github.com/steadyfleet/steady/internal/core/warning"
	"github.com/steadyfleet/steady/internal/identity"
	"github.com/steadyfleet/steady/internal/store"
	"github.com/steadyfleet/steady/reconcile"
)

// Config says what a server runs on. Fleet, DataDir, Store and HostCA are
// required, Root as well until the log names one.
type Config struct {
	// Fleet is the fleet's name.
	Fleet string
	// DataDir holds the first admin token and releases on their way in.
	DataDir string
	// Store keeps the log. The caller closes it after Run has returned.
	Store store.Store
	// HostCA issues the hosts' certificates.
	HostCA *identity.Authority
	// Root is the envelope of the fleet's root of trust, read at the first start
	// only; later roots come with releases.
	Root []byte
	// Holder names this process in the lease; the default is the machine's name.
	Holder string
	// Version is that of this program, for people.
	Version string
	// Log takes what happens; the default discards.
	Log *slog.Logger
	// Now is the wall clock; the default is time.Now. Timers come from the time
	// package and must advance with it.
	Now func() time.Time
	// Metrics takes the server's collectors; the default is a registry of its
	// own, see Control.Metrics.
	Metrics *prometheus.Registry

	// Server are the times and bounds by which it decides.
	server.Config
	// SnapshotEvery is the number of entries between snapshots; the default is
	// 50 000.
	SnapshotEvery uint64
	// CollectEvery is how often blobs that nothing names are removed, a day by default;
	// CollectGrace is how long after it was put one stays in any case, a day by default.
	CollectEvery, CollectGrace clock.Duration
	// KeepLog is how long records are kept at least, by what is signed; zero keeps them
	// all. Whether something is to be pruned is asked as often as blobs are collected.
	KeepLog clock.Duration
	// SessionRetry is how often what sessions do on hosts, and the jobs of their phases, are attempted, and how long
	// they wait in between; zero fields are those of sessions.DefaultRetry.
	SessionRetry reconcile.RetryPolicy
	// HostMetrics has the measurements of every host in the server's metrics, each
	// under the host's name; the default is their sums over the fleet alone.
	HostMetrics bool
	// NoHostFacts has hosts not asked for what they are: no older server reads a log that has it.
	NoHostFacts bool
	// Streams bounds the streams into hosts.
	Streams streams.Limits
	// Sources are where releases are kept, besides being pushed; SourceEvery is how
	// often they are looked at, a minute by default, and SourceGap the least time
	// between two looks that were asked for, 5 s by default.
	Sources                []fetch.Source
	SourceEvery, SourceGap clock.Duration
	// HookSecret signs requests to look at the sources now; empty refuses them all.
	HookSecret []byte
	// EdgeExpiries lists what ends that the edge knows of: the server's certificate
	// and the authority behind it. Nil lists nothing.
	EdgeExpiries func() []warning.Fact
	// HostLife is how long a host's certificate lasts; the default is
	// identity.HostLife.
	HostLife time.Duration
}

func (c Config) withDefaults() (Config, error) {
	if c.Fleet == "" || c.DataDir == "" || c.Store == nil || c.HostCA == nil {
		return c, errors.New("the server needs a fleet, a data folder, a store and the hosts' authority")
	}
	var err error
	if c.DataDir, err = filepath.Abs(c.DataDir); err != nil {
		return c, fmt.Errorf("data folder: %w", err)
	}
	if c.Holder == "" {
		if c.Holder, err = os.Hostname(); err != nil || c.Holder == "" {
			c.Holder = "steady"
		}
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	c.Log = cmp.Or(c.Log, slog.New(slog.DiscardHandler))
	c.Metrics = cmp.Or(c.Metrics, prometheus.NewRegistry())
	c.Config = c.Config.WithDefaults()
	c.SnapshotEvery = cmp.Or(c.SnapshotEvery, 50_000)
	c.CollectEvery, c.CollectGrace = cmp.Or(c.CollectEvery, clock.Day), cmp.Or(c.CollectGrace, clock.Day)
	c.HostLife = cmp.Or(c.HostLife, identity.HostLife)
	return c, nil
}
