package e2e

import (
	"bytes"
	"net/http"
	"strings"
	"testing"

	"github.com/steadyfleet/steady/internal/wire"
)

// opened is a stream that the host opened, as its server sees it.
type opened struct {
	times  int
	stdout bytes.Buffer
	stderr bytes.Buffer
	exit   *wire.Exit
	broken string // what a host must not send
	over   bool
}

// stream takes every stream, asked for or not, sends what the test wrote for it,
// and hears it to its end.
func (l *liar) stream(w http.ResponseWriter, r *http.Request, id string) {
	l.mu.Lock()
	o := l.streams[id]
	if o == nil {
		o = &opened{}
		l.streams[id] = o
	}
	o.times++
	l.order = append(l.order, id)
	script := l.script[id]
	l.mu.Unlock()
	w.Header().Set("Content-Type", wire.FrameContentType)
	w.WriteHeader(http.StatusOK)
	_, _ = w.Write(script) // the host may end it before
	_ = http.NewResponseController(w).Flush()
	in := wire.NewFrameReader(r.Body)
	for {
		f, err := in.Next()
		l.mu.Lock()
		if err != nil {
			o.over = true
			l.mu.Unlock()
			return
		}
		o.frame(f)
		l.mu.Unlock()
	}
}

func (o *opened) frame(f wire.Frame) {
	switch f.Type {
	case wire.FrameStdout:
		o.stdout.Write(f.Data)
	case wire.FrameStderr:
		o.stderr.Write(f.Data)
	case wire.FrameExit:
		if e, err := f.Exit(); err == nil && o.exit == nil {
			o.exit = &e
			return
		}
		o.broken = "a bad or a second exit"
	default:
		o.broken = "a frame to a host"
	}
}

// ended returns a stream that is over, or nil.
func (l *liar) ended(id string) *opened {
	l.mu.Lock()
	defer l.mu.Unlock()
	if o := l.streams[id]; o != nil && o.over {
		return o
	}
	return nil
}

// refusedAll fails the test if a stream gave anything but a refusal in words, or
// was opened twice.
func (l *liar) refusedAll(t testing.TB) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	for id, o := range l.streams {
		switch {
		case o.broken != "":
			t.Errorf("stream %s: the host sent %s", id, o.broken)
		case o.times > 1:
			t.Errorf("stream %s was opened %d times", id, o.times)
		case o.stdout.Len()+o.stderr.Len() > 0:
			t.Errorf("stream %s showed %q %q", id, o.stdout.String(), o.stderr.String())
		case o.over && (o.exit == nil || o.exit.Code != -1 || !strings.HasPrefix(o.exit.Error, "refused: ")):
			t.Errorf("stream %s ended with %+v, expected a refusal", id, o.exit)
		}
	}
}
