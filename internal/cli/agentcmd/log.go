package agentcmd

import (
	"io"
	"log/slog"

	"github.com/spf13/pflag"

	"github.com/steadyfleet/steady/internal/cli/exit"
)

// Log says how the log of a server or an agent is written.
type Log struct{ level, format string }

// Flags adds the flags to a command's.
func (l *Log) Flags(f *pflag.FlagSet) {
	f.StringVar(&l.level, "log-level", "info", "debug, info, warn or error")
	f.StringVar(&l.format, "log-format", "text", "text, or json for one object per line")
}

// New returns a logger that writes to w.
func (l *Log) New(w io.Writer) (*slog.Logger, error) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(l.level)); err != nil {
		return nil, exit.Badf("--log-level %q: expected debug, info, warn or error", l.level)
	}
	o := &slog.HandlerOptions{Level: level}
	switch l.format {
	case "text":
		return slog.New(slog.NewTextHandler(w, o)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(w, o)), nil
	}
	return nil, exit.Badf("--log-format %q: expected text or json", l.format)
}
