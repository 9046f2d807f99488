package stream_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/steadyfleet/steady/internal/agent/stream"
	"github.com/steadyfleet/steady/internal/agent/uplink"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/docker/dockertest"
	"github.com/steadyfleet/steady/internal/testkit"
	"github.com/steadyfleet/steady/internal/wire"
)

func TestMain(m *testing.M) { dockertest.Main(m) }

// peer is the operator's end, as the server has it.
type peer struct {
	id   string
	in   *wire.FrameReader
	out  chan wire.Frame
	gone chan struct{} // the agent went away
	end  chan struct{} // closed to end the stream
}

// world is a server over HTTP/2 and TLS that hands every stream to the test.
type world struct {
	*testing.T
	client *uplink.Client
	peers  chan *peer
}

func begin(t *testing.T) *world {
	t.Helper()
	before := goleak.IgnoreCurrent()
	w := &world{T: t, peers: make(chan *peer, 64)}
	s := httptest.NewUnstartedServer(http.HandlerFunc(w.handle))
	s.EnableHTTP2 = true
	s.StartTLS()
	pool := x509.NewCertPool()
	pool.AddCert(s.Certificate())
	c := testkit.Value(uplink.NewClient(uplink.ClientOptions{Servers: []string{s.URL}, TLS: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS13}}))(t)
	w.client = c
	t.Cleanup(func() {
		c.Close()
		s.CloseClientConnections()
		s.Close()
		if err := goleak.Find(before); err != nil {
			t.Error(err)
		}
	})
	return w
}

func (w *world) handle(rw http.ResponseWriter, r *http.Request) {
	id := path.Base(r.URL.Path)
	if id == "unknown" {
		rw.WriteHeader(http.StatusNotFound)
		return
	}
	_ = http.NewResponseController(rw).Flush()
	p := &peer{id: id, in: wire.NewFrameReader(r.Body), out: make(chan wire.Frame), gone: make(chan struct{}), end: make(chan struct{})}
	defer close(p.gone)
	w.peers <- p
	for {
		select {
		case f := <-p.out:
			if wire.NewFrameWriter(rw).Write(f) != nil || http.NewResponseController(rw).Flush() != nil {
				return
			}
		case <-p.end:
			return
		case <-r.Context().Done():
			return
		}
	}
}

func (w *world) send(p *peer, frames ...wire.Frame) {
	w.Helper()
	for _, f := range frames {
		select {
		case p.out <- f:
		case <-p.gone:
			w.Fatal("the agent went away")
		}
	}
}

// hear reads to the exit and lets the agent go.
func (w *world) hear(p *peer) (stdout, stderr string, exit wire.Exit) {
	w.Helper()
	var out, errs bytes.Buffer
	for {
		f, err := p.in.Next()
		if err != nil {
			w.Fatalf("no exit came: %v", err)
		}
		switch f.Type {
		case wire.FrameStdout:
			out.Write(f.Data)
		case wire.FrameStderr:
			errs.Write(f.Data)
		case wire.FrameExit:
			if exit, err = f.Exit(); err != nil {
				w.Fatal(err)
			}
			close(p.end)
			return out.String(), errs.String(), exit
		default:
			w.Fatalf("a frame of type %d", f.Type)
		}
	}
}

// serve starts a stream and returns its end.
func (w *world) serve(ctx context.Context, r wire.StreamRequest, b stream.Backend, d *fleet.Delegation) <-chan error {
	done := make(chan error, 1)
	go func() { done <- stream.Serve(ctx, w.client, r, b, d) }()
	return done
}

// backend is made of functions; one that is not set must not be called.
type backend struct {
	logs   func(ctx context.Context, name string, o stream.LogsOptions, stdout, stderr io.Writer) error
	exec   func(ctx context.Context, name string, o stream.ExecOptions, s stream.ExecStreams) (int, error)
	output func(ctx context.Context, name string, o stream.OutputOptions, stdout, stderr io.Writer) (int64, error)
	plan   func(ctx context.Context, kind, name string, spec json.RawMessage) (wire.PlanAnswer, error)
	prune  func(ctx context.Context, dry bool, w io.Writer) error
}

func (b backend) Discard(context.Context, string) error { return nil }

func (b backend) Prune(ctx context.Context, dry bool, w io.Writer) error { return b.prune(ctx, dry, w) }

func (b backend) Logs(ctx context.Context, name string, o stream.LogsOptions, stdout, stderr io.Writer) error {
	return b.logs(ctx, name, o, stdout, stderr)
}

func (b backend) Exec(ctx context.Context, name string, o stream.ExecOptions, s stream.ExecStreams) (int, error) {
	return b.exec(ctx, name, o, s)
}

func (b backend) Output(ctx context.Context, name string, o stream.OutputOptions, stdout, stderr io.Writer) (int64, error) {
	return b.output(ctx, name, o, stdout, stderr)
}

func (b backend) Plan(ctx context.Context, kind, name string, spec json.RawMessage) (wire.PlanAnswer, error) {
	return b.plan(ctx, kind, name, spec)
}

var all = &fleet.Delegation{Kinds: []string{"workspace"}, Allow: fleet.Allowances}

var (
	logs  = wire.StreamRequest{ID: "s1", Kind: wire.StreamLogs, Resource: "workspace/web"}
	shell = wire.StreamRequest{ID: "s1", Kind: wire.StreamExec, Resource: "workspace/web", Args: wire.StreamArgs{Argv: []string{"sh"}, Stdin: true, TTY: true, Rows: 24, Cols: 80}}
)

// TestP1RefusalsNameTheLineToAdd checks that nothing runs that the declaration
// does not allow.
func TestP1RefusalsNameTheLineToAdd(t *testing.T) {
	w := begin(t)
	exec := shell
	for name, c := range map[string]struct {
		r     wire.StreamRequest
		d     *fleet.Delegation
		words string
	}{
		"logs":            {logs, nil, "allow: [logs]"},
		"exec beside":     {exec, &fleet.Delegation{Allow: []string{"logs"}}, "allow: [exec, logs]"},
		"orphans":         {wire.StreamRequest{Kind: wire.StreamOrphans, Resource: "host/edge"}, &fleet.Delegation{Allow: []string{"logs"}}, "allow: [logs, prune]"},
		"prune":           {wire.StreamRequest{Kind: wire.StreamPrune, Resource: "host/edge"}, &fleet.Delegation{Allow: []string{"logs"}}, "allow: [logs, prune]"},
		"prune of else":   {wire.StreamRequest{Kind: wire.StreamPrune, Resource: "workspace/web"}, &fleet.Delegation{Allow: []string{"prune"}}, "host"},
		"output":          {wire.StreamRequest{Kind: wire.StreamOutput, Resource: "image/app"}, &fleet.Delegation{Allow: []string{"exec"}}, "allow: [exec, logs]"},
		"plan":            {wire.StreamRequest{Kind: wire.StreamPlan, Resource: "volume/data"}, &fleet.Delegation{Kinds: []string{"image"}}, "managed: [image, volume]"},
		"unknown kind":    {wire.StreamRequest{Kind: "tunnel", Resource: "workspace/web"}, all, "tunnel"},
		"logs of a route": {wire.StreamRequest{Kind: wire.StreamLogs, Resource: "route/main"}, all, "workspace/web"},
		"a bad name":      {wire.StreamRequest{Kind: wire.StreamLogs, Resource: "workspace/../x"}, all, "not a name"},
		"no command":      {wire.StreamRequest{Kind: wire.StreamExec, Resource: "workspace/web"}, all, "no command"},
	} {
		c.r.ID = "s1"
		done := w.serve(t.Context(), c.r, backend{}, c.d)
		_, _, exit := w.hear(<-w.peers)
		if exit.Code != -1 || !strings.Contains(exit.Error, c.words) {
			t.Errorf("%s: told %+v, expected %q", name, exit, c.words)
		}
		if err := <-done; !errors.Is(err, stream.ErrRefused) {
			t.Errorf("%s: served with %v", name, err)
		}
	}
}

func TestNothingRunsBeforeTheServerAccepts(t *testing.T) {
	w := begin(t)
	r := shell
	r.ID = "unknown"
	if err := <-w.serve(t.Context(), r, backend{}, all); uplink.StatusOf(err) != http.StatusNotFound {
		t.Fatalf("a stream that nobody wants: %v", err)
	}
}

func TestLogsAndOutputAndPlan(t *testing.T) {
	w := begin(t)
	long := strings.Repeat("x", 3*wire.MaxFrame)
	r := logs
	r.Args = wire.StreamArgs{Follow: true, Tail: 5, Since: 9}
	done := w.serve(t.Context(), r, backend{logs: func(_ context.Context, name string, o stream.LogsOptions, stdout, stderr io.Writer) error {
		fmt.Fprintf(stdout, "%s %+v", name, o)
		_, err := io.WriteString(stderr, long)
		return err
	}}, all)
	out, errs, exit := w.hear(<-w.peers)
	if out != "web {Follow:true Tail:5 Since:9}" && !strings.HasPrefix(out, "web {Follow:true Tail:5") || errs != long || exit != (wire.Exit{}) {
		t.Errorf("logs: %q, %d bytes, %+v", out, len(errs), exit)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}

	done = w.serve(t.Context(), logs, backend{logs: func(context.Context, string, stream.LogsOptions, io.Writer, io.Writer) error {
		return errors.New("there is no container of workspace web")
	}}, all)
	if _, _, exit := w.hear(<-w.peers); exit.Code != -1 || exit.Error != "there is no container of workspace web" {
		t.Errorf("a failure: %+v", exit)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}

	done = w.serve(t.Context(), wire.StreamRequest{ID: "s1", Kind: wire.StreamOutput, Resource: "image/app", Args: wire.StreamArgs{Follow: true, Tail: 3, After: 9}},
		backend{output: func(_ context.Context, name string, o stream.OutputOptions, stdout, stderr io.Writer) (int64, error) {
			_, err := fmt.Fprintf(stdout, "%s %+v", name, o)
			return 12, err
		}}, all)
	if out, _, exit := w.hear(<-w.peers); out != "app {Follow:true Tail:3 After:9}" || exit.Last != 12 {
		t.Errorf("output: %q, %+v", out, exit)
	}
	<-done

	done = w.serve(t.Context(), wire.StreamRequest{ID: "s1", Kind: wire.StreamPlan, Resource: "workspace/web", Args: wire.StreamArgs{Spec: json.RawMessage(`{}`)}},
		backend{plan: func(_ context.Context, kind, name string, spec json.RawMessage) (wire.PlanAnswer, error) {
			return wire.PlanAnswer{Resource: kind + "/" + name, Does: "none", Why: string(spec)}, nil
		}}, all)
	out, _, _ = w.hear(<-w.peers)
	var a wire.PlanAnswer
	if err := json.Unmarshal([]byte(out), &a); err != nil || a.Resource != "workspace/web" || a.Why != "{}" {
		t.Errorf("plan: %q, %v", out, err)
	}
	<-done
}

func TestExecCarriesInputSizesAndTheCode(t *testing.T) {
	w := begin(t)
	done := w.serve(t.Context(), shell, backend{exec: func(_ context.Context, name string, o stream.ExecOptions, s stream.ExecStreams) (int, error) {
		z := <-s.Resize
		in, err := io.ReadAll(s.Stdin)
		fmt.Fprintf(s.Stdout, "%s %v %dx%d %q", name, o.Argv, z.Rows, z.Cols, in)
		return 42, err
	}}, all)
	p := <-w.peers
	w.send(p, wire.Frame{Type: wire.FrameResize, Data: []byte(`{"rows":50,"cols":132}`)}, wire.Frame{Type: wire.FrameStdin, Data: []byte("ls\n")},
		wire.Frame{Type: wire.FrameStdin}, wire.Frame{Type: wire.FrameStdin, Data: []byte("id\n")}, wire.Frame{Type: wire.FrameClose})
	if out, _, exit := w.hear(p); out != `web [sh] 50x132 "ls\nid\n"` || exit.Code != 42 || exit.Error != "" {
		t.Errorf("%q, %+v", out, exit)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// A command that loses its operator hears an interrupt and the end of its input,
// and what it still writes stops it from nothing.
func TestExecHearsThatItsOperatorIsGone(t *testing.T) {
	for _, tty := range []bool{true, false} {
		w := begin(t)
		r := shell
		r.Args.TTY = tty
		heard := make(chan string, 1)
		done := w.serve(t.Context(), r, backend{exec: func(ctx context.Context, _ string, _ stream.ExecOptions, s stream.ExecStreams) (int, error) {
			in, err := io.ReadAll(s.Stdin)
			if _, werr := io.WriteString(s.Stdout, "bye"); werr != nil || ctx.Err() != nil {
				t.Errorf("it was cut off: %v, %v", werr, ctx.Err())
			}
			heard <- string(in)
			return 130, err
		}}, all)
		close((<-w.peers).end)
		want := ""
		if tty {
			want = "\x03\x04\x04"
		}
		if got := <-heard; got != want {
			t.Errorf("terminal %v: it heard %q, expected %q", tty, got, want)
		}
		if err := <-done; !errors.Is(err, stream.ErrGone) {
			t.Errorf("it ended with %v", err)
		}
	}
}

// A backend that only listens to its context is let go, whoever leaves.
func TestStreamsEndWithEitherSide(t *testing.T) {
	for name, r := range map[string]wire.StreamRequest{"logs": logs, "exec": shell} {
		for _, agent := range []bool{true, false} {
			w := begin(t)
			wait := func(ctx context.Context, out io.Writer) error {
				_, _ = io.WriteString(out, "hello")
				<-ctx.Done()
				return ctx.Err()
			}
			ctx, cancel := context.WithCancel(t.Context())
			done := w.serve(ctx, r, backend{
				logs: func(ctx context.Context, _ string, _ stream.LogsOptions, o, _ io.Writer) error { return wait(ctx, o) },
				exec: func(ctx context.Context, _ string, _ stream.ExecOptions, s stream.ExecStreams) (int, error) {
					return 0, wait(ctx, s.Stdout)
				},
			}, all)
			p := <-w.peers
			if f, err := p.in.Next(); err != nil || string(f.Data) != "hello" {
				t.Fatalf("%q, %v", f.Data, err)
			}
			want := stream.ErrGone
			if agent {
				want = stream.ErrStopped
				cancel()
				if _, _, exit := w.hear(p); exit.Error != want.Error() {
					t.Errorf("%s: told %+v", name, exit)
				}
			} else {
				close(p.end)
			}
			if err := <-done; !errors.Is(err, want) {
				t.Errorf("%s, agent %v: %v", name, agent, err)
			}
			cancel()
		}
	}
}

// An operator who takes nothing holds up nothing but the stream.
func TestAStuckOperatorIsLeftBehindAtTheEnd(t *testing.T) {
	w := begin(t)
	ctx, cancel := context.WithCancel(t.Context())
	filled := make(chan struct{})
	done := w.serve(ctx, logs, backend{logs: func(_ context.Context, _ string, _ stream.LogsOptions, o, _ io.Writer) error {
		close(filled)
		for {
			if _, err := o.Write(make([]byte, 1<<20)); err != nil {
				return err
			}
		}
	}}, all)
	<-w.peers
	<-filled
	cancel()
	if err := <-done; !errors.Is(err, stream.ErrStopped) {
		t.Errorf("%v", err)
	}
}

func TestAServerThatSpeaksForTheHostIsCutOff(t *testing.T) {
	w := begin(t)
	done := w.serve(t.Context(), logs, backend{logs: func(ctx context.Context, _ string, _ stream.LogsOptions, _, _ io.Writer) error {
		<-ctx.Done()
		return ctx.Err()
	}}, all)
	p := <-w.peers
	w.send(p, wire.Frame{Type: wire.FrameStdout, Data: []byte("x")})
	if err := <-done; !errors.Is(err, stream.ErrOrder) {
		t.Errorf("%v", err)
	}
}

func TestSetOpensEachOnceAndEndsAll(t *testing.T) {
	w := begin(t)
	d := all
	begun, ended := make(chan bool, 100), make(chan error, 100)
	s := stream.NewSet(stream.Options{Transport: w.client, Allowed: func() *fleet.Delegation { return d },
		Backend: backend{logs: func(ctx context.Context, _ string, _ stream.LogsOptions, _, _ io.Writer) error {
			begun <- true
			<-ctx.Done()
			return ctx.Err()
		}},
		Ended: func(_ wire.StreamRequest, err error) { ended <- err }})
	var rs []wire.StreamRequest
	for i := range stream.MaxStreams {
		r := logs
		r.ID = fmt.Sprintf("s%d", i)
		rs = append(rs, r, r)
	}
	s.Open(rs)
	s.Open(rs)
	first := map[string]*peer{}
	for range stream.MaxStreams {
		p := <-w.peers
		if first[p.id] != nil {
			t.Fatalf("%s was opened twice", p.id)
		}
		first[p.id] = p
	}
	for range stream.MaxStreams {
		<-begun // the agent knows that it was taken: one that ends before tells nobody why
	}
	more := logs
	more.ID = "more"
	s.Open([]wire.StreamRequest{more, {ID: "../x"}})
	if a, b := <-ended, <-ended; !errors.Is(a, stream.ErrBusy) || !errors.Is(b, stream.ErrRefused) {
		t.Errorf("one too many, and one with a bad id: %v, %v", a, b)
	}
	close(first["s0"].end)
	if err := <-ended; !errors.Is(err, stream.ErrGone) {
		t.Errorf("%v", err)
	}
	s.Open(rs[:1]) // it is over
	if s.Len() != stream.MaxStreams-1 {
		t.Errorf("%d streams are open", s.Len())
	}
	d = nil
	s.Narrow()
	if _, _, exit := w.hear(first["s1"]); !strings.Contains(exit.Error, "allow: [logs]") {
		t.Errorf("what is no longer allowed: %+v", exit)
	}
	s.Close()
	for range stream.MaxStreams - 1 {
		if err := <-ended; !errors.Is(err, stream.ErrRefused) {
			t.Errorf("ended with %v", err)
		}
	}
	s.Open([]wire.StreamRequest{more})
	if err := <-ended; !errors.Is(err, stream.ErrStopped) || s.Len() != 0 {
		t.Errorf("after the end: %v", err)
	}
}

// TestPruneIsDryUnlessItWasAsked: listing and removing are two kinds of stream.
func TestPruneIsDryUnlessItWasAsked(t *testing.T) {
	for kind, dry := range map[wire.StreamKind]bool{wire.StreamOrphans: true, wire.StreamPrune: false} {
		w := begin(t)
		done := w.serve(t.Context(), wire.StreamRequest{ID: "s1", Kind: kind, Resource: "host/edge"},
			backend{prune: func(_ context.Context, d bool, out io.Writer) error {
				_, err := fmt.Fprintf(out, "dry %v\n", d)
				return err
			}}, all)
		out, _, exit := w.hear(<-w.peers)
		if err := <-done; err != nil || exit.Error != "" || out != fmt.Sprintf("dry %v\n", dry) {
			t.Errorf("%s: %q %+v %v", kind, out, exit, err)
		}
	}
}
