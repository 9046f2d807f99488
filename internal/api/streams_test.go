package api_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/steadyfleet/steady/internal/api/operator"
	"github.com/steadyfleet/steady/internal/testkit"
	"github.com/steadyfleet/steady/internal/wire"
)

// conn is an agent's end of a stream.
type conn struct {
	t    testing.TB
	req  wire.StreamRequest
	in   *wire.FrameReader
	out  *wire.FrameWriter
	pipe *io.PipeWriter
	stop context.CancelFunc
	done func()
}

// attach opens a stream; the status is the server's answer.
func (a *agent) attach(r wire.StreamRequest) (*conn, int) {
	a.w.t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	pr, pw := io.Pipe()
	req := testkit.Value(http.NewRequestWithContext(ctx, "POST", a.w.url()+wire.RouteStreams+r.ID, pr))(a.w.t)
	req.Header.Set(wire.Protocol, wire.Version)
	res := testkit.Value(a.http.Do(req))(a.w.t)
	c := &conn{t: a.w.t, req: r, in: wire.NewFrameReader(res.Body), out: wire.NewFrameWriter(pw), pipe: pw, stop: stop,
		done: func() { stop(); _ = pw.Close(); _ = res.Body.Close() }}
	a.w.t.Cleanup(c.done)
	return c, res.StatusCode
}

// serve opens every stream that the host is asked for, until n were, or the test ends.
func (a *agent) serve(n int, with func(*conn)) (wait func()) {
	ctx, stop := context.WithCancel(context.Background())
	asking := make(chan struct{})
	a.w.t.Cleanup(func() { stop(); <-asking })
	var wg sync.WaitGroup
	wg.Go(func() {
		defer close(asking)
		news := uint64(0)
		for n > 0 {
			d := a.newsUntil(ctx, news, 30)
			if d == nil {
				return
			}
			news = d.News
			for _, r := range d.Streams {
				n--
				c, status := a.attach(r)
				if status != 200 {
					a.w.t.Errorf("stream %s: %d", r.ID, status)
					return
				}
				wg.Go(func() { defer c.done(); with(c) })
			}
		}
	})
	return wg.Wait
}

func (c *conn) takes(kind wire.FrameType, data string) {
	c.t.Helper()
	f, err := c.in.Next()
	if err != nil || f.Type != kind || string(f.Data) != data {
		c.t.Errorf("the agent got frame %d %q, %v, expected %d %q", f.Type, f.Data, err, kind, data)
	}
}

func TestExecGoesBothWays(t *testing.T) {
	w := newWorld(t)
	a := settled(w, plan{hosts: 1, content: "one", host: delegating})
	wait := a.serve(1, func(c *conn) {
		if r := c.req; r.Kind != wire.StreamExec || r.Resource != "workspace/web" || strings.Join(r.Args.Argv, " ") != "sh -c cat" ||
			!r.Args.Stdin || !r.Args.TTY || r.Args.Rows != 24 || r.Args.Cols != 80 || r.Args.User != "1000" || r.Args.WorkDir != "/srv" || !strings.HasPrefix(r.Actor, "admin") {
			t.Errorf("asked for %+v", r)
		}
		c.takes(wire.FrameStdin, "hello")
		testkit.Must(t, c.out.WriteData(wire.FrameStdout, []byte("hello back")))
		c.takes(wire.FrameResize, `{"rows":30,"cols":90}`)
		testkit.Must(t, c.out.WriteData(wire.FrameStderr, []byte("hm")))
		c.takes(wire.FrameClose, "")
		testkit.Must(t, c.out.Exit(wire.Exit{Code: 7}))
		if f, err := c.in.Next(); err != io.EOF {
			t.Errorf("after its exit the agent got %v, %v", f, err)
		}
	})
	s := testkit.Value(w.op.Exec(w.ctx(), "h-0000", "web", operator.ExecRequest{Argv: []string{"sh", "-c", "cat"}, Stdin: true, TTY: true, Rows: 24, Cols: 80, User: "1000", WorkDir: "/srv"}))(t)
	defer s.Close()
	testkit.Must(t, s.Stdin([]byte("hello")))
	f, err := s.Next()
	if err != nil || f.Type != wire.FrameStdout || string(f.Data) != "hello back" {
		t.Fatalf("the operator got %d %q, %v", f.Type, f.Data, err)
	}
	testkit.Must(t, s.Resize(30, 90))
	if f, err := s.Next(); err != nil || f.Type != wire.FrameStderr || string(f.Data) != "hm" {
		t.Fatalf("the operator got %d %q, %v", f.Type, f.Data, err)
	}
	testkit.Must(t, s.CloseStdin())
	var out, errs bytes.Buffer
	if exit, err := s.Copy(&out, &errs); err != nil || exit.Code != 7 {
		t.Errorf("exit %+v, %v", exit, err)
	}
	wait()
	page, err := w.op.Events(w.ctx(), operator.EventQuery{About: operator.AboutHost("h-0000"), Tail: true, Limit: 50})
	testkit.Must(t, err)
	audited := 0
	for _, e := range page.Events {
		if e.Type == "stream.opened" {
			audited++
			if !strings.Contains(string(e.Body), `"argv":["sh","-c","cat"]`) || !strings.Contains(string(e.Body), `"actor":"admin`) {
				t.Errorf("audited as %s", e.Body)
			}
		}
	}
	if audited != 1 {
		t.Errorf("%d events of one command", audited)
	}
}

// A log larger than every buffer on the way arrives whole and in order, however
// late it is read.
func TestLogsReachASlowReaderWhole(t *testing.T) {
	w := newWorld(t)
	a := settled(w, plan{hosts: 1, content: "one", host: delegating})
	const lines = 40_000
	written := make(chan struct{})
	wait := a.serve(1, func(c *conn) {
		if r := c.req; r.Kind != wire.StreamLogs || !r.Args.Follow || r.Args.Tail != 5 || r.Args.Since != 77 {
			t.Errorf("asked for %+v", r)
		}
		var frame []byte
		for i := range lines {
			frame = fmt.Appendf(frame, "line %06d of a log that is rather long, so that it does not fit in buffers\n", i)
			if i%10 == 9 {
				testkit.Must(t, c.out.WriteData(wire.FrameStdout, frame))
				frame = frame[:0]
			}
			if i == 100 {
				close(written)
			}
		}
		testkit.Must(t, c.out.Exit(wire.Exit{}))
		_, _ = c.in.Next() // the server ends it
	})
	s := testkit.Value(w.op.Logs(w.ctx(), "h-0000", "web", operator.LogQuery{Follow: true, Tail: 5, Since: 77}))(t)
	defer s.Close()
	<-written
	var out bytes.Buffer
	if exit, err := s.Copy(&out, io.Discard); err != nil || exit.Code != 0 {
		t.Fatalf("exit %+v, %v", exit, err)
	}
	wait()
	got := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
	if len(got) != lines {
		t.Fatalf("%d of %d lines", len(got), lines)
	}
	for i, line := range got {
		if !strings.HasPrefix(line, fmt.Sprintf("line %06d ", i)) {
			t.Fatalf("line %d is %q", i, line)
		}
	}
}

func TestStreamEndsWithEitherEnd(t *testing.T) {
	w := newWorld(t)
	a := settled(w, plan{hosts: 1, content: "one", host: delegating})
	wait := a.serve(1, func(c *conn) {
		testkit.Must(t, c.out.WriteData(wire.FrameStdout, []byte("begin")))
		c.stop() // the agent dies
	})
	s := testkit.Value(w.op.Logs(w.ctx(), "h-0000", "web", operator.LogQuery{Follow: true}))(t)
	var out bytes.Buffer
	if exit, err := s.Copy(&out, io.Discard); err == nil || !strings.Contains(err.Error(), "agent went away") || exit.Code != -1 {
		t.Errorf("after %q the operator was told %+v, %v", &out, exit, err)
	}
	s.Close()
	wait()
	ended := make(chan error, 1)
	wait = a.serve(1, func(c *conn) {
		testkit.Must(t, c.out.WriteData(wire.FrameStdout, []byte("begin")))
		_, err := c.in.Next()
		ended <- err
	})
	s = testkit.Value(w.op.Exec(w.ctx(), "h-0000", "web", operator.ExecRequest{Argv: []string{"sleep", "1000"}}))(t)
	testkit.Value(s.Next())(t)
	s.Close() // the operator dies
	if err := <-ended; err == nil {
		t.Error("the agent was told nothing")
	}
	wait()
}

func TestStreamsAreRefused(t *testing.T) {
	w := newWorld(t)
	w.release("r1", plan{hosts: 2, content: "one", host: ", managed: [workspace]"})
	logs := func(host string) error {
		_, err := w.op.Logs(w.ctx(), host, "web", operator.LogQuery{})
		return err
	}
	if err := logs("h-0000"); status(err) != 403 || !strings.Contains(err.Error(), "allow: [logs]") {
		t.Errorf("logs that are not allowed: %v", err)
	}
	if _, err := w.op.Exec(w.ctx(), "h-0000", "web", operator.ExecRequest{Argv: []string{"sh"}}); status(err) != 403 || !strings.Contains(err.Error(), "allow: [exec]") {
		t.Errorf("a command that is not allowed: %v", err)
	}
	w.release("r2", plan{hosts: 2, content: "one", host: delegating})
	if err := logs("nobody"); status(err) != 404 {
		t.Errorf("logs of an unknown host: %v", err)
	}
	if err := logs("h-0000"); status(err) != 409 || !strings.Contains(err.Error(), "never enrolled") {
		t.Errorf("logs of a host that never enrolled: %v", err)
	}
	a := enrolled(w, "h-0000")
	if err := logs("h-0000"); status(err) != 409 || !strings.Contains(err.Error(), "offline") {
		t.Errorf("logs of a host that is offline: %v", err)
	}
	a.beat()
	w.until("the host to be there", func() bool { return count(w.types("h-0000"), "host.returned") == 1 })
	for what, x := range map[string]operator.ExecRequest{"no words": {}, "an empty word": {Argv: []string{""}},
		"a long word": {Argv: []string{strings.Repeat("x", 20<<10)}}, "a wide terminal": {Argv: []string{"sh"}, Cols: 5000}} {
		if _, err := w.op.Exec(w.ctx(), "h-0000", "web", x); status(err) != 422 {
			t.Errorf("a command of %s: %v", what, err)
		}
	}
	if got := count(w.types("h-0000"), "stream.opened"); got != 0 {
		t.Errorf("%d refused commands are in the log as opened", got)
	}
	for _, id := range []string{"none", "0"} {
		if _, got := a.attach(wire.StreamRequest{ID: id}); got != 404 {
			t.Errorf("an agent opens a stream that nobody asked for: %d", got)
		}
	}
}

// A host cannot open another's stream, nor one twice.
func TestStreamIsOfOneHost(t *testing.T) {
	w := newWorld(t)
	w.release("r1", plan{hosts: 2, content: "one", host: delegating})
	agents := w.agents(2)
	stop := runAgents(t, agents...)
	w.until("r1 to converge", func() bool { return w.standing("stable@r1") == "done" })
	stop()
	wait := agents[0].serve(1, func(c *conn) {
		if _, got := agents[1].attach(c.req); got != 404 {
			t.Errorf("another host opens the stream: %d", got)
		}
		if _, got := agents[0].attach(c.req); got != 409 {
			t.Errorf("the host opens it twice: %d", got)
		}
		testkit.Must(t, c.out.Exit(wire.Exit{}))
		_, _ = c.in.Next()
	})
	s := testkit.Value(w.op.Output(w.ctx(), "h-0000", "app", operator.OutputQuery{After: 3}))(t)
	defer s.Close()
	if exit, err := s.Copy(io.Discard, io.Discard); err != nil || exit.Code != 0 {
		t.Errorf("exit %+v, %v", exit, err)
	}
	wait()
}

func TestPlanIsAskedOfTheHost(t *testing.T) {
	w := newWorld(t)
	a := settled(w, plan{hosts: 1, content: "one", host: delegating})
	want := wire.PlanAnswer{Resource: "workspace/web", Does: "replace", Fields: []wire.PlanField{{Field: "image", Class: "replace", Desired: "b", Observed: "a", Why: "another image"}}}
	answers := []func(*conn){
		func(c *conn) {
			raw := testkit.Value(json.Marshal(want))(t)
			testkit.Must(t, c.out.WriteData(wire.FrameStdout, raw))
			testkit.Must(t, c.out.Exit(wire.Exit{}))
		},
		func(c *conn) { testkit.Must(t, c.out.Exit(wire.Exit{Code: 1, Error: "the engine does not answer"})) },
		func(c *conn) {
			testkit.Must(t, c.out.WriteData(wire.FrameStdout, []byte("rubbish")))
			testkit.Must(t, c.out.Exit(wire.Exit{}))
		},
	}
	ask := func(p operator.PlanRequest, answer func(*conn)) (wire.PlanAnswer, error) {
		wait := a.serve(1, func(c *conn) {
			if c.req.Kind != wire.StreamPlan || c.req.Resource != "workspace/web" || string(c.req.Args.Spec) != string(p.Spec) {
				t.Errorf("asked for %+v", c.req)
			}
			answer(c)
			_, _ = c.in.Next()
		})
		defer wait()
		return w.op.Plan(w.ctx(), "h-0000", p)
	}
	p := operator.PlanRequest{Kind: "workspace", Name: "web", Spec: json.RawMessage(`{"image":"b"}`)}
	got, err := ask(p, answers[0])
	if err != nil || got.Does != "replace" || len(got.Fields) != 1 || got.Fields[0] != want.Fields[0] {
		t.Errorf("planned %+v, %v", got, err)
	}
	if _, err := ask(p, answers[1]); status(err) != 409 || !strings.Contains(err.Error(), "does not answer") {
		t.Errorf("a host that cannot say: %v", err)
	}
	if _, err := ask(p, answers[2]); status(err) != 409 || !strings.Contains(err.Error(), "cannot be read") {
		t.Errorf("a host that babbles: %v", err)
	}
	p.Spec = nil
	if _, err := ask(p, answers[0]); err != nil {
		t.Errorf("what removing does: %v", err)
	}
	p.Spec = json.RawMessage(`{"imagine":"b"}`)
	if _, err := w.op.Plan(w.ctx(), "h-0000", p); status(err) != 422 {
		t.Errorf("a spec that does not read: %v", err)
	}
	p.Kind = "image"
	if _, err := w.op.Plan(w.ctx(), "h-0000", p); status(err) != 403 {
		t.Errorf("a kind that is not delegated: %v", err)
	}
}

// Revoking an operator's token or stopping the server ends what is open.
func TestStreamsEndWithTheServer(t *testing.T) {
	w := newWorld(t)
	a := settled(w, plan{hosts: 1, content: "one", host: delegating})
	wait := a.serve(1, func(c *conn) {
		testkit.Must(t, c.out.WriteData(wire.FrameStdout, []byte("begin")))
		if _, err := c.in.Next(); err == nil {
			t.Error("the agent got a frame")
		}
	})
	s := testkit.Value(w.op.Logs(w.ctx(), "h-0000", "web", operator.LogQuery{Follow: true}))(t)
	defer s.Close()
	testkit.Value(s.Next())(t)
	w.halt()
	f, err := s.Next()
	if exit, bad := f.Exit(); err == nil && (bad != nil || !strings.Contains(exit.Error, "stopping")) || err != nil && !errors.Is(err, operator.ErrBroken) {
		t.Errorf("the operator got %+v, %v", exit, err)
	}
	wait()
}
