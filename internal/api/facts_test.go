package api_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/steadyfleet/steady/internal/api/operator"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/identity"
	"github.com/steadyfleet/steady/internal/testkit"
	"github.com/steadyfleet/steady/internal/wire"
)

// Operators read what a host is from what it signed: of itself, in its own chain.
func TestFactsAreTheHostsOwn(t *testing.T) {
	w := newWorld(t)
	w.release("r1", plan{hosts: 2, content: "one"})
	a, b := enrolled(w, hostName(0)), enrolled(w, hostName(1))
	facts := func(name string) *event.HostFacts {
		t.Helper()
		return testkit.Value(w.op.Host(w.ctx(), name))(t).Facts
	}
	is := event.HostFacts{CPUs: 8, Memory: 32 << 30, Arch: "arm64", GPUs: []event.GPU{{Vendor: "nvidia", Model: "Tesla T4", Memory: 16 << 30}}}
	for _, h := range []*agent{a, b} {
		h.append(event.FileKept{Path: "first"})
		testkit.Must(t, h.send())
		if facts(h.name) != nil {
			t.Fatalf("%s is %+v before it said so", h.name, facts(h.name))
		}
	}

	refused := func(what string, m wire.EventBatch) {
		t.Helper()
		if status, raw, err := a.call(w.ctx(), "POST", wire.RouteEvents, m); err != nil || status/100 != 4 {
			t.Errorf("%s: %d %s, %v", what, status, raw, err)
		}
		if got := facts(a.name); got != nil {
			t.Errorf("%s: %s is %+v", what, a.name, got)
		}
	}
	was := *a
	b.append(is)
	theirs := b.batch()
	refused("another host's batch", theirs)
	a.append(is)
	forged := a.batch()
	forged.Head.Signature = testkit.Value(identity.SignHead(b.event, testFleet, a.name, a.incarnation, a.chain))(t)
	refused("another host's signature", forged)
	other := a.batch()
	other.Events = slices.Clone(other.Events)
	other.Events[0].Body = json.RawMessage(strings.Replace(string(other.Events[0].Body), `"cpus":8`, `"cpus":9`, 1))
	refused("facts that were changed on the way", other)
	*a = was
	a.append(event.HostFacts{GPUs: make([]event.GPU, event.MaxGPUs+1)})
	refused("more than is kept", a.batch())
	*a = was

	a.append(is)
	testkit.Must(t, a.send())
	if got := facts(a.name); got == nil || !got.Equal(is) || facts(b.name) != nil {
		t.Fatalf("%s is %+v, and %s is %+v", a.name, got, b.name, facts(b.name))
	}
	page := testkit.Value(w.op.Events(w.ctx(), operator.EventQuery{Limit: 100, About: operator.AboutHost(a.name)}))(t)
	at := slices.IndexFunc(page.Events, func(e operator.Event) bool { return e.Type == (event.HostFacts{}).EventType() })
	if at < 0 || !strings.Contains(operator.Message(page.Events[at]), "8 CPUs") {
		t.Errorf("the events about %s are %+v", a.name, page.Events)
	}
	w.halt()
	w.start()
	if got := facts(a.name); got == nil || !got.Equal(is) {
		t.Errorf("after a start %s is %+v", a.name, got)
	}
	w.withoutSnapshots()
	if got := facts(a.name); got == nil || !got.Equal(is) {
		t.Errorf("by the log alone %s is %+v", a.name, got)
	}
	again := newAgent(w, a.name)
	again.event = testkit.Value(identity.NewKey())(t)
	again.enrol()
	if got := facts(a.name); got != nil {
		t.Errorf("the new incarnation of %s is %+v", a.name, got)
	}
}

// A server asks for facts in its answers to heartbeats: agents report none to one that does not know them.
func TestServerAsksForFacts(t *testing.T) {
	w := newWorld(t)
	w.release("r1", plan{hosts: 1, content: "one"})
	a := enrolled(w, hostName(0))
	asks := func(want bool) {
		t.Helper()
		var reply wire.HeartbeatReply
		if status := a.do("POST", wire.RouteHeartbeat, wire.Heartbeat{Incarnation: a.incarnation}, &reply); status != http.StatusOK || reply.Facts != want {
			t.Errorf("%d, asks: %t, want %t", status, reply.Facts, want)
		}
	}
	asks(true) // its first start
	w.halt()
	w.start()
	a.connect()
	asks(false) // who upgraded may still go back
	a.append(event.HostFacts{CPUs: 1})
	testkit.Must(t, a.send())
	w.halt()
	w.start()
	a.connect()
	asks(true)
	w.halt()
	w.opts.Control.NoHostFacts = true
	w.start()
	a.connect()
	asks(false)
}
