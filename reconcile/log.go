package reconcile

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/steadyfleet/steady/reconcile/engine"
)

// Bounds of the log: so many lines of one kind and code in a period. What is left out is
// counted, and the count is in the next line of that kind and code, or in one of its own.
const (
	logLines  = 10
	logPeriod = time.Minute
)

// logLimit bounds what the controller logs.
type logLimit struct {
	mu      sync.Mutex
	windows map[logKey]*logWindow
}

type logKey struct {
	kind string
	code engine.Code
}

type logWindow struct {
	began time.Time
	lines int
	more  int // left out
}

// admit reports whether a line may be written now, and how many were left out before it.
func (b *logLimit) admit(k logKey, now time.Time) (more int, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	w := b.windows[k]
	if w == nil {
		w = &logWindow{began: now}
		if b.windows == nil {
			b.windows = map[logKey]*logWindow{}
		}
		b.windows[k] = w
	}
	if age := now.Sub(w.began); age >= logPeriod || age < 0 {
		w.began, w.lines = now, 0
	}
	if w.lines >= logLines {
		w.more++
		return 0, false
	}
	w.lines++
	more, w.more = w.more, 0
	return more, true
}

// report is the one place where the controller logs what concerns a resource: Error for what
// needs a person, Warn for what failed and is tried again, Info for what begins afresh, and
// Debug for every other transition.
func (l *Controller) report(level slog.Level, ref engine.Ref, code engine.Code, message string, attrs ...any) {
	if !l.cfg.log.Enabled(context.Background(), level) {
		return
	}
	if level > slog.LevelDebug {
		more, ok := l.lines.admit(logKey{ref.Kind, code}, l.cfg.now())
		if !ok {
			return
		}
		if more > 0 {
			attrs = append(attrs, "left_out", more)
		}
	}
	l.cfg.log.Log(context.Background(), level, message, append([]any{"ref", ref.String(), "code", string(code)}, attrs...)...)
}

// flushLog ends the periods that began before an instant, and writes how many lines were left out
// that no later line has counted.
func (l *Controller) flushLog(before time.Time) {
	l.lines.mu.Lock()
	defer l.lines.mu.Unlock()
	for k, w := range l.lines.windows { // order-free: each is a line of its own
		if w.began.After(before) {
			continue
		}
		if w.more > 0 {
			l.cfg.log.Warn("lines were left out of this log", "kind", k.kind, "code", string(k.code), "left_out", w.more)
		}
		delete(l.lines.windows, k)
	}
}

// reportMoves logs transitions that were committed.
func (l *Controller) reportMoves(ts []engine.Transition) {
	for i := range ts {
		t := &ts[i]
		level, message := slog.LevelDebug, "a resource moved"
		switch {
		case t.From == t.To && strings.HasPrefix(t.Action, "acknowledge "):
			level, message = slog.LevelInfo, "the alert of a resource was acknowledged"
		case t.To == engine.Orphaned && t.Alert:
			level, message = slog.LevelError, "a resource was not removed in time, and is left to a person"
		case t.To == engine.Failed && t.Reason.Code == engine.CodeConvergeBy:
			level, message = slog.LevelError, "a resource did not converge by its deadline, and failed"
		case t.To == engine.Failed:
			level, message = slog.LevelError, "a resource failed"
		case t.Reason.Code == engine.CodeActTimeout:
			level, message = slog.LevelWarn, "an act ran past its timeout"
		case t.Reason.Code == engine.CodeInterrupted, t.Reason.Code == engine.CodeRevived, t.Reason.Code == engine.CodeRetryRequested:
			level, message = slog.LevelInfo, "a resource begins afresh"
		case t.Error != "":
			level, message = slog.LevelWarn, "an act or an observation failed"
		case t.To == engine.Drifted && t.From != engine.Drifted:
			level, message = slog.LevelWarn, "a resource drifted, and is not repaired"
		}
		attrs := []any{"from", string(t.From), "to", string(t.To), "reason", t.Reason.Message, "generation", t.Generation, "attempt", t.Attempt}
		if t.Error != "" && t.Error != t.Reason.Message {
			attrs = append(attrs, "error", t.Error)
		}
		l.report(level, t.Ref, t.Reason.Code, message, attrs...)
	}
}
