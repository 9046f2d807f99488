package daemon

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/moby/moby/api/pkg/stdcopy"
	"github.com/moby/moby/client"
)

// MaxLogLine is the most bytes of one line; a longer one comes in pieces.
const MaxLogLine = 64 << 10

// Logs says which lines of a container to read.
type Logs struct {
	Follow bool      // go on until the container stops or ctx ends
	Since  time.Time // zero: from the beginning
	Tail   int       // the last so many lines; negative: all
}

// LogLine is one line that a container wrote.
type LogLine struct {
	Time   time.Time // when the engine received it
	Stderr bool      // written to standard error; a terminal has standard output only
	Text   string    // without the line end
	Partly bool      // the line goes on in the next one
}

// ContainerLogs reads the lines of a container. It ends with the first error of
// each, at the end of the log, or with ctx.
func (e *Engine) ContainerLogs(ctx context.Context, id string, l Logs, each func(LogLine) error) error {
	info, err := e.ContainerInspect(ctx, id)
	if err != nil {
		return err
	}
	tty := info.Config != nil && info.Config.Tty
	o := client.ContainerLogsOptions{ShowStdout: true, ShowStderr: true, Timestamps: true, Follow: l.Follow, Tail: "all"}
	if l.Tail >= 0 {
		o.Tail = strconv.Itoa(l.Tail)
	}
	if !l.Since.IsZero() {
		o.Since = l.Since.UTC().Format(time.RFC3339Nano)
	}
	var heard error
	err = e.streaming(ctx, l.Follow, "read log of container", id, func(ctx context.Context, alive func()) error {
		r, err := e.api.ContainerLogs(ctx, id, o)
		if err != nil {
			return err
		}
		defer r.Close()
		in := progress{r, alive}
		say := func(line LogLine) error {
			heard = each(line)
			return heard
		}
		out, errs := &lines{each: say}, &lines{each: say, stderr: true}
		if tty {
			_, err = io.Copy(out, in)
		} else {
			_, err = stdcopy.StdCopy(out, errs, in)
		}
		if err != nil {
			return err
		}
		return errors.Join(out.flush(), errs.flush())
	})
	if heard != nil {
		return heard
	}
	return err
}

// streaming is watched, except that an endless stream is watched until its
// answer begins only.
func (e *Engine) streaming(ctx context.Context, endless bool, name, object string, run func(ctx context.Context, alive func()) error) error {
	if !endless {
		return e.watched(ctx, e.timeout, name, object, run)
	}
	c := &call{name: name, object: object}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	timer := time.AfterFunc(e.timeout, func() {
		if c.status.Load() == 0 {
			cancel(errDeadline)
		}
	})
	defer timer.Stop()
	if err := e.negotiateWithin(ctx); err != nil {
		return e.failed(ctx, c, e.timeout, err)
	}
	if err := run(context.WithValue(ctx, callKey{}, c), func() {}); err != nil {
		return e.failed(ctx, c, e.timeout, err)
	}
	return nil
}

// lines cuts what is written to it into lines, each with the time in front that
// the engine put there.
type lines struct {
	each    func(LogLine) error
	stderr  bool
	rest    []byte
	at      time.Time // of the line that goes on
	ongoing bool
}

func (l *lines) Write(b []byte) (int, error) {
	l.rest = append(l.rest, b...)
	for {
		end := bytes.IndexByte(l.rest, '\n')
		switch {
		case end >= 0:
			if err := l.say(l.rest[:end], false); err != nil {
				return 0, err
			}
			l.rest = l.rest[end+1:]
		case len(l.rest) > MaxLogLine:
			if err := l.say(l.rest[:MaxLogLine], true); err != nil {
				return 0, err
			}
			l.rest = l.rest[MaxLogLine:]
		default:
			l.rest = append([]byte(nil), l.rest...)
			return len(b), nil
		}
	}
}

func (l *lines) flush() error {
	if len(l.rest) == 0 {
		return nil
	}
	return l.say(l.rest, false)
}

func (l *lines) say(raw []byte, partly bool) error {
	text := string(raw)
	if !l.ongoing {
		if stamp, rest, ok := strings.Cut(text, " "); ok {
			if at, err := time.Parse(time.RFC3339Nano, stamp); err == nil {
				l.at, text = at, rest
			}
		}
	}
	l.ongoing = partly
	return l.each(LogLine{Time: l.at, Stderr: l.stderr, Text: strings.TrimSuffix(text, "\r"), Partly: partly})
}

// capped keeps the first bytes that are written to it.
type capped struct {
	mu   sync.Mutex
	buf  bytes.Buffer
	most int
}

func (c *capped) Write(b []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if room := c.most - c.buf.Len(); room > 0 {
		c.buf.Write(b[:min(room, len(b))])
	}
	return len(b), nil
}
