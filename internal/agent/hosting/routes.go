package hosting

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/steadyfleet/steady/internal/agent/client"
	"github.com/steadyfleet/steady/internal/router"
	"github.com/steadyfleet/steady/internal/router/table"
)

// serve runs the router's listeners until ctx ends.
func (h *Hosting) serve(ctx context.Context) error {
	if len(h.o.HTTP)+len(h.o.HTTPS) == 0 {
		return nil
	}
	l, err := h.listen(ctx)
	if err != nil {
		return nil // ctx ended
	}
	h.listener.Store(l)
	h.o.Log.Info("the router listens", "http", addresses(l.HTTP()), "https", addresses(l.HTTPS()))
	return l.Wait()
}

// listen binds the router's addresses, however long one of them is taken: an agent
// without its router still keeps its host.
func (h *Hosting) listen(ctx context.Context) (*router.Listener, error) {
	said := ""
	for {
		l, err := h.router.Listen(ctx, router.Options{HTTP: h.o.HTTP, HTTPS: h.o.HTTPS, Folder: h.o.Certificates, Log: h.o.Log})
		if err == nil {
			return l, nil
		}
		if said != err.Error() {
			said = err.Error()
			h.o.Log.Error("the router does not listen; trying again", "error", err, "every", listenAgain)
		}
		if client.Pause(ctx, listenAgain) != nil {
			return nil, ctx.Err()
		}
	}
}

const listenAgain = 5 * time.Second

// certificate says why a certificate cannot be served. One that only another proxy
// serves is that proxy's business.
func (h *Hosting) certificate(name string) error {
	switch {
	case len(h.o.HTTPS) == 0 && h.o.RouteExport != "":
		return nil
	case len(h.o.HTTPS) == 0:
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

// routed hears of each new table: certificates are read again, and the table is
// written for an external proxy.
func (h *Hosting) routed(t table.Table) error {
	var errs []error
	if l := h.listener.Load(); l != nil {
		errs = append(errs, l.Reload())
	}
	if h.o.RouteExport != "" {
		errs = append(errs, h.export(t))
	}
	return errors.Join(errs...)
}

// Formats of an export.
const (
	exportJSON    = "json"
	exportTraefik = "traefik"
	exportCaddy   = "caddy"
)

// parseExport splits FORMAT:FILE.
func parseExport(s string) (format, file string, err error) {
	format, file, ok := strings.Cut(s, ":")
	if !ok || file == "" || !slices.Contains([]string{exportJSON, exportTraefik, exportCaddy}, format) {
		return "", "", fmt.Errorf("routes are exported to %q: expected json:FILE, traefik:FILE or caddy:FILE", s)
	}
	return format, file, nil
}

// export writes the table for an external proxy. What the proxy cannot do is
// logged, and the file holds the rest.
func (h *Hosting) export(t table.Table) error {
	format, file, err := parseExport(h.o.RouteExport)
	if err != nil {
		return err
	}
	var x table.Exported
	switch format {
	case exportTraefik:
		x, err = t.Traefik(h.router.Addresses, table.TraefikOptions{Folder: h.o.Certificates})
	case exportCaddy:
		x, err = t.Caddy(h.router.Addresses, table.CaddyOptions{Folder: h.o.Certificates})
	default:
		x, err = t.Export(h.router.Addresses)
	}
	if err != nil {
		return fmt.Errorf("export routes: %w", err)
	}
	changed, err := router.WriteExport(file, x.JSON)
	for _, n := range x.Notes {
		if changed {
			h.o.Log.Warn("a route was exported in part", "route", n.Route, "field", n.Field, "why", n.Text)
		}
	}
	return err
}
