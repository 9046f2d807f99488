package dockerapi

import (
	"bytes"
	"cmp"
	"context"
	"io"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/moby/moby/api/pkg/stdcopy"
	"github.com/moby/moby/client"
)

// maxLine is the most bytes of a terminal's line that are held back for its
// end. Engines cut all other lines themselves, at 16 KiB.
const maxLine = 16 << 10

// Logs chooses which lines of a container to read.
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
	Partly bool      // a long line, which goes on in the next one of the same stream, or the end of it without a line end
}

// ContainerLogs reads the lines of a container. It ends with the first error of
// each, at the end of the log, or with ctx. While following, engines may lose a
// last line that has no line end.
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
	read := func(run func(context.Context, func()) error) error {
		if l.Follow {
			return e.endless(ctx, "read log of container", id, run)
		}
		return e.watched(ctx, e.timeout, "read log of container", id, run)
	}
	var refused error // by each
	err = read(func(ctx context.Context, alive func()) error {
		r, err := e.api.ContainerLogs(ctx, id, o)
		if err != nil {
			return err
		}
		defer r.Close()
		in := progress{r, alive}
		emit := func(line LogLine) error {
			refused = each(line)
			return refused
		}
		if !tty {
			_, err = stdcopy.StdCopy(pieces{emit, false}, pieces{emit, true}, in)
			return err
		}
		out := &lines{emit: emit}
		if _, err := io.Copy(out, in); err != nil {
			return err
		}
		return out.flush()
	})
	return cmp.Or(refused, err)
}

// pieces passes on what comes in frames: each is a line, or a piece of a long
// one, with the time in front.
type pieces struct {
	emit   func(LogLine) error
	stderr bool
}

func (p pieces) Write(b []byte) (int, error) {
	at, text := stamped(string(b))
	whole, found := strings.CutSuffix(text, "\n")
	return len(b), p.emit(LogLine{Time: at, Stderr: p.stderr, Text: whole, Partly: !found})
}

// lines cuts the bare output of a terminal.
type lines struct {
	emit    func(LogLine) error
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
			line := l.rest[:end]
			l.rest = l.rest[end+1:]
			if err := l.line(line, false); err != nil {
				return 0, err
			}
		case len(l.rest) > maxLine:
			line := l.rest
			l.rest = nil
			if err := l.line(line, true); err != nil {
				return 0, err
			}
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
	return l.line(l.rest, true)
}

func (l *lines) line(raw []byte, partly bool) error {
	text := string(raw)
	if !l.ongoing {
		l.at, text = stamped(text)
	}
	l.ongoing = partly
	return l.emit(LogLine{Time: l.at, Text: strings.TrimSuffix(text, "\r"), Partly: partly})
}

// stamped takes the time off the front of a line.
func stamped(line string) (time.Time, string) {
	stamp, rest, ok := strings.Cut(line, " ")
	if !ok {
		return time.Time{}, line
	}
	at, err := time.Parse(time.RFC3339Nano, stamp)
	if err != nil {
		return time.Time{}, line
	}
	return at, rest
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
