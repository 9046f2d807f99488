// Package stream serves what an operator asks of this host through the agent's
// own connection: logs, the output of builds, plans, and commands in workspaces.
// Before anything runs, the server has accepted the stream and the host's signed
// declaration allows it; a refusal is told in words.
//
// Frames are taken as fast as the operator takes them, so that a slow one holds
// up its own stream alone, and for Stall at most.
//
// When an exec loses its operator, or the agent stops, the command's stdin ends.
// One with a terminal is sent an interrupt and an end of input first, which ends
// a shell and most of what it runs. An engine cannot end a command itself: one
// that ignores all of this goes on in its container without its streams.
package stream

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"time"

	"github.com/steadyfleet/steady/internal/agent/uplink"
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/wire"
)

// Bounds of streams.
const (
	MaxStreams = 32              // of one agent at once
	Stall      = 5 * time.Minute // that one frame may wait to be taken
	parting    = 2 * time.Second // for the last words, and for a command to hear of the end
	planTime   = time.Minute
	maxArgv    = 256
	maxArgs    = 16 << 10 // bytes
)

// Why a stream ended before its end.
var (
	ErrRefused = errors.New("refused")
	ErrGone    = errors.New("the operator or the server went away")
	ErrStalled = errors.New("nobody took the output for too long")
	ErrOrder   = errors.New("the server sent a frame that only a host sends")
	ErrStopped = errors.New("the agent is stopping")
)

// Transport opens streams to the server; a *client.Client is one.
type Transport interface {
	Stream(ctx context.Context, id string) (uplink.Duplex, error)
}

// Backend does what is asked, by the names of resources. Every call returns soon
// after ctx ends or a writer fails. Errors are told to the operator.
type Backend interface {
	// Logs writes what a workspace writes, until its container ends if it follows.
	Logs(ctx context.Context, name string, o LogsOptions, stdout, stderr io.Writer) error
	// Exec runs a command in a workspace and returns its exit code.
	Exec(ctx context.Context, name string, o ExecOptions, s ExecStreams) (code int, err error)
	// Output writes the output of an image's builds and pulls as far as it is kept,
	// follows one that is under way, and says on stderr what is kept no longer. It
	// returns the number of the newest line.
	Output(ctx context.Context, name string, o OutputOptions, stdout, stderr io.Writer) (last int64, err error)
	// Prune removes what carries the host's labels and nobody declares, or only
	// lists it; each is a line.
	Prune(ctx context.Context, dry bool, w io.Writer) error
	// Discard removes a kept volume of a session that is over, by its ID.
	Discard(ctx context.Context, id string) error
	// Plan says what setting a resource would do, or removing it when spec is empty.
	Plan(ctx context.Context, kind, name string, spec json.RawMessage) (wire.PlanAnswer, error)
}

// LogsOptions choose of a log.
type LogsOptions struct {
	Follow bool
	Tail   int           // last lines; 0: all
	Since  clock.Instant // 0: from the beginning
}

// OutputOptions choose of an output.
type OutputOptions struct {
	Follow bool
	Tail   int   // last lines; 0: all
	After  int64 // only lines with a higher number
}

// ExecOptions are a command.
type ExecOptions struct {
	Argv       []string
	TTY        bool
	Rows, Cols int // of the terminal; 0: unknown
	User       string
	WorkDir    string
}

// ExecStreams are what a command reads and writes. Stdin is nil for one that
// reads nothing. With a terminal everything goes to Stdout. Resize never closes.
type ExecStreams struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	Resize         <-chan wire.Resize
}
