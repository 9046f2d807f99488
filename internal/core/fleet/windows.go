package fleet

import (
	"cmp"
	"slices"
	"strings"

	"github.com/steadyfleet/steady/internal/core/clock"
)

// CriticalWindows is the critical name of a manifest with maintenance windows: a
// reader that does not know them must not disrupt hosts at any time.
const CriticalWindows = "windows"

// WindowDecl declares a maintenance window of the hosts that it selects.
type WindowDecl struct {
	Name     string       `json:"name"`
	Selector Selector     `json:"selector"`
	Cron     string       `json:"cron"`
	Duration DurationText `json:"duration"`
	// TimeZone is a name of the zone database, UTC by default.
	TimeZone string `json:"timeZone"`
	Reason   string `json:"reason"`
}

// Zone is the name of the window's time zone.
func (w *WindowDecl) Zone() string { return cmp.Or(w.TimeZone, "UTC") }

func (c *checker) windows() {
	seen := map[string]bool{}
	for i := range c.d.MaintenanceWindows {
		w, path := &c.d.MaintenanceWindows[i], at("maintenanceWindows", i)
		c.once(at(path, "name"), "window", w.Name, seen)
		if _, err := clock.ParseCron(w.Cron); err != nil {
			c.errorf(at(path, "cron"), "cron %v", err)
		}
		if d := w.Duration.Duration; d < clock.MinWindow || d > clock.MaxWindow {
			c.errorf(at(path, "duration"), "duration is %s: expected %s to %s", d, clock.MinWindow, clock.MaxWindow)
		}
		c.selector(at(path, "selector"), &w.Selector)
		if len(selected(c.d, &w.Selector)) == 0 {
			c.warnf(at(path, "selector"), "the window's selector %q picks no host: it holds nothing", w.Selector.String())
		}
	}
}

// windows resolves the declared windows, by name. The tables of their zones are
// an input: this package has no database of zones.
func (r *resolver) windows() []clock.Window {
	var out []clock.Window
	for i := range r.d.MaintenanceWindows {
		decl, path := &r.d.MaintenanceWindows[i], at("maintenanceWindows", i)
		zone, ok := r.in.Zones[decl.Zone()]
		if !ok {
			r.c.errorf(at(path, "timeZone"), "time zone %q is not known: expected a name such as UTC or Europe/Berlin", decl.Zone())
			continue
		}
		cron, err := clock.ParseCron(decl.Cron)
		if err != nil {
			r.c.errorf(at(path, "cron"), "cron %v", err)
			continue
		}
		w := clock.Window{Name: decl.Name, Cron: cron, Duration: decl.Duration.Duration, Zone: zone, Reason: decl.Reason}
		if err := w.Check(); err != nil {
			r.c.errorf(path, "%v", err)
			continue
		}
		if _, opens := w.NextOpen(r.in.Now); !opens {
			r.c.errorf(at(path, "cron"), "window %q never opens before %s: expected a schedule that comes within the next two years", w.Name, w.Zone.Until)
			continue
		}
		out = append(out, w)
	}
	slices.SortFunc(out, func(a, b clock.Window) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// indexWindows lists in the header the windows of the channel's hosts, and
// returns each host's indexes, ascending.
func (r *resolver) indexWindows(m *Manifest, hosts []string, windows []clock.Window) map[string][]int {
	index := map[string][]int{}
	for _, w := range windows {
		i := slices.IndexFunc(r.d.MaintenanceWindows, func(d WindowDecl) bool { return d.Name == w.Name })
		n, sel := len(m.Windows), &r.d.MaintenanceWindows[i].Selector
		picked := false
		for _, h := range hosts {
			if decl := r.d.Hosts[h]; sel.Matches(h, decl.Channel, decl.Tags) {
				index[h] = append(index[h], n)
				picked = true
			}
		}
		if picked {
			m.Windows = append(m.Windows, w)
		}
	}
	if len(m.Windows) > 0 {
		m.Critical = append(m.Critical, CriticalWindows)
	}
	return index
}

// WindowsOf returns the windows that all must be open for a leaf's host.
func (m *Manifest) WindowsOf(l *Leaf) []clock.Window {
	if len(l.Windows) == 0 {
		return nil
	}
	out := make([]clock.Window, 0, len(l.Windows))
	for _, i := range l.Windows {
		out = append(out, m.Windows[i])
	}
	return out
}
