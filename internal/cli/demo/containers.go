package demo

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/steadyfleet/steady/internal/docker/dockerapi"
)

// repairIn bounds the repair of what was changed outside.
const repairIn = 2 * time.Minute

// Containers of a demonstration.
type Containers struct {
	Options
	// Engine is the socket or URL of the container engine.
	Engine string
}

// RunContainers runs the demonstration of containers.
func RunContainers(ctx context.Context, o Containers) error {
	s, err := newStage(o.Options)
	if err != nil {
		return err
	}
	s.result.Requests = &Requests{}
	return s.play(ctx, &shop{stage: s, fleet: "demo-" + strings.ToLower(rand.Text()[:6]), engine: o.Engine, born: map[string]string{}})
}

// shop is the demonstration of containers.
type shop struct {
	*stage
	fleet    string
	engine   string
	api      *dockerapi.Engine
	visitors []*visitor
	born     map[string]string // when the volume of each host was filled
}

func (d *shop) run(ctx context.Context) error {
	for _, step := range []func(context.Context) error{d.makeFleet, d.startServer, d.startHosts, d.first, d.underTraffic, d.meddle} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	if err := d.tally(ctx, shopReleases); err != nil {
		return err
	}
	return d.check(ctx)
}

func (d *shop) summary() string {
	removed := ""
	if d.result.Removed != nil {
		removed = "\nRemoved " + d.result.Removed.String() + "."
	}
	return fmt.Sprintf(`%d requests answered during the bad release and the good one, none
refused; the bad release never left its canary; what somebody removed came back.%s

Try next:
  steady demo --docker --keep   the same, left running to play with
  examples/containers           a fleet of containers to start from; the README has the way
`, d.result.Requests.Answered, removed)
}

func (d *shop) playground() string {
	var b strings.Builder
	fmt.Fprintf(&b, "  export STEADY_CONTEXT=%s DOCKER_HOST=%s\n  %s status\n  docker ps\n", d.path("data", "operator.json"), d.engine, program())
	for _, v := range d.visitors {
		fmt.Fprintf(&b, "  curl -H 'Host: %s' http://%s\n", shopHost, v.addr)
	}
	return b.String() + "  docker stop CONTAINER        # and see the agent start it again\n"
}

func (d *shop) makeFleet(ctx context.Context) error {
	var err error
	if d.api, err = dockerapi.Open(dockerapi.Options{Socket: d.engine}); err != nil {
		return err
	}
	version, err := d.api.Version(ctx)
	if err != nil {
		return err
	}
	if err := d.Report.step("A fleet of %d hosts on one engine (%s, at %s), and its keys", len(shopHosts), version.Engine, d.api.Socket()); err != nil {
		return err
	}
	if err := copyProgram(d.path("fleet", "bundles", "shop", "app", "root")); err != nil {
		return fmt.Errorf("make the folder of the image: %w", err)
	}
	_, err = d.steady(ctx, "keys", "init", "--dir", "keys", "--fleet", d.fleet)
	return err
}

// prefix is what the names of a host's things on the engine begin with.
func (d *shop) prefix(host string) string { return d.fleet + "." + host + "." }

func (d *shop) startHosts(ctx context.Context) error {
	if err := d.Report.step("%d agents, each with a namespace of names and a router of its own", len(shopHosts)); err != nil {
		return err
	}
	for _, host := range shopHosts {
		addr, err := freeAddr()
		if err != nil {
			return err
		}
		d.visitors = append(d.visitors, newVisitor(host, addr))
	}
	return d.startAgents(ctx, shopHosts, func(host string) []string {
		return []string{"--engine", d.engine, "--prefix", d.prefix(host), "--http", d.visitor(host).addr}
	})
}

func (d *shop) visitor(host string) *visitor {
	return d.visitors[slices.Index(shopHosts, host)]
}

// freeAddr is a loopback address that nothing listens on now. It is drawn from
// millions: a port of 127.0.0.1 may be given away again before the agent listens.
func freeAddr() (string, error) {
	var host [3]byte
	_, _ = rand.Read(host[:]) // it never fails
	l, err := net.Listen("tcp", fmt.Sprintf("127.%d.%d.%d:0", host[0]|1, host[1], host[2]|1))
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

func (d *shop) release(ctx context.Context, r release) error {
	if err := d.Report.step("Release %s: %s", r.name, r.about); err != nil {
		return err
	}
	if err := writeShop(d.path("fleet"), d.fleet, r); err != nil {
		return err
	}
	return d.roll(ctx, r)
}

// first rolls out v1 and asks each router.
func (d *shop) first(ctx context.Context) error {
	if err := d.release(ctx, shopReleases[0]); err != nil {
		return err
	}
	for _, v := range d.visitors {
		a, err := v.request(ctx)
		if err != nil {
			return err
		}
		d.born[v.host] = a.born
		if err := d.Report.print("%s: http://%s answers from release %s", v.host, v.addr, a.release); err != nil {
			return err
		}
	}
	return d.serving(ctx, shopReleases[0].name)
}

// serving checks that every router answers from a release, and with the data
// that was there from the first.
func (d *shop) serving(ctx context.Context, release string) error {
	for _, v := range d.visitors {
		a, err := v.request(ctx)
		if err != nil {
			return err
		}
		if a.release != release || a.born != d.born[v.host] {
			return fmt.Errorf("%s answers from release %s with data of %s; expected %s and %s", v.host, a.release, a.born, release, d.born[v.host])
		}
	}
	return nil
}

// underTraffic rolls out the other releases while clients ask every router.
func (d *shop) underTraffic(ctx context.Context) error {
	t := startTraffic(ctx, d.visitors)
	defer t.end()
	serves := shopReleases[0].name
	for _, r := range shopReleases[1:] {
		before, _ := t.now()
		if err := d.release(ctx, r); err != nil {
			return err
		}
		if r.converges {
			serves = r.name
		}
		if err := d.serving(ctx, serves); err != nil {
			return err
		}
		now, first := t.now()
		if err := d.Report.print("meanwhile %d requests were answered and %d refused; every router answers from %s, with its data", now.Answered-before.Answered, now.Refused-before.Refused, serves); err != nil {
			return err
		}
		if now.Refused > 0 {
			return fmt.Errorf("%d of %d requests were refused while %s was rolled out; the first: %w", now.Refused, now.Refused+now.Answered, r.name, first)
		}
	}
	var first error
	if *d.result.Requests, first = t.end(); first != nil {
		return fmt.Errorf("%d requests were refused; the first: %w", d.result.Requests.Refused, first)
	}
	return nil
}

// meddle removes a container behind the agent's back and waits until it is back.
func (d *shop) meddle(ctx context.Context) error {
	host, serves := shopHosts[len(shopHosts)-1], shopReleases[len(shopReleases)-1].name
	name := d.prefix(host) + "web"
	if err := d.Report.step("Somebody removes a container of %s", host); err != nil {
		return err
	}
	if err := d.Report.enters("docker rm -f " + name); err != nil {
		return err
	}
	old, err := d.api.ContainerInspect(ctx, name)
	if err != nil {
		return err
	}
	if err := d.api.ContainerRemove(ctx, name, dockerapi.Removal{Force: true}); err != nil {
		return err
	}
	removed := time.Now()
	err = d.poll(ctx, repairIn, func(ctx context.Context) (bool, error) {
		seen, err := d.api.ContainerInspect(ctx, name)
		if dockerapi.NotFound(err) || err == nil && seen.ID == old.ID {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		a, err := d.visitor(host).request(ctx)
		return err == nil && a.release == serves && a.born == d.born[host], nil
	})
	if errors.Is(err, errTooLate) {
		return d.agents[host].Failure(fmt.Sprintf("did not bring %s back within %s", name, repairIn))
	}
	if err != nil {
		return err
	}
	took := time.Since(removed)
	d.result.RepairedMS = took.Milliseconds()
	return d.Report.print("made again and answering after %.1f s, with its data", took.Seconds())
}

// check compares what happened with what was promised.
func (d *shop) check(ctx context.Context) error {
	broken := []error{d.moved(shopReleases, shopHosts)}
	for _, host := range shopHosts {
		list, err := d.api.ContainerList(ctx, true, d.owned(host))
		if err != nil {
			return err
		}
		var names []string
		for _, c := range list {
			names = append(names, strings.TrimPrefix(strings.Join(c.Names, ","), "/"+d.prefix(host))+" "+string(c.State))
		}
		slices.Sort(names)
		if want := []string{"counter running", "web running"}; !slices.Equal(names, want) {
			broken = append(broken, fmt.Errorf("%s has the containers %v; expected %v", host, names, want))
		}
		d.result.Containers += len(list)
	}
	return errors.Join(broken...)
}
