package streams

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/steadyfleet/steady/internal/wire"
)

// ErrTooMuch says that an answer is longer than it may be.
var ErrTooMuch = errors.New("the agent's answer is too long")

// Collect serves the operator's end of a stream whose answer is wanted whole: it
// returns stdout, at most limit bytes. An exit with an error or a code is an
// error.
func (s *Stream) Collect(ctx context.Context, limit int) ([]byte, error) {
	var out []byte
	var exit wire.Exit
	long := false
	err := s.Serve(ctx, End{Close: func() {}, Write: func(f wire.Frame) (err error) {
		switch f.Type {
		case wire.FrameStdout:
			if len(out)+len(f.Data) > limit {
				long = true
				return ErrTooMuch
			}
			out = append(out, f.Data...)
		case wire.FrameExit:
			exit, err = f.Exit()
		}
		return err
	}})
	switch {
	case long:
		return nil, ErrTooMuch
	case exit.Error != "":
		return nil, errors.New(exit.Error)
	case err != nil:
		return nil, err
	case exit.Code != 0:
		return nil, fmt.Errorf("the agent ended with code %d", exit.Code)
	}
	return out, nil
}

// Run serves the operator's end of a command until it ends. An exit code other than 0 is an error with
// the last tail bytes of its output.
func (s *Stream) Run(ctx context.Context, tail int) error {
	var out []byte
	var exit wire.Exit
	ended := false
	err := s.Serve(ctx, End{Close: func() {}, Write: func(f wire.Frame) (err error) {
		switch f.Type {
		case wire.FrameStdout, wire.FrameStderr:
			out = append(out, f.Data...)
			out = out[max(0, len(out)-tail):]
		case wire.FrameExit:
			exit, err = f.Exit()
			ended = err == nil
		}
		return err
	}})
	switch {
	case exit.Error != "":
		return errors.New(exit.Error)
	case err != nil:
		return err
	case !ended:
		return errors.New("the stream ended before the command did")
	case exit.Code != 0:
		if words := strings.TrimSpace(strings.ToValidUTF8(string(out), "?")); words != "" {
			return fmt.Errorf("exit code %d: %s", exit.Code, words)
		}
		return fmt.Errorf("exit code %d, without output", exit.Code)
	}
	return nil
}
