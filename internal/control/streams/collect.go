package streams

import (
	"context"
	"errors"
	"fmt"

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
