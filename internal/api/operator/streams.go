package operator

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"sync"

	"github.com/steadyfleet/steady/internal/wire"
)

// ErrBroken says that a stream ended without the host's word on it.
var ErrBroken = errors.New("the stream broke off")

// Stream is an open stream into a host. Next is for one goroutine, the writing
// methods for one other; Close ends it from anywhere.
type Stream struct {
	in    *wire.FrameReader
	body  io.ReadCloser
	stop  context.CancelFunc
	out   *wire.FrameWriter
	pipe  *io.PipeWriter
	close sync.Once
}

// Next returns the next frame of the host, good until the following call: output,
// or last an exit. The end before that is ErrBroken.
func (s *Stream) Next() (wire.Frame, error) {
	f, err := s.in.Next()
	if err != nil {
		return f, fmt.Errorf("%w: %w", ErrBroken, err)
	}
	return f, nil
}

// Stdin sends input to a command.
func (s *Stream) Stdin(b []byte) error { return s.out.WriteData(wire.FrameStdin, b) }

// Resize tells a command's terminal its size.
func (s *Stream) Resize(rows, cols int) error {
	return s.out.Resize(wire.Resize{Rows: rows, Cols: cols})
}

// CloseStdin says that there is no more input.
func (s *Stream) CloseStdin() error { return s.out.Write(wire.Frame{Type: wire.FrameClose}) }

// Close ends the stream; what runs on the host for it ends too.
func (s *Stream) Close() {
	s.close.Do(func() {
		s.stop()
		_ = s.pipe.Close() // it cannot fail
		_ = s.body.Close()
	})
}

// Copy writes the host's output until its exit and returns that. An exit with an
// error is returned as one too.
func (s *Stream) Copy(stdout, stderr io.Writer) (wire.Exit, error) {
	for {
		f, err := s.Next()
		if err != nil {
			return wire.Exit{Code: -1}, err
		}
		switch f.Type {
		case wire.FrameStdout:
			_, err = stdout.Write(f.Data)
		case wire.FrameStderr:
			_, err = stderr.Write(f.Data)
		case wire.FrameExit:
			exit, err := f.Exit()
			if err == nil && exit.Error != "" {
				err = errors.New(exit.Error)
			}
			return exit, err
		}
		if err != nil {
			return wire.Exit{Code: -1}, err
		}
	}
}

func hostRoute(host string, parts ...string) string {
	path := "/hosts/" + url.PathEscape(host)
	for _, p := range parts {
		path += "/" + url.PathEscape(p)
	}
	return path
}

// SetResource sets a resource of a host's managed layer.
func (c *Client) SetResource(ctx context.Context, host, kind, name string, r SetResource) (ch Changed, err error) {
	return ch, c.send(ctx, http.MethodPut, hostRoute(host, kind, name), nil, r, &ch)
}

// RemoveResource removes a resource from a host's managed layer. With allowMass it
// may be one of many at once.
func (c *Client) RemoveResource(ctx context.Context, host, kind, name, reason string, allowMass bool) error {
	q := url.Values{}
	if reason != "" {
		q.Set("reason", reason)
	}
	if allowMass {
		q.Set("allowMassChange", "true")
	}
	return c.send(ctx, http.MethodDelete, hostRoute(host, kind, name), q, nil, nil)
}

// ManagedResource returns a resource of a host's managed layer.
func (c *Client) ManagedResource(ctx context.Context, host, kind, name string) (r ManagedResource, err error) {
	return r, c.get(ctx, hostRoute(host, kind, name), nil, &r)
}

// Request asks once for something of a resource; the verbs of spec.Kind list what may be asked
// of each kind.
func (c *Client) Request(ctx context.Context, host, kind, name, verb, reason string) (ch Changed, err error) {
	return ch, c.post(ctx, hostRoute(host, kind, name, verb), Verb{Reason: reason}, &ch)
}

// Resources lists the container resources of a host.
func (c *Client) Resources(ctx context.Context, host string) (r HostResources, err error) {
	return r, c.get(ctx, hostRoute(host, "resources"), nil, &r)
}

// RetryHost has a host begin anew with a resource that it gave up, as KIND/NAME, or
// with all of them if it is empty.
func (c *Client) RetryHost(ctx context.Context, host, resource, reason string) error {
	return c.post(ctx, hostRoute(host, "retry"), RetryRequest{Resource: resource, Reason: reason}, nil)
}

// Tune changes a host's settings and returns all of them.
func (c *Client) Tune(ctx context.Context, host string, p SettingsPatch) (s HostSettings, err error) {
	return s, c.send(ctx, http.MethodPatch, hostRoute(host, "settings"), nil, p, &s)
}

// HostMetrics returns what a host last said of itself.
func (c *Client) HostMetrics(ctx context.Context, host string) (m HostMetrics, err error) {
	return m, c.get(ctx, hostRoute(host, "metrics"), nil, &m)
}

// Plan asks a host what setting a resource would do.
func (c *Client) Plan(ctx context.Context, host string, p PlanRequest) (a wire.PlanAnswer, err error) {
	return a, c.post(ctx, hostRoute(host, "plan"), p, &a)
}

// Logs opens the log of a workspace.
func (c *Client) Logs(ctx context.Context, host, workspace string, q LogQuery) (*Stream, error) {
	v := url.Values{}
	if q.Follow {
		v.Set("follow", "true")
	}
	if q.Tail > 0 {
		v.Set("tail", strconv.Itoa(q.Tail))
	}
	if q.Since > 0 {
		v.Set("since", strconv.FormatInt(int64(q.Since), 10))
	}
	return c.open(ctx, http.MethodGet, hostRoute(host, "workspace", workspace, "logs"), v, nil)
}

// Prune removes what carries the host's labels and nobody declares, or only lists
// it, a line for each.
func (c *Client) Prune(ctx context.Context, host string, dry bool) (*Stream, error) {
	if dry {
		return c.open(ctx, http.MethodGet, hostRoute(host, "orphans"), nil, nil)
	}
	return c.open(ctx, http.MethodPost, hostRoute(host, "prune"), nil, nil)
}

// Output opens the output of an image's builds and pulls. Its exit says which line
// was the last.
func (c *Client) Output(ctx context.Context, host, image string, q OutputQuery) (*Stream, error) {
	v := url.Values{}
	if q.Follow {
		v.Set("follow", "true")
	}
	if q.After > 0 {
		v.Set("after", strconv.FormatInt(q.After, 10))
	}
	return c.open(ctx, http.MethodGet, hostRoute(host, "image", image, "output"), v, nil)
}

// Exec runs a command in a workspace.
func (c *Client) Exec(ctx context.Context, host, workspace string, x ExecRequest) (*Stream, error) {
	f, err := wire.StartFrame(wire.StreamArgs{Argv: x.Argv, Stdin: x.Stdin, TTY: x.TTY, Rows: x.Rows, Cols: x.Cols, User: x.User, WorkDir: x.WorkDir})
	if err != nil {
		return nil, fmt.Errorf("the command is too long: %w", err)
	}
	return c.open(ctx, http.MethodPost, hostRoute(host, "workspace", workspace, "exec"), nil, &f)
}

// open opens a stream; with a first frame its request's body stays open as well.
func (c *Client) open(ctx context.Context, method, path string, q url.Values, first *wire.Frame) (*Stream, error) {
	ctx, stop := context.WithCancel(ctx)
	r, w := io.Pipe()
	var body io.Reader
	if first != nil {
		var start bytes.Buffer
		if err := wire.NewFrameWriter(&start).Write(*first); err != nil {
			stop()
			return nil, err
		}
		// The transport closes it when the answer ends first.
		body = struct {
			io.Reader
			io.Closer
		}{io.MultiReader(&start, r), r}
	}
	resp, err := c.do(ctx, method, path, q, body, wire.FrameContentType)
	if err != nil {
		stop()
		_ = w.Close()
		return nil, err
	}
	return &Stream{in: wire.NewFrameReader(resp.Body), body: resp.Body, stop: stop, out: wire.NewFrameWriter(w), pipe: w}, nil
}
