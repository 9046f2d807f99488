package release

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/fleet"

	"github.com/steadyfleet/steady/internal/release/fleetdir"
)

const nights = `
maintenanceWindows:
  - name: nights
    selector: {channel: stable}
    cron: "0 2 * * MON-FRI"
    duration: 3h
    timeZone: Europe/Berlin
    reason: quiet hours
  - {name: db-backup-over, selector: {tags: [db]}, cron: "30 3 * * *", duration: 2h}
`

// windowed is the quickstart with maintenance windows.
func windowed(t *testing.T, windows string) string {
	dir := example(t, "quickstart")
	edit(t, filepath.Join(dir, fleetdir.FleetFile), func(s string) string { return s + windows })
	return dir
}

func TestWindowsAreSignedWithTheirZones(t *testing.T) {
	dir := windowed(t, nights)
	k := newKeys(t, "acme")
	_, rel, v := publish(t, k, load(t, dir), BuildOptions{Ref: "r1", Now: t0})
	m, leaves := v.Manifests["stable"][0].Header.Value(), v.Manifests["stable"][0].Leaves.Value()
	if len(m.Windows) != 2 || m.Windows[0].Name != "db-backup-over" || m.Windows[1].Cron.String() != "0 2 * * 1-5" || !slices.Contains(m.Critical, fleet.CriticalWindows) {
		t.Fatalf("the header has %+v, critical %v", m.Windows, m.Critical)
	}
	for _, l := range leaves {
		want := []int{1}
		if strings.HasPrefix(l.Host, "db") {
			want = []int{0, 1}
		}
		if !slices.Equal(l.Windows, want) {
			t.Errorf("host %s has windows %v, expected %v", l.Host, l.Windows, want)
		}
	}
	if other := v.Manifests["lab"]; len(other) > 0 && (len(other[0].Header.Value().Windows) > 0 || len(other[0].Header.Value().Critical) > 0) {
		t.Error("the other channel has windows")
	}
	z := m.Windows[1].Zone
	if z.Until.Sub(t0) < ZoneLeast || z.OffsetAt(t0) != 3600 || z.OffsetAt(t0.Add(200*clock.Day)) != 7200 {
		t.Errorf("the table of Berlin is %+v", z)
	}
	i := slices.IndexFunc(rel.Expected, func(e Expected) bool { return e.Channel == "stable" })
	if i < 0 || rel.Expected[i].End.Earliest <= t0 || !clock.AllOpen(m.Windows[1:], rel.Expected[i].Turn(0).Earliest) {
		t.Errorf("expected %+v", rel.Expected)
	}
}

// TestWindowsKeepAnUnchangedManifest builds again over the years: only a table
// that runs out changes a manifest.
func TestWindowsKeepAnUnchangedManifest(t *testing.T) {
	dir := windowed(t, nights)
	k := newKeys(t, "acme")
	_, _, v := publish(t, k, load(t, dir), BuildOptions{Ref: "r1", Now: t0})
	for _, c := range []struct {
		ref     string
		after   clock.Duration
		changed bool
	}{{"r2", 100 * clock.Day, false}, {"r3", 364 * clock.Day, false}, {"r4", 3 * 365 * clock.Day, true}} {
		k.addRoot(t, "acme", 1, k.release)
		rel := build(t, load(t, dir), BuildOptions{Ref: c.ref, Previous: v, Now: t0.Add(c.after)})
		if got := slices.Contains(rel.Changed, "stable"); got != c.changed {
			t.Errorf("after %s: changed %v", c.after, rel.Changed)
		}
	}
}

func TestWindowFindings(t *testing.T) {
	for name, c := range map[string]struct{ windows, want string }{
		"zone":     {strings.Replace(nights, "Europe/Berlin", "Europe/Berlinn", 1), `time zone "Europe/Berlinn" is not known`},
		"cron":     {strings.Replace(nights, "0 2 * * MON-FRI", "0 25 * * *", 1), `cron hour "25"`},
		"duration": {strings.Replace(nights, "duration: 3h", "duration: 10s", 1), "duration is 10s: expected 1m to 168h"},
		"never":    {strings.Replace(nights, "0 2 * * MON-FRI", "0 0 30 2 *", 1), `window "nights" never opens before`},
		"twice":    {strings.Replace(nights, "name: db-backup-over", "name: nights", 1), `window "nights" is declared twice`},
		"apart":    {strings.Replace(nights, "30 3 * * *", "30 12 * * *", 1), "windows db-backup-over and nights of host db-1 are never open together"},
		"unknown":  {strings.Replace(nights, "reason:", "because:", 1), "because"},
		"long":     {strings.Replace(nights, "0 2 * * MON-FRI", "0 2 1 1 *", 1), "at the earliest, in"},
	} {
		t.Run(name, func(t *testing.T) {
			src, ps := fleetdir.Load(windowed(t, c.windows))
			if !Fatal(ps) {
				_, ps = Build(src, BuildOptions{Ref: "r1", Now: t0})
			}
			if len(ps) == 0 || ps[0].Line == 0 || !strings.Contains(lines(ps), c.want) {
				t.Fatalf("expected %q, got\n%s", c.want, lines(ps))
			}
		})
	}
}
