package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/steadyfleet/steady/internal/api/operator"
	"github.com/steadyfleet/steady/internal/core/drift"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/nodeconfig"
	"github.com/steadyfleet/steady/internal/identity"
	"github.com/steadyfleet/steady/internal/testkit"
)

// plant is a server and nodes, all of them processes of their own.
type plant struct{ *yard }

// nodeRun is one run of steady node run, beside a device.
type nodeRun struct {
	*process
	p          *plant
	name       string
	state      string
	args       []string
	registered bool
}

// newPlant starts a server.
func newPlant(t *testing.T) *plant { return newPlantAt(t, testkit.FreeAddr(t)) }

// newPlantAt starts one at an address. Names are those of its certificate beside that.
func newPlantAt(t *testing.T, listen string, names ...string) *plant {
	this := testkit.Value(os.Executable())(t)
	y := &yard{t: t, estate: newEstate(t), dir: t.TempDir(), listen: listen, serverOf: this, agents: map[string]*process{}}
	for _, name := range names {
		y.more = append(y.more, "--name", name)
	}
	y.startServer()
	conn := readContext(t, y.where.Context)
	y.client = testkit.Value(operator.NewClient(operator.Options{URL: y.where.Operator, Token: conn.Token, ServerCA: []byte(conn.CA)}))(t)
	p := &plant{y}
	t.Cleanup(func() {
		if t.Failed() {
			p.tell()
		}
		y.client.Close()
		y.server.kill()
	})
	return p
}

// of is the plant for a subtest.
func (p *plant) of(t *testing.T) *plant {
	y := *p.yard
	y.t = t
	return &plant{&y}
}

// node registers the node of a device, without starting it.
func (p *plant) node(name, driver string, options ...string) *nodeRun {
	p.t.Helper()
	n := &nodeRun{p: p, name: name, state: filepath.Join(p.dir, "nodes", name), args: []string{"node", "run", "--driver", driver}}
	for _, o := range options {
		n.args = append(n.args, "--driver-option", o)
	}
	testkit.Must(p.t, os.MkdirAll(n.state, 0o700))
	n.args = append(n.args, "--state", n.state)
	return n
}

// secret keeps a secret on the node.
func (n *nodeRun) secret(name, value string) {
	n.p.t.Helper()
	cmd := exec.Command(testkit.Value(os.Executable())(n.p.t), "node", "secret", name, "--state", n.state)
	cmd.Env, cmd.Stdin = append(os.Environ(), actAsSteady+"=1"), strings.NewReader(value)
	if out, err := cmd.CombinedOutput(); err != nil {
		n.p.t.Fatalf("%v: %s", err, out)
	}
}

// start runs it, until it is online and was compared.
func (n *nodeRun) start(more ...string) *nodeRun {
	n.p.t.Helper()
	n.launch(more...)
	n.p.untilNode(n.name, "is compared", func(d drift.NodeDetail) bool { return d.Status != drift.NodeOffline && d.ComparedAt != 0 })
	return n
}

// launch is start that waits for nothing. What is given is given again at the next start.
func (n *nodeRun) launch(more ...string) {
	n.p.t.Helper()
	n.args = append(n.args, more...)
	args := slices.Clone(n.args)
	if !n.registered {
		env := testkit.Value(n.p.estate.NodeToken(n.name))(n.p.t)
		text := identity.TokenText{Envelope: env, Server: n.p.where.Server, ServerCA: []byte(readContext(n.p.t, n.p.where.Context).CA), Root: n.p.estate.roots[0]}
		args = append(args, "--token", text.String())
		n.registered = true
	}
	n.process = launch(n.p.t, n.p.dir, "node-"+n.name, args...)
	n.p.t.Cleanup(n.process.kill)
}

func (p *plant) untilNode(name, what string, is func(drift.NodeDetail) bool) {
	p.t.Helper()
	testkit.Eventually(p.t, "node "+name+" "+what, func() bool {
		d, err := p.client.Node(context.Background(), name)
		return err == nil && is(d)
	})
}

// set has an object be on one node, under the name that it has there, in small letters.
func (p *plant) set(kind, id, node, config string) {
	p.t.Helper()
	name := strings.ToLower(id)
	k := nodeconfig.KindOf(kind)
	mode := k.Modes[len(k.Modes)-1] // of one leg
	p.define(kind, name, nodeconfig.Definition{Mode: mode.Name, Legs: []nodeconfig.Leg{{Role: mode.Roles[0], Node: node, ID: id, Config: json.RawMessage(config)}}})
}

func (p *plant) define(kind, name string, d nodeconfig.Definition) {
	p.t.Helper()
	testkit.Value(p.client.SetObject(context.Background(), kind, name, operator.SetObject{Definition: d, Reason: "trial"}))(p.t)
}

// object is an object with its legs, nil where there is none.
func (p *plant) object(kind, name string) *drift.ObjectDetail {
	o, err := p.client.Object(context.Background(), kind, name)
	if err != nil {
		return nil
	}
	return &o
}

func (p *plant) pushed(kind, name string) {
	p.t.Helper()
	testkit.Eventually(p.t, fmt.Sprintf("%s %s is pushed", kind, name), func() bool {
		o := p.object(kind, name)
		return o != nil && o.Status == drift.Pushed && !o.Removed
	})
}

// episode waits for the episode of an object of a node.
func (p *plant) episode(node, id, kind string) drift.EpisodeDetail {
	p.t.Helper()
	var found drift.EpisodeDetail
	testkit.Eventually(p.t, fmt.Sprintf("%s of %s on node %s", kind, id, node), func() bool {
		all, err := p.client.Drift(context.Background(), operator.DriftQuery{Node: node, Drift: kind})
		if err != nil {
			return false
		}
		for _, e := range all {
			if e.ObjectID == id && !e.Decided {
				found, err = p.client.Episode(context.Background(), e.ID)
				return err == nil
			}
		}
		return false
	})
	return found
}

// settled waits until nothing is open on a node, and nothing on its way to it.
func (p *plant) settled(node string) {
	p.t.Helper()
	p.untilNode(node, "is settled", func(d drift.NodeDetail) bool {
		if len(d.Episodes) > 0 || d.Status != drift.NodeOnline || d.Adoption != nil {
			return false
		}
		for _, l := range d.Objects {
			if l.Status != drift.Pushed {
				return false
			}
		}
		return true
	})
}

// resolve decides about an episode, and returns the decision.
func (p *plant) resolve(e drift.EpisodeDetail, action string) string {
	p.t.Helper()
	o := testkit.Value(p.client.Resolve(context.Background(), e.ID, operator.ResolveDrift{Action: action, ETag: e.ETag, Reason: "trial"}))(p.t)
	if o.Error != "" {
		p.t.Fatalf("%s of %s: %s", action, e.ID, o.Error)
	}
	return o.Resolution
}

func (p *plant) undo(resolution string) {
	p.t.Helper()
	testkit.Must(p.t, p.client.UndoResolution(context.Background(), resolution, "trial"))
}

// whole stops the server, and has the audit look at the log.
func (p *plant) whole() {
	p.t.Helper()
	if p.t.Failed() {
		return // the log is told
	}
	p.server.stop()
	cmd := exec.Command(testkit.Value(os.Executable())(p.t), "doctor", "--data", filepath.Join(p.dir, "server"))
	cmd.Env = append(os.Environ(), actAsSteady+"=1")
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "All holds") {
		p.t.Errorf("steady doctor: %v\n%s", err, out)
	}
}

// join runs the node of a device for the first time.
func (p *plant) join(name, driver string, options ...string) *nodeRun {
	p.t.Helper()
	n := p.node(name, driver, options...)
	n.start()
	return n
}

var resumePush = operator.Resume{Push: true, Reason: "trial"}

// pushesOf counts the operations that were sent to a node.
func (p *plant) pushesOf(name string) (n int) {
	p.t.Helper()
	for _, e := range p.happened() {
		if ev, is := testkit.Value(event.DecodeBody(e.Type, e.Body))(p.t).(event.PushStarted); is && ev.Node == name {
			n++
		}
	}
	return n
}

// happened is all events.
func (p *plant) happened() (all []operator.Event) {
	p.t.Helper()
	for after := uint64(0); ; {
		page := testkit.Value(p.client.Events(context.Background(), operator.EventQuery{After: after, Limit: 1000}))(p.t)
		all = append(all, page.Events...)
		if len(page.Events) == 0 {
			return all
		}
		after = page.Events[len(page.Events)-1].Seq
	}
}

// tell logs how the log ends.
func (p *plant) tell() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second) // it may be the server that failed
	defer cancel()
	page, err := p.client.Events(ctx, operator.EventQuery{Limit: 1000})
	for _, e := range page.Events[max(0, len(page.Events)-150):] {
		p.t.Log(e.Seq, e.Message)
	}
	p.t.Log(err)
}
