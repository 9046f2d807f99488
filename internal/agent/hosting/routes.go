package hosting

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"time"

	"github.com/steadyfleet/steady/internal/agent/uplink"
	"github.com/steadyfleet/steady/internal/core/spec"
	"github.com/steadyfleet/steady/internal/router"
	"github.com/steadyfleet/steady/reconcile"
)

// serve runs the router's listeners until ctx ends.
func (h *Hosting) serve(ctx context.Context) error {
	if len(h.o.HTTP)+len(h.o.HTTPS) == 0 {
		return nil
	}
	if err := h.awaitRoutes(ctx); err != nil {
		return err
	}
	l, err := h.listen(ctx)
	if err != nil {
		return nil // ctx ended
	}
	h.listener.Store(l)
	h.o.Log.Info("the router listens", "http", addresses(l.HTTP()), "https", addresses(l.HTTPS()))
	return l.Wait()
}

// routesWithin bounds how long connections wait, once the agent runs, until it knows
// where the routes lead that it had before.
const routesWithin = 15 * time.Second

// awaitRoutes waits until the routes that were served before lead somewhere: what
// comes in until then waits in the kernel's queue instead of being turned away.
func (h *Hosting) awaitRoutes(ctx context.Context) error {
	rows, err := h.o.Rows.List(ctx, reconcile.Filter{Kind: spec.KindRoute})
	if err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	var served []string
	for i := range rows {
		var d spec.Desired[spec.Route]
		if err := json.Unmarshal(rows[i].Desired, &d); err != nil {
			return fmt.Errorf("%s in agent.db: %w", rows[i].Ref, err)
		}
		if rows[i].ConvergedGen > 0 && !rows[i].Delete && !d.Suspended {
			served = append(served, rows[i].Ref.ID)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, routesWithin)
	defer cancel()
	if missing := h.router.Await(ctx, served); errors.Is(ctx.Err(), context.DeadlineExceeded) && len(missing) > 0 {
		h.o.Log.Warn("the router listens before all routes lead somewhere", "missing", missing, "waited", routesWithin)
	}
	return nil
}

// listen binds the router's addresses, however long one of them is taken: an agent
// without its router still keeps its host.
func (h *Hosting) listen(ctx context.Context) (*router.Listener, error) {
	said := ""
	for {
		l, err := h.router.Listen(ctx, router.Options{HTTP: h.o.HTTP, HTTPS: h.o.HTTPS, Folder: h.o.Certificates, Log: h.o.Log, Bind: h.o.Bind})
		if err == nil {
			return l, nil
		}
		if said != err.Error() {
			said = err.Error()
			h.o.Log.Error("the router does not listen; trying again", "error", err, "every", listenAgain)
		}
		if uplink.Pause(ctx, listenAgain) != nil {
			return nil, ctx.Err()
		}
	}
}

const listenAgain = 5 * time.Second

// certificate says why a certificate cannot be served.
func (h *Hosting) certificate(name string) error {
	if len(h.o.HTTPS) == 0 {
		return errors.New("the router serves no HTTPS; start the agent with --https")
	}
	file := filepath.Join(h.o.Certificates, name)
	if _, err := tls.LoadX509KeyPair(file+".crt", file+".key"); err != nil {
		return fmt.Errorf("certificate %s: %w; put %s.crt and %s.key into %s", name, err, name, name, h.o.Certificates)
	}
	return nil
}

func addresses(list []net.Addr) []string {
	out := make([]string, len(list))
	for i, a := range list {
		out[i] = a.String()
	}
	return out
}

// reloadCertificates reads them again, for each new table of routes.
func (h *Hosting) reloadCertificates(router.Table) error {
	if l := h.listener.Load(); l != nil {
		return l.Reload()
	}
	return nil
}
