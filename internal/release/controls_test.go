package release

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/steadyfleet/steady/internal/compliance"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/release/fleetdir"
	"github.com/steadyfleet/steady/internal/testkit"
)

// sound is a Compose file that passes every control of container-baseline.
const sound = `services:
  web:
    image: registry.example/web@sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa
    user: "1000:1000"
    read_only: true
    restart: on-failure:3
    mem_limit: 64m
    cpus: 0.5
    pids_limit: 64
    security_opt: ["no-new-privileges:true"]
    cap_drop: [ALL]
    healthcheck: {test: ["CMD", "true"], interval: 10s}
`

const complianceFleet = `apiVersion: steady/v1
kind: Fleet
metadata: {name: acme}
hosts: {web-1: {channel: stable, bundle: web}, web-2: {channel: stable, tags: [eu], bundle: web}}
channels: {stable: {rolloutPolicy: all, freshnessWindow: 24h}}
rolloutPolicies: {all: {waves: [{name: all, selector: {all: true}}]}}
allowMovingTags: true # a control asks for digests here
bundles: {web: {path: web}}
`

const webBundle = `compose: compose.yaml
probes:
  up: {tcp: {address: "127.0.0.1:80"}}
`

// complianceDir is a fleet of two hosts with one Compose bundle.
func complianceDir(t *testing.T, declared, bundle, composeFile string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range map[string]string{fleetdir.FleetFile: complianceFleet + declared, "web/bundle.yaml": bundle, "web/compose.yaml": composeFile} {
		testkit.Must(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755))
		testkit.Must(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644))
	}
	return dir
}

func tryBuild(t *testing.T, dir string) (*Release, []Problem) {
	t.Helper()
	src, ps := fleetdir.Load(dir)
	if Fatal(ps) {
		return nil, ps
	}
	rel, more := Build(src, BuildOptions{Ref: "r1", Now: t0})
	return rel, append(ps, more...)
}

const bothPacks = "compliance: {packs: [container-baseline, host-baseline]}\n"

// TestEveryControlOfThePacks breaks a sound Compose bundle in one way per control
// and wants that control's error, alone.
func TestEveryControlOfThePacks(t *testing.T) {
	if _, ps := tryBuild(t, complianceDir(t, bothPacks, webBundle, sound)); Fatal(ps) {
		t.Fatalf("the sound bundle:\n%s", lines(ps))
	}
	add := func(line string) func(string) string {
		return func(s string) string { return s + "    " + line + "\n" }
	}
	swap := func(old, next string) func(string) string {
		return func(s string) string { return strings.Replace(s, old, next, 1) }
	}
	file := func(mode string) string {
		return webBundle + "files: [{path: a, content: x, mode: \"" + mode + "\"}]\n"
	}
	for id, c := range map[string]struct {
		compose func(string) string
		bundle  string
	}{
		"container-capabilities":      {compose: add("cap_add: [NET_ADMIN]")},
		"container-cpu-limit":         {compose: swap("    cpus: 0.5\n", "")},
		"container-devices":           {compose: add(`devices: ["/dev/ttyUSB0:/dev/ttyUSB0"]`)},
		"container-healthcheck":       {compose: swap(`{test: ["CMD", "true"], interval: 10s}`, "{disable: true}")},
		"container-host-ipc":          {compose: add("ipc: host")},
		"container-host-mounts":       {compose: add(`volumes: ["/etc/ssl:/ssl:ro"]`)},
		"container-host-network":      {compose: add("network_mode: host")},
		"container-host-pid":          {compose: add("pid: host")},
		"container-host-user":         {compose: add("userns_mode: host")},
		"container-host-uts":          {compose: add("uts: host")},
		"container-image-pinned":      {compose: swap("@sha256:"+strings.Repeat("a", 64), ":1.2")},
		"container-memory-limit":      {compose: swap("    mem_limit: 64m\n", "")},
		"container-mount-propagation": {compose: add(`volumes: [{type: bind, source: /srv/data, target: /data, bind: {propagation: rshared}}]`)},
		"container-no-new-privileges": {compose: swap(`    security_opt: ["no-new-privileges:true"]`+"\n", "")},
		"container-not-root":          {compose: swap(`"1000:1000"`, `"0:0"`)},
		"container-pids-limit":        {compose: swap("    pids_limit: 64\n", "")},
		"container-privileged":        {compose: add("privileged: true")},
		"container-read-only-root":    {compose: swap("    read_only: true\n", "")},
		"container-restart-bounded":   {compose: swap("on-failure:3", "always")},
		"container-seccomp":           {compose: swap(`"no-new-privileges:true"`, `"no-new-privileges:true", "seccomp:unconfined"`)},
		"container-socket":            {compose: add(`volumes: ["/var/run/docker.sock:/var/run/docker.sock"]`)},
		"host-file-setid":             {}, // no bundle can declare such a mode: see package compliance
		"host-file-world-writable":    {bundle: file("0666")},
		"host-probes":                 {bundle: "resources: false\n" + strings.Replace(webBundle, "up: {", "up: {mode: observe, ", 1)},
	} {
		t.Run(id, func(t *testing.T) {
			if c.compose == nil && c.bundle == "" {
				return
			}
			composeFile, bundle := sound, webBundle
			if c.compose != nil {
				composeFile = c.compose(sound)
			}
			if c.bundle != "" {
				bundle = c.bundle
			}
			if composeFile == sound && bundle == webBundle {
				t.Fatal("the case changes nothing")
			}
			_, ps := tryBuild(t, complianceDir(t, bothPacks, bundle, composeFile))
			var failed []string
			for _, p := range ps {
				if i := strings.Index(p.Message, "control "); i >= 0 && !p.IsWarning {
					failed = append(failed, strings.Fields(p.Message[i:])[1])
				}
			}
			if !slices.Equal(failed, []string{id}) {
				t.Fatalf("expected %s alone to fail, got %v\n%s", id, failed, lines(ps))
			}
			if !strings.Contains(lines(ps), "source: ") || ps[len(ps)-1].Line == 0 {
				t.Errorf("no source or no line:\n%s", lines(ps))
			}
		})
	}
	for _, name := range compliance.Packs() {
		pack, _ := compliance.Pack(name)
		for _, c := range pack {
			if c.Source == "" || c.Title == "" || c.Severity == "" || compliance.Check(c.Expression) != nil {
				t.Errorf("control %s lacks its source, title or severity, or does not compile", c.ID)
			}
		}
	}
}

func TestControlsAreSignedAndVerified(t *testing.T) {
	k := newKeys(t, "acme")
	declared := `compliance:
  mode: observe
  packs: [container-baseline]
  controls:
    - {id: acme-eu, title: hosts of the EU are tagged, source: policy 7, expression: "'eu' in host.tags", severity: high}
`
	_, rel, v := publish(t, k, load(t, complianceDir(t, declared, webBundle, sound)), BuildOptions{Ref: "r1", Now: t0})
	found := v.Evaluate("stable")
	if found == nil || len(found.Failures) != 1 || found.Controls != 22 || len(rel.Compliance) != 1 {
		t.Fatalf("found %+v, at build %+v", found, rel.Compliance)
	}
	f := found.Failures[0]
	if f.Control != "acme-eu" || f.Mode != fleet.Observe || !slices.Equal(f.Hosts, []string{"web-1"}) {
		t.Fatalf("failure %+v", f)
	}
	m := v.Manifests["stable"][0].Header.Value()
	if m.Controls == "" || !slices.Contains(m.Critical, fleet.CriticalControls) {
		t.Fatalf("header %+v", m)
	}
}

func TestComplianceFindings(t *testing.T) {
	own := func(expression string) string {
		return "compliance:\n  controls:\n    - id: own\n      title: ours\n      expression: '" + expression + "'\n"
	}
	for name, c := range map[string]struct{ declared, want string }{
		"typo":        {own("bundle.containers.all(c, !c.privilegd)"), "fleet.yaml:13:"},
		"no bool":     {own("bundle.name"), "of type string: expected bool"},
		"syntax":      {own("bundle.name =="), "fleet.yaml:13:"},
		"unknown":     {own("hosts.size() > 0"), "undeclared reference"},
		"both":        {own("container.name == file.path"), "expected one of them"},
		"costs":       {own("[1,2,3,4,5,6,7,8,9,10].all(a, [1,2,3,4,5,6,7,8,9,10].all(b, [1,2,3,4,5,6,7,8,9,10].all(c, [1,2,3,4,5,6,7,8,9,10].all(d, [1,2,3,4,5,6,7,8,9,10].all(e, [1,2,3,4,5,6,7,8,9,10].all(f, a+b+c+d+e+f > 0))))))"), "cost"},
		"no pack":     {"compliance: {packs: [nothing]}\n", `there is no pack "nothing"`},
		"no channel":  {"compliance: {channels: {lab: observe}}\n", `unknown channel "lab"`},
		"no override": {"compliance: {overrides: {nothing: {mode: observe, reason: x}}}\n", `there is no control "nothing"`},
		"no reason":   {"compliance: {packs: [host-baseline], overrides: {host-probes: {mode: observe}}}\n", "reason"},
	} {
		t.Run(name, func(t *testing.T) {
			_, ps := tryBuild(t, complianceDir(t, c.declared, webBundle, sound))
			if !Fatal(ps) || !strings.Contains(lines(ps), c.want) {
				t.Fatalf("expected %q, got\n%s", c.want, lines(ps))
			}
		})
	}
	weak := strings.Replace(sound, "    read_only: true\n", "", 1)
	if _, ps := tryBuild(t, complianceDir(t, "compliance: {packs: [container-baseline], overrides: {container-read-only-root: {mode: observe, reason: it writes}}}\n", webBundle, weak)); Fatal(ps) || !strings.Contains(lines(ps), "container-read-only-root") {
		t.Errorf("an override gives\n%s", lines(ps))
	}
}
