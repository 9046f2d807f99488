package hosting

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/steadyfleet/steady/internal/agent/stream"
	"github.com/steadyfleet/steady/internal/agent/uplink"
	"github.com/steadyfleet/steady/internal/docker"
	"github.com/steadyfleet/steady/internal/docker/dockerapi"
)

// Logs writes the lines of a workspace. While they are followed, those after a
// restart of its container go on after those before, and so do those of a new
// container after those of the one that it replaces.
func (h *Hosting) Logs(ctx context.Context, name string, o stream.LogsOptions, stdout, stderr io.Writer) error {
	if err := h.ready(ctx); err != nil {
		return err
	}
	l := &logs{find: h.docker.Find, read: h.docker.Engine().ContainerLogs, stdout: stdout, stderr: stderr}
	return l.copy(ctx, name, o)
}

// logs copies the lines of one workspace's containers, each once.
type logs struct {
	find           func(ctx context.Context, name string) (id string, running bool, err error)
	read           func(ctx context.Context, id string, l dockerapi.Logs, each func(dockerapi.LogLine) error) error
	stdout, stderr io.Writer

	id   string    // of the container that was read last
	at   time.Time // of its newest line; zero: none yet
	seen int       // its lines of that moment
}

// again is how often a container that writes no more is looked at while followed.
const again = time.Second

func (l *logs) copy(ctx context.Context, name string, o stream.LogsOptions) error {
	q := dockerapi.Logs{Follow: o.Follow, Tail: -1}
	if o.Tail > 0 {
		q.Tail = o.Tail
	}
	if o.Since != 0 {
		q.Since = time.UnixMilli(int64(o.Since))
	}
	for {
		id, _, err := l.find(ctx, name)
		switch {
		case err == nil:
			err = l.container(ctx, id, q)
		case o.Follow && l.id != "" && errors.Is(err, docker.ErrNoWorkspace):
			err = nil // it is being replaced
		}
		if err != nil || !o.Follow {
			return err
		}
		if err := uplink.Pause(ctx, again); err != nil {
			return err
		}
	}
}

// container reads the lines of a container that were not read yet: first those
// that are asked for, later all. A container that started again has more, also
// when it has stopped since.
func (l *logs) container(ctx context.Context, id string, q dockerapi.Logs) error {
	if l.id != "" && id != l.id {
		q.Tail, q.Since = -1, time.Time{}
		l.at, l.seen = time.Time{}, 0
	}
	l.id = id
	skip := 0
	if !l.at.IsZero() {
		q.Tail, q.Since, skip = -1, l.at, l.seen
	}
	last := l.at
	return l.read(ctx, id, q, func(line dockerapi.LogLine) error {
		if skip > 0 && line.Time.Equal(last) {
			skip--
			return nil
		}
		if !line.Time.Equal(l.at) {
			l.at, l.seen = line.Time, 0
		}
		l.seen++
		return l.write(line)
	})
}

func (l *logs) write(line dockerapi.LogLine) error {
	w, text := l.stdout, line.Text
	if line.Stderr {
		w = l.stderr
	}
	if !line.Partly {
		text += "\n"
	}
	_, err := io.WriteString(w, text)
	return err
}
