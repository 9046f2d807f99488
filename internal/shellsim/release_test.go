package shellsim

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/steadyfleet/steady/internal/identity"
	"github.com/steadyfleet/steady/internal/release"
	"github.com/steadyfleet/steady/internal/release/fleetdir"
	"github.com/steadyfleet/steady/internal/testkit/testfleet"
)

const fleetName = testfleet.Name

// keys are those of every schedule: what they sign differs.
var keys = testfleet.NewKeys("")

// declared is the fleet of a schedule, as drawn from its seed.
type declared struct {
	hosts     []string
	soak      int // seconds
	policy    string
	budget    int // 0 is none
	supersede bool
}

// flavour is what is wrong with a release.
type flavour int

const (
	good    flavour = iota
	blocked         // a file of it is a folder on some hosts: it cannot be activated there
	unfit           // its probe fails
	flavours
)

// source writes the fleet's folder for a release.
func (d *declared) source(dir, ref string, what flavour) error {
	var b strings.Builder
	fmt.Fprintf(&b, "apiVersion: steady/v1\nkind: Fleet\nmetadata: {name: %s}\nhosts:\n", fleetName)
	for i, h := range d.hosts {
		tag := "rest"
		if i == 0 {
			tag = "canary"
		}
		fmt.Fprintf(&b, "  %s: {channel: stable, tags: [%s], bundle: web}\n", h, tag)
	}
	fmt.Fprintf(&b, "channels:\n  stable: {rolloutPolicy: p, freshnessWindow: 24h")
	if d.supersede {
		b.WriteString(", onNewRef: supersede")
	}
	fmt.Fprintf(&b, "}\nrolloutPolicies:\n  p:\n    waves:\n      - {name: canary, selector: {tags: [canary]}, soak: %ds}\n      - {name: rest, selector: {all: true}, soak: %ds}\n%s", d.soak, d.soak, d.policy)
	if d.budget > 0 {
		fmt.Fprintf(&b, "disruptionBudgets:\n  - {selector: {all: true}, maxInFlight: %d}\n", d.budget)
	}
	b.WriteString("bundles: {web: {path: web}}\nallowMassChange: true\n")
	if err := os.MkdirAll(filepath.Join(dir, "web"), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, fleetdir.FleetFile), []byte(b.String()), 0o600); err != nil {
		return err
	}
	bundle := fmt.Sprintf("files:\n  - {path: version, content: %q}\n  - {path: etc/app/only-%s, content: %q}\n", ref, ref, strings.Repeat(ref, 50))
	if what == blocked {
		bundle += "  - {path: blocked, content: \"x\"}\n"
	}
	if what == unfit {
		bundle += "probes:\n  port: {mode: enforce, interval: 2s, timeout: 1s, tcp: {address: \"127.0.0.1:1\"}}\n"
	}
	return os.WriteFile(filepath.Join(dir, "web", fleetdir.BundleFile), []byte(bundle), 0o600)
}

// build makes and signs a release in dir, after the one before it.
func (d *declared) build(dir, ref string, what flavour, root []byte, prev *release.Verified) (*release.Verified, error) {
	src := filepath.Join(dir, "source")
	if err := d.source(src, ref, what); err != nil {
		return nil, err
	}
	return keys.Release(src, filepath.Join(dir, "release"), ref, prev, root)
}

// token signs an enrolment token.
func token(host string, root []byte, server string, ca []byte) (string, error) {
	env, err := keys.Token(host, root)
	return identity.TokenText{Envelope: env, Server: server, ServerCA: ca, Root: root}.String(), err
}
