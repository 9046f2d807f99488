package hosting

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"path/filepath"
	"time"

	"github.com/steadyfleet/steady/internal/agent/uplink"
	"github.com/steadyfleet/steady/internal/core/spec"
	"github.com/steadyfleet/steady/internal/docker"
	"github.com/steadyfleet/steady/internal/docker/convert"
	"github.com/steadyfleet/steady/internal/docker/dockerapi"
	"github.com/steadyfleet/steady/internal/docker/network"
	"github.com/steadyfleet/steady/internal/router"
	"github.com/steadyfleet/steady/reconcile"
	rows "github.com/steadyfleet/steady/reconcile/sqlite"
)

// Kept are the routes of a host as its database last had them: what is served while the agent
// cannot run, as on a full disk. Nothing is changed for it, neither on the engine nor on the disk.
type Kept struct {
	o       Options
	engine  *dockerapi.Engine
	router  *router.Router
	targets map[string]*spec.Workspace // of the routes
}

// keptAgain is how often it is looked where the containers are.
const keptAgain = 5 * time.Second

// ReadKept reads the routes that converged. Of the options it needs the configuration, Fleet,
// Host, StateDir and Log. It returns nil where nothing is to be served.
func ReadKept(ctx context.Context, o Options, db *sql.DB) (*Kept, error) {
	if o.Engine == "" || len(o.HTTP)+len(o.HTTPS) == 0 {
		return nil, nil
	}
	o = o.withFolders()
	list, err := rows.New(db).List(ctx, reconcile.Filter{})
	if err != nil {
		return nil, err
	}
	k, workspaces := &Kept{o: o, router: router.New(router.Config{}), targets: map[string]*spec.Workspace{}}, map[string]*spec.Workspace{}
	var entries []router.Route
	for i := range list {
		r := &list[i]
		if r.ConvergedGen == 0 || r.Delete {
			continue
		}
		switch r.Ref.Kind {
		case spec.KindWorkspace:
			var d spec.Desired[spec.Deployment]
			if err := json.Unmarshal(r.Desired, &d); err != nil {
				return nil, fmt.Errorf("%s in agent.db: %w", r.Ref, err)
			}
			if !d.Suspended && d.Spec.Workspace.State != spec.Stopped {
				workspaces[r.Ref.ID] = &d.Spec.Workspace
			}
		case spec.KindRoute:
			var d spec.Desired[spec.Route]
			if err := json.Unmarshal(r.Desired, &d); err != nil {
				return nil, fmt.Errorf("%s in agent.db: %w", r.Ref, err)
			}
			if !d.Suspended {
				entries = append(entries, network.Entry(d.Spec))
			}
		}
	}
	table, problems := router.BuildTable(entries)
	for _, p := range problems {
		o.Log.Warn("a route is not served", "problem", p)
	}
	for _, e := range table.Routes() {
		k.targets[e.Upstream] = workspaces[e.Upstream]
	}
	if len(k.targets) == 0 {
		return nil, nil
	}
	k.router.Swap(table)
	k.engine, err = dockerapi.Open(dockerapi.Options{Socket: o.Engine, Log: o.Log})
	return k, err
}

// Serve serves the routes until ctx ends.
func (k *Kept) Serve(ctx context.Context) error {
	k.locate(ctx)
	l, err := k.router.Listen(ctx, router.Options{HTTP: k.o.HTTP, HTTPS: k.o.HTTPS, Folder: k.o.Certificates, Log: k.o.Log, Bind: k.o.Bind})
	if err != nil {
		return err
	}
	k.o.Log.Info("routes are served as they were while the agent does not run", "routes", len(k.targets))
	for uplink.Pause(ctx, keptAgain) == nil {
		k.locate(ctx)
	}
	return l.Wait()
}

// locate leads the router to the containers that run now.
func (k *Kept) locate(ctx context.Context) {
	owner := convert.Owner{Fleet: k.o.Fleet, Host: k.o.Host, Prefix: k.o.Prefix}
	for name, w := range k.targets {
		if w == nil {
			continue
		}
		k.router.SetUpstream(name, docker.Serving(ctx, k.engine, owner, w))
	}
}

// withFolders has the folders and names that are not given.
func (o Options) withFolders() Options {
	if o.Prefix == "" {
		o.Prefix = o.Host + "."
	}
	if o.Secrets == "" {
		o.Secrets = filepath.Join(o.StateDir, "secrets")
	}
	if o.Certificates == "" {
		o.Certificates = filepath.Join(o.StateDir, "certificates")
	}
	return o
}
