package hosting

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"

	"github.com/steadyfleet/steady/internal/router"
	"github.com/steadyfleet/steady/internal/router/table"
)

// serve runs the router's listeners until ctx ends.
func (h *Hosting) serve(ctx context.Context) error {
	if len(h.o.HTTP)+len(h.o.HTTPS) == 0 {
		return nil
	}
	l, err := h.router.Listen(ctx, router.Options{HTTP: h.o.HTTP, HTTPS: h.o.HTTPS, Folder: h.o.Certificates, Log: h.o.Log})
	if err != nil {
		return fmt.Errorf("the router: %w", err)
	}
	h.listener.Store(l)
	h.o.Log.Info("the router listens", "http", addresses(l.HTTP()), "https", addresses(l.HTTPS()))
	return l.Wait()
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
