package api_test

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/steadyfleet/steady/internal/api"
	"github.com/steadyfleet/steady/internal/api/operator"
	"github.com/steadyfleet/steady/internal/core/clock"
	coreevent "github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/host"
	"github.com/steadyfleet/steady/internal/store"
	"github.com/steadyfleet/steady/internal/store/embedded"
	"github.com/steadyfleet/steady/internal/testkit"
)

// S31: a server that another one has replaced stops at its next append.
func TestS31ReplacedServerStops(t *testing.T) {
	w := newWorld(t)
	a := enrolled(w, "h-0000")
	o := w.opts
	o.Listen = "127.0.0.1:0"
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	second := testkit.Value(api.Start(ctx, o))(t)
	w.expectProbes(w.server, 200, 503, "lease")
	w.expectProbes(second, 200, 200)
	a.append(declined("g1"))
	if status, _, err := a.call(w.ctx(), "POST", "/v1/agent/events", a.batch()); err == nil && status != 503 {
		t.Errorf("a replaced server answered %d", status)
	}
	if err := w.server.Wait(); !errors.Is(err, store.ErrFenced) {
		t.Errorf("the replaced server ended with %v", err)
	}
	w.op.Close()
	w.server = second
	w.stop = stop
	a.connect()
	testkit.Must(t, a.send())
}

// A log that a newer version wrote stops the server with words.
func TestUnknownEventStopsTheServer(t *testing.T) {
	w := newWorld(t)
	w.halt()
	ctx := context.Background()
	s := testkit.Value(embedded.Open(ctx, filepath.Join(w.opts.DataDir, "store"), embedded.Options{}))(t)
	head := testkit.Value(s.Acquire(ctx, "test", clock.FromTime(time.Now())))(t)
	testkit.Value(s.Append(ctx, head.Seq, head.Term, []coreevent.Entry{{At: 1, Type: "host.teleported", Body: []byte("{}")}}))(t)
	testkit.Must(t, s.Close())
	var unknown *coreevent.UnknownTypeError
	if _, err := api.Start(ctx, w.opts); !errors.As(err, &unknown) || unknown.Type != "host.teleported" {
		t.Fatalf("the server started: %v", err)
	}
}

// After a backup was restored hosts have seen higher terms than the log's, and
// refuse older ones: the server leads under the next until they listen.
func TestS31TermRisesAboveWhatHostsHaveSeen(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := enrolled(w, "h-0000")
	before := w.server.Control().Head().Term
	for range 2 {
		term := w.server.Control().Head().Term
		for w.server.Control().Head().Term == term {
			a.append(coreevent.GrantDeclined{Grant: "g9", Code: host.DeclineOldTerm, Detail: "d"})
			testkit.Must(t, a.send())
		}
	}
	if got := w.server.Control().Head().Term; got != before+2 {
		t.Fatalf("the term went from %d to %d", before, got)
	}
	testkit.Value(w.op.CreateToken(w.ctx(), operator.NewToken{Name: "x", Role: operator.Viewer}))(t)
	live := w.stateJSON()
	w.halt()
	w.start()
	if got := w.stateJSON(); got != live {
		t.Errorf("after a restart:\n%s\nbefore:\n%s", got, live)
	}
}
