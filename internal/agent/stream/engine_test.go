package stream_test

import (
	"context"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"github.com/steadyfleet/steady/internal/agent/stream"
	"github.com/steadyfleet/steady/internal/docker/dockerapi"
	"github.com/steadyfleet/steady/internal/docker/dockertest"
	"github.com/steadyfleet/steady/internal/testkit"
	"github.com/steadyfleet/steady/internal/wire"
)

// TestRealCommandsAndLogs runs a container on a real engine, reads its log and
// runs commands in it, among them a shell that loses its operator.
func TestRealCommandsAndLogs(t *testing.T) {
	d := dockertest.Engine(t)
	name, image := d.Namespace(t).Name("web"), d.Busybox(t)
	w := begin(t)
	e := testkit.Value(dockerapi.Open(dockerapi.Options{Socket: d.Socket()}))(t)
	t.Cleanup(func() { e.Close() })
	id, _, err := e.ContainerCreate(t.Context(), dockerapi.Creation{Name: name, Host: &container.HostConfig{},
		Config: &container.Config{Image: image, Cmd: []string{"/bin/sh", "-c", "echo out; echo err >&2; exec sleep 1000"}}})
	testkit.Must(t, err)
	testkit.Must(t, e.ContainerStart(t.Context(), id))
	ended := make(chan error, 1)
	b := backend{
		logs: func(ctx context.Context, name string, o stream.LogsOptions, stdout, stderr io.Writer) error {
			return e.ContainerLogs(ctx, id, dockerapi.Logs{Follow: o.Follow, Tail: -1}, func(l dockerapi.LogLine) error {
				w := stdout
				if l.Stderr {
					w = stderr
				}
				_, err := io.WriteString(w, l.Text+"\n")
				return err
			})
		},
		exec: func(ctx context.Context, _ string, o stream.ExecOptions, s stream.ExecStreams) (int, error) {
			r, err := e.Exec(ctx, id, stream.Command(o, s))
			if err != nil {
				return 0, err
			}
			code, err := stream.Attend(ctx, r, o, s)
			ended <- err
			return code, err
		},
	}

	done := w.serve(t.Context(), wire.StreamRequest{ID: "s1", Kind: wire.StreamExec, Resource: "workspace/web",
		Args: wire.StreamArgs{Argv: []string{"/bin/sh", "-c", "cat; echo no >&2; exit 3"}, Stdin: true}}, b, all)
	p := <-w.peers
	w.send(p, wire.Frame{Type: wire.FrameStdin, Data: []byte("typed\n")}, wire.Frame{Type: wire.FrameClose})
	if out, errs, exit := w.hear(p); out != "typed\n" || errs != "no\n" || exit != (wire.Exit{Code: 3}) {
		t.Errorf("a command: %q, %q, %+v", out, errs, exit)
	}
	if err := <-done; err != nil || <-ended != nil {
		t.Error(err)
	}

	r := shell
	r.Args.Argv, r.Args.Rows, r.Args.Cols = []string{"/bin/sh"}, 30, 98
	done = w.serve(t.Context(), r, b, all)
	p = <-w.peers
	seen := ""
	shows := func(what string) {
		t.Helper()
		for !strings.Contains(seen, what) {
			f, err := p.in.Next()
			if err != nil {
				t.Fatalf("%v after %q, without %q", err, seen, what)
			}
			seen += string(f.Data)
		}
	}
	// What is typed after a size finds it, the one of the start too.
	w.send(p, wire.Frame{Type: wire.FrameStdin, Data: []byte("stty size\n")})
	shows("30 98\r\n")
	for rows := 31; rows < 41; rows++ {
		w.send(p, wire.Frame{Type: wire.FrameResize, Data: fmt.Appendf(nil, `{"rows":%d,"cols":99}`, rows)},
			wire.Frame{Type: wire.FrameStdin, Data: []byte("stty size\n")})
		shows(fmt.Sprintf("%d 99\r\n", rows))
	}
	w.send(p, wire.Frame{Type: wire.FrameStdin, Data: []byte("echo si''zed; cat\n")})
	shows("sized\r\n")
	close(p.end)
	if err := <-ended; err != nil {
		t.Errorf("the shell did not end by itself: %v", err)
	}
	<-done
	code, ps, err := e.Run(t.Context(), id, dockerapi.Exec{Cmd: []string{"/bin/ps", "-o", "args"}}, 4096)
	if err != nil || code != 0 || !strings.Contains(string(ps), "sleep") || strings.Contains(string(ps), "sh") || strings.Contains(string(ps), "cat") {
		t.Errorf("left in the container: %q, %v", ps, err)
	}

	follow := logs
	follow.Args.Follow = true
	done = w.serve(t.Context(), follow, b, all)
	p = <-w.peers
	if f, err := p.in.Next(); err != nil || !strings.Contains(string(f.Data), "out") && !strings.Contains(string(f.Data), "err") {
		t.Fatalf("%q, %v", f.Data, err)
	}
	testkit.Value(d.Client().ContainerKill(t.Context(), id, client.ContainerKillOptions{}))(t)
	if _, _, exit := w.hear(p); exit != (wire.Exit{}) {
		t.Errorf("the log of a container that ended: %+v", exit)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}
