package e2e

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"

	"github.com/steadyfleet/steady/internal/core/fleet"
)

// diary is an agent's log, read for what the agent took and refused. Records go
// on to next.
type diary struct {
	next slog.Handler

	mu    sync.Mutex
	taken []fleet.Settings // each time they changed
	lines []string         // messages with their errors
}

func (d *diary) Enabled(context.Context, slog.Level) bool { return true }
func (d *diary) WithAttrs([]slog.Attr) slog.Handler       { return d }
func (d *diary) WithGroup(string) slog.Handler            { return d }

func (d *diary) Handle(ctx context.Context, r slog.Record) error {
	if r.Level >= slog.LevelInfo {
		line := r.Message
		d.mu.Lock()
		r.Attrs(func(a slog.Attr) bool {
			if s, is := a.Value.Any().(fleet.Settings); is {
				d.taken = append(d.taken, s)
			}
			if a.Key == "error" {
				line += ": " + a.Value.String()
			}
			return true
		})
		d.lines = append(d.lines, line)
		d.mu.Unlock()
	}
	if d.next.Enabled(ctx, r.Level) {
		return d.next.Handle(ctx, r)
	}
	return nil
}

// settings are those that the agent took, in order.
func (d *diary) settings() []fleet.Settings {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.taken)
}

// wrote reports whether a line has all of these words.
func (d *diary) wrote(words ...string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.ContainsFunc(d.lines, func(line string) bool {
		return !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(line, w) })
	})
}
