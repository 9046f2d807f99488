package image

import (
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/steadyfleet/steady/internal/docker/dockerapi"
)

// lines writes what happens to the log of an image.
type lines struct {
	mu  sync.Mutex
	w   io.Writer
	err error // the first that the log had
}

func (l *lines) write(text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, err := io.WriteString(l.w, text); err != nil && l.err == nil {
		l.err = err
	}
}

func (l *lines) writeLine(line string) { l.write(strings.TrimRight(line, "\n") + "\n") }

// engine writes a line of a build or a load as it comes.
func (l *lines) engine(x dockerapi.Line) {
	switch {
	case x.Stream != "":
		l.write(x.Stream)
	case x.Status != "" && x.Total == 0:
		l.writeLine(strings.TrimPrefix(x.ID+": "+x.Status, ": "))
	}
}

// meters show the progress of layers: a change of state, and every tenth of a
// transfer.
type meters map[string]string

func (m meters) show(l dockerapi.Line) string {
	line := l.Status
	if l.ID != "" {
		line = l.ID + ": " + line
	}
	if l.Total > 0 {
		line += fmt.Sprintf(" %d%%", 10*(10*l.Current/l.Total))
	}
	if line == "" || m[l.ID] == line {
		return ""
	}
	m[l.ID] = line
	return line
}
