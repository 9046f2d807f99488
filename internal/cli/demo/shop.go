package demo

import (
	"fmt"
	"os"
	"path/filepath"
)

// The fleet of containers: two hosts with one Compose application each.
var shopHosts = []string{"edge-1", "edge-2"}

// shopHost is the name under which routers know the application.
const shopHost = "shop.localhost"

// shopFleet is given the name of the fleet: things on an engine belong to a fleet
// and a host, and two demonstrations may share an engine. It is also given how long
// an activation may take.
const shopFleet = `# The demonstration's fleet: one Compose application on two hosts.
apiVersion: steady/v1
kind: Fleet
metadata: {name: %s}
hosts:
  edge-1: {channel: stable, tags: [canary], bundle: shop}
  edge-2: {channel: stable, bundle: shop}
channels:
  stable: {rolloutPolicy: careful, freshnessWindow: 24h, signingInterval: 1h, reconcileInterval: 1s}
rolloutPolicies:
  careful:
    waves:
      - {name: canary, selector: {tags: [canary]}, soak: 1s, minSoaked: 1}
      - {name: rest,   selector: {all: true},      soak: 1s}
    healthGate: {maxFailures: 0}
    onHealthFailure: rollback-and-halt
    sustainedFailure: 4s
    activationDeadline: %s
    confirmWindow: 2m
bundles: {shop: {path: bundles/shop}}
`

// shopCompose writes to its volume in one service, so that it is replaced with
// the old one stopped first, and only reads it in the other, so that a new one
// starts beside the old one and takes over when it is healthy.
// Each check starts a process in the container, which a busy machine does slowly.
const shopCompose = `services:
  counter:
    build: ./app
    command: [demo, app, count, /data]
    volumes: ["beats:/data"]
    networks: [inner]
    restart: unless-stopped
    x-steady:
      update: {monitor: 1s}

  web:
    build: ./app
    command: [demo, app, serve, /data, /site]
    volumes: ["beats:/data:ro"]
    networks: [inner]
    depends_on: {counter: {condition: service_started}}
    healthcheck:
      test: [CMD, /steady, demo, app, check, "http://127.0.0.1:` + appPort + `/healthz"]
      interval: 1s
      timeout: 30s
      retries: 5
    restart: unless-stopped
    x-steady:
      route: {host: ` + shopHost + `, port: ` + appPort + `}

networks:
  inner: {}

volumes:
  beats: {}
`

const shopDockerfile = `FROM scratch
COPY root/ /
COPY site/ /site/
ENTRYPOINT ["/steady"]
`

var shopReleases = []release{
	{"v1", "ok", true, "networks, volumes, images, workspaces and routes, in their order, canary first"},
	{"v2", "broken", false, "a bad release: the new container is never healthy; v1 serves on, and the canary goes back by itself"},
	{"v3", "ok", true, "the fix: each new container is healthy before requests go to it and the old one stops"},
}

// writeShop writes the fleet folder as it is for one release; the program is
// there already.
func writeShop(dir, fleet string, r release) error {
	bundle := filepath.Join(dir, "bundles", "shop")
	// The deadline ends what is never healthy; what is may take its time on a busy machine.
	deadline := "2m"
	if !r.converges {
		deadline = "10s"
	}
	for name, text := range map[string]string{
		filepath.Join(dir, "fleet.yaml"):                fmt.Sprintf(shopFleet, fleet, deadline),
		filepath.Join(bundle, "bundle.yaml"):            "compose: compose.yaml\n",
		filepath.Join(bundle, "compose.yaml"):           shopCompose,
		filepath.Join(bundle, "app", "Dockerfile"):      shopDockerfile,
		filepath.Join(bundle, "app", "site", "release"): r.name + "\n",
		filepath.Join(bundle, "app", "site", "status"):  r.status + "\n",
	} {
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}
